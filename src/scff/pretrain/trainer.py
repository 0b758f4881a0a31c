"""One process of a training run: step, average, remember."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils.clip_grad import clip_grad_norm_

from scff.errors import PretrainError
from scff.pretrain import network
from scff.pretrain.batches import draw_batch
from scff.pretrain.config import RecipeConfig, Stage
from scff.pretrain.draws import draw_for
from scff.pretrain.lessons import Lessons
from scff.pretrain.muon import Muon, split_parameters
from scff.pretrain.table_batch import TableBatch
from scff.pretrain.teacher import lag
from scff.pretrain.validation import Validation, validate

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepReport:
    """What one step tells the progress bar.

    Parameters
    ----------
    loss : float
        Mean loss of this process's batches.
    baseline : float
        Mean loss of the class prior on the same rows.
    stop : bool
        True when some process asked to stop.
    """

    loss: float
    baseline: float
    stop: bool


def learning_rate(stage: Stage, step: int) -> float:
    """Return the learning rate of a step within its stage.

    Parameters
    ----------
    stage : Stage
        The stage.
    step : int
        Step from the stage's start.

    Returns
    -------
    float
        Half a cosine from ``lr`` to ``lr_end``, times a linear rise over the warm-up.

    Examples
    --------
    >>> from scff.pretrain.config import Mix
    >>> stage = Stage("s", 100, 2.0, 1.0, Mix(easy=1.0), warmup=10)
    >>> learning_rate(stage, 0), learning_rate(stage, 50)
    (0.2, 1.5)
    """
    fraction = step / max(1, stage.steps)
    lr = stage.lr_end + (stage.lr - stage.lr_end) * 0.5 * (1 + math.cos(math.pi * fraction))
    return lr * min(1.0, (step + 1) / stage.warmup) if stage.warmup else lr


class Trainer:
    """Weights, optimisers and averages of a run; every process holds the same.

    Parameters
    ----------
    recipe : RecipeConfig
        The recipe.
    lessons : Lessons or None
        Taught tables, when the recipe has them.
    rank, world : int
        This process, and their number.
    """

    def __init__(self, recipe: RecipeConfig, lessons: Lessons | None = None, rank: int = 0, world: int = 1) -> None:
        self.recipe, self.lessons, self.rank, self.world = recipe, lessons, rank, world
        self.model = network.build(recipe.model, recipe.seed)
        self.parameters: list[nn.Parameter] = list(self.model.parameters())
        matrices, rest = split_parameters(self.model)
        self.optimisers: tuple[torch.optim.Optimizer, ...] = (
            Muon(matrices, weight_decay=recipe.weight_decay),
            torch.optim.AdamW(rest, weight_decay=0.0, betas=(0.9, 0.98)),
        )
        self.ema = self._weights()
        self.step = 0
        self.tables = 0
        self.cpu_seconds = 0.0
        self.best: Validation | None = None
        self.history: list[dict[str, float]] = []

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def train_step(self, want_stop: bool = False) -> StepReport:
        """Take one optimiser step.

        Parameters
        ----------
        want_stop : bool
            This process would like to stop after the step; all processes learn of it.

        Returns
        -------
        StepReport
            Losses, and whether to stop.
        """
        began = time.process_time()
        stage, stage_step = self.recipe.stage_at(self.step)
        lr = learning_rate(stage, stage_step)
        seed = self.recipe.seed
        batches = [draw_batch(stage, (seed, self.step, i), self.rank) for i in range(stage.micro_batches)]
        # A batch of 32 narrow tables tells more than one of 2 wide ones, but not 16 times more.
        weights = [math.sqrt(batch.n_tables) for batch in batches]
        share = 1.0 - stage.lesson_share if stage.lessons else 1.0
        weights = [share * weight / sum(weights) for weight in weights]
        if self.lessons is not None and stage.lessons:
            for i in range(stage.lessons):
                draw = draw_for(seed, self.step, stage.micro_batches + i, self.rank)
                batches.append(self.lessons.sample(self.step, draw))
                weights.append(stage.lesson_share / stage.lessons)
        losses = [self._accumulate(batch, weight, stage) for batch, weight in zip(batches, weights, strict=True)]
        loss = sum(losses) / len(losses)
        prior = sum(network.baseline(batch) for batch in batches) / len(batches)

        notes = [float(want_stop), time.process_time() - began, float(sum(b.n_tables for b in batches))]
        stop, cpu_seconds, n_tables = self._average(notes)
        norm = clip_grad_norm_(self.parameters, self.recipe.clip)
        if bool(torch.isfinite(norm)):
            for optimiser in self.optimisers:
                for group in optimiser.param_groups:
                    group["lr"] = lr
                optimiser.step()
        else:
            logger.warning("step %d: gradient is not finite, skipped", self.step)
        for optimiser in self.optimisers:
            optimiser.zero_grad()
        self._average_weights()
        self.step += 1
        self.tables += round(n_tables)
        self.cpu_seconds += cpu_seconds
        return StepReport(loss, prior, stop > 0)

    def _accumulate(self, batch: TableBatch, weight: float, stage: Stage) -> float:
        logits = network.query_logits(self.model, batch) / self.recipe.temperature
        loss = aim = network.cross_entropy(logits, batch)
        if stage.teacher and batch.taught_BQK is not None:
            aim = aim + stage.teacher * lag(logits, batch)
        (weight * aim).backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _average(self, notes: list[float]) -> list[float]:
        """Average gradients over the processes, and sum some numbers on the way: one message a step."""
        trained = [p for p in self.parameters if p.requires_grad]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
        flat = torch.cat([*(g.flatten() for g in gradients), torch.tensor(notes)])
        if self.world > 1:
            dist.all_reduce(flat)
        gradient, summed = flat[: -len(notes)] / self.world, flat[-len(notes) :]
        offset = 0
        for p in trained:
            p.grad = gradient[offset : offset + p.numel()].view_as(p)
            offset += p.numel()
        return [float(value) for value in summed]

    def _average_weights(self) -> None:
        # Early weights are soon forgotten: the average grows with the run up to its full length.
        decay = min(self.recipe.ema, (1 + self.step) / (20 + self.step))
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                self.ema[name].lerp_(value, 1 - decay)

    def validate(self) -> bool:
        """Measure the averaged weights and note the result.

        Returns
        -------
        bool
            True when they are the best so far.
        """
        found = validate(self.model, self.ema, self.recipe.temperature)
        self.history.append({"step": self.step, "tables": self.tables, **found.to_dict()})
        better = self.best is None or found.total < self.best.total
        if better:
            self.best = found
        return better

    def save(self, path: Path) -> None:
        """Write everything a resumed run needs, atomically.

        Parameters
        ----------
        path : Path
            The file.
        """
        content = {
            "recipe": self.recipe.to_dict(),
            "world": self.world,
            "step": self.step,
            "tables": self.tables,
            "cpu_seconds": self.cpu_seconds,
            "best": None if self.best is None else self.best.to_dict(),
            "history": self.history,
            "model": self.model.state_dict(),
            "ema": self.ema,
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
        }
        network.write(path, content)

    def restore(self, stored: dict[str, Any]) -> None:
        """Continue from what :meth:`save` wrote.

        Parameters
        ----------
        stored : dict
            Content of the file.
        """
        if stored["world"] != self.world:
            raise PretrainError(
                f"The run began with {stored['world']} processes; resume it with as many, not {self.world}."
            )
        self.model.load_state_dict(stored["model"])
        for optimiser, state in zip(self.optimisers, stored["optimisers"], strict=True):
            optimiser.load_state_dict(state)
        self.ema = stored["ema"]
        self.step, self.tables = stored["step"], stored["tables"]
        self.cpu_seconds, self.history = stored["cpu_seconds"], stored["history"]
        self.best = None if stored["best"] is None else Validation(**stored["best"])
