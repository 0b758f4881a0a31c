"""Synthetic tasks drawn on the fly, a whole batch of tables at once.

*Easy* tasks (linear, tanh, quadratic, sine, blobs) let in-context learning emerge within a hundred steps, where a
causal prior alone shows nothing for many hundreds. *Latent-factor* tasks look like real wide tables: a few
class-conditional latents seen through many correlated columns of skewed, discrete or zero-inflated values, among
columns that say nothing. All cost a few milliseconds a table; :mod:`scff.pretrain.measurements` has two more families.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from scff.pretrain.draws import Draw, class_counts, class_logits, rows_of, silent_columns
from scff.pretrain.table_batch import MAX_CLASSES

__all__ = ["easy_tasks", "latent_tasks", "latents", "loadings", "marginals"]


def easy_tasks(draw: Draw, n_tables: int, n_rows: int, n_columns: int) -> tuple[Tensor, Tensor]:
    """Draw tables whose labels follow a simple rule of their columns. A `Family`."""
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
    n_classes = class_counts(draw, b, k)
    logits = class_logits(draw, n_classes)
    y = (score + logits[:, None] + draw.gumbel(b, t, k)).argmax(-1)
    # The others are blobs: the class comes first, then the row. Mostly so with many classes, which a random
    # linear rule separates too poorly to be learned from.
    blob_y = (logits[:, None] + draw.gumbel(b, t, k)).argmax(-1)
    centre = draw.normal(b, k, d) * relevant[:, None] * draw.log_uniform(0.3, 2.5, b, 1, 1)
    blob_x = draw.normal(b, t, d) + rows_of(centre, blob_y)
    blob = torch.rand(b, 1, generator=draw.generator) < torch.where(n_classes > 4, 0.6, 0.2)[:, None]
    return torch.where(blob[..., None], blob_x, x), torch.where(blob, blob_y, y)


def latents(draw: Draw, b: int, t: int, rank: int) -> tuple[Tensor, Tensor]:
    """Draw labels and latents, the label first (clusters) or the latents first (a random network)."""
    n_classes = class_counts(draw, b, MAX_CLASSES)
    logits = class_logits(draw, n_classes)
    # Variance falls along the latents, as principal components do.
    scale = torch.arange(1, rank + 1).float() ** (-draw.uniform(0.0, 1.2, b, 1))
    scale = scale[:, torch.randperm(rank, generator=draw.generator)]
    # The label may follow the small components as much as the large ones.
    weigh = torch.where(draw.flag(0.5, b, 1), scale, torch.ones_like(scale))

    # Label first: every class is a few clusters; only some latents separate the classes.
    y_first = (logits[:, None] + draw.gumbel(b, t, MAX_CLASSES)).argmax(-1)
    n_clusters = draw.integer(1, 4)
    telling = draw.flag(0.6, b, 1, rank).float() * scale[:, None]
    class_centre = draw.normal(b, MAX_CLASSES, rank) * telling
    cluster_centre = draw.normal(b, MAX_CLASSES * n_clusters, rank) * draw.uniform(0.0, 1.0, b, 1, 1)
    cluster_centre = cluster_centre * scale[:, None] + class_centre.repeat_interleave(n_clusters, 1)
    weight = draw.normal(b, MAX_CLASSES, n_clusters)
    cluster = (rows_of(weight, y_first) + draw.gumbel(b, t, n_clusters)).argmax(-1)
    within = draw.normal(b, t, rank) @ (torch.eye(rank) + draw.normal(b, rank, rank) * 0.6 / math.sqrt(rank))
    # More classes need more room to be told apart from the same number of rows.
    room = 1.0 + 0.15 * (n_classes - 2)[:, None, None]
    apart = draw.log_uniform(0.7, 6.0, b, 1, 1) * room
    z_clusters = apart * rows_of(cluster_centre, y_first * n_clusters + cluster) + within * scale[:, None]

    # Latents first: the label is a sharp or vague function of them.
    z_unit = draw.normal(b, t, rank)
    z_free = z_unit * scale[:, None]
    z_told = z_unit * weigh[:, None]
    hidden = torch.tanh(z_told @ draw.normal(b, rank, 16) * draw.log_uniform(0.3, 2.0, b, 1, 1))
    linear = draw.flag(0.5, b, 1, 1)
    score = torch.where(linear, z_told @ draw.normal(b, rank, MAX_CLASSES), hidden @ draw.normal(b, 16, MAX_CLASSES))
    score = score / score.std((1, 2), keepdim=True) * draw.log_uniform(2.0, 40.0, b, 1, 1)
    y_free = (score + logits[:, None] + draw.gumbel(b, t, MAX_CLASSES)).argmax(-1)

    clusters = torch.rand(b, 1, generator=draw.generator) < torch.where(n_classes > 3, 0.9, 0.55)[:, None]
    return torch.where(clusters[..., None], z_clusters, z_free), torch.where(clusters, y_first, y_free)


def loadings(draw: Draw, b: int, rank: int, d: int) -> Tensor:
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


def marginals(draw: Draw, x: Tensor) -> Tensor:
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
    """Draw wide tables with few degrees of freedom. A `Family`."""
    b, t, d = n_tables, n_rows, n_columns
    rank = draw.integer(3, 24)
    z, y = latents(draw, b, t, rank)
    h = z
    if bool(draw.flag(0.5, 1)):
        # A hidden layer bends the sheet the rows lie on; rectified units switch columns on and off.
        width = draw.integer(8, 48)
        h = z @ draw.normal(b, rank, width) / math.sqrt(rank) + draw.normal(b, 1, width)
        h = torch.where(draw.flag(0.5, b, 1, 1), torch.relu(h), torch.tanh(1.5 * h))
    x = h @ loadings(draw, b, h.shape[-1], d)
    x = x / (x.std((1, 2), keepdim=True) + 1e-6)
    # Noise of a table's own level, uneven over its columns.
    x = x + draw.normal(b, t, d) * draw.log_uniform(0.01, 1.0, b, 1, 1) * draw.log_uniform(0.3, 2.0, b, 1, d)
    # Columns that say nothing: their values belong to other rows, so their marginals stay honest.
    share = draw.uniform(0.0, 1.0, b, 1) ** 2 * draw.flag(0.5, b, 1)
    silent = silent_columns(draw, share, d)
    shuffled = x[:, torch.randperm(t, generator=draw.generator)]
    x = marginals(draw, torch.where(silent[:, None], shuffled, x))
    # Wrong labels, drawn from the labels themselves so that class weights stay.
    wrong = torch.rand(b, t, generator=draw.generator) < draw.uniform(0.0, 0.2, b, 1) * draw.flag(0.2, b, 1)
    return x, torch.where(wrong, y[:, torch.randperm(t, generator=draw.generator)], y)
