"""What a table knows about its rows and columns besides the cells: row names, blocks, columns set aside."""

from __future__ import annotations

from typing import Any

import numpy as np

from scff.models.tensors import Misfit
from scff.tables.table import Block, Table

__all__ = ["describe_heads", "read_heads"]


def describe_heads(table: Table) -> dict[str, Any]:
    """As ``model.json`` says it."""
    return {
        "row_names": None if table.row_names is None else [str(name) for name in table.row_names],
        "id_column": table.id_column,
        "aside": [part for entry in table.aside for part in entry],
        "blocks": {block.name: block.stop for block in table.blocks},
    }


def read_heads(data: Any, n_rows: int, n_columns: int) -> dict[str, Any]:
    """Fields of a `Table`, checked.

    Raises
    ------
    Misfit
        If they are not those of a table of this size.
    """
    if not isinstance(data, dict) or set(data) != {"row_names", "id_column", "aside", "blocks"}:
        raise Misfit("table.heads has not its fields")
    rows, named, aside, blocks = data["row_names"], data["id_column"], data["aside"], data["blocks"]
    if rows is not None and not (_texts(rows) and len(rows) == n_rows):
        raise Misfit("table.row_names are not the names of its rows")
    if named is not None and type(named) is not str:
        raise Misfit("table.id_column is not a name")
    if not _texts(aside) or len(aside) % 2:
        raise Misfit("table.aside are not columns and reasons")
    if not isinstance(blocks, dict) or not all(type(stop) is int for stop in blocks.values()):
        raise Misfit("table.blocks are not blocks of columns")
    ends = [0, *blocks.values()]
    if blocks and (ends != sorted(set(ends)) or ends[-1] != n_columns):
        raise Misfit("table.blocks do not cover its columns")
    return {
        "row_names": None if rows is None else np.array(rows, dtype=object),
        "id_column": named,
        "aside": tuple(zip(aside[::2], aside[1::2], strict=True)),
        "blocks": tuple(Block(name, start, stop) for name, start, stop in zip(blocks, ends, ends[1:], strict=False)),
    }


def _texts(data: Any) -> bool:
    return isinstance(data, list) and all(type(one) is str for one in data)
