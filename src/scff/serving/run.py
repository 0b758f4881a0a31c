"""Scores of a whole table: a file or a folder in, a file or a folder out, and what came of it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import pyarrow as pa

from scff.errors import DataError, MemoryBudgetError
from scff.memory.budget import parse_bytes
from scff.serving.gather import gather
from scff.serving.manifest import Head, Manifest
from scff.serving.parts import Job, carried
from scff.serving.places import Part, Place, parts_of, place_of, side_by_side
from scff.serving.progress import Progress, Run, Scored
from scff.serving.readers import Reading
from scff.serving.scorer import Scorer
from scff.serving.workers import Happened, cores, score_here, score_in_processes
from scff.tables.atomic import is_one_of

__all__ = ["score"]

logger = logging.getLogger(__name__)

# Less than this is scored before another process has imported what it needs.
_WORTH_PROCESSES = 32 << 20
_FILES = (".parquet", ".pq", ".csv", ".tsv")


def score(
    model: Any,
    source: Any,
    output: Any,
    *,
    proba: bool = True,
    keep: Sequence[str] = (),
    id: str | None = None,
    reading: Mapping[str, Any] | None = None,
    workers: int | None = None,
    memory_limit: int | str | None = None,
    device: str | None = None,
    engine: Literal["local", "ray"] = "local",
    overwrite: bool = False,
    raw: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Progress], object] = lambda _: None,
) -> Scored:
    """Predict every row of a table that may be larger than memory, and go on where an earlier run ended.

    Every part of a folder becomes a part of the same name, hive partitions included, and is written whole or not at
    all. A run that was killed, however often, is called again with the same arguments: finished parts are skipped, and
    in the end every row is there exactly once, in the order of its part.

    Parameters
    ----------
    model : path or URL
        A model file.
    source : path, URL, pyarrow Dataset, or a list of paths or URLs
        A table of any format, or a folder of Parquet files. Several tables are parts one after the other, unless the
        model was fitted on several side by side.
    output : path or URL
        A ``.csv``, ``.tsv`` or ``.parquet`` file, or a folder.
    proba : bool, default=True
        Also write one probability column per class.
    keep : sequence of str
        Columns that are written too, before the prediction; row names are anyway.
    id : str, optional
        Column with the row names; found by default, as the model was told or by how it looks.
    reading : mapping, optional
        More about how to read tables, as the fields of `scff.tables.reading.Request`: ``samples``, ``on``, ``orient``,
        ``layer``, ``drop``. A table is then read as a whole.
    workers : int, optional
        Processes; by default as many as there are cores and parts, and one where there is little to do.
    memory_limit : int or str, optional
        Budget for the memory that all of them add together.
    device : str, optional
    engine : {"local", "ray"}, default="local"
        ``"ray"`` scores the parts on a Ray cluster; every worker must see the files.
    overwrite : bool, default=False
        Remove what an earlier run wrote to the folder.
    raw : bool, default=False
        Write text to CSV and TSV that a spreadsheet would run (`scff.tables.formulas`) as it is.
    storage_options : mapping, optional
        For fsspec, such as credentials.
    on_progress : callable
        Told a `Progress` after every batch of rows.

    Returns
    -------
    Scored

    Raises
    ------
    SCFFError
        If nothing can be scored: no such model, table or column, or a folder that is another run's. A single part that
        cannot be scored is no such error and stands in ``failed``.
    """
    started = time.monotonic()
    target = place_of(output, storage_options)
    is_file = _is_file(output, target)
    scorer = Scorer(model, proba=proba, device=device)
    several = isinstance(source, Sequence) and not isinstance(source, str)
    if several and scorer.model.fitted_.support.blocks:
        parts = [side_by_side(source, storage_options)]
    else:
        parts = parts_of(source, storage_options)
    _keep_apart(parts, target, several=len(parts) > 1 or _is_folder(source, storage_options))
    count = _count(workers, parts, target)
    limit = None if memory_limit is None else parse_bytes(memory_limit)
    options = {name: value for name, value in (reading or {}).items() if value}
    _keep_whole([model, options.get("samples")], target)
    job = Job(scorer, target, Reading(tuple(keep), id, options), is_folder=not is_file, raw=raw)
    if is_file and len(parts) == 1:
        run = Run(parts, on_progress)
        score_here(_within(job, limit, 1), parts, run)
        return run.scored(str(target), 0, time.monotonic() - started)
    shared = _carried(job, parts)
    job = replace(job, carried=shared)
    if is_file:  # by way of a folder, so that this too can be killed and taken up again
        job = replace(job, out=_beside(target), is_folder=True)
    head = Head.of(scorer.digest, job.schema(shared))
    with Manifest(job.out, head, overwrite=overwrite) as manifest:
        todo = [part for part in parts if not manifest.has(part)]
        run = Run(todo, on_progress, manifest)
        if engine == "ray":
            from scff.serving.ray import score_on_ray

            score_on_ray(_within(job, limit, 1), todo, run, workers)
        else:
            _score_locally(job, todo, run, min(count, len(todo)), limit)
        gone = set(manifest.done) - {part.name for part in parts}
        if gone:
            logger.warning("%s holds predictions of %d parts that %s has no more", job.out, len(gone), source)
    if is_file and not run.failed:
        gather([(part, job.place(part)) for part in parts], replace(job, out=target, is_folder=False))
        job.out.fs.rm(job.out.path, recursive=True)
    return run.scored(str(target), len(parts) - len(todo), time.monotonic() - started)


def _score_locally(job: Job, parts: Sequence[Part], run: Happened, count: int, limit: int | None) -> None:
    """In as many processes as the limit lets work."""
    while count > 1:
        try:
            return score_in_processes(_within(job, limit, count), parts, run, count)
        except MemoryBudgetError:  # found before the first part: a smaller number has more each
            count //= 2
            logger.info("the memory limit is for %d processes", count)
    return score_here(_within(job, limit, 1), parts, run)


def _within(job: Job, limit: int | None, count: int) -> Job:
    """Share a budget among processes, and in each between the rows that are read and the model."""
    if limit is None:
        return job
    each = limit // count
    # An eighth is for what neither counts: buffers of Arrow, and what an allocator keeps between two batches.
    return replace(job, scorer=job.scorer.limited(each - each // 4), room=each // 8)


def _carried(job: Job, parts: Iterable[Part]) -> pa.Schema:
    """What all parts carry; the first one that can be read says it, but for types of columns that it has nothing in."""
    first: DataError | None = None
    known: pa.Schema | None = None
    for part in parts:
        try:
            found = carried(job, part)
        except DataError as error:
            first = first or error
            continue
        known = found if known is None else _typed(known, found)
        if pa.null() not in known.types:
            return known
    if known is None:
        assert first is not None
        raise first
    return known


def _typed(known: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Columns of one part, the untyped ones with the types of another."""
    fields = (other.field(f.name) if pa.types.is_null(f.type) and f.name in other.names else f for f in known)
    return pa.schema(list(fields))


def _count(workers: int | None, parts: Sequence[Part], target: Place) -> int:
    if workers is not None and workers < 1:
        raise DataError(f"workers is {workers}; use at least one process.")
    if not target.is_shared or not parts[0].place.is_shared:
        return 1  # nobody else could see the files
    if workers is None and sum(part.size for part in parts) < _WORTH_PROCESSES:
        return 1
    return min(len(parts), workers or cores())


def _is_folder(source: Any, options: Mapping[str, Any] | None) -> bool:
    return isinstance(source, str | os.PathLike) and place_of(source, options).is_folder()


def _keep_apart(parts: Sequence[Part], target: Place, several: bool) -> None:
    """Refuse an output among the inputs: the next run would read it as one."""
    for part in parts:
        root = part.place.path.removesuffix(part.name).rstrip("/")
        inside = type(part.place.fs) is type(target.fs) and f"{target.path.rstrip('/')}/".startswith(f"{root}/")
        if inside and (several or target.path == part.place.path):
            raise DataError(f"The output {target} lies in the folder that is read; choose a place outside.")


def _keep_whole(read: Sequence[Any], target: Place) -> None:
    """Refuse an output that would take the place of the model, or of a sample sheet."""
    files = [path for path in read if isinstance(path, str | os.PathLike)]
    if target.is_local and is_one_of(target.path, files):
        raise DataError(f"The output {target} is one of the files that are read; name another to write.")


def _is_file(output: Any, target: Place) -> bool:
    """Whether one file is asked for: by the ending of the name, unless it is a folder or ends in a slash."""
    suffix = PurePosixPath(target.path).suffix
    if not suffix or str(output).endswith("/") or target.is_folder():
        return False
    if suffix not in _FILES:
        raise DataError(f"The output {output} must end in .csv, .tsv or .parquet, or in a slash for a folder of parts.")
    if target.is_local and not (folder := Path(target.path).parent).is_dir():
        raise DataError(f"There is no directory {folder}; create it first.")
    return True


def _beside(target: Place) -> Place:
    folder, _, name = target.path.rpartition("/")
    return Place(target.fs, f"{folder}/.{name}.parts")
