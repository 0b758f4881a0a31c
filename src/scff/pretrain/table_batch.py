"""A batch of synthetic tables, and the one road from raw values to what the backbone reads.

Shape legend: ``B`` tables, ``T`` rows (support first), ``D`` columns, ``N`` support rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

#: The backbone's own limit; more classes than this are never drawn.
MAX_CLASSES = 10

#: Label of a query row whose class the support does not show: nobody can predict it, so nobody is asked.
UNSEEN = -1


@dataclass(frozen=True)
class TableBatch:
    """Tables of one shape, ready for the backbone.

    Parameters
    ----------
    x_BTD : Tensor
        Preprocessed values, float32.
    y_BT : Tensor
        Labels, int64: ``0 .. K-1`` within each table, every class present in its support;
        :data:`UNSEEN` marks query rows of classes the support does not hold.
    n_support : int
        The first ``n_support`` rows are the support.
    taught_BQK : Tensor or None
        What a teacher says of the query rows: probabilities of the classes.
    """

    x_BTD: Tensor
    y_BT: Tensor
    n_support: int
    taught_BQK: Tensor | None = None

    @property
    def n_tables(self) -> int:
        """Number of tables."""
        return self.x_BTD.shape[0]

    @property
    def y_support_BN(self) -> Tensor:
        """Labels of the support rows."""
        return self.y_BT[:, : self.n_support]

    @property
    def y_query_BQ(self) -> Tensor:
        """Labels of the query rows."""
        return self.y_BT[:, self.n_support :]

    @property
    def n_classes_B(self) -> Tensor:
        """Number of classes in each table's support."""
        return self.y_support_BN.amax(1) + 1


def native_view(x_BTD: Tensor, n_support: int, threshold: float = 4.0) -> Tensor:
    """Standardise and clip as TabICL does for its first ensemble view (``norm_methods="none"``).

    Training must show the backbone what inference will: z-scores of the support clipped at 100, then
    TabICL's soft outlier clipping (bounds from the support without its own outliers, logarithmic beyond).

    Parameters
    ----------
    x_BTD : Tensor
        Raw values.
    n_support : int
        Rows the statistics may see.
    threshold : float
        Standard deviations at which clipping starts.

    Returns
    -------
    Tensor
        View of the same shape.
    """
    s = x_BTD[:, :n_support]
    mean = s.mean(1, keepdim=True)
    std = s.std(1, keepdim=True, unbiased=False)
    x = ((x_BTD - mean) / (std + 1e-6)).clamp(-100.0, 100.0)

    s = x[:, :n_support]
    m, sd = s.mean(1, keepdim=True), s.std(1, keepdim=True).clamp_min(1e-6)
    inside = ((s - m).abs() <= threshold * sd).to(s.dtype)
    count = inside.sum(1, keepdim=True)
    m = (s * inside).sum(1, keepdim=True) / count.clamp_min(1.0)
    var = ((s - m).square() * inside).sum(1, keepdim=True) / (count - 1.0).clamp_min(1.0)
    sd = var.sqrt().clamp_min(1e-6)
    soft = torch.log1p(x.abs())
    x = torch.maximum(m - threshold * sd - soft, x)
    soft = torch.log1p(x.abs())
    return torch.minimum(m + threshold * sd + soft, x)


def relabel(y_BT: Tensor, n_support: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Name the classes of each support ``0 .. K-1`` in random order.

    Parameters
    ----------
    y_BT : Tensor
        Labels in ``0 .. MAX_CLASSES-1``.
    n_support : int
        Number of support rows.
    generator : torch.Generator
        Source of the random order.

    Returns
    -------
    y_BT : Tensor
        New labels, :data:`UNSEEN` where the support does not hold the class.
    usable_B : Tensor
        True for tables whose support holds at least two classes.
    """
    n_tables = y_BT.shape[0]
    seen_BK = torch.zeros(n_tables, MAX_CLASSES, dtype=torch.bool)
    seen_BK.scatter_(1, y_BT[:, :n_support], True)
    # A random key per class; unseen classes sort behind every seen one.
    key_BK = torch.rand(n_tables, MAX_CLASSES, generator=generator) + 2.0 * (~seen_BK).float()
    name_BK = key_BK.argsort(1).argsort(1)
    name_BK = name_BK.masked_fill(~seen_BK, UNSEEN)
    return name_BK.gather(1, y_BT), seen_BK.sum(1) >= 2


def finish(x_BTD: Tensor, y_BT: Tensor, n_support: int, generator: torch.Generator) -> TableBatch | None:
    """Turn raw tables into a batch: relabel, drop unusable tables, standardise on the support.

    Parameters
    ----------
    x_BTD : Tensor
        Raw values.
    y_BT : Tensor
        Raw labels.
    n_support : int
        Number of support rows.
    generator : torch.Generator
        Source of randomness.

    Returns
    -------
    TableBatch or None
        None when no table is usable.
    """
    y_BT, usable_B = relabel(y_BT, n_support, generator)
    if not bool(usable_B.any()):
        return None
    x_BTD = native_view(torch.nan_to_num(x_BTD[usable_B].float(), 0.0, 1e4, -1e4), n_support)
    return TableBatch(x_BTD, y_BT[usable_B], n_support)
