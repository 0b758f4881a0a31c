"""Which tables a step sees: a function of (seed, step, micro-batch, process) and nothing else.

That is what lets a killed run go on bit for bit: there is no position in the data to remember.
"""

from __future__ import annotations

import math

import torch

from scff.pretrain.causal import causal_tasks
from scff.pretrain.clusters import cluster_tasks
from scff.pretrain.config import Stage
from scff.pretrain.draws import Draw, Family, draw_for
from scff.pretrain.measurements import contrast_tasks, factor_tasks
from scff.pretrain.synthetic import easy_tasks, latent_tasks
from scff.pretrain.table_batch import TableBatch, finish

#: What a row costs in the context, in cells of the feature encoder.
ROW = 48


def _pick(draw: Draw, weights: tuple[float, ...]) -> int:
    """Choose an index with probability proportional to its weight."""
    return int(torch.multinomial(torch.tensor(weights), 1, generator=draw.generator))


def draw_batch(stage: Stage, key: tuple[int, int, int], rank: int = 0) -> TableBatch:
    """Draw the tables of one micro-batch for one process.

    Parameters
    ----------
    stage : Stage
        Shapes and sources.
    key : tuple of int
        ``(seed, step, micro-batch)``. Source and shape follow from it alone: all processes then work equally
        long and none waits for another.
    rank : int
        This process; the values of the tables differ between processes.

    Returns
    -------
    TableBatch
        At least one table.
    """
    attempt = 0
    while True:
        batch = _attempt(stage, draw_for(*key, attempt), draw_for(*key, attempt, rank + 1))
        if batch is not None:
            return batch
        # A support of one class only: rare, and drawn again under another key.
        attempt += 1


def _attempt(stage: Stage, shared: Draw, own: Draw) -> TableBatch | None:
    """Draw once; None when no table is usable."""
    mix = stage.mix
    families: tuple[Family, ...] = (easy_tasks, latent_tasks, contrast_tasks, factor_tasks, causal_tasks, cluster_tasks)
    family = families[_pick(shared, (mix.easy, mix.latent, mix.contrast, mix.factor, mix.causal, mix.clusters))]
    n_rows = stage.rows[shared.integer(0, len(stage.rows) - 1)]
    low, high = math.log(stage.min_columns), math.log(stage.max_columns + 1)
    n_columns = min(stage.max_columns, int(math.exp(float(shared.uniform(low, high, 1)))))
    share = float(shared.uniform(0.35, 0.8, 1))
    # Very wide tables are shorter rather than let one of them hold up the step.
    n_rows = min(n_rows, max(16, stage.max_cells // (n_columns + ROW)))
    n_tables = max(1, min(stage.max_tables, stage.max_cells // (n_rows * (n_columns + ROW))))
    x, y = family(own, n_tables, n_rows, n_columns)
    return finish(x, y, int(x.shape[1] * share), own.generator)
