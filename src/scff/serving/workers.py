"""Parts spread over processes of this machine; one that dies is replaced, and its part is given out again."""

from __future__ import annotations

import functools
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from scff.memory.meter import PeakMemory
from scff.processes import unheard_interrupts
from scff.serving.manifest import Record
from scff.serving.parts import Job, score_part
from scff.serving.source import Part
from scff.serving.worker import failure

__all__ = ["ATTEMPTS", "Event", "Happened", "cores", "died", "score_here", "score_in_processes"]

#: Workers that may die on one part before it is given up.
ATTEMPTS = 3


@dataclass(frozen=True)
class Event:
    """Something that happened to a part.

    Attributes
    ----------
    part : Part
    rows, share : int, float
        Rows that were predicted, and the share of the part that they are.
    record : Record or None
        The part is finished.
    failed : str or None
        The part is given up, for this reason.
    peak_bytes : int
        Most memory added by the process so far.
    """

    part: Part
    rows: int = 0
    share: float = 0.0
    record: Record | None = None
    failed: str | None = None
    peak_bytes: int = 0


Happened = Callable[[Event], object]


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def died() -> str:
    """Why a part was given up that nobody survived."""
    return f"{ATTEMPTS} workers died on it, most likely for want of memory; set a memory limit, or use fewer workers."


def score_here(job: Job, parts: Iterable[Part], happened: Happened) -> None:
    """Score parts one after the other in this process; parameters as for `score_in_processes`."""
    with PeakMemory() as memory:
        job.scorer.model.fitted_.compiled()
    base = memory.start
    for part in parts:
        told = functools.partial(_tell, happened, part)
        try:
            with PeakMemory() as memory:
                record = score_part(job, part, told)
        except Exception as error:
            happened(Event(part, failed=failure(error)))
        else:
            happened(Event(part, record=record, peak_bytes=memory.peak - base))


def _tell(happened: Happened, part: Part, rows: int, share: float) -> None:
    happened(Event(part, rows, share))


def score_in_processes(job: Job, parts: Iterable[Part], happened: Happened, count: int) -> None:
    """Score parts in several processes, each with its share of the cores; a process has one part at a time.

    Parameters
    ----------
    job : Job
    parts : iterable of Part
        Taken one by one as processes are free.
    happened : callable
        Told every `Event`, in this thread.
    count : int
        Processes.

    Raises
    ------
    SCFFError
        If the model cannot be used at all.
    """
    waiting = iter(parts)
    take = threading.Lock()
    # Bounded: whoever notes what is finished sets the pace.
    events: queue.Queue[Event | BaseException | None] = queue.Queue(4 * count)
    stop = threading.Event()
    processes = [_Process(job, i, count) for i in range(count)]

    def drive(process: _Process) -> None:
        try:
            while not stop.is_set():
                with take:
                    part = next(waiting, None)
                if part is None:
                    break
                for event in process.score(part):
                    events.put(event)
        except BaseException as error:  # to be raised where it is waited for
            events.put(error)
        events.put(None)

    threads = [threading.Thread(target=drive, args=(process,), daemon=True) for process in processes]
    for thread in threads:
        thread.start()
    try:
        working = count
        while working:
            event = events.get()
            if event is None:
                working -= 1
            elif isinstance(event, BaseException):
                raise event
            else:
                happened(event)
    finally:
        stop.set()
        for process in processes:
            process.end()


class _Process:
    """A worker process, started when there is something to do and again when it has died."""

    def __init__(self, job: Job, index: int, count: int) -> None:
        self._job, self._ended = job, False
        self._popen: subprocess.Popen[bytes] | None = None
        self._environment = os.environ | {"OMP_NUM_THREADS": str(max(1, cores() // count))} | _device(index)

    def score(self, part: Part) -> Iterator[Event]:
        """What happens to a part, from the first rows to the end."""
        for _ in range(ATTEMPTS):
            told: list[Event] = []
            try:
                for kind, *facts in self._ask(part):
                    if kind == "rows":
                        told.append(Event(part, rows=facts[0], share=facts[1]))
                        yield told[-1]
                    elif kind == "done":
                        yield Event(part, record=facts[0], peak_bytes=facts[1])
                        return
                    elif kind == "failed":
                        yield Event(part, failed=facts[0])
                        return
                    else:
                        raise facts[0]
            except (EOFError, OSError, pickle.UnpicklingError):
                if self._ended:
                    return
                # What it had told of this part is taken back.
                yield Event(part, rows=-sum(e.rows for e in told), share=-sum(e.share for e in told))
                self._kill()
        yield Event(part, failed=f"{part.name}: {died()}")

    def _ask(self, part: Part) -> Iterator[Any]:
        if self._popen is None:
            command = [sys.executable, "-c", "from scff.serving.worker import main; main()"]
            with unheard_interrupts(by_multiprocessing=False):  # this process ends its workers
                self._popen = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment
                )
            self._tell(self._job)
        self._tell(part)
        assert self._popen.stdout is not None
        while True:
            yield pickle.load(self._popen.stdout)

    def _tell(self, what: Any) -> None:
        assert self._popen is not None
        assert self._popen.stdin is not None
        pickle.dump(what, self._popen.stdin)
        self._popen.stdin.flush()

    def end(self) -> None:
        """End the process, in the middle of a part too."""
        self._ended = True
        self._kill()

    def _kill(self) -> None:
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
            self._popen = None


def _device(index: int) -> dict[str, str]:
    """Which accelerator a process sees, where there are several."""
    import torch

    if torch.cuda.device_count() < 2:
        return {}
    known = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(torch.cuda.device_count())))
    visible = known.split(",")
    return {"CUDA_VISIBLE_DEVICES": visible[index % len(visible)]}
