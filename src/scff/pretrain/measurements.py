"""Synthetic tables of measurements that resemble each other, drawn a whole batch at once.

*Contrast* tasks have as many directions as columns, of very uneven variance, and a sharp label along any of them: every
column resembles every other, each says little alone, and only their differences tell. *Factor* tasks have a few
factors, the label on weak ones too, and often every measurement several times, not equally well: what tells is to be
found among what only repeats it. In both, columns that say nothing stand between the others.
"""

from __future__ import annotations

import torch
from torch import Tensor

from scff.pretrain.draws import Draw, class_counts, class_logits, rows_of, silent_columns
from scff.pretrain.table_batch import MAX_CLASSES

__all__ = ["contrast_tasks", "factor_tasks"]


def contrast_tasks(draw: Draw, n_tables: int, n_rows: int, n_columns: int) -> tuple[Tensor, Tensor]:
    """Draw tables of correlated columns whose label sits in their differences. A `Family`."""
    b, t, d = n_tables, n_rows, n_columns
    scale = torch.arange(1, d + 1).float() ** (-draw.uniform(0.3, 1.8, b, 1))
    z = _causes(draw, b, t, d)
    rotation = torch.linalg.qr(draw.normal(b, d, d))[0]
    x = (z * scale[:, None]) @ rotation
    score = _score(draw, z, scale, 1.2, (4.0, 60.0))
    logits = class_logits(draw, class_counts(draw, b, MAX_CLASSES))
    y = (score + logits[:, None] + draw.gumbel(b, t, MAX_CLASSES)).argmax(-1)
    return _measured(draw, _silenced(draw, x)), y


def _causes(draw: Draw, b: int, t: int, n: int) -> Tensor:
    """What lies behind the columns: normal, in some tables with heavier tails."""
    z = draw.normal(b, t, n)
    return torch.where(draw.flag(0.3, b, 1, 1), torch.sign(z) * z.abs().pow(1.3), z)


def _score(draw: Draw, z: Tensor, scale: Tensor, follow: float, sharp: tuple[float, float]) -> Tensor:
    """Class scores: from a label that follows the variance to one that ignores it; now and then it is bent."""
    b, _, n = z.shape
    weight = draw.normal(b, n, MAX_CLASSES) * (scale ** draw.uniform(0.0, follow, b, 1))[..., None]
    bend = 0.4 * draw.normal(b, 1, n) * draw.flag(0.25, b, 1, 1)
    score = (z + bend * (z.square() - 1)) @ weight
    return score / score.std((1, 2), keepdim=True) * draw.log_uniform(*sharp, b, 1, 1)


def _silenced(draw: Draw, x: Tensor) -> Tensor:
    """Let columns of most tables say nothing: their values are those of other rows, so their shapes stay honest."""
    b, t, d = x.shape
    share = draw.uniform(0.0, 0.7, b, 1) * draw.flag(0.65, b, 1)
    silent = silent_columns(draw, share, d)
    # Each column is shuffled by itself, so that none tells another.
    order = torch.rand(b, t, d, generator=draw.generator).argsort(1)
    return torch.where(silent[:, None], x.gather(1, order), x)


def _measured(draw: Draw, x: Tensor) -> Tensor:
    """Sizes, areas and intensities are skewed; some are written down in whole numbers."""
    b, _, d = x.shape
    x = x / (x.std(1, keepdim=True) + 1e-6)
    skew = draw.uniform(0.0, 1.0, b, 1, 1) * draw.uniform(0.2, 1.0, b, 1, d)
    x = torch.where(draw.flag(0.5, b, 1, 1), torch.exp(skew * x), x)
    return torch.where(draw.flag(0.15, b, 1, 1), torch.round(x * draw.log_uniform(1.5, 8.0, b, 1, 1)), x)


def factor_tasks(draw: Draw, n_tables: int, n_rows: int, n_columns: int) -> tuple[Tensor, Tensor]:
    """Draw tables of measurements that share a few factors; the label follows weak ones too. A `Family`."""
    b, t, d = n_tables, n_rows, n_columns
    rank = draw.integer(2, 14)
    scale = torch.arange(1, rank + 1).float() ** (-draw.uniform(0.2, 1.3, b, 1))
    n_classes = torch.where(draw.flag(0.35, b), torch.full((b,), 2), class_counts(draw, b, MAX_CLASSES))
    logits = class_logits(draw, n_classes)

    # The label follows the factors ...
    z_free = _causes(draw, b, t, rank)
    score = _score(draw, z_free, scale, 1.0, (3.0, 50.0))
    y_free = (score + logits[:, None] + draw.gumbel(b, t, MAX_CLASSES)).argmax(-1)
    # ... or they follow it: every class has its own place and its own spread.
    y_first = (logits[:, None] + draw.gumbel(b, t, MAX_CLASSES)).argmax(-1)
    place = draw.normal(b, MAX_CLASSES, rank) * draw.log_uniform(0.5, 2.5, b, 1, 1)
    spread = torch.exp(0.4 * draw.normal(b, MAX_CLASSES, 1) * draw.flag(0.5, b, 1, 1))
    z_first = draw.normal(b, t, rank) * rows_of(spread, y_first) + rows_of(place, y_first)

    first = draw.flag(0.4, b, 1)
    z, y = torch.where(first[..., None], z_first, z_free), torch.where(first, y_first, y_free)
    # A column shows some factors, rarely all; half of the time everything is measured several times, not equally well.
    repeats = draw.integer(2, 4) if bool(draw.flag(0.5, 1)) and d >= 8 else 1
    n_own = -(-d // repeats)
    shown = torch.rand(b, rank, n_own, generator=draw.generator) < draw.uniform(0.3, 1.0, b, 1, 1)
    x = (z * scale[:, None]) @ (draw.normal(b, rank, n_own) * shown)
    x = x / (x.std((1, 2), keepdim=True) + 1e-6)
    x = x + draw.normal(b, t, n_own) * draw.log_uniform(0.02, 0.5, b, 1, 1) * draw.log_uniform(0.3, 2.0, b, 1, n_own)
    if repeats > 1:
        noise = draw.log_uniform(0.03, 2.0, b, 1, repeats).repeat_interleave(n_own, 2)
        x = x.repeat(1, 1, repeats) + noise * draw.normal(b, t, repeats * n_own)
        mixed = torch.randperm(repeats * n_own, generator=draw.generator)
        x = (x[..., mixed] if bool(draw.flag(0.5, 1)) else x)[..., :d]
    return _measured(draw, _silenced(draw, x)), y
