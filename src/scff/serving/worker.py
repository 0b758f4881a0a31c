"""A process that scores parts: it is told of them on its standard input and answers on its standard output.

Started by `scff.serving.workers` and by nobody else: what goes over the two pipes is pickled. It ends when its input
does, so nothing is left behind by a run that was killed.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from typing import Any, BinaryIO

from scff.errors import DataError, SCFFError
from scff.memory.meter import PeakMemory
from scff.serving.parts import Job, score_part

__all__ = ["failure", "main"]


def failure(error: Exception) -> str:
    """What is said of a part that was not scored."""
    return str(error) if isinstance(error, DataError) else f"{type(error).__name__}: {error}"


def main() -> None:
    """Score parts until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not come between the answers
    asked: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, asked), daemon=True).start()

    def answer(*message: Any) -> None:
        pickle.dump(message, answers)
        answers.flush()

    job: Job = asked.get()
    try:
        with PeakMemory() as memory:
            job.scorer.model.fitted_.compiled()
    except SCFFError as error:  # no part can be scored with this model, or within this limit
        answer("fatal", error)
        return
    base = memory.start
    while True:
        part = asked.get()
        try:
            with PeakMemory() as memory:
                record = score_part(job, part, lambda rows, share: answer("rows", rows, share))
        except Exception as error:
            answer("failed", failure(error))
        else:
            answer("done", record, memory.peak - base)


def _listen(pipe: BinaryIO, asked: queue.Queue[Any]) -> None:
    try:
        while True:
            asked.put(pickle.load(pipe))
    except EOFError:
        os._exit(0)  # in the middle of a part too: whoever would have noted it is gone
