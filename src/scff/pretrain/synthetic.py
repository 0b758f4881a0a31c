"""Synthetic tasks drawn on the fly, a whole batch of tables at once.

Three families. *Easy* tasks (linear, tanh, quadratic, sine, blobs) let in-context learning emerge within a
hundred steps, where a causal prior alone shows nothing for many hundreds. *Latent-factor* tasks look like
real wide tables: a few class-conditional latents seen through many correlated columns of skewed, discrete
or zero-inflated values, among columns that say nothing. *Contrast* tasks have as many directions as columns, of
very uneven variance, and a sharp label along any of them: every column resembles every other, each says little alone,
and only their differences tell. All cost a few milliseconds a table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from scff.pretrain.tables import MAX_CLASSES


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


def _class_counts(draw: Draw, n_tables: int, max_classes: int) -> Tensor:
    """Two classes in four tables of ten, else anything up to the maximum."""
    many_B = 2 + (torch.rand(n_tables, generator=draw.generator) * (max_classes - 1)).long()
    return torch.where(draw.flag(0.4, n_tables), torch.full_like(many_B, 2), many_B.clamp_max(max_classes))


def _class_logits(draw: Draw, n_classes_B: Tensor) -> Tensor:
    """Log class weights, from balanced to strongly unbalanced; absent classes at minus infinity."""
    n_tables = n_classes_B.shape[0]
    spread_B1 = draw.uniform(0.0, 1.2, n_tables, 1) * draw.flag(0.6, n_tables, 1)
    logits_BK = spread_B1 * draw.normal(n_tables, MAX_CLASSES)
    return logits_BK.masked_fill(torch.arange(MAX_CLASSES) >= n_classes_B[:, None], -torch.inf)


def _rows_of(table_BKx: Tensor, index_BT: Tensor) -> Tensor:
    """Row ``index_BT[b, t]`` of table ``b``, for every row at once."""
    return table_BKx.gather(1, index_BT[..., None].expand(-1, -1, table_BKx.shape[-1]))


def easy_tasks(draw: Draw, n_tables: int, n_rows: int, n_columns: int) -> tuple[Tensor, Tensor]:
    """Draw tables whose labels follow a simple rule of their columns.

    Parameters
    ----------
    draw : Draw
        Source of randomness.
    n_tables, n_rows, n_columns : int
        Shape of the batch.

    Returns
    -------
    x_BTD, y_BT : Tensor
        Raw values and labels.
    """
    b, t, d, k = n_tables, n_rows, n_columns, MAX_CLASSES
    x = draw.normal(b, t, d)
    mixed = x @ (torch.eye(d) + 0.5 * draw.normal(b, d, d) / math.sqrt(d))
    x = torch.where(draw.flag(0.5, b, 1, 1), mixed, x)
    # What moves all columns together often says nothing: then the label sits in small differences between columns, and
    # each column alone tells little.
    rank = draw.integer(1, 3)
    common = draw.normal(b, t, rank) @ draw.normal(b, rank, d) * draw.log_uniform(0.3, 4.0, b, 1, 1)
    drowned = draw.flag(0.3, b, 1, 1)
    told, x = x, torch.where(drowned, x + common, x)
    told = torch.where(draw.flag(0.5, b, 1, 1), told, x)
    relevant = (torch.rand(b, d, generator=draw.generator) < draw.uniform(0.2, 1.0, b, 1)).float()
    relevant[:, 0] = 1.0
    weights = draw.normal(b, d, k) * relevant[..., None]
    kind = torch.rand(b, 1, 1, generator=draw.generator)
    bent = torch.where(kind < 0.82, told.square() - 1, torch.sin(1.5 * told))
    z = torch.where(kind < 0.55, told, torch.where(kind < 0.65, torch.tanh(2 * told), bent))
    score = z @ weights
    score = score / score.std((1, 2), keepdim=True) * draw.log_uniform(1.5, 25.0, b, 1, 1)
    n_classes = _class_counts(draw, b, k)
    class_logits = _class_logits(draw, n_classes)
    y = (score + class_logits[:, None] + draw.gumbel(b, t, k)).argmax(-1)
    # The others are blobs: the class comes first, then the row. Mostly so with many classes, which a random
    # linear rule separates too poorly to be learned from.
    blob_y = (class_logits[:, None] + draw.gumbel(b, t, k)).argmax(-1)
    centre = draw.normal(b, k, d) * relevant[:, None] * draw.log_uniform(0.3, 2.5, b, 1, 1)
    blob_x = draw.normal(b, t, d) + _rows_of(centre, blob_y)
    blob = torch.rand(b, 1, generator=draw.generator) < torch.where(n_classes > 4, 0.6, 0.2)[:, None]
    return torch.where(blob[..., None], blob_x, x), torch.where(blob, blob_y, y)


def contrast_tasks(draw: Draw, n_tables: int, n_rows: int, n_columns: int) -> tuple[Tensor, Tensor]:
    """Draw tables of correlated columns whose label sits in their differences.

    Parameters
    ----------
    draw : Draw
        Source of randomness.
    n_tables, n_rows, n_columns : int
        Shape of the batch.

    Returns
    -------
    x_BTD, y_BT : Tensor
        Raw values and labels.
    """
    b, t, d = n_tables, n_rows, n_columns
    scale = torch.arange(1, d + 1).float() ** (-draw.uniform(0.3, 1.8, b, 1))
    z = draw.normal(b, t, d)
    z = torch.where(draw.flag(0.3, b, 1, 1), torch.sign(z) * z.abs().pow(1.3), z)
    rotation = torch.linalg.qr(draw.normal(b, d, d))[0]
    x = (z * scale[:, None]) @ rotation
    # From a label that follows the variance to one that ignores it; now and then it is bent.
    weight = draw.normal(b, d, MAX_CLASSES) * (scale ** draw.uniform(0.0, 1.2, b, 1))[..., None]
    bend = 0.4 * draw.normal(b, 1, d) * draw.flag(0.25, b, 1, 1)
    score = (z + bend * (z.square() - 1)) @ weight
    score = score / score.std((1, 2), keepdim=True) * draw.log_uniform(4.0, 60.0, b, 1, 1)
    class_logits = _class_logits(draw, _class_counts(draw, b, MAX_CLASSES))
    y = (score + class_logits[:, None] + draw.gumbel(b, t, MAX_CLASSES)).argmax(-1)
    # Sizes, areas and intensities are skewed; some are written down in whole numbers.
    x = x / (x.std(1, keepdim=True) + 1e-6)
    skew = draw.uniform(0.0, 1.0, b, 1, 1) * draw.uniform(0.2, 1.0, b, 1, d)
    x = torch.where(draw.flag(0.5, b, 1, 1), torch.exp(skew * x), x)
    return torch.where(draw.flag(0.15, b, 1, 1), torch.round(x * draw.log_uniform(1.5, 8.0, b, 1, 1)), x), y


def _latents(draw: Draw, b: int, t: int, rank: int) -> tuple[Tensor, Tensor]:
    """Draw labels and latents, the label first (clusters) or the latents first (a random network)."""
    n_classes = _class_counts(draw, b, MAX_CLASSES)
    class_logits = _class_logits(draw, n_classes)
    # Variance falls along the latents, as principal components do.
    scale = torch.arange(1, rank + 1).float() ** (-draw.uniform(0.0, 1.2, b, 1))
    scale = scale[:, torch.randperm(rank, generator=draw.generator)]
    # The label may follow the small components as much as the large ones.
    weigh = torch.where(draw.flag(0.5, b, 1), scale, torch.ones_like(scale))

    # Label first: every class is a few clusters; only some latents separate the classes.
    y_first = (class_logits[:, None] + draw.gumbel(b, t, MAX_CLASSES)).argmax(-1)
    n_clusters = draw.integer(1, 4)
    telling = draw.flag(0.6, b, 1, rank).float() * scale[:, None]
    class_centre = draw.normal(b, MAX_CLASSES, rank) * telling
    cluster_centre = draw.normal(b, MAX_CLASSES * n_clusters, rank) * draw.uniform(0.0, 1.0, b, 1, 1)
    cluster_centre = cluster_centre * scale[:, None] + class_centre.repeat_interleave(n_clusters, 1)
    weight = draw.normal(b, MAX_CLASSES, n_clusters)
    cluster = (_rows_of(weight, y_first) + draw.gumbel(b, t, n_clusters)).argmax(-1)
    within = draw.normal(b, t, rank) @ (torch.eye(rank) + draw.normal(b, rank, rank) * 0.6 / math.sqrt(rank))
    # More classes need more room to be told apart from the same number of rows.
    room = 1.0 + 0.15 * (n_classes - 2)[:, None, None]
    apart = draw.log_uniform(0.7, 6.0, b, 1, 1) * room
    z_clusters = apart * _rows_of(cluster_centre, y_first * n_clusters + cluster) + within * scale[:, None]

    # Latents first: the label is a sharp or vague function of them.
    z_unit = draw.normal(b, t, rank)
    z_free = z_unit * scale[:, None]
    z_told = z_unit * weigh[:, None]
    hidden = torch.tanh(z_told @ draw.normal(b, rank, 16) * draw.log_uniform(0.3, 2.0, b, 1, 1))
    linear = draw.flag(0.5, b, 1, 1)
    score = torch.where(linear, z_told @ draw.normal(b, rank, MAX_CLASSES), hidden @ draw.normal(b, 16, MAX_CLASSES))
    score = score / score.std((1, 2), keepdim=True) * draw.log_uniform(2.0, 40.0, b, 1, 1)
    y_free = (score + class_logits[:, None] + draw.gumbel(b, t, MAX_CLASSES)).argmax(-1)

    clusters = torch.rand(b, 1, generator=draw.generator) < torch.where(n_classes > 3, 0.9, 0.55)[:, None]
    return torch.where(clusters[..., None], z_clusters, z_free), torch.where(clusters, y_first, y_free)


def _loadings(draw: Draw, b: int, rank: int, d: int) -> Tensor:
    """Weights from latents to columns: dense, sparse, or smooth along the columns as in a spectrum."""
    w = draw.normal(b, rank, d)
    kept = torch.rand(b, rank, d, generator=draw.generator) < draw.log_uniform(1.5 / rank, 1.0, b, 1, 1)
    smooth = d >= 16 and bool(draw.flag(0.3, 1))
    if smooth:
        width = draw.log_uniform(1.0, d / 6, b, 1)
        offset = torch.arange(d).float() - d // 2
        kernel = torch.exp(-0.5 * (offset / width).square())
        spectrum = torch.fft.rfft(torch.fft.ifftshift(kernel, dim=-1))
        w = torch.fft.irfft(torch.fft.rfft(w) * spectrum[:, None], n=d)
        smoothed: Tensor = w / (w.std((1, 2), keepdim=True) + 1e-6)
        return smoothed
    return w * kept


def _marginals(draw: Draw, x: Tensor) -> Tensor:
    """Give every column one of the shapes real columns have; each table prefers a few of them."""
    b, _, d = x.shape
    x = x / (x.std(1, keepdim=True) + 1e-6)
    cut = draw.normal(b, 1, d)
    steps = draw.log_uniform(0.7, 6.0, b, 1, d)
    skew = draw.uniform(0.3, 1.5, b, 1, d)
    # Counts and fingerprints are sparse: the threshold sits high, so most values are zero.
    high = draw.uniform(-0.5, 2.2, b, 1, d)
    shapes = [
        x,
        torch.exp(skew * x),
        torch.sign(x) * x.abs().pow(1.0 + skew),
        torch.round(x * steps),
        (x > cut).float(),
        (x > high).float(),
        torch.relu(x - high),
        torch.round(torch.exp(skew * (x - high)).clamp_max(200.0)),
        torch.tanh(2.0 * (x - cut)),
        (x - cut).square(),
    ]
    taste = draw.normal(b, 1, len(shapes)) * draw.uniform(0.5, 5.0, b, 1, 1)
    taste[..., 0] += 1.5
    choice = (taste + draw.gumbel(b, d, len(shapes))).argmax(-1)[:, None]
    out = torch.zeros_like(x)
    for i, shaped in enumerate(shapes):
        out = torch.where(choice == i, shaped, out)
    return out


def latent_tasks(draw: Draw, n_tables: int, n_rows: int, n_columns: int) -> tuple[Tensor, Tensor]:
    """Draw wide tables with few degrees of freedom.

    Parameters
    ----------
    draw : Draw
        Source of randomness.
    n_tables, n_rows, n_columns : int
        Shape of the batch.

    Returns
    -------
    x_BTD, y_BT : Tensor
        Raw values and labels.
    """
    b, t, d = n_tables, n_rows, n_columns
    rank = draw.integer(3, 24)
    z, y = _latents(draw, b, t, rank)
    h = z
    if bool(draw.flag(0.5, 1)):
        # A hidden layer bends the sheet the rows lie on; rectified units switch columns on and off.
        width = draw.integer(8, 48)
        h = z @ draw.normal(b, rank, width) / math.sqrt(rank) + draw.normal(b, 1, width)
        h = torch.where(draw.flag(0.5, b, 1, 1), torch.relu(h), torch.tanh(1.5 * h))
    x = h @ _loadings(draw, b, h.shape[-1], d)
    x = x / (x.std((1, 2), keepdim=True) + 1e-6)
    # Noise of a table's own level, uneven over its columns.
    x = x + draw.normal(b, t, d) * draw.log_uniform(0.01, 1.0, b, 1, 1) * draw.log_uniform(0.3, 2.0, b, 1, d)
    # Columns that say nothing: their values belong to other rows, so their marginals stay honest.
    share = draw.uniform(0.0, 1.0, b, 1) ** 2 * draw.flag(0.5, b, 1)
    silent = torch.rand(b, d, generator=draw.generator) < share
    silent[:, draw.integer(0, d - 1)] = False
    shuffled = x[:, torch.randperm(t, generator=draw.generator)]
    x = _marginals(draw, torch.where(silent[:, None], shuffled, x))
    # Wrong labels, drawn from the labels themselves so that class weights stay.
    wrong = torch.rand(b, t, generator=draw.generator) < draw.uniform(0.0, 0.2, b, 1) * draw.flag(0.2, b, 1)
    return x, torch.where(wrong, y[:, torch.randperm(t, generator=draw.generator)], y)
