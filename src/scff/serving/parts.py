"""One part of a table: read a few rows at a time, predicted, and written whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from scff.errors import DataError
from scff.serving.manifest import Record
from scff.serving.places import Part, Place
from scff.serving.scorer import Scorer, as_frame
from scff.tables.files import read_table
from scff.tables.formulas import defused
from scff.tables.on_disk import is_wide, open_wide

__all__ = ["Job", "Told", "carried", "score_part", "writer"]

Told = Callable[[int, float], object]
"""Told the rows that were predicted, and the share of the part that they are."""

# What a cell costs on its way from a file to the model: Arrow, pandas, and the copy the model reads.
_CELL = 32
_ROOM = 64 << 20
_MOST_ROWS = 1 << 16
_MISSING = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Job:
    """What every part of a run is scored with.

    Attributes
    ----------
    scorer : Scorer
        Its ``keep`` holds the keys too, and its limit is what is left when rows have their room.
    carried : Schema
        Kept columns as they are written.
    out : Place
        The folder, or the one file.
    is_folder : bool
    room : int
        Bytes for the rows that are read together.
    raw : bool
        Write text that a spreadsheet would run as it is.
    """

    scorer: Scorer
    carried: pa.Schema
    out: Place
    is_folder: bool = True
    room: int = _ROOM
    raw: bool = False

    def place(self, part: Part) -> Place:
        """Where the scores of a part go."""
        return self.out / part.output if self.is_folder else self.out

    @property
    def rows(self) -> int:
        """Rows that are read together."""
        return max(1, min(_MOST_ROWS, self.room // (_CELL * max(1, len(self.scorer.names)))))

    @property
    def schema(self) -> pa.Schema:
        """What is written."""
        label, *probabilities = self.scorer.outputs
        fields = [*self.carried, pa.field(label, self.scorer.label_type())]
        return pa.schema([*fields, *(pa.field(name, pa.float64()) for name in probabilities)])


def score_part(job: Job, part: Part, told: Told = lambda *_: None) -> Record:
    """Score a part.

    Parameters
    ----------
    job : Job
    part : Part
    told : callable
        As `Told`.

    Returns
    -------
    Record

    Raises
    ------
    DataError
        If it cannot be read, or does not hold what the model was fitted on; the message names part and column.
    """
    rows = 0

    def write(path: Path) -> None:
        nonlocal rows
        with contextlib.closing(_scored(job, part)) as batches, writer(path, job, job.schema) as sink:
            for batch, share in batches:
                sink(batch)
                rows += batch.num_rows
                told(batch.num_rows, share)

    size, digest = job.place(part).write(write)
    return Record(part.name, part.size, part.stamp, part.output, rows, size, digest)


def carried(part: Part, keep: Sequence[str]) -> pa.Schema:
    """The kept columns of a part and before them its row names, with the types they are written in.

    Raises
    ------
    DataError
        If it cannot be read or lacks one.
    """
    with _told_of(part):
        if not part.is_parquet:
            with part.place.on_disk() as path:
                known = pa.Schema.from_pandas(read_table(path)[:100])
        else:
            known = pq.read_schema(part.place.opened())
    index = [name for name in (known.pandas_metadata or {}).get("index_columns", ()) if isinstance(name, str)]
    names = list(dict.fromkeys([*index, *keep]))
    missing = next((name for name in names if name not in known.names), None)
    if missing is not None:
        raise DataError(f"{part.name}: the column {missing!r} that is to be kept is missing.")
    return pa.schema([pa.field(name, _plain(known.field(name).type)) for name in names])


def _scored(job: Job, part: Part) -> Generator[tuple[pa.Table, float], None, None]:
    """Predicted batches of a part, each with its share of the part."""
    with _told_of(part):
        for rows, kept, share in _read(job, part):
            answer = job.scorer.predictions(rows)
            arrays = {name: _cast(kept[name], job.carried.field(name).type, name) for name in job.carried.names}
            yield job.scorer.beside(arrays, answer), share


def _read(job: Job, part: Part) -> Iterator[tuple[Any, Any, float]]:
    """Rows for the model, the columns that are kept of them, and their share of the part."""
    scorer, names, keep = job.scorer, job.scorer.names, job.carried.names
    if not part.is_parquet:
        with part.place.on_disk() as path:
            frame = read_table(path)
        named = frame.reset_index() if frame.index.name in keep else frame
        scorer.check_names(list(named.columns))
        for start in range(0, len(frame), job.rows):
            some = named.iloc[start : start + job.rows]
            yield some[names], {name: pa.array(some[name], from_pandas=True) for name in keep}, len(some) / len(frame)
        return
    constant = {name: value for name, value in part.partition.items() if name in names}
    # Pages as they come, not whole columns; and one thread, as the model has the others.
    with contextlib.closing(pq.ParquetFile(part.place.opened(), pre_buffer=False, buffer_size=1 << 16)) as file:
        scorer.check_names([*file.schema_arrow.names, *constant])
        if (
            part.place.is_local
            and not constant
            and scorer.model.fitted_.support.is_numeric
            and is_wide(Path(part.place.path))
        ):
            yield open_wide(part.place.path, names), file.read(columns=keep), 1.0
            return
        in_file = [name for name in names if name not in constant]
        wanted = list(dict.fromkeys([*in_file, *keep]))
        total = file.metadata.num_rows
        for batch in file.iter_batches(job.rows, columns=wanted, use_threads=False):
            table = pa.Table.from_batches([batch])
            rows = as_frame(table.select(in_file)).assign(**_values(constant, scorer.is_number))[names]
            yield rows, {name: table.column(name) for name in keep}, len(rows) / total


def _values(partition: dict[str, str], is_number: Callable[[str], bool]) -> dict[str, Any]:
    """What the folders of a part say of its rows, as the model was told it."""
    found: dict[str, Any] = {}
    for name, text in partition.items():
        value = None if text == _MISSING else unquote(text)
        found[name] = (float("nan") if value is None else float(value)) if is_number(name) else value
    return found


@contextlib.contextmanager
def _told_of(part: Part) -> Iterator[None]:
    """Say of which part an error speaks."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{part.name}: {error}") from error
    except (OSError, pa.ArrowException) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)[:160]
        raise DataError(f"{part.name} cannot be read ({first}).") from error


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that all parts can have: text is text, however a part has packed it."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) else kind


def _cast(column: Any, kind: pa.DataType, name: str) -> Any:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException as error:
        was = _plain(column.type)
        raise DataError(f"The column {name!r} holds {was}, and in the first part {kind}.") from error


@contextlib.contextmanager
def writer(path: Path, job: Job, schema: pa.Schema) -> Iterator[Callable[[pa.Table], object]]:
    """Takes batches and writes them as the name of the output asks."""
    suffix = Path(job.out.path).suffix
    if job.is_folder or suffix in (".parquet", ".pq"):
        with pq.ParquetWriter(path, schema) as file:
            yield file.write_table
        return
    separator = "\t" if suffix == ".tsv" else ","
    with path.open("w", encoding="utf-8", newline="") as file:

        def write(batch: pa.Table, *, header: bool = False) -> None:
            frame: pd.DataFrame = batch.to_pandas(ignore_metadata=True)
            safe = frame if job.raw else defused(frame)
            safe.to_csv(file, sep=separator, index=False, header=header)

        write(schema.empty_table(), header=True)
        yield write
