"""Scores of a whole table: a file or a folder in, a file or a folder out, and what came of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa

from scff.errors import DataError, MemoryBudgetError, shown
from scff.memory.budget import parse_bytes
from scff.names import ENGINES, is_whole
from scff.serving.gather import gather
from scff.serving.manifest import FOLDER, Head, Manifest
from scff.serving.parts import Job, carried
from scff.serving.places import Place, place_of
from scff.serving.progress import Progress, Run, Scored
from scff.serving.readers import Reading
from scff.serving.scorer import Scorer, names_to_keep
from scff.serving.source import Part, source_of
from scff.serving.target import beside, is_file, keep_apart, keep_whole
from scff.serving.workers import Happened, cores, score_here, score_in_processes

__all__ = ["score"]

logger = logging.getLogger(__name__)

# Less than this is scored before another process has imported what it needs.
_WORTH_PROCESSES = 32 << 20


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
        A table of any format, or a folder of Parquet files. Several of either are parts one after the other, in the
        order of their names below the folder they have in common, unless the model was fitted on several side by side.
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
        Processes, or actors of the cluster; by default as many as there are cores and parts, and locally one where
        there is little to do.
    memory_limit : int or str, optional
        Budget for the memory that all of them add together; where it is too small for all, fewer are started.
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
    if engine not in ENGINES:
        raise DataError(f'engine must be "local" or "ray", not {shown(engine)!r}.')
    if workers is not None and not (is_whole(workers) and workers >= 1):
        raise DataError(f"workers is {shown(workers)!r}; use a whole number, one at least.")
    keep = names_to_keep(keep)
    target = place_of(output, storage_options)
    for_file = is_file(output, target)
    scorer = Scorer(model, proba=proba, device=device)
    found = source_of(source, storage_options, blocks=bool(scorer.model.fitted_.support.blocks))
    parts = found.parts
    limit = None if memory_limit is None else parse_bytes(memory_limit)
    options = {name: value for name, value in (reading or {}).items() if value}
    keep_whole([model, options.get("samples")], target)
    job = Job(scorer, target, Reading(keep, id, options), is_folder=not for_file, raw=raw)
    keep_apart(found, target, [] if for_file else map(job.place, parts))
    notes = [found.note] if found.note else []
    if for_file and len(parts) == 1:
        if engine == "ray":
            notes.append("one table for one file is scored here: a cluster shares out parts")
        run = Run(parts, on_progress, notes=notes, one_file=True)
        score_here(_within(job, limit, 1), parts, run)
        if not run.failed:
            _forget(beside(target))  # parts of an earlier run that had more
        return run.scored(str(target), 0, time.monotonic() - started)
    shared = _carried(job, parts)
    job = replace(job, carried=shared)
    if for_file:  # by way of a folder, so that this too can be killed and taken up again
        job = replace(job, out=beside(target), is_folder=True)
    head = Head.of(scorer.digest, job.schema(shared))
    with Manifest(job.out, head, overwrite=overwrite, file=target if for_file else None) as manifest:
        todo = [part for part in parts if not manifest.has(part)]
        run = Run(todo, on_progress, manifest, notes, one_file=for_file)
        if todo:
            _share_out(job, todo, run, workers, limit, engine)
        others = set(manifest.done) - {part.name for part in parts}
        gone = () if for_file else tuple(sorted(manifest.done[name].output for name in others))
        waits = bool(for_file and run.failed and manifest.done)
    if for_file and not run.failed:
        gather([(part, job.place(part)) for part in parts], replace(job, out=target, is_folder=False))
    if for_file and not waits:
        _forget(job.out)
    waiting = str(job.out) if waits else None
    return run.scored(str(target), len(parts) - len(todo), time.monotonic() - started, gone, waiting)


def _forget(waiting: Place) -> None:
    """Remove the folder where parts of a file have waited, if there is one and it is ours."""
    if (waiting / FOLDER).exists():
        waiting.fs.rm(waiting.path, recursive=True)


def _share_out(
    job: Job, parts: Sequence[Part], run: Happened, workers: int | None, limit: int | None, engine: str
) -> None:
    """Among as many processes, or actors of a cluster, as the limit lets work."""
    on_ray = engine == "ray"
    if on_ray:
        from scff.serving.ray import actors, score_on_ray

    count = actors(job, parts, workers) if on_ray else _processes(job, parts, workers)
    while True:
        within = _within(job, limit, count)
        try:
            if on_ray:
                return score_on_ray(within, parts, run, count)
            return score_in_processes(within, parts, run, count) if count > 1 else score_here(within, parts, run)
        except MemoryBudgetError:  # found before the first part: a smaller number has more each
            if count == 1:
                raise
            count //= 2
            logger.info("the memory limit is for %d workers", count)


def _within(job: Job, limit: int | None, count: int) -> Job:
    """Share a budget among processes, and in each between the rows that are read and the model."""
    if limit is None:
        return job
    each = limit // count
    # An eighth is for what neither counts: buffers of Arrow, and what an allocator keeps between two batches.
    return replace(job, scorer=job.scorer.limited(each - each // 4), room=each // 8)


def _carried(job: Job, parts: Iterable[Part]) -> pa.Schema:
    """What all parts carry; the first one with rows says it, but for types of columns that it has nothing in."""
    first: DataError | None = None
    known = empty = None
    for part in parts:
        try:
            found, has_rows = carried(job, part)
        except DataError as error:
            first = first or error
            continue
        if not has_rows:  # columns without rows have the types of whoever wrote them without knowing better
            empty = empty or found
            continue
        known = found if known is None else _typed(known, found)
        if pa.null() not in known.types:
            return known
    known = known or empty
    if known is None:
        assert first is not None
        raise first
    return known


def _typed(known: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Columns of one part, the untyped ones with the types of another."""
    fields = (other.field(f.name) if pa.types.is_null(f.type) and f.name in other.names else f for f in known)
    return pa.schema(list(fields))


def _processes(job: Job, parts: Sequence[Part], workers: int | None) -> int:
    """Processes of this machine."""
    if not job.out.is_shared or not parts[0].place.is_shared:
        return 1  # nobody else could see the files
    if workers is None and sum(part.size for part in parts) < _WORTH_PROCESSES:
        return 1
    return min(len(parts), workers or cores())
