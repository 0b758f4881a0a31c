"""Held-back answers of an evaluation as what its pictures need: curves over folds, bins, counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_curve

from scff.report.charts import Bin, Curve, bins_of

if TYPE_CHECKING:
    from scff.evaluate.evaluation import Evaluation

__all__ = ["calibration_bins", "class_curves", "confusion_counts", "mean_numbers"]

FloatArray = npt.NDArray[np.float64]
_GRID = np.linspace(0, 1, 201)


def class_curves(found: Evaluation) -> list[Curve]:
    """The ROC curve of the second of two classes, or of each of more against the others.

    Only rows of one fold are ranked against each other. The curves of the folds are averaged, each by its number of
    pairs, so that the area is the AUC of the table.
    """
    assert found.classes is not None
    asked, p_RNK = found.asked, found.answers["scff"]
    fold_RN = np.where(asked.fold_RN >= 0, 0, -1) if asked.alone else asked.fold_RN
    curves = []
    for k, name in enumerate(found.classes):
        if len(found.classes) == 2 and k == 0:
            continue
        total, pairs, area = np.zeros(len(_GRID)), 0.0, 0.0
        for p_NK, fold_N in zip(p_RNK, fold_RN, strict=True):
            for fold in np.unique(fold_N[fold_N >= 0]):
                rows = np.flatnonzero(fold_N == fold)
                positive = asked.y[rows] == k
                weight = float(positive.sum() * (~positive).sum())
                if weight == 0:
                    continue
                false, true, _ = roc_curve(positive, p_NK[rows, k], drop_intermediate=False)
                total += weight * _at_grid(false, true)
                area += weight * float(np.trapezoid(true, false))
                pairs += weight
        if pairs:
            mean = total / pairs
            curves.append(Curve(str(name), np.r_[0.0, _GRID], np.r_[0.0, mean], area / pairs))
    return curves


def _at_grid(false: FloatArray, true: FloatArray) -> FloatArray:
    """The curve at the points of the grid; where it rises straight up, the upper end."""
    last = np.searchsorted(false, _GRID, side="right") - 1
    after = np.minimum(last + 1, len(false) - 1)
    step = false[after] - false[last]
    share = np.divide(_GRID - false[last], step, out=np.zeros_like(_GRID), where=step > 0)
    out: FloatArray = true[last] + share * (true[after] - true[last])
    return out


def calibration_bins(found: Evaluation) -> tuple[Bin, ...]:
    """Probabilities given against what came true; a row that was asked in several rounds counts once."""
    p_RNK, y = found.answers["scff"], found.asked.y
    there = found.asked.fold_RN >= 0
    codes = np.broadcast_to(y, there.shape)[there]
    p = p_RNK[there]
    rows = np.broadcast_to(1 / np.maximum(there.sum(axis=0), 1), there.shape)[there]
    if p.shape[1] == 2:
        return bins_of(p[:, 1], codes == 1, rows)
    return bins_of(p.max(axis=1), p.argmax(axis=1) == codes, rows)


def confusion_counts(found: Evaluation) -> FloatArray:
    """True against predicted classes, counted in each round and averaged over them."""
    p_RNK, y = found.answers["scff"], found.asked.y
    there = found.asked.fold_RN >= 0
    k = p_RNK.shape[2]
    out = np.zeros((k, k))
    rows = np.broadcast_to(1 / np.maximum(there.sum(axis=0), 1), there.shape)[there]
    np.add.at(out, (np.broadcast_to(y, there.shape)[there], p_RNK[there].argmax(axis=1)), rows)
    return np.round(out, 9)


def mean_numbers(found: Evaluation) -> tuple[FloatArray, FloatArray]:
    """True numbers, and those predicted, averaged over the rounds."""
    rows = found.asked.rows
    return found.asked.y[rows].astype(np.float64), np.nanmean(found.answers["scff"][:, rows, 0], axis=0)
