"""What a command asks for, read: measurements, labels, groups, row names, from one file or several.

`read` is the one way from files to a `Table`: every command takes it, and so does a path that is given to an estimator.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.errors import DataError
from scff.tables.formats import Hints, load
from scff.tables.joining import candidates, common_rows, features_in_rows, match_rows
from scff.tables.naming import as_row_names
from scff.tables.parts import Part, part_of, put_together, wanted_blocks
from scff.tables.request import Orient, Request
from scff.tables.sheet import Sheet
from scff.tables.table import Table

__all__ = ["Dataset", "Orient", "Request", "assemble", "read", "read_dataset"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Dataset:
    """What was read.

    Attributes
    ----------
    table : Table
        The measurements, with row names and blocks.
    y : Series or None
        The labels.
    groups : ndarray or None
        The group of each row.
    kept : DataFrame
        Columns that were to be carried along.
    notes : tuple of str
        What was done that nobody asked for in so many words, a sentence each.
    """

    table: Table
    y: pd.Series[Any] | None = None
    groups: npt.NDArray[Any] | None = None
    kept: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: tuple[str, ...] = ()

    @property
    def row_names(self) -> npt.NDArray[np.object_] | None:
        """What each row is called."""
        return self.table.row_names

    @property
    def carried(self) -> pd.DataFrame:
        """What predictions carry: row names, under the name of their column, and the columns that were kept."""
        out = self.kept.reset_index(drop=True)
        if self.row_names is not None:
            head = self.table.id_column or "row"
            if head not in out.columns:
                out.insert(0, head, self.row_names)
            elif np.array_equal(as_row_names(out[head]), self.row_names):  # the same column, asked for once more
                out.insert(0, head, out.pop(head))
            else:
                out.insert(0, f"{head} (row name)", self.row_names)
        return out


def read(tables: Sequence[str | Path] | str | Path, *, like: Table | None = None, **options: Any) -> Dataset:
    r"""Read measurements and what belongs to them.

    Parameters
    ----------
    tables : path or sequence of path
        One file, or several that become blocks of one table; ``name=path`` names a block.
    like : Table, optional
        The support of a fitted model: its columns are looked for, in its order.
    **options
        As the fields of `Request`: ``target``, ``samples``, ``on``, ``orient``, ``id``, ``keep_id``, ``group``,
        ``keep``, ``drop``, ``categorical``, ``layer``.

    Returns
    -------
    Dataset
        ``model.fit(data.table, data.y, data.groups)`` takes it from there.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "expr.tsv").write_text("gene\ts1\ts2\ts3\nTP53\t1\t2\t3\nBRCA1\t4\t5\t6\n")
    >>> _ = (folder / "meta.csv").write_text("sample;dx\ns3;ill\ns1;well\ns2;ill\n")
    >>> data = read(folder / "expr.tsv", samples=folder / "meta.csv", target="dx")
    >>> data.table.names, data.row_names.tolist(), data.y.tolist()
    (('TP53', 'BRCA1'), ['s1', 's2', 's3'], ['well', 'ill', 'ill'])
    """
    return read_dataset(Request.of(tables, **options), like)


def read_dataset(request: Request, like: Table | None = None) -> Dataset:
    """Read what a request asks for; parameters as for `read`.

    Raises
    ------
    DataError
        If a file cannot be read, a column is not there, or samples do not match.
    """
    if request.layer is not None and not any(path.suffix.lower() == ".h5ad" for _, path in request.tables):
        raise DataError(f"Only .h5ad files have layers such as {request.layer!r}; leave it out.")
    wanted = {which: columns for _, which, columns in wanted_blocks(like, [name for name, _ in request.tables])}
    samples = None if request.samples is None else load(Path(request.samples))
    sheets = [load(path, _hints(request, wanted[i], like)) for i, (_, path) in enumerate(request.tables)]
    return assemble(request, sheets, samples, like)


def assemble(
    request: Request, sheets: Sequence[Sheet], samples: Sheet | None = None, like: Table | None = None
) -> Dataset:
    """Make a dataset of sheets that are read already, one for each table of the request.

    Raises
    ------
    DataError
        If a column is not there, or samples do not match.
    """
    if request.orient not in get_args(Orient):
        raise DataError(f"orient must be one of {', '.join(get_args(Orient))}, not {request.orient!r}.")
    blocks = wanted_blocks(like, [name for name, _ in request.tables])
    notes: list[str] = []
    heads: set[str] = set()
    described: list[list[pd.DataFrame]] = []
    parts = []
    for _, which, columns in blocks:
        sheet = _oriented(sheets[which], request, samples, columns, notes)
        key, lines = None, []
        if samples is not None:
            match = match_rows(sheet, samples, request.on)
            notes.append(match.sentence)
            sheet, key = sheet.take(match.rows), match.column
            frame = samples.values if samples.is_frame else samples.beside
            lines = [frame.iloc[match.sheet_rows].reset_index(drop=True)]
        heads |= {
            *sheet.heads,
            *map(str, sheet.beside.columns),
            *(str(one) for frame in lines for one in frame.columns),
        }
        part = part_of(sheet, request, key, columns, like)
        if part.naming.sentence:
            notes.append(f"{sheet.origin}: {part.naming.sentence}")
        described.append([*lines, *([part.sheet.beside] if part.sheet.beside.shape[1] else [])])
        parts.append(part)
    if gone := [name for name in request.drop if str(name) not in heads]:
        raise DataError(f"There is no column {gone[0]!r} to leave out; check how it is written.")
    if len(parts) > 1:
        rows, said = common_rows([part.sheet for part in parts])
        notes.append(said)
        described = [[frame.iloc[kept] for frame in frames] for frames, kept in zip(described, rows, strict=True)]
        parts = [part.take(kept) for part, kept in zip(parts, rows, strict=True)]
    for note in notes:
        logger.info("%s", note)
    frames = [frame.reset_index(drop=True) for several in described for frame in several]
    found = {name: _column(name, frames, request, parts) for name in dict.fromkeys(request.described)}
    return Dataset(
        put_together([name for name, _, _ in blocks], parts, request.categorical),
        y=None if request.target is None else found[request.target],
        groups=None if request.group is None else found[request.group].to_numpy(),
        kept=pd.DataFrame({name: found[name] for name in request.keep}),
        notes=tuple(notes),
    )


def _hints(request: Request, wanted: tuple[str, ...] | None, like: Table | None) -> Hints:
    texts: list[str] = []
    if like is not None and isinstance(like.values, pd.DataFrame):
        kinds = zip(like.values.columns, like.values.dtypes, strict=True)
        texts = [str(name) for name, dtype in kinds if pd.api.types.is_string_dtype(dtype)]
    named = {*request.described, *request.drop, *([request.id] if request.id else [])}
    return Hints(request.layer, named, wanted, texts)


def _oriented(
    sheet: Sheet, request: Request, samples: Sheet | None, wanted: tuple[str, ...] | None, notes: list[str]
) -> Sheet:
    """A sheet with its samples in rows."""
    turn = request.orient == "columns"
    if request.orient == "auto":
        keys = [] if samples is None else [set(found) for _, found in candidates(samples, request.on)]
        known = wanted or ((request.target,) if request.target is not None and samples is None else ())
        turn = features_in_rows(sheet, keys, known)
    if not turn:
        return sheet
    turned, said = sheet.turned(request.id)
    if request.orient == "auto":
        notes.append(f"{sheet.origin} has features in rows and samples in columns: it was turned")
    if said:
        notes.append(said)
    return turned


def _column(name: str, described: Sequence[pd.DataFrame], request: Request, parts: Sequence[Part]) -> pd.Series[Any]:
    """A column that describes rows, from the first place that has it."""
    for frame in described:
        if name in frame.columns:
            return frame[name].reset_index(drop=True)
    known = [str(one) for frame in described for one in frame.columns]
    known += [one for part in parts for one in part.sheet.heads]
    where = [part.sheet.origin for part in parts] if request.samples is None else [str(request.samples)]
    close = [one for one in known if one.strip().lower() == str(name).strip().lower()]
    shown = ", ".join(known[:8]) + (" and others" if len(known) > 8 else "")
    names = f"its columns are {shown}." if known else "its columns have no names: give the labels in a sample sheet."
    hint = f"did you mean {close[0]!r}?" if close else names
    raise DataError(f"{' and '.join(where)} has no column {name!r}; {hint}")
