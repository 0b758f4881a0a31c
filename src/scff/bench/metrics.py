"""Quality of predicted probabilities. Labels come in here, after prediction, and nowhere before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

__all__ = ["METRICS", "measure"]

METRICS: Mapping[str, bool] = {
    "accuracy": True,
    "nll": False,
    "balanced_accuracy": True,
    "auc": True,
    "brier": False,
    "ece": False,
}
"""Every metric, and whether larger is better."""

# The models compute in single precision; a probability below its resolution is not a claim they can make. It also
# bounds the price of a query label that the support does not have.
_FLOOR = float(np.finfo(np.float32).eps)
_ECE_BINS = 15


def measure(proba: npt.NDArray[np.float64], classes: npt.NDArray[Any], y: npt.NDArray[Any]) -> dict[str, float | None]:
    """Every metric of predicted probabilities.

    Parameters
    ----------
    proba : ndarray of shape (n_rows, n_classes)
    classes : ndarray
        Label of each column.
    y : ndarray of shape (n_rows,)
        True labels; one that is not among the classes counts as an error with the lowest probability.

    Returns
    -------
    dict
        None where a metric is not defined (AUC with one class among the query rows).
    """
    order = np.argsort(classes)
    place = np.searchsorted(classes, y, sorter=order)
    codes = order[np.minimum(place, len(classes) - 1)]
    known = classes[codes] == y
    truth = np.where(known, proba[np.arange(len(y)), codes], 0.0)
    predicted = proba.argmax(axis=1)
    right = known & (predicted == codes)
    onehot = np.zeros_like(proba)
    onehot[np.flatnonzero(known), codes[known]] = 1.0
    return {
        "accuracy": float(right.mean()),
        "nll": float(-np.log(np.clip(truth, _FLOOR, 1.0)).mean()),
        "balanced_accuracy": float(balanced_accuracy_score(y.astype(str), classes[predicted].astype(str)))
        if len(np.unique(y)) > 1
        else float(right.mean()),
        "auc": _auc(proba, codes, known),
        "brier": float(((proba - onehot) ** 2).sum(axis=1).mean() + (~known).mean()),
        "ece": _ece(proba.max(axis=1), right),
    }


def _auc(proba: npt.NDArray[np.float64], codes: npt.NDArray[np.int64], known: npt.NDArray[np.bool_]) -> float | None:
    """Area under the ROC curve, one class against the rest, averaged over the classes among the query rows."""
    areas = []
    present = np.unique(codes[known])
    if len(present) < 2:
        return None
    for k in present[1:] if proba.shape[1] == 2 else present:
        areas.append(roc_auc_score(known & (codes == k), proba[:, k]))
    return float(np.mean(areas))


def _ece(confidence: npt.NDArray[np.float64], right: npt.NDArray[np.bool_]) -> float:
    """Expected calibration error over equal-width bins of the top probability."""
    bins = np.minimum((confidence * _ECE_BINS).astype(int), _ECE_BINS - 1)
    total = 0.0
    for b in np.unique(bins):
        inside = bins == b
        total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return float(total)
