"""Lessons: leaves of wide tables with a teacher's answers, drawn when they are needed and read a few times.

A lesson is a file in the run's folder that depends on its number alone. A step reads from a window of numbers that
moves on with the steps, so that a lesson serves several times, with other columns and class names, and then no more.
What has left the window is deleted.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from scff.backbones.base import Backbone
from scff.backbones.loaded import load_backbone
from scff.backbones.registry import locate
from scff.backbones.weights.checkpoints import sha256
from scff.pretrain import network
from scff.pretrain.causal import causal_tasks
from scff.pretrain.clusters import cluster_tasks
from scff.pretrain.config import LessonConfig
from scff.pretrain.draws import Draw, Family, draw_for
from scff.pretrain.leaves import Kind, Leaf, answer, show
from scff.pretrain.measurements import contrast_tasks, factor_tasks
from scff.pretrain.synthetic import latent_tasks
from scff.pretrain.table_batch import MAX_CLASSES, UNSEEN, TableBatch, native_view, relabel
from scff.pretrain.wide import wide_table

__all__ = ["Lessons", "draw_leaves"]

logger = logging.getLogger(__name__)

#: Keeps the random numbers of lessons apart from those of a run's other tables.
_LESSONS = 41


@dataclass(frozen=True)
class Lessons:
    """The lessons of one process of a run.

    Attributes
    ----------
    config : LessonConfig
        What they are like.
    folder : Path
        Where they lie; created when the first is drawn.
    seed : int
        The run's.
    rank : int
        The process.
    """

    config: LessonConfig
    folder: Path
    seed: int
    rank: int = 0

    @cached_property
    def teacher(self) -> Backbone:
        """The backbone that answers."""
        return load_backbone(self.config.teacher, torch.device("cpu"))

    def describe(self) -> dict[str, str]:
        """What the training card says about the teacher."""
        return {"name": self.config.teacher, "sha256": sha256(locate(self.config.teacher)[1])}

    def sample(self, step: int, draw: Draw) -> TableBatch:
        """Read a lesson that is in use at a step, as one table.

        Parameters
        ----------
        step : int
            Step of the run.
        draw : Draw
            Source of randomness for which one, and for how it is changed.
        """
        newest = self.config.window // 4 + int(self.config.per_step * step)
        oldest = max(0, newest - self.config.window)
        leaves = self._read(draw.integer(oldest, newest))
        return _changed(leaves[draw.integer(0, len(leaves) - 1)], draw)

    def tidy(self, step: int) -> None:
        """Delete what has left the window."""
        newest = self.config.window // 4 + int(self.config.per_step * step)
        for path in self.folder.glob(f"{self.rank}-*.pt"):
            if int(path.stem.split("-")[1]) < newest - self.config.window:
                path.unlink()

    def _read(self, index: int) -> list[dict[str, Tensor]]:
        path = self.folder / f"{self.rank}-{index:06d}.pt"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            network.write(path, {"leaves": self._draw(index)})
        leaves: list[dict[str, Tensor]] = torch.load(path, weights_only=True)["leaves"]
        return leaves

    def _draw(self, index: int) -> list[dict[str, Tensor]]:
        """Leaves of one table, with the teacher's answers; drawn again where its support teaches nothing."""
        with threadpool_limits(1):
            for attempt in range(100):
                found = draw_leaves(self.config, draw_for(_LESSONS, self.seed, self.rank, index, attempt), self.teacher)
                if found:
                    return found
        raise AssertionError("a hundred tables that teach nothing")


def draw_leaves(config: LessonConfig, draw: Draw, teacher: Backbone | None) -> list[dict[str, Tensor]]:
    """Draw a table and show it in one leaf or two.

    Parameters
    ----------
    config : LessonConfig
        What it is like.
    draw : Draw
        Source of randomness.
    teacher : Backbone or None
        Who answers.

    Returns
    -------
    list of dict
        ``x`` as the network reads it, ``y`` with :data:`UNSEEN`, ``taught`` probabilities of the query rows;
        empty where the support has one class only, or a leaf no column that varies on it.
    """
    n = config.rows[draw.integer(0, len(config.rows) - 1)]
    width = config.widths[draw.integer(0, len(config.widths) - 1)]
    narrow = bool(draw.flag(config.narrow, 1))
    if narrow:
        families: tuple[Family, ...] = (latent_tasks, contrast_tasks, factor_tasks, causal_tasks, cluster_tasks)
        x_1TD, y_1T = families[draw.integer(0, 4)](draw, 1, n + config.queries, int(draw.log_uniform(4, width, 1)))
    else:
        n_columns = int(draw.log_uniform(config.min_columns, config.max_columns, 1))
        x_TD, y_T = wide_table(draw, n + config.queries, n_columns)
        x_1TD, y_1T = x_TD[None], y_T[None]
    y_1T, usable = relabel(y_1T, n, draw.generator)
    if not bool(usable) or bool((y_1T[:, n:] == UNSEEN).all()):
        return []
    x, y = x_1TD[0].numpy(), y_1T[0].numpy()
    # A digest, and beside it what else the library tries on the same table.
    kinds: tuple[Kind, ...] = ("digest", "company" if bool(draw.flag(0.75, 1)) else "core")
    leaves, case = [], None
    for kind in ("whole",) if narrow else kinds:
        leaf, case = show(x, y[:n], width, kind, case)
        read, case = show(x, y[:n], min(width, config.taught_width), kind, case)
        if not read.x_TW.shape[1]:
            return []
        leaves.append(_stored(leaf, read, y, teacher))
    return leaves


def _stored(leaf: Leaf, read: Leaf, y_T: np.ndarray[Any, Any], teacher: Backbone | None) -> dict[str, Tensor]:
    """A leaf as it lies on disk, and what the teacher says of the leaf it reads."""
    n = leaf.n_support
    x = torch.from_numpy(np.nan_to_num(leaf.x_TW, posinf=1e30, neginf=-1e30)).double()
    stored = {"x": native_view(x[None], n)[0].half(), "y": torch.from_numpy(y_T).to(torch.int8)}
    if teacher is not None:
        p_QK = torch.from_numpy(answer(teacher, read, y_T[:n])).float()
        stored["taught"] = torch.nn.functional.pad(p_QK, (0, MAX_CLASSES - p_QK.shape[1])).half()
    return stored


def _changed(leaf: dict[str, Tensor], draw: Draw) -> TableBatch:
    """A leaf with its columns reflected, some left out, in another order, and its classes under other names."""
    x_TW, y_T, p_QK = leaf["x"].float(), leaf["y"].long(), leaf["taught"].float()
    n_support, width = len(y_T) - len(p_QK), x_TW.shape[1]
    columns = torch.arange(width)
    if bool(draw.flag(0.4, 1)):
        columns = torch.randperm(width, generator=draw.generator)
    if width > 8 and bool(draw.flag(0.3, 1)):
        kept = torch.randperm(width, generator=draw.generator)[: draw.integer(width // 2, width)]
        columns = columns[kept.sort()[0]]
    x_TW = x_TW[:, columns] * (1.0 - 2.0 * draw.flag(0.5, len(columns)).float())
    n_classes = int(y_T[:n_support].max()) + 1
    name = torch.randperm(n_classes, generator=draw.generator)
    y_T = torch.where(y_T == UNSEEN, y_T, name[y_T.clamp_min(0)])
    p_QK = torch.cat([p_QK[:, name.argsort()], p_QK[:, n_classes:]], 1)
    p_QK = p_QK / p_QK.sum(1, keepdim=True)
    return TableBatch(x_TW[None], y_T[None], n_support, p_QK[None])
