"""One part of a table: read a few rows at a time, predicted, and written whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from scff.errors import DataError
from scff.serving.manifest import Record
from scff.serving.places import Place
from scff.serving.readers import Reading, opened
from scff.serving.scorer import Scorer
from scff.serving.source import Part
from scff.tables.formulas import defused

__all__ = ["Job", "Told", "carried", "score_part", "writer"]

Told = Callable[[int, float], object]
"""Told the rows that were predicted, and the share of the part that they are."""

# What a cell costs on its way from a file to the model: Arrow, pandas, and the copy the model reads.
_CELL = 32
_ROOM = 64 << 20
_MOST_ROWS = 1 << 16


@dataclass(frozen=True)
class Job:
    """What every part of a run is scored with.

    Attributes
    ----------
    scorer : Scorer
        Its limit is what is left when rows have their room.
    out : Place
        The folder, or the one file.
    reading : Reading
    carried : Schema or None
        What is carried in all parts; None where there is one part, which says so itself.
    is_folder : bool
    room : int
        Bytes for the rows that are read together.
    raw : bool
        Write text that a spreadsheet would run as it is.
    """

    scorer: Scorer
    out: Place
    reading: Reading = field(default_factory=Reading)
    carried: pa.Schema | None = None
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

    def schema(self, carried: pa.Schema) -> pa.Schema:
        """What is written beside what is carried.

        Raises
        ------
        DataError
            If a name is taken twice.
        """
        label, *probabilities = self.scorer.outputs
        taken = next((name for name in carried.names if name in self.scorer.outputs), None)
        if taken is not None:
            raise DataError(f"The column {taken!r} cannot be kept: predictions have that name; rename it.")
        fields = [*carried, pa.field(label, self.scorer.label_type())]
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
        with writer(path, job, job.schema(wanted)) as sink:
            for features, kept, share in reader.batches(job.rows):
                answer = job.scorer.predictions(features)
                batch = job.scorer.beside(_as_carried(kept, wanted), answer)
                sink(batch)
                rows += batch.num_rows
                told(batch.num_rows, share)

    with _told_of(part), opened(part, job.scorer, job.reading) as reader:
        wanted = reader.carried if job.carried is None else job.carried
        size, digest = job.place(part).write(write)
        return Record(part.name, part.size, part.stamp, part.output, rows, size, digest, reader.notes)


def carried(job: Job, part: Part) -> tuple[pa.Schema, bool]:
    """What is carried beside the predictions of a part, with the types it is written in, and whether it has rows.

    Raises
    ------
    DataError
        If it cannot be read or lacks a column.
    """
    with _told_of(part), opened(part, job.scorer, job.reading) as reader:
        return reader.carried, reader.has_rows


@contextlib.contextmanager
def _told_of(part: Part) -> Iterator[None]:
    """Say of which part an error speaks."""
    try:
        yield
    except DataError as error:
        named = any(place.path in str(error) for _, place in part.tables)
        raise DataError(str(error) if named else f"{part.name}: {error}") from error
    except (OSError, pa.ArrowException) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)[:160]
        raise DataError(f"{part.name} cannot be read ({first}).") from error


def _as_carried(kept: Any, wanted: pa.Schema) -> dict[str, Any]:
    """Kept columns in the types of all parts.

    Raises
    ------
    DataError
        If one is missing or of another type.
    """
    out = {}
    for name, kind in zip(wanted.names, wanted.types, strict=True):
        if name not in kept:
            raise DataError(f"The column {name!r}, which the first part has, is missing.")
        column = kept[name]
        try:
            out[name] = column if column.type == kind else column.cast(kind)
        except pa.ArrowException as error:
            held = str(column.type).removeprefix("large_")
            raise DataError(f"The column {name!r} holds {held}, and in the first part {kind}.") from error
    return out


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
