"""Lessons drawn ahead by a process of its own, so that no step waits for one.

All processes of a run wait for the slowest of them, and the one that has to draw a lesson is the slowest by far. A
lesson depends on its number alone, so whoever draws it, it is the same file; what is not there in time is drawn by the
step that reads it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from scff.pretrain.config import RecipeConfig
from scff.pretrain.lessons import Lessons
from scff.processes import end_with, unheard_interrupts

__all__ = ["Told", "drawn_ahead"]

#: Steps that are looked ahead.
_AHEAD = 40

#: Seconds between two looks where nothing is to be drawn.
_LOOK = 0.5


@dataclass(frozen=True)
class Told:
    """What a run and the process beside it tell each other.

    Attributes
    ----------
    step : Value
        Where the run stands.
    cpu_seconds : Value
        What drawing has taken since it was last asked for.
    """

    step: Any
    cpu_seconds: Any

    def at(self, step: int) -> float:
        """Say where the run stands, and hear what drawing took."""
        self.step.value = step
        with self.cpu_seconds.get_lock():
            spent: float = self.cpu_seconds.value
            self.cpu_seconds.value = 0.0
        return spent


@contextmanager
def drawn_ahead(recipe: RecipeConfig, folder: Path, processes: int, step: int) -> Iterator[Told | None]:
    """Keep the lessons of all processes of a run ahead of it, while the block runs.

    Parameters
    ----------
    recipe : RecipeConfig
        Nothing is done where it has no lessons.
    folder : Path
        The run's.
    processes : int
        Of the run: each has lessons of its own.
    step : int
        Where the run stands.

    Yields
    ------
    Told or None
    """
    if not recipe.has_lessons:
        yield None
        return
    context = multiprocessing.get_context("spawn")
    told = Told(context.Value("q", step), context.Value("d", 0.0))
    with unheard_interrupts():
        process = context.Process(target=_keep_ahead, args=(recipe, folder, processes, told, os.getpid()), daemon=True)
        process.start()
    try:
        yield told
    finally:
        process.kill()
        process.join()


def _keep_ahead(recipe: RecipeConfig, folder: Path, processes: int, told: Told, parent: int) -> None:
    """Body of the process: the oldest lesson that is missing, again and again."""
    end_with(parent)
    desks = [desk for rank in range(processes) if (desk := Lessons.of(recipe, folder, rank)) is not None]
    torch.set_num_threads(1)
    with contextlib.suppress(AttributeError, OSError):
        os.nice(10)  # the steps come first
    while True:
        began, step = time.process_time(), _next_reading(recipe, told.step.value)
        drawn = [desk.draw_ahead(step, _AHEAD) for desk in desks] if step is not None else []
        if any(drawn):
            with told.cpu_seconds.get_lock():
                told.cpu_seconds.value += time.process_time() - began
        else:
            time.sleep(_LOOK)


def _next_reading(recipe: RecipeConfig, step: int) -> int | None:
    """The first step from here on that reads lessons."""
    begins = 0
    for stage in recipe.stages:
        if stage.lessons and step < begins + stage.steps:
            return max(step, begins)
        begins += stage.steps
    return None
