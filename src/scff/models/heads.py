"""What a table knows about its rows and columns besides the cells: row names, blocks, dates, columns set aside."""

from __future__ import annotations

from typing import Any

import numpy as np

from scff.models.tensors import Misfit
from scff.tables.table import Block, Table
from scff.tables.times import KINDS

__all__ = ["describe_heads", "read_heads"]


def describe_heads(table: Table) -> dict[str, Any]:
    """As ``model.json`` says it."""
    # Only where there are any: files without them are read as they always were.
    times = {"times": {str(j): kind for j, kind in table.times}} if table.times else {}
    return {
        "row_names": None if table.row_names is None else [str(name) for name in table.row_names],
        "id_column": table.id_column,
        "aside": [part for entry in table.aside for part in entry],
        "blocks": {block.name: block.stop for block in table.blocks},
        **times,
    }


def read_heads(data: Any, n_rows: int, n_columns: int) -> dict[str, Any]:
    """Fields of a `Table`, checked.

    Raises
    ------
    Misfit
        If they are not those of a table of this size.
    """
    if not isinstance(data, dict) or set(data) - {"times"} != {"row_names", "id_column", "aside", "blocks"}:
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
    times = data.get("times", {})
    if not isinstance(times, dict) or not all(_is_place(j, n_columns) and times[j] in KINDS for j in times):
        raise Misfit("table.times are not columns of dates or durations")
    return {
        "row_names": None if rows is None else np.array(rows, dtype=object),
        "id_column": named,
        "aside": tuple(zip(aside[::2], aside[1::2], strict=True)),
        "blocks": tuple(Block(name, start, stop) for name, start, stop in zip(blocks, ends, ends[1:], strict=False)),
        "times": tuple((int(j), kind) for j, kind in times.items()),
    }


def _texts(data: Any) -> bool:
    return isinstance(data, list) and all(type(one) is str for one in data)


def _is_place(data: str, n_columns: int) -> bool:
    """Whether text is the number of a column, written as it is here."""
    return data.isdecimal() and len(data) <= 12 and str(int(data)) == data and int(data) < n_columns
