"""Processes that work for another one: they end with it, and what is typed at a terminal is left to it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import resource_tracker

__all__ = ["end_with", "unheard_interrupts"]

#: Seconds between two looks at the parent.
_LOOK = 0.5


@cache  # once is enough, and a process is given many tasks
def end_with(parent: int) -> None:
    """Let this process end when the one that started it has ended, however it did.

    Pools of processes wait for work long after nobody is left who could give it, and go on with what they have.

    Parameters
    ----------
    parent : int
        Its number, from the parent itself: it may be gone before this process can ask.
    """
    if os.name == "posix":  # elsewhere the number of a parent stays when it has gone
        threading.Thread(target=_watch, args=(parent,), name="scff-parent", daemon=True).start()


@contextmanager
def unheard_interrupts(*, by_multiprocessing: bool = True) -> Iterator[None]:
    """Start processes that no Ctrl-C reaches: a terminal sends it to all, and the parent alone knows what to do.

    Whoever starts them so must end them. One that is typed in the meantime is heard after the block.

    Parameters
    ----------
    by_multiprocessing : bool, default=True
        Whether they are started by that module.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    if by_multiprocessing:
        resource_tracker.ensure_running()  # if it began inside, Python would let interruptions through behind it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os._exit(1)
