"""Synthetic tables of scattered clusters, drawn a whole batch at once.

After the design of Guyon's *madelon*: clusters at corners of a cube of a few dimensions, or anywhere, each owned by a
class at random, so that no column and no sum of columns tells the classes apart. Columns are the dimensions, mixtures
and repetitions of them, among columns that say nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scff.pretrain.draws import Draw, class_counts, rows_of, silent_columns
from scff.pretrain.table_batch import MAX_CLASSES

__all__ = ["cluster_tasks"]


def cluster_tasks(
    draw: Draw, n_tables: int, n_rows: int, n_columns: int, silence: float = 0.7
) -> tuple[Tensor, Tensor]:
    """Draw tables whose classes own scattered clusters. A `Family`.

    Parameters
    ----------
    draw : Draw
    n_tables, n_rows, n_columns : int
    silence : float
        Largest share of columns that say nothing.
    """
    b, t, d = n_tables, n_rows, n_columns
    rank = draw.integer(2, 6)
    n_clusters = draw.integer(4, min(32, max(4, 2**rank)))
    # Corners in random order, so that no two clusters share one; elsewhere anywhere.
    corner = torch.rand(b, 2**rank, generator=draw.generator).argsort(1)[:, :n_clusters]
    bits = (corner[..., None] >> torch.arange(rank)) & 1
    centre = torch.where(draw.flag(0.6, b, 1, 1), 2.0 * bits - 1.0, 1.2 * draw.normal(b, n_clusters, rank))
    centre = centre * draw.log_uniform(0.8, 3.0, b, 1, 1)
    n_classes = torch.where(draw.flag(0.5, b), torch.full((b,), 2), class_counts(draw, b, MAX_CLASSES))
    owner = torch.rand(b, n_clusters, generator=draw.generator).argsort(1) % n_classes.clamp_max(n_clusters)[:, None]

    cluster = torch.randint(0, n_clusters, (b, t), generator=draw.generator)
    y = owner.gather(1, cluster)
    # A cluster is stretched in its own way.
    stretch = draw.uniform(-1.0, 1.0, b, n_clusters, rank * rank)
    turn = rows_of(stretch, cluster).view(b, t, rank, rank)
    z = torch.einsum("btr,btrs->bts", draw.normal(b, t, rank), turn) + rows_of(centre, cluster)

    alone = torch.nn.functional.one_hot(torch.randint(0, rank, (b, d), generator=draw.generator), rank).float()
    mixed = draw.normal(b, d, rank)
    load = torch.where(draw.flag(0.4, b, d, 1), alone, mixed)
    x = z @ load.transpose(1, 2)
    x = x / (x.std(1, keepdim=True) + 1e-6) + draw.normal(b, t, d) * draw.log_uniform(0.01, 0.4, b, 1, 1)
    silent = silent_columns(draw, draw.uniform(0.0, 1.0, b, 1) * silence, d)
    x = torch.where(silent[:, None], draw.normal(b, t, d), x)
    skewed = torch.exp(draw.uniform(0.2, 1.0, b, 1, d) * x)
    wrong = torch.rand(b, t, generator=draw.generator) < draw.uniform(0.0, 0.06, b, 1)
    y = torch.where(wrong, y[:, torch.randperm(t, generator=draw.generator)], y)
    return torch.where(draw.flag(0.2, b, 1, 1), skewed, x), y
