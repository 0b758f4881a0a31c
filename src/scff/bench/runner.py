"""Run many jobs, here or on a Ray cluster, and tell how far they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from scff.bench.jobs import Job, Outcome, RunSettings, run_job
from scff.bench.worker import giving_up
from scff.errors import DataError
from scff.fold.methods import EngineName
from scff.fold.ray import connect

__all__ = ["Progress", "run_jobs"]


@dataclass(frozen=True)
class Progress:
    """Where a run stands, in cells; ``reasons`` are sentences on those that failed or were excluded."""

    done: int
    failed: int
    left: int
    seconds_left: float | None
    message: str
    reasons: tuple[str, ...] = ()


def run_jobs(
    jobs: Sequence[Job],
    settings: RunSettings,
    *,
    workers: int = 1,
    engine: EngineName = "local",
    report: Callable[[Progress], None] | None = None,
) -> Progress:
    """Run jobs, cheapest first, and report after each.

    Parameters
    ----------
    jobs : sequence of Job
    settings : RunSettings
    workers : int, default=1
        Jobs at a time.
    engine : {"local", "ray"}
        Where jobs run: processes of this machine, or a Ray cluster that shares the results folder.
    report : callable, optional
        Called with a `Progress` after every job.

    Returns
    -------
    Progress
    """
    queue = sorted(jobs, key=lambda job: job.cost)
    left, cost_left = sum(len(job.arms) for job in queue), sum(job.cost for job in queue)
    done = failed = 0
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    cost_done, started = 0.0, time.perf_counter()
    progress = Progress(0, 0, left, None, "starting")
    for job, outcome in _engine(engine)(queue, settings, workers):
        left -= len(job.arms)
        cost_left -= job.cost
        done += outcome.run + outcome.found
        failed += len(outcome.reasons)
        for arm, reason in outcome.reasons:
            reasons.setdefault((job.dataset.name, reason), {})[arm] = None
        if outcome.run:  # found records tell nothing about the time to go
            cost_done += job.cost
        elapsed = time.perf_counter() - started
        remaining = elapsed / cost_done * cost_left if cost_done else None
        what = f"{job.dataset.name} {job.variant.name} fold {job.fold}"
        said = tuple(f"{table} ({', '.join(arms)}): {reason}" for (table, reason), arms in reasons.items())
        progress = Progress(done, failed, left, remaining, what, said)
        if report is not None:
            report(progress)
    return progress


def _engine(name: str) -> Callable[[Sequence[Job], RunSettings, int], Iterator[tuple[Job, Outcome]]]:
    if name == "local":
        return _run_local
    if name == "ray":
        return _run_ray
    raise DataError(f'engine must be "local" or "ray", not {name!r}.')


def _run_local(jobs: Sequence[Job], settings: RunSettings, workers: int) -> Iterator[tuple[Job, Outcome]]:
    with ThreadPoolExecutor(workers) as pool:  # each thread only waits for its arms' processes
        try:
            yield from _drain(jobs, lambda job: pool.submit(run_job, job, settings), workers)
        except BaseException:  # an interruption, most of the time: nobody waits for what has not finished
            with giving_up():
                pool.shutdown(cancel_futures=True)
            raise


def _drain(
    jobs: Sequence[Job], submit: Callable[[Job], Future[Outcome]], workers: int
) -> Iterator[tuple[Job, Outcome]]:
    queue, running = list(jobs), dict[Future[Outcome], Job]()
    while queue or running:
        while queue and len(running) < workers:
            job = queue.pop(0)
            running[submit(job)] = job
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            job, outcome = running.pop(future), future.result()
            if outcome.busy:
                queue.append(job)  # another run is at it: look again after everything else
                time.sleep(0.2)
            else:
                yield job, outcome


def _run_ray(jobs: Sequence[Job], settings: RunSettings, workers: int) -> Iterator[tuple[Job, Outcome]]:
    ray = connect()
    remote: Any = ray.remote(num_cpus=1)(run_job)
    settings = replace(settings, root=settings.root.resolve())
    yield from _drain(jobs, lambda job: remote.remote(job, settings).future(), workers)
