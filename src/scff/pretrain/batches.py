"""Which tables a step sees: a function of (seed, step, micro-batch, process) and nothing else.

That is what lets a killed run go on bit for bit: there is no position in the data to remember.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from scff.errors import PretrainError
from scff.pretrain.config import Stage
from scff.pretrain.draws import Draw, Family
from scff.pretrain.measurements import contrast_tasks, factor_tasks
from scff.pretrain.pool import Pool
from scff.pretrain.synthetic import easy_tasks, latent_tasks
from scff.pretrain.table_batch import TableBatch, finish


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


def _pick(draw: Draw, weights: tuple[float, ...]) -> int:
    """Choose an index with probability proportional to its weight."""
    return int(torch.multinomial(torch.tensor(weights), 1, generator=draw.generator))


def draw_batch(
    stage: Stage,
    pool: Pool | None,
    key: tuple[int, int, int],
    rank: int = 0,
    world: int = 1,
) -> TableBatch:
    """Draw the tables of one micro-batch for one process.

    Parameters
    ----------
    stage : Stage
        Shapes and sources.
    pool : Pool or None
        Needed when the stage reads from it.
    key : tuple of int
        ``(seed, step, micro-batch)``. Source and shape follow from it alone: all processes then work equally
        long and none waits for another.
    rank, world : int
        This process, and their number; the values of the tables differ between processes.

    Returns
    -------
    TableBatch
        At least one table.
    """
    attempt = 0
    while True:
        shared, own = draw_for(*key, attempt), draw_for(*key, attempt, rank + 1)
        batch = _attempt(stage, pool, shared, own, rank, world)
        if batch is not None:
            return batch
        # A support of one class only: rare, and drawn again under another key.
        attempt += 1


def _attempt(stage: Stage, pool: Pool | None, shared: Draw, own: Draw, rank: int, world: int) -> TableBatch | None:
    """Draw once; None when no table is usable."""
    mix = stage.mix
    # New families stand at the end: the tables of an old recipe stay what they were.
    families: tuple[Family | None, ...] = (easy_tasks, latent_tasks, contrast_tasks, None, factor_tasks)
    family = families[_pick(shared, (mix.easy, mix.latent, mix.contrast, mix.pool, mix.factor))]
    n_rows = stage.rows[shared.integer(0, len(stage.rows) - 1)]
    low, high = math.log(stage.min_columns), math.log(stage.max_columns + 1)
    n_columns = min(stage.max_columns, int(math.exp(float(shared.uniform(low, high, 1)))))
    share = float(shared.uniform(0.35, 0.8, 1))
    if family is None:
        if pool is None:
            raise PretrainError(f"Stage {stage.name!r} reads from a pool, and none was given; name its folder.")
        x, y = pool.sample(shared, own, stage.max_cells, stage.max_columns, rank, world)
        x, y = x[:, :n_rows], y[:, :n_rows]
    else:
        # Very wide tables are shorter rather than let one of them hold up the step.
        n_rows = min(n_rows, max(16, stage.max_cells // (n_columns + 4)))
        n_tables = max(1, min(stage.max_tables, stage.max_cells // (n_rows * (n_columns + 4))))
        x, y = family(own, n_tables, n_rows, n_columns)
    return finish(x, y, int(x.shape[1] * share), own.generator)
