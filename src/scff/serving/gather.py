"""Parts of scores put together into one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scff.serving.parts import Job, writer
from scff.serving.places import Place
from scff.serving.source import Part

__all__ = ["gather"]


def gather(parts: Sequence[tuple[Part, Place]], job: Job) -> None:
    """Write the scores of all parts to one file, a few rows at a time, whole or not at all.

    Parameters
    ----------
    parts : sequence of (Part, Place)
        What was read, in order, and where its scores are.
    job : Job
        With the file as its ``out``. What the folders of a part say of it becomes columns.
    """
    partitions = list(dict.fromkeys(name for part, _ in parts for name in part.partition))
    assert job.carried is not None
    scored = job.schema(job.carried)
    partitions = [name for name in partitions if name not in scored.names]
    schema = pa.schema([*(pa.field(name, pa.string()) for name in partitions), *scored])

    def write(path: Path) -> None:
        with writer(path, job, schema) as sink:
            for part, place in parts:
                said = part.partition
                for batch in pq.ParquetFile(place.opened()).iter_batches():
                    columns = [pa.repeat(pa.scalar(said.get(name), pa.string()), len(batch)) for name in partitions]
                    sink(pa.Table.from_arrays([*columns, *batch.columns], schema=schema))

    job.out.write(write)
