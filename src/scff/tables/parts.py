"""The parts of a dataset: each file with its rows named and its columns sorted out, then all of them as one table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.errors import DataError
from scff.tables.hidden_numbers import refuse_hidden_numbers
from scff.tables.naming import Naming, find_row_names
from scff.tables.on_disk import ParquetColumns
from scff.tables.sheet import Sheet
from scff.tables.sparse import SparseColumns
from scff.tables.table import Block, Table, as_table, check_unique

if TYPE_CHECKING:
    from scff.tables.request import Request

__all__ = ["Part", "part_of", "put_together", "wanted_blocks"]


@dataclass(frozen=True, eq=False)
class Part:
    """One file, sorted out.

    Attributes
    ----------
    sheet : Sheet
        Measurements alone, with row names; what describes rows stands beside.
    naming : Naming
        How its rows came by their names.
    """

    sheet: Sheet
    naming: Naming

    def take(self, rows: npt.NDArray[np.int64]) -> Part:
        """These rows, in this order."""
        return replace(self, sheet=self.sheet.take(rows))


def wanted_blocks(like: Table | None, given: Sequence[str]) -> list[tuple[str, int, tuple[str, ...] | None]]:
    """The tables that make up a dataset: name of the block, which of the given ones, and the columns a model wants.

    Tables are matched with a model's blocks by name where the names are its own, otherwise in its order.

    Raises
    ------
    DataError
        If it was fitted on another number of tables.
    """
    if like is None or like.names is None:
        return [(name, i, None) for i, name in enumerate(given)]
    if len(given) == 1 and not like.blocks:
        return [(given[0], 0, like.names)]
    if len(given) != len(like.blocks):
        known = ", ".join(block.name for block in like.blocks)
        asked = f"{len(like.blocks)} tables ({known})" if like.blocks else "one table"
        raise DataError(f"The model was fitted on {asked}; give as many, in the same order.")
    own = {block.name for block in like.blocks} == set(given)
    wanted: list[tuple[str, int, tuple[str, ...] | None]] = []
    for i, block in enumerate(like.blocks):
        columns = tuple(name.removeprefix(f"{block.name}:") for name in like.names[block.start : block.stop])
        wanted.append((block.name, list(given).index(block.name) if own else i, columns))
    return wanted


def part_of(
    sheet: Sheet, request: Request, key: str | None, wanted: tuple[str, ...] | None, like: Table | None
) -> Part:
    """Sort out the columns of a file.

    Parameters
    ----------
    sheet : Sheet
        Samples in rows.
    request : Request
    key : str or None
        The column that a sample sheet was joined by.
    wanted : tuple of str or None
        The columns a model wants.
    like : Table or None
        What it was fitted on.

    Raises
    ------
    DataError
        If a column that is asked for is not there, or no measurement is left.
    """
    frame = sheet.values if sheet.is_frame else sheet.beside
    measured = set(wanted or ())
    described = [name for name in dict.fromkeys(request.described) if name in frame.columns]
    given = request.id if request.id in frame.columns else None
    if request.id is not None and given is None and sheet.row_names is None:
        raise DataError(f"{sheet.origin} has no column {request.id!r} for the row names.")
    why = "as asked"
    if given is None and key is not None and frame[key].is_unique:
        given, why = key, "samples are joined by it"
    if given is None and like is not None and like.id_column in frame.columns and like.id_column not in measured:
        given, why = like.id_column, "as in the model"
    taken = {*described, *request.drop, *measured, *([key] if key else [])}
    if sheet.is_frame and wanted is None:
        codes = {name for one in request.categorical for name in (str(one), str(one).partition(":")[2])}
        refuse_hidden_numbers(frame, {*taken, *codes, *([given] if given else [])})
    if sheet.is_frame or sheet.row_names is None:
        own = frame if sheet.row_names is None else frame.set_axis(pd.Index(sheet.row_names), axis=0)
        # Of what a model does not know nothing is a feature, and nothing need be said.
        keep = request.keep_id or (given is not None and wanted is not None)
        naming = find_row_names(own, id_column=given, keep_id=keep, known=taken, reason=why)
    else:
        naming = Naming(sheet.row_names)
    no_feature = {*described, *request.drop, *(name for name, _ in naming.aside), *([key] if key else [])}
    cells = _cells(sheet, no_feature, wanted)
    beside = frame[described].reset_index(drop=True)
    inside = [name for name in request.described if name not in described and name in (sheet.names or ())]
    if inside and wanted is None:  # a measurement that is to be predicted
        places = [list(sheet.names or ()).index(name) for name in inside]
        beside = beside.assign(**{n: sheet.values[:, [j]][:, 0] for n, j in zip(inside, places, strict=True)})
        cells = _cells(sheet, {*no_feature, *inside}, wanted)
    if 0 in cells.values.shape:
        but = f" besides the target {request.target!r}" if request.target else ""
        raise DataError(f"{sheet.origin} has no column{but}.")
    return Part(replace(cells, row_names=naming.row_names, beside=beside), naming)


def _cells(sheet: Sheet, no_feature: Collection[str], wanted: tuple[str, ...] | None) -> Sheet:
    """The measurements of a sheet: those that are wanted, or all but some."""
    heads = sheet.heads
    if not heads:
        return sheet
    if wanted is not None:
        known = set(heads)
        missing = [name for name in wanted if name not in known]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise DataError(f"{sheet.origin} lacks the column {missing[0]!r}{more} that the model was fitted on.")
        chosen = list(wanted)
    else:
        chosen = [name for name in heads if name not in no_feature]
    values = sheet.values
    if isinstance(values, pd.DataFrame):
        labels = dict(zip(heads, values.columns, strict=True))
        return replace(sheet, values=values[[labels[name] for name in chosen]], names=tuple(chosen))
    if chosen == heads:
        return sheet
    place = {name: j for j, name in enumerate(heads)}
    columns = np.array([place[name] for name in chosen], dtype=np.int64)
    picked: Any
    if isinstance(values, SparseColumns):
        picked = values.pick(columns)
    elif isinstance(values, ParquetColumns):
        picked = ParquetColumns(values.path, chosen)
    else:
        picked = values[:, columns]
    return replace(sheet, values=picked, names=tuple(chosen))


def put_together(blocks: Sequence[str], parts: Sequence[Part], categorical: Collection[str]) -> Table:
    """All parts as one table; with several, a column is called ``block:column``.

    Raises
    ------
    DataError
        If a column cannot be used, or two tables have the same name.
    """
    if not parts:
        raise DataError("There is no table in it; give at least one.")
    aside = tuple(dict.fromkeys(entry for part in parts for entry in part.naming.aside))
    first = parts[0]
    row_names, id_column = first.sheet.row_names, first.naming.id_column
    if len(parts) == 1:
        table = _table(first.sheet.values, first.sheet.names, categorical)
        return replace(table, row_names=row_names, id_column=id_column, aside=aside)
    if twice := [name for name in blocks if list(blocks).count(name) > 1]:
        raise DataError(f"Two tables are called {twice[0]!r}; name them apart, as in one=FILE other=FILE.")
    for part in parts:
        if part.sheet.names is None:
            raise DataError(f"{part.sheet.origin} has no column names; only tables with names can be put together.")
    names = [f"{block}:{name}" for block, part in zip(blocks, parts, strict=True) for name in part.sheet.names or ()]
    ends = np.cumsum([0, *(len(part.sheet.names or ()) for part in parts)])
    table = _table(_side_by_side([part.sheet.values for part in parts], names), tuple(names), categorical)
    places = tuple(Block(name, int(a), int(b)) for name, a, b in zip(blocks, ends, ends[1:], strict=False))
    return replace(table, row_names=row_names, id_column=id_column, aside=aside, blocks=places)


def _table(values: Any, names: tuple[str, ...] | None, categorical: Collection[str]) -> Table:
    if isinstance(values, pd.DataFrame):
        return replace(as_table(values.reset_index(drop=True), categorical), names=names)
    if names is not None:
        check_unique(names)
        if categorical:
            frame = pd.DataFrame(np.asarray(values), columns=list(names))
            return as_table(frame, categorical)
    if isinstance(values, np.ndarray):
        table = as_table(values, categorical)
        return replace(table, names=names)
    return Table(values, names)


def _side_by_side(values: Sequence[Any], names: Sequence[str]) -> Any:
    if all(isinstance(one, np.ndarray) for one in values):
        return np.hstack(values)
    if any(isinstance(one, SparseColumns) for one in values) and not any(isinstance(v, pd.DataFrame) for v in values):
        from scipy.sparse import csr_array, hstack

        return SparseColumns(
            hstack([v.matrix if isinstance(v, SparseColumns) else csr_array(np.asarray(v)) for v in values])
        )
    frames = [v if isinstance(v, pd.DataFrame) else pd.DataFrame(np.asarray(v)) for v in values]
    joined = pd.concat([frame.reset_index(drop=True) for frame in frames], axis=1)
    return joined.set_axis(list(names), axis=1)
