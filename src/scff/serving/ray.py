"""Parts scored on a Ray cluster, by actors that Ray Data feeds."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from scff.errors import DataError, SCFFError
from scff.fold.ray import connect
from scff.memory.meter import PeakMemory
from scff.serving.parts import Job, score_part
from scff.serving.source import Part
from scff.serving.worker import failure
from scff.serving.workers import ATTEMPTS, Event, Happened, died

__all__ = ["actors", "score_on_ray"]

# More blocks of parts than this cost Ray more than they give it to balance.
_MOST_BLOCKS = 1000


class _Attempts:
    """On the cluster: how often each part was begun. Ray would hand out a part that kills its workers for ever."""

    def __init__(self) -> None:
        self._begun: Counter[str] = Counter()

    def begin(self, name: str) -> int:
        """How often, this time included."""
        self._begun[name] += 1
        return self._begun[name]


class _PartScorer:
    """On a worker: the model, loaded once, and the parts that come."""

    def __init__(self, job: Job, attempts: Any) -> None:
        self._job, self._attempts = job, attempts
        self._unusable: SCFFError | None = None
        try:
            with PeakMemory() as memory:
                job.scorer.model.fitted_.compiled()
        except SCFFError as error:  # of an actor that dies here Ray would keep no more than the text
            self._unusable = error
        self._base = memory.start

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        """Score the parts of a batch; what cannot be scored is an answer too."""
        return {"packed": [pickle.dumps(self._score(pickle.loads(packed))) for packed in batch["packed"]]}

    def _score(self, part: Part) -> Event | SCFFError:
        import ray

        if self._unusable is not None:
            return self._unusable
        if ray.get(self._attempts.begin.remote(part.name)) > ATTEMPTS:
            return Event(part, failed=f"{part.name}: {died()}")
        try:
            with PeakMemory() as memory:
                record = score_part(self._job, part)
        except Exception as error:
            return Event(part, failed=failure(error))
        return Event(part, rows=record.rows, share=1.0, record=record, peak_bytes=memory.peak - self._base)


def actors(job: Job, parts: Sequence[Part], workers: int | None = None) -> int:
    """How many actors score parts: as many as are asked for, or as the cluster has cores, or GPUs.

    Raises
    ------
    DataError
        If a cluster could not reach the files.
    """
    if not (job.out.is_shared and parts[0].place.is_shared):
        raise DataError("Files in the memory of this process cannot be scored on a cluster; use engine local.")
    there = connect().cluster_resources()
    return min(len(parts), workers or max(1, int(there.get("GPU" if _gpus(job, there) else "CPU", 1))))


def _gpus(job: Job, there: Mapping[str, float]) -> int:
    """GPUs of an actor."""
    return 1 if there.get("GPU", 0) >= 1 and job.scorer.model.fitted_.settings.device != "cpu" else 0


def score_on_ray(job: Job, parts: Sequence[Part], happened: Happened, count: int) -> None:
    """Score parts on a cluster: the one in use, the one ``RAY_ADDRESS`` names, or a new one on this machine.

    Ray Data hands a part to an actor when it is free, and again to another one when it dies. An actor reads its part a
    few rows at a time and writes it whole, as a process of this machine would.

    Parameters
    ----------
    job : Job
    parts : sequence of Part
        At places that every worker can reach.
    happened : callable
        Told of every part that is finished or given up.
    count : int
        Most actors.

    Raises
    ------
    SCFFError
        If the model cannot be used at all.
    """
    ray = connect()
    from ray import data

    rows = data.from_items(
        [{"packed": pickle.dumps(part)} for part in parts], override_num_blocks=min(len(parts), _MOST_BLOCKS)
    )
    rows.context.enable_progress_bars = False
    answers = rows.map_batches(
        _PartScorer,
        batch_size=1,
        compute=data.ActorPoolStrategy(min_size=1, max_size=count),
        fn_constructor_kwargs={"job": job, "attempts": ray.remote(num_cpus=0)(_Attempts).remote()},
        num_gpus=_gpus(job, ray.cluster_resources()) or None,
        num_cpus=1,
    )
    try:
        for answer in answers.iter_rows():
            said = pickle.loads(answer["packed"])
            if isinstance(said, SCFFError):  # no part can be scored with this model, or within this limit
                raise said
            happened(said)
    except ray.exceptions.RayError as error:
        raise (_cause(error) or DataError(f"Ray could not go on: {error}")) from error


def _cause(error: BaseException | None) -> SCFFError | None:
    """The sentence of this library behind what Ray says."""
    while error is not None and not isinstance(error, SCFFError):
        error = getattr(error, "cause", None) or error.__cause__
    return error
