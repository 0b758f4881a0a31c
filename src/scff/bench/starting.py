"""Where the processes of arms come from.

A fork server has imported torch, hashed the weights and started nothing: a fork costs milliseconds where a fresh
interpreter costs seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from functools import cache
from multiprocessing import forkserver
from typing import Any

from scff.bench import nursery
from scff.memory.scratch import Scratch
from scff.processes import unheard_interrupts

__all__ = ["context_for"]

#: Longest folder of a socket, in bytes: a fork server has one there, and its name may have a hundred on every system.
_SOCKET = 80

_SERVER = threading.Lock()


def context_for(backbone: str) -> Any:
    """The context of multiprocessing to start arms in.

    Parameters
    ----------
    backbone : str
        What they load; empty for none.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    if len(os.fsencode(_meet_in_scratch().path)) > _SOCKET:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "scff.bench.worker", "scff.bench.nursery"])
    _start_server(backbone)
    return context


def _start_server(backbone: str) -> None:
    """Start the fork server for this backbone, if none runs yet."""
    with _SERVER:  # jobs run in threads
        os.environ[nursery.BACKBONE] = backbone
        with unheard_interrupts():
            forkserver.ensure_running()
        del os.environ[nursery.BACKBONE]


@cache
def _meet_in_scratch() -> Scratch:
    """Let processes meet in a folder that the next run removes if this one is killed; Python's own stays for good."""
    scratch = Scratch()
    multiprocessing.current_process()._config["tempdir"] = str(scratch.path)  # type: ignore[attr-defined]
    return scratch
