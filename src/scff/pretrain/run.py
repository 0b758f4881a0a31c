"""A training run in a folder: processes, lock, saved state, progress, result.

The folder holds ``state.pt`` (everything a resumed run needs), ``best.ckpt`` (best validation so far), the lessons that
are in use and, at the end, ``nano.ckpt`` (matrices in half precision) with its card ``nano.json``.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn
from tqdm.auto import tqdm

from scff.errors import PretrainError, SCFFError
from scff.memory.scratch import Scratch, temporary_files_in
from scff.pretrain import network
from scff.pretrain.card import write_card
from scff.pretrain.config import RecipeConfig
from scff.pretrain.lessons import Lessons
from scff.pretrain.trainer import StepReport, Trainer
from scff.processes import end_with, unheard_interrupts

logger = logging.getLogger(__name__)

#: A kill loses at most this much work, plus the step under way.
SAVE_SECONDS = 40.0

#: Steps between looks for lessons that are no longer read.
_TIDY = 50

#: Options of glibc's ``mallopt``.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4

#: Name of the result.
RESULT = "nano.ckpt"


@dataclass(frozen=True)
class Job:
    """What to run, and where.

    Parameters
    ----------
    folder : Path
        The run's folder.
    recipe : RecipeConfig or None
        The recipe; None continues the run in the folder.
    steps : int or None
        Stop when the run reaches this step.
    minutes : float or None
        Stop after this time; the run can be continued.
    save_seconds : float
        Time between saved states.
    """

    folder: Path
    recipe: RecipeConfig | None = None
    steps: int | None = None
    minutes: float | None = None
    save_seconds: float = SAVE_SECONDS


def run(job: Job, processes: int = 2) -> bool:
    """Run or continue a training run.

    Parameters
    ----------
    job : Job
        What to run.
    processes : int
        Processes of one thread each. Small matrices gain nothing from threads: two processes beat one of two.

    Returns
    -------
    bool
        True when the recipe is finished and the result written.

    Raises
    ------
    PretrainError
        If the folder or the recipe do not allow it.
    """
    most = max(16, 4 * (os.cpu_count() or 1))
    if not 1 <= processes <= most:
        raise PretrainError(f"A run has one process at least and {most} at most on this machine, not {processes}.")
    state = job.folder / "state.pt"
    if job.recipe is None and not state.exists():
        raise PretrainError(f"There is nothing to resume in {job.folder}.")
    if job.recipe is not None and state.exists():
        raise PretrainError(f"{job.folder} holds a run already; resume it or choose another folder.")
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PretrainError(f"{job.folder} cannot be the folder of a run ({error.strerror}).") from error
    _prepare(0, processes, job)  # what is wrong with a job is said here, not in one of its processes
    with _locked(job.folder / "lock"), Scratch() as meeting:
        address = f"file://{meeting}/store"
        if processes == 1:
            _work(0, 1, address, job)
        else:
            _spread(processes, address, job, meeting)
    return (job.folder / RESULT).exists()


def _spread(processes: int, address: str, job: Job, scratch: Path) -> None:
    """Work in several processes, which end with this one."""
    with unheard_interrupts(), temporary_files_in(scratch):  # torch notes there how each of them failed
        args = (processes, address, job, os.getpid())
        workers: Any = spawn(_work, args, nprocs=processes, join=False)  # type: ignore[no-untyped-call]
    try:
        while not workers.join():
            pass
    finally:
        for process in workers.processes:
            process.kill()
            process.join()


class _locked:
    """Hold a folder against a second run; the lock dies with its process, however that dies."""

    def __init__(self, path: Path, patience: float = 30.0) -> None:
        self.path, self.patience = path, patience

    def __enter__(self) -> None:
        self.file = self.path.open("w")
        deadline = time.monotonic() + self.patience
        while True:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                # Workers of a killed run may still be finishing their step.
                if time.monotonic() > deadline:
                    raise PretrainError(f"Another run works in {self.path.parent}.") from None
                time.sleep(0.5)

    def __exit__(self, *_: object) -> None:
        self.file.close()


def _work(rank: int, world: int, address: str, job: Job, parent: int | None = None) -> None:
    """Body of one process, and of what started it the number: if that is killed, the folder is another run's."""
    if parent is not None:
        end_with(parent)
    torch.set_num_threads(1)
    _keep_freed_memory()
    if world > 1:
        # A spawned process starts without its parent's logging.
        logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(message)s")
        if sys.platform == "linux":
            # All processes are on this machine, whatever its name resolves to.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world)
    try:
        trainer = _prepare(rank, world, job)
        _train(trainer, job)
    finally:
        if world > 1:
            dist.destroy_process_group()


def _keep_freed_memory() -> None:
    """Let the allocator reuse large blocks: mapping them anew for every tensor costs a quarter of a step."""
    with contextlib.suppress(OSError, AttributeError):  # glibc only
        libc = ctypes.CDLL("libc.so.6")
        for option, value in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 2**26)):
            libc.mallopt(option, value)


def _prepare(rank: int, world: int, job: Job) -> Trainer:
    """Build a trainer at the step where the run stands."""
    if job.recipe is not None:
        return Trainer(job.recipe, _lessons(job.folder, job.recipe, rank), rank, world)
    with _stored(job.folder) as (recipe, stored):
        trainer = Trainer(recipe, _lessons(job.folder, recipe, rank), rank, world)
        trainer.restore(stored)
    return trainer


@contextlib.contextmanager
def _stored(folder: Path) -> Iterator[tuple[RecipeConfig, dict[str, Any]]]:
    """The recipe of a run and what was saved of it; what is wrong with the file is one sentence."""
    path = folder / "state.pt"
    try:
        stored = torch.load(path, weights_only=True)
        yield RecipeConfig.from_dict(stored["recipe"]), stored
    except (RuntimeError, EOFError, UnpicklingError, KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, SCFFError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0].split(". ")[0][:160]
        raise PretrainError(f"{path} is no state of a run ({reason}); begin the run again elsewhere.") from error


def _lessons(folder: Path, recipe: RecipeConfig, rank: int = 0) -> Lessons | None:
    if not recipe.has_lessons:
        return None
    lessons = Lessons(recipe.lessons, folder / "lessons", recipe.seed, rank)
    lessons.describe()  # a teacher whose weights are not here says so at once
    return lessons


def _train(trainer: Trainer, job: Job) -> None:
    """Step until the recipe, the step bound or the time is over."""
    recipe, first = trainer.recipe, trainer.rank == 0
    last = recipe.total_steps if job.steps is None else min(job.steps, recipe.total_steps)
    began = saved = time.monotonic()
    deadline = began + 60 * job.minutes if job.minutes is not None else float("inf")
    bar = tqdm(total=recipe.total_steps, initial=trainer.step, unit="step", disable=not first, smoothing=0.02)
    shown: StepReport | None = None
    while trainer.step < last:
        report = trainer.train_step(want_stop=time.monotonic() >= deadline)
        if first:
            shown = _smooth(shown, report)
            bar.set_description(recipe.stage_at(trainer.step - 1)[0].name)
            bar.set_postfix_str(f"loss {shown.loss:.3f}, class prior {shown.baseline:.3f}")
            bar.update()
            if trainer.step % recipe.validate_every == 0 or trainer.step == recipe.total_steps:
                _validate(trainer, job.folder)
            if time.monotonic() - saved >= job.save_seconds:
                trainer.save(job.folder / "state.pt")
                saved = time.monotonic()
        if trainer.lessons is not None and trainer.step % _TIDY == 0:
            trainer.lessons.tidy(trainer.step)
        if report.stop:
            break
    bar.close()
    if first:
        trainer.save(job.folder / "state.pt")
        if trainer.step == recipe.total_steps:
            deliver(job.folder)


def _smooth(shown: StepReport | None, report: StepReport) -> StepReport:
    """Average over some fifty steps, for eyes: tables differ too much for a single step to say anything."""
    shown = shown or report
    loss = 0.98 * shown.loss + 0.02 * report.loss
    return StepReport(loss, 0.98 * shown.baseline + 0.02 * report.baseline, report.stop)


def _validate(trainer: Trainer, folder: Path) -> None:
    """Validate, and keep the weights when they are the best so far."""
    if trainer.validate():
        network.save(folder / "best.ckpt", trainer.recipe.model, trainer.ema)
    logger.info("validation %s", json.dumps(trainer.history[-1]))


def deliver(folder: Path) -> Path:
    """Write the best weights of a run, finished or not, with their card.

    Parameters
    ----------
    folder : Path
        The run's folder.

    Returns
    -------
    Path
        The checkpoint; the card lies beside it.

    Raises
    ------
    PretrainError
        If the folder holds no run.
    """
    if not (folder / "state.pt").exists():
        raise PretrainError(f"There is no run in {folder}.")
    result, best = folder / RESULT, folder / "best.ckpt"
    with _stored(folder) as (recipe, stored):
        lessons = _lessons(folder, recipe)
        facts = {
            "recipe": stored["recipe"],
            "processes": stored["world"],
            "teacher": None if lessons is None else lessons.describe(),
            "steps": stored["step"],
            "steps_planned": recipe.total_steps,
            "tables_seen": stored["tables"],
            "cpu_hours": round(stored["cpu_seconds"] / 3600, 3),
            "best": stored["best"],
            "history": stored["history"],
        }
        weights = network.load(best)[1] if best.exists() else stored["ema"]
        network.save(result, recipe.model, weights, half=True)
    write_card(result, facts)
    logger.info("wrote %s", result)
    return result
