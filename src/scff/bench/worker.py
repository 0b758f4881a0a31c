"""One arm in a process of its own, so that its peak memory is its own too.

The request holds no query label, so no arm can see one.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import platform
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from scff.backbones.loaded import load_backbone
from scff.backbones.weights import checkpoints
from scff.bench.arms import Arm, build
from scff.bench.facts import gate_facts, plan_facts, verdict_facts
from scff.bench.sharing import remembering
from scff.bench.starting import context_for
from scff.estimators.classifier import FoldedClassifier
from scff.memory.device import resolve_device
from scff.memory.meter import PeakMemory
from scff.processes import unheard_interrupts

__all__ = ["ArmRequest", "ArmResult", "giving_up", "host_fingerprint", "run_arm", "run_isolated", "run_shared"]

logger = logging.getLogger(__name__)

_NO_PREDICTION = ("bench", "pretrain", "report", "cli", "evaluate", "serving", "integrations", "models")
_PACKAGES = ("scff", "torch", "numpy", "scipy", "scikit-learn", "pandas", "tabicl", "lightgbm")


@dataclass(frozen=True, eq=False)
class ArmRequest:
    """What an arm is given."""

    arm: Arm
    backbone: str
    device: str
    X_support: pd.DataFrame
    y_support: npt.NDArray[Any]
    X_query: pd.DataFrame
    query_chunk: int
    threads: int = 1
    repeats: int = 1


@dataclass(frozen=True, eq=False)
class ArmResult:
    """What an arm gives back; ``status`` is "ok", "oom", "timeout" or "failed"."""

    status: str
    reason: str = ""
    proba: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    classes: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0))
    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    gate: dict[str, Any] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    checkpoint_sha256: str = ""


def run_isolated(request: ArmRequest, time_limit: float | None = None) -> ArmResult:
    """Run an arm in a new process and wait for it.

    Parameters
    ----------
    request : ArmRequest
    time_limit : float, optional
        Seconds after which the process is ended and the result is a "timeout".
    """
    return run_shared([request], time_limit)[0]


def run_shared(requests: Sequence[ArmRequest], time_limit: float | None = None) -> list[ArmResult]:
    """Run arms of which neither time nor memory is asked in one new process, each within the limit on the mean.

    Raises
    ------
    KeyboardInterrupt
        If the run is given up: an arm that was not let finish has no result, not even a bad one.
    """
    context = context_for(requests[0].backbone if requests[0].arm.needs_backbone else "")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, requests), daemon=True)
    with unheard_interrupts():
        process.start()
    theirs.close()
    _running.add(process)
    try:
        if _GIVEN_UP.is_set():
            raise KeyboardInterrupt
        if not ours.poll(None if time_limit is None else time_limit * len(requests)):
            return [ArmResult("timeout", f"did not finish within {time_limit:.0f} s")] * len(requests)
        results: list[ArmResult] = ours.recv()
        process.join(timeout=10)  # let it clean up behind itself
        return results
    except EOFError:  # it died without a word
        process.join()
        if _GIVEN_UP.is_set() or process.exitcode == -signal.SIGINT:
            raise KeyboardInterrupt from None
        if process.exitcode == -9:  # the kernel ends a process that takes too much memory in this way
            gone = ArmResult("oom", "the process was killed, as a rule because memory ran out")
        else:
            gone = ArmResult("failed", f"the process ended with code {process.exitcode}")
        return [gone] * len(requests)
    finally:
        _running.discard(process)
        ours.close()
        if process.is_alive():
            process.kill()
        process.join()


_GIVEN_UP = threading.Event()
_running: set[Any] = set()


@contextmanager
def giving_up() -> Iterator[None]:
    """End the processes of all arms that run, and of those that are begun in this block."""
    _GIVEN_UP.set()
    try:
        for process in list(_running):
            process.kill()
        yield
    finally:
        _GIVEN_UP.clear()


def run_together(requests: Sequence[ArmRequest]) -> list[ArmResult]:
    """Fit and predict several arms in this process; what they have in common is computed once."""
    first = requests[0]
    if len(requests) == 1 or not first.arm.needs_backbone:
        return [run_arm(request) for request in requests]
    torch.set_num_threads(first.threads)
    with remembering(load_backbone(first.backbone, resolve_device(first.device))):
        results = [run_arm(request) for request in requests]
    return [replace(result, memory={**result.memory, "meter": "shared"}) for result in results]


def run_arm(request: ArmRequest) -> ArmResult:
    """Fit and predict in this process."""
    torch.set_num_threads(request.threads)
    device = str(resolve_device(request.device))
    try:
        started = time.perf_counter()
        # Held for the whole run: weights are loaded before the meter starts, for every arm alike.
        weights = load_backbone(request.backbone, torch.device(device)) if request.arm.needs_backbone else None
        loaded = time.perf_counter()
        model = build(request.arm, request.backbone, device, request.query_chunk)
        gc.collect()
        with PeakMemory(torch.device(device)) as meter:
            cpu_started, fit_started = time.process_time(), time.perf_counter()
            model.fit(request.X_support, request.y_support)
            fitted = time.perf_counter()
            times = []
            for turn in range(request.repeats + (request.repeats > 1)):  # repeated timings have one warm-up
                predict_started = time.perf_counter()
                proba = _predict(model, request.X_query, request.query_chunk)
                times.append(time.perf_counter() - predict_started)
                if turn == 0:
                    cpu = time.process_time() - cpu_started
        digest = checkpoints.sha256(Path(weights.path)) if weights is not None else ""
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or _is_out_of_memory(error):
            return ArmResult("oom", str(error).splitlines()[0])
        return ArmResult("failed", f"{type(error).__name__}: {error}")
    except Exception as error:
        return ArmResult("failed", f"{type(error).__name__}: {error}")
    predict = float(np.median(times[1:] if request.repeats > 1 else times))
    inner = getattr(model, "seconds_", {})
    seconds = {
        "load": loaded - started,
        "plan": float(inner.get("plan", 0.0)),
        "compile": fitted - fit_started - float(inner.get("plan", 0.0)),
        "predict": predict,
        "total": fitted - fit_started + predict,
        "cpu": cpu,
    }
    memory = {"meter": meter.meter, "start": meter.start, "peak": meter.peak, "added": meter.added}
    record = model.fitted_ if isinstance(model, FoldedClassifier) else None
    facts = plan_facts(getattr(model, "plan_", None)), gate_facts(record), verdict_facts(record)
    return ArmResult("ok", "", proba, model.classes_, seconds, memory, *facts, digest)


def host_fingerprint(threads: int, device: str) -> dict[str, Any]:
    """The machine and the packages, as far as they can move a number."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "threads": threads,
        "device": torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else device,
        "packages": packages,
        "source": source_hash(),
    }


@cache
def source_hash() -> str:
    """Digest of the code a prediction depends on: not how it is evaluated or shown, nor how weights are trained."""
    root = resources.files("scff")
    digest = hashlib.sha256()
    for path in sorted(Path(str(root)).rglob("*.py")):
        parts = path.relative_to(str(root)).parts
        if parts[0] not in _NO_PREDICTION:
            digest.update("/".join(parts).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _predict(model: Any, X: pd.DataFrame, query_chunk: int) -> npt.NDArray[np.float64]:
    """Probabilities in chunks of query rows, cut here so that every arm sees the same chunks."""
    parts = [model.predict_proba(X.iloc[i : i + query_chunk]) for i in range(0, len(X), query_chunk)]
    return np.concatenate(parts).astype(np.float64)


def _is_out_of_memory(error: RuntimeError) -> bool:
    text = str(error)
    return isinstance(error, torch.cuda.OutOfMemoryError) or "can't allocate memory" in text or "out of memory" in text


def _child(pipe: Connection, requests: Sequence[ArmRequest]) -> None:
    threading.Thread(target=_end_with_reader, args=(pipe.fileno(),), daemon=True).start()
    logging.getLogger("scff").setLevel(logging.ERROR)
    results = run_together(requests)
    try:
        pipe.send(results)
    except BrokenPipeError:  # nobody waits any more
        sys.exit(1)


def _end_with_reader(pipe: int) -> None:
    # A run killed with -9 cannot end its children. But the reading end of their pipe closes with it, and poll tells.
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(pipe, 0)  # errors are reported whatever one asks for, and there is nothing else to ask for
        poll.poll()
        os._exit(1)
