"""Raw wide tables, one at a time: hundreds to thousands of columns, of which a leaf will show what the library picks.

Four kinds. *Measured*: a few latents seen through groups of correlated columns, as in :mod:`scff.pretrain.synthetic`
and :mod:`scff.pretrain.measurements`. *Marked*: independent columns, some of which are shifted a little by the class.
*Counted*: rows are mixtures of topics and cells are counts, rows of unlike depth. *Scattered*: a few columns as in
:mod:`scff.pretrain.clusters`, and all others noise. Between the columns that tell stand columns that do not; some
tables have holes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from scff.pretrain.clusters import cluster_tasks
from scff.pretrain.draws import Draw, class_counts, class_logits, rows_of
from scff.pretrain.synthetic import latents, loadings
from scff.pretrain.table_batch import MAX_CLASSES

__all__ = ["wide_table"]


def wide_table(draw: Draw, n_rows: int, n_columns: int) -> tuple[Tensor, Tensor]:
    """Draw one wide table.

    Parameters
    ----------
    draw : Draw
        Source of randomness.
    n_rows, n_columns : int
        Its shape.

    Returns
    -------
    x_TD, y_T : Tensor
        Raw values, NaN where one is missing, and labels in ``0 .. MAX_CLASSES-1``.

    Examples
    --------
    >>> from scff.pretrain.batches import draw_for
    >>> x, y = wide_table(draw_for(0), 40, 600)
    >>> x.shape, y.shape
    (torch.Size([40, 600]), torch.Size([40]))
    """
    kind = float(draw.uniform(0.0, 1.0, 1))
    if kind < 0.5:
        x, y = _measured(draw, n_rows, n_columns)
    elif kind < 0.65:
        x, y = _marked(draw, n_rows, n_columns)
    elif kind < 0.85:
        x, y = _counted(draw, n_rows, n_columns)
    else:
        x, y = _scattered(draw, n_rows, n_columns)
    if bool(draw.flag(0.2, 1)):
        wrong = torch.rand(n_rows, generator=draw.generator) < float(draw.uniform(0.0, 0.15, 1))
        y = torch.where(wrong, y[torch.randperm(n_rows, generator=draw.generator)], y)
    if bool(draw.flag(0.15, 1)):
        share = draw.uniform(0.0, 0.25, 1, n_columns) * draw.flag(0.5, 1, n_columns)
        x = x.masked_fill(torch.rand(x.shape, generator=draw.generator) < share, torch.nan)
    return x, y


def _measured(draw: Draw, t: int, d: int) -> tuple[Tensor, Tensor]:
    """Latents, seen through correlated columns of many shapes."""
    rank = draw.integer(3, 40)
    if bool(draw.flag(0.5, 1)):
        z, y = (values[0] for values in latents(draw, 1, t, rank))
    else:
        z, y = _weakly_told(draw, t, rank)
    if bool(draw.flag(0.3, 1)):
        z = z @ draw.normal(rank, 48) / math.sqrt(rank) + draw.normal(1, 48)
        z = torch.relu(z) if bool(draw.flag(0.5, 1)) else torch.tanh(1.5 * z)
    x = z @ loadings(draw, 1, z.shape[1], d)[0]
    x = x / (x.std() + 1e-6)
    x = x + draw.normal(t, d) * draw.log_uniform(0.05, 1.5, 1) * draw.log_uniform(0.3, 2.0, d)
    return _shaped(draw, _with_strangers(draw, x, 0.97)), y


def _weakly_told(draw: Draw, t: int, rank: int) -> tuple[Tensor, Tensor]:
    """Latents of falling variance, the label on the weak ones as much as on the strong."""
    scale = torch.arange(1, rank + 1).float() ** (-draw.uniform(0.0, 1.3, 1))
    z = draw.normal(t, rank)
    weight = draw.normal(rank, MAX_CLASSES) * (scale ** draw.uniform(0.2, 1.3, 1))[:, None]
    score = z @ weight
    score = score / score.std() * draw.log_uniform(3.0, 40.0, 1)
    logits = class_logits(draw, class_counts(draw, 1, MAX_CLASSES))
    y = (score + logits + draw.gumbel(t, MAX_CLASSES)).argmax(-1)
    return z * scale, y


def _marked(draw: Draw, t: int, d: int) -> tuple[Tensor, Tensor]:
    """Columns of their own noise, a share of them shifted by the class."""
    logits = class_logits(draw, class_counts(draw, 1, MAX_CLASSES))
    y = (logits + draw.gumbel(t, MAX_CLASSES)).argmax(-1)
    marked = torch.rand(d, generator=draw.generator) < draw.log_uniform(0.005, 0.3, 1)
    size = draw.log_uniform(0.25, 2.0, 1) * draw.log_uniform(0.3, 2.0, d)
    place = draw.normal(1, MAX_CLASSES, d) * size * marked
    x = draw.normal(t, d) + rows_of(place, y[None])[0]
    # What moves many columns together and tells nothing: age, depth, batch.
    common = draw.normal(t, 3) @ draw.normal(3, d) * draw.log_uniform(0.05, 1.0, 1)
    return _shaped(draw, x + common), y


def _counted(draw: Draw, t: int, d: int) -> tuple[Tensor, Tensor]:
    """Counts of words, reads or events: a mixture of topics for every row, the label in the mixture."""
    rank = draw.integer(3, 30)
    z, y = (values[0] for values in latents(draw, 1, t, rank))
    share = torch.softmax(z * draw.log_uniform(0.5, 3.0, 1), 1)
    topics = torch.softmax(draw.normal(rank, d) * draw.uniform(0.7, 2.5, 1) + draw.normal(1, d), 1)
    depth = d * draw.log_uniform(0.02, 5.0, 1) * draw.log_uniform(0.3, 3.0, t, 1)
    x = torch.poisson((share @ topics * depth).clamp_max(1e4), generator=draw.generator)
    form = float(draw.uniform(0.0, 1.0, 1))
    return (torch.log1p(x) if form < 0.3 else (x > 0).float() if form < 0.4 else x), y


def _scattered(draw: Draw, t: int, d: int) -> tuple[Tensor, Tensor]:
    """Clusters in a few columns, and noise."""
    telling = min(d, draw.integer(6, 40))
    x, y = cluster_tasks(draw, 1, t, telling, silence=0.3)
    noise = draw.normal(t, d - telling)
    order = torch.randperm(d, generator=draw.generator)
    return torch.cat([x[0], noise], 1)[:, order], y[0]


def _with_strangers(draw: Draw, x: Tensor, most: float) -> Tensor:
    """Let a share of the columns tell nothing: each is turned by its own number of rows."""
    t, d = x.shape
    share = float(draw.uniform(0.0, 1.0, 1)) ** 0.5 * most
    strange = torch.rand(d, generator=draw.generator) < share * float(draw.flag(0.7, 1))
    turn = torch.randint(1, t, (d,), generator=draw.generator) * strange
    return x.gather(0, (torch.arange(t)[:, None] + turn) % t)


def _shaped(draw: Draw, x: Tensor) -> Tensor:
    """Give every column one of the shapes real columns have; a table prefers a few of them."""
    d = x.shape[1]
    x = x / (x.std(0, keepdim=True) + 1e-6)
    taste = draw.normal(9) * draw.uniform(0.5, 5.0, 1)
    taste[0] += 2.0
    choice = (taste + draw.gumbel(d, 9)).argmax(1)
    cut, high = draw.normal(d), draw.uniform(-0.5, 2.2, d)
    steps, skew = draw.log_uniform(0.7, 6.0, d), draw.uniform(0.3, 1.5, d)
    for shape in range(1, 9):
        j = torch.nonzero(choice == shape)[:, 0]
        if len(j):
            x[:, j] = _shape(shape, x[:, j], cut[j], high[j], steps[j], skew[j])
    return x * draw.log_uniform(0.1, 10.0, d) if bool(draw.flag(0.5, 1)) else x


def _shape(shape: int, x: Tensor, cut: Tensor, high: Tensor, steps: Tensor, skew: Tensor) -> Tensor:
    if shape == 1:
        return torch.exp(skew * x)
    if shape == 2:
        return torch.sign(x) * x.abs().pow(1.0 + skew)
    if shape == 3:
        return torch.round(x * steps)
    if shape == 4:
        return (x > cut).float()
    if shape == 5:
        return (x > high).float()
    if shape == 6:
        return torch.relu(x - high)
    if shape == 7:
        return torch.round(torch.exp(skew * (x - high)).clamp_max(200.0))
    return torch.tanh(2.0 * (x - cut))
