"""A part, opened: rows for the model and what is carried beside them, a few at a time where the format allows it.

Parquet files are streamed. Everything else, and whatever needs a sample sheet, another orientation or several tables
for one row, is read as a whole by `scff.tables.reading`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scff.errors import DataError, NoRows
from scff.serving.scorer import Scorer, as_frame
from scff.serving.source import Part
from scff.tables.naming import find_row_names
from scff.tables.on_disk import is_wide, open_wide
from scff.tables.reading import Request, read_dataset

__all__ = ["Batch", "Reader", "Reading", "opened"]

Batch = tuple[Any, Mapping[str, Any], float]
"""Rows for the model, kept columns as Arrow has them, and the share of the part that they are."""

# What pandas calls an index without a name in a Parquet file, and what it is called in predictions.
_INDEX, ROW = "__index_level_0__", "row"
# Rows that are looked at for a column of row names.
_LOOK = 1000


@dataclass(frozen=True)
class Reading:
    """How parts are read.

    Attributes
    ----------
    keep : tuple of str
        Columns to carry.
    id : str or None
        Column with the row names; found by default.
    options : mapping
        For `scff.tables.reading.Request`, where a part has to be read as a whole: sample sheet, orientation, layer.
    """

    keep: tuple[str, ...] = ()
    id: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class Reader(Protocol):
    """An opened part.

    Attributes
    ----------
    carried : Schema
        What is carried, and in which types.
    has_rows : bool
    notes : tuple of str
        What was done that nobody asked for.
    """

    carried: pa.Schema
    has_rows: bool
    notes: tuple[str, ...]

    def batches(self, rows: int) -> Iterator[Batch]:
        """All rows, at most so many at a time."""
        ...


@contextlib.contextmanager
def opened(part: Part, scorer: Scorer, reading: Reading) -> Iterator[Reader]:
    """A part, ready to be read.

    Raises
    ------
    DataError
        If it cannot be read, or a column is missing.
    """
    if part.is_parquet and not part.blocks and not reading.options:
        # Pages as they come, not whole columns.
        with contextlib.closing(pq.ParquetFile(part.place.opened(), pre_buffer=False, buffer_size=1 << 16)) as file:
            if _holds(file, part, scorer) or not part.place.is_local:
                yield _Streamed(file, part, scorer, reading)
                return
    try:
        whole: Reader = _Whole(part, scorer, reading)
    except NoRows as empty:
        whole = _Empty(empty, scorer, reading)
    yield whole


def _holds(file: pq.ParquetFile, part: Part, scorer: Scorer) -> bool:
    """Whether the file has any of the columns: one that has none may have its features in rows."""
    there = {*file.schema_arrow.names, *part.partition}
    return any(name in there for name in scorer.names)


class _Streamed:
    """A Parquet file, a few rows at a time."""

    def __init__(self, file: pq.ParquetFile, part: Part, scorer: Scorer, reading: Reading) -> None:
        self._file, self._part, self._scorer = file, part, scorer
        self.notes: tuple[str, ...] = ()
        schema = file.schema_arrow
        names = scorer.names
        self._constant = {name: value for name, value in part.partition.items() if name in names}
        scorer.check_names([*schema.names, *self._constant])
        self._values = _values(self._constant, scorer)
        described = (schema.pandas_metadata or {}).get("index_columns", ())
        index = [name for name in described if isinstance(name, str)]
        self._counted = _counted(described, file.metadata.num_rows, schema.names)
        keys = [reading.id] if reading.id is not None else [*index, *self._counted] or self._found(reading)
        # What a folder says goes with the folder: its parts have the same one among the predictions.
        there = {*schema.names, *self._counted}
        keep = [name for name in reading.keep if name in there or name not in part.partition]
        self._kept = list(dict.fromkeys([*keys, *keep]))
        missing = next((name for name in self._kept if name not in there), None)
        if missing is not None:
            raise DataError(f"The column {missing!r} that is to be kept is missing.")
        read = {*names, *self._kept}
        twice = next((name for name, times in Counter(schema.names).items() if times > 1 and name in read), None)
        if twice is not None:
            raise DataError(f"There are two columns {twice!r}; rename one.")
        self.has_rows = file.metadata.num_rows > 0
        self.carried = pa.schema([self._field(name, schema) for name in self._kept])

    def _field(self, name: str, schema: pa.Schema) -> pa.Field:
        kind = pa.int64() if name in self._counted else _plain(schema.field(name).type)
        return pa.field(ROW if name == _INDEX else name, kind)

    def batches(self, rows: int) -> Iterator[Batch]:
        """All rows; those of a very wide file of numbers stay on disk and are read a leaf at a time."""
        scorer, names = self._scorer, self._scorer.names
        in_file = [name for name in self._kept if name not in self._counted]
        local = self._part.place.is_local and not self._constant
        if local and scorer.is_numeric and is_wide(path := Path(self._part.place.path)):
            yield open_wide(path, names), self._carried(self._file.read(columns=in_file), 0), 1.0
            return
        features = [name for name in names if name not in self._constant]
        wanted = list(dict.fromkeys([*features, *in_file]))
        total, done = self._file.metadata.num_rows, 0
        for batch in self._file.iter_batches(rows, columns=wanted, use_threads=False):
            table = pa.Table.from_batches([batch])
            frame = as_frame(table.select(features))
            if self._constant:
                frame = frame.assign(**self._values)[names]
            yield frame, self._carried(table, done), len(frame) / total
            done += len(frame)

    def _carried(self, table: pa.Table, first: int) -> dict[str, Any]:
        """What is carried of some rows, the first of which stands at this place of the file."""
        some = slice(first, first + len(table))
        columns = (
            pa.array(self._counted[name][some], pa.int64()) if name in self._counted else table.column(name)
            for name in self._kept
        )
        return dict(zip(self.carried.names, columns, strict=True))

    def _found(self, reading: Reading) -> list[str]:
        """The column of row names: the one the model knows, or one that is no feature and looks like it."""
        schema, known = self._file.schema_arrow, self._scorer.model.fitted_.support.id_column
        taken = {*self._scorer.names, *reading.keep}
        if known is not None and known in schema.names and known not in taken:
            return [known]
        kinds = zip(schema.names, schema.types, strict=True)
        others = [name for name, kind in kinds if name not in taken and _names(kind)]
        if not others or not self._file.metadata.num_rows:
            return []
        first = next(self._file.iter_batches(_LOOK, columns=others, use_threads=False))
        naming = find_row_names(first.to_pandas(ignore_metadata=True))
        return [] if naming.id_column is None else [naming.id_column]


class _Whole:
    """A part of another format, or of several tables, read at once."""

    def __init__(self, part: Part, scorer: Scorer, reading: Reading) -> None:
        with contextlib.ExitStack() as stack:
            tables = tuple((name, stack.enter_context(place.on_disk())) for name, place in part.tables)
            request = Request(tables, keep=reading.keep, id=reading.id, **reading.options)
            self._data = read_dataset(request, scorer.model.fitted_.support)
        self.notes = self._data.notes
        self._carried = pa.Table.from_pandas(self._data.carried.reset_index(drop=True), preserve_index=False)
        fields = [pa.field(field.name, _plain(field.type)) for field in self._carried.schema]
        self.carried, self.has_rows = pa.schema(fields), True

    def batches(self, rows: int) -> Iterator[Batch]:
        """All rows."""
        table, total = self._data.table, self._data.table.n_rows
        for start in range(0, total, rows):
            some = self._carried.slice(start, rows)
            share = min(rows, total - start) / total
            yield table.rows(start, start + rows), dict(zip(some.column_names, some.columns, strict=True)), share


class _Empty:
    """A part of another format that has a header and no rows, as an empty Parquet file has."""

    def __init__(self, empty: NoRows, scorer: Scorer, reading: Reading) -> None:
        known = reading.id or scorer.model.fitted_.support.id_column
        keys = [known] if known is not None and known in empty.names else []
        if {*scorer.names, *reading.keep} - {*empty.names}:
            raise empty
        self.notes: tuple[str, ...] = ()
        self.has_rows = False
        self.carried = pa.schema([pa.field(name, pa.null()) for name in dict.fromkeys([*keys, *reading.keep])])

    def batches(self, rows: int) -> Iterator[Batch]:
        """None."""
        return iter(())


def _counted(described: Any, total: int, names: Sequence[str]) -> dict[str, range]:
    """Keys that pandas did not write because they go up in even steps, by the name of the index."""
    found = {}
    for one in described:
        if isinstance(one, dict) and one.get("kind") == "range" and one.get("name") is not None:
            steps = [step for step in (one.get("start"), one.get("stop"), one.get("step")) if type(step) is int]
            keys = range(*steps) if len(steps) == 3 and steps[2] != 0 else range(0)
            # Whoever cuts a table in parts may leave the note of the whole, which says nothing of a part.
            if len(keys) == total and str(one["name"]) not in names:
                found[str(one["name"])] = keys
    return found


def _values(partition: Mapping[str, str | None], scorer: Scorer) -> dict[str, Any]:
    """What the folders of a part say of its rows, as the model was told it."""
    found: dict[str, Any] = dict(partition)
    for name, value in partition.items():
        if scorer.is_number(name):
            try:
                found[name] = np.nan if value is None else float(value)
            except ValueError as error:
                raise DataError(
                    f"The column {name!r} was numeric at fit, and its folder says {value!r}; give a number."
                ) from error
    return found


def _names(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind))


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that all parts can have: text is text, however a part has packed it."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind
