"""Random numbers for synthetic tables, and the classes they have."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from scff.pretrain.table_batch import MAX_CLASSES

__all__ = ["Draw", "Family", "class_counts", "class_logits", "draw_for", "rows_of", "silent_columns"]


@dataclass(frozen=True)
class Draw:
    """Random numbers from one generator, in the shapes this module needs.

    Parameters
    ----------
    generator : torch.Generator
        The only source of randomness: the same seed gives the same tables.
    """

    generator: torch.Generator

    def normal(self, *shape: int) -> Tensor:
        """Draw standard normal values."""
        return torch.randn(*shape, generator=self.generator)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Draw uniform values."""
        return low + (high - low) * torch.rand(*shape, generator=self.generator)

    def log_uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Draw values whose logarithm is uniform."""
        return torch.exp(self.uniform(math.log(low), math.log(high), *shape))

    def integer(self, low: int, high: int) -> int:
        """Draw one integer in ``low .. high``, both included."""
        return int(torch.randint(low, high + 1, (1,), generator=self.generator))

    def gumbel(self, *shape: int) -> Tensor:
        """Draw Gumbel values: the largest of logits plus these is a draw from their softmax."""
        return -torch.log(-torch.log(self.uniform(1e-9, 1.0, *shape)) + 1e-20)

    def flag(self, probability: float, *shape: int) -> Tensor:
        """Draw booleans, true with the given probability."""
        return torch.rand(*shape, generator=self.generator) < probability


def draw_for(*key: int) -> Draw:
    """Return random numbers that depend on the key alone.

    Parameters
    ----------
    *key : int
        Non-negative integers.

    Returns
    -------
    Draw
        A fresh source.

    Examples
    --------
    >>> bool((draw_for(1, 2).normal(3) == draw_for(1, 2).normal(3)).all())
    True
    """
    word = np.random.SeedSequence(key).generate_state(2, np.uint32)
    seed = (int(word[0]) << 31) ^ int(word[1])
    return Draw(torch.Generator().manual_seed(seed))


#: Draws a batch of tables: from a source of randomness and the numbers of tables, rows and columns to raw values x_BTD
#: and labels y_BT.
Family = Callable[[Draw, int, int, int], tuple[Tensor, Tensor]]


def class_counts(draw: Draw, n_tables: int, max_classes: int) -> Tensor:
    """Two classes in four tables of ten, else anything up to the maximum."""
    many_B = 2 + (torch.rand(n_tables, generator=draw.generator) * (max_classes - 1)).long()
    return torch.where(draw.flag(0.4, n_tables), torch.full_like(many_B, 2), many_B.clamp_max(max_classes))


def class_logits(draw: Draw, n_classes_B: Tensor) -> Tensor:
    """Log class weights, from balanced to strongly unbalanced; absent classes at minus infinity."""
    n_tables = n_classes_B.shape[0]
    spread_B1 = draw.uniform(0.0, 1.2, n_tables, 1) * draw.flag(0.6, n_tables, 1)
    logits_BK = spread_B1 * draw.normal(n_tables, MAX_CLASSES)
    return logits_BK.masked_fill(torch.arange(MAX_CLASSES) >= n_classes_B[:, None], -torch.inf)


def rows_of(table_BKx: Tensor, index_BT: Tensor) -> Tensor:
    """Row ``index_BT[b, t]`` of table ``b``, for every row at once."""
    return table_BKx.gather(1, index_BT[..., None].expand(-1, -1, table_BKx.shape[-1]))


def silent_columns(draw: Draw, share_B1: Tensor, n_columns: int) -> Tensor:
    """Which columns of each table are to say nothing; one column, the same in all tables, always speaks."""
    silent = torch.rand(len(share_B1), n_columns, generator=draw.generator) < share_B1
    silent[:, draw.integer(0, n_columns - 1)] = False
    return silent
