"""Figures of held-back predictions, and intervals that respect repeats and groups.

Every figure is a function of weights on the rows, so that a resample of rows, or of whole groups, is one more vector of
weights. A row that was asked in three rounds is still one row: its scores are averaged before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

__all__ = ["LARGER", "Asked", "Estimate", "draw", "estimate", "figures"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LARGER: Mapping[str, bool] = {
    "accuracy": True,
    "balanced_accuracy": True,
    "auc": True,
    "log_loss": False,
    "brier": False,
    "r2": True,
    "rmse": False,
    "mae": False,
}
"""Every figure, and whether larger is better."""

#: The models compute in single precision; a probability below its resolution is no claim they can make.
_FLOOR = float(np.finfo(np.float32).eps)
_DRAWS = 2000
_CELLS = 20_000_000  # of a matrix of weights: fewer draws on very many rows


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Asked:
    """What was asked of every row, and in which fold.

    Attributes
    ----------
    y : ndarray of shape (n,)
        Class codes, or numbers.
    n_classes : int
        0 for numbers.
    fold_RN : ndarray of int
        The fold in which a row was asked in each round; -1 where it was not.
    alone : bool
        Whether folds hold a single row, so that only rows of different folds can be compared.
    """

    y: npt.NDArray[Any]
    n_classes: int
    fold_RN: IntArray
    alone: bool

    @property
    def rows(self) -> IntArray:
        """Rows that were asked at all."""
        return np.flatnonzero((self.fold_RN >= 0).any(axis=0))


def draw(asked: Asked, groups: npt.NDArray[Any] | None, seed: int) -> tuple[FloatArray, int]:
    """Resamples of the asked rows as weights_BN, the first of which is the sample itself; and how many units there are.

    Whole groups are drawn where there are groups. A resample that lacks a class is drawn anew.
    """
    rows = asked.rows
    units = np.arange(len(rows)) if groups is None else np.unique(groups[rows], return_inverse=True)[1]
    n_units = int(units.max()) + 1
    n_draws = max(200, min(_DRAWS, _CELLS // len(asked.y)))
    rng = np.random.default_rng(seed)
    kept: list[FloatArray] = []
    missing = n_draws
    for _ in range(50):
        drawn = rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=missing).astype(np.float64)[:, units]
        if asked.n_classes:
            present = np.stack([drawn[:, asked.y[rows] == k].sum(axis=1) > 0 for k in np.unique(asked.y[rows])])
            drawn = drawn[present.all(axis=0)]
        kept.append(drawn)
        missing -= len(drawn)
        if missing == 0:
            break
    weights = np.zeros((1 + n_draws - missing, len(asked.y)))
    weights[0, rows] = 1.0
    weights[1:, rows] = np.concatenate(kept)
    return weights, n_units


def figures(asked: Asked, answer_RNK: FloatArray, weights_BN: FloatArray) -> dict[str, FloatArray]:
    """Every figure of one model's answers, once for every vector of weights."""
    if asked.n_classes == 0:
        return _numbers(asked, answer_RNK[..., 0], weights_BN)
    y, k = asked.y, asked.n_classes
    p = answer_RNK
    own = np.take_along_axis(p, np.broadcast_to(y, p.shape[:2])[..., None].astype(np.int64), axis=2)[..., 0]
    right = np.where(np.isnan(own), np.nan, p.argmax(axis=2) == y)
    square = (p - np.eye(k)[y]) ** 2
    brier = square[..., 1] if k == 2 else square.sum(axis=2)  # as scikit-learn counts it
    right_N = _over_rounds(right)
    there = np.unique(y[asked.rows])
    recalls = [_mean(right_N[y == c], weights_BN[:, y == c]) for c in there]
    return {
        "accuracy": _mean(right_N, weights_BN),
        "balanced_accuracy": np.mean(recalls, axis=0),
        "auc": _auc(asked, p, weights_BN),
        "log_loss": _mean(_over_rounds(-np.log(np.clip(own, _FLOOR, 1.0))), weights_BN),
        "brier": _mean(_over_rounds(brier), weights_BN),
    }


def estimate(drawn_B: FloatArray, n_units: int, bound: float | None = None, smallest: int | None = None) -> Estimate:
    """A figure and its 95 % interval from its resamples, the first of which is the figure itself.

    The interval takes percentiles of the resamples, a little further out than 2.5 and 97.5: so far that for a mean of
    normal values it is Student's (Hesterberg 2015, "expanded percentile"). Where every row is right no resample
    differs, and the rule of three says how bad the model may still be: 3 over the number of units.

    Parameters
    ----------
    drawn_B : ndarray
    n_units : int
        Rows, or groups, that were drawn.
    bound : float, optional
        Best possible value; given only for shares.
    smallest : int, optional
        Units that stand behind a perfect share, if not all.
    """
    value, resamples = float(drawn_B[0]), drawn_B[1:][np.isfinite(drawn_B[1:])]
    if not np.isfinite(value) or len(resamples) < 20 or n_units < 3:
        return Estimate(value, float("nan"), float("nan"))
    outside = stats.norm.cdf(-np.sqrt(n_units / (n_units - 1)) * stats.t.ppf(0.975, n_units - 1))
    low, high = np.quantile(resamples, [outside, 1 - outside])
    if bound is not None and value == bound and low == high:
        low = max(0.0, bound - 3 / (smallest or n_units))
    return Estimate(value, float(low), float(high))


def _over_rounds(score_RN: FloatArray) -> FloatArray:
    """A row's score, averaged over the rounds in which it was asked; NaN where it never was."""
    there = ~np.isnan(score_RN)
    total: FloatArray = np.where(there, score_RN, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    total[~there.any(axis=0)] = np.nan
    return total


def _mean(score_N: FloatArray, weights_BN: FloatArray) -> FloatArray:
    """Weighted means; a row that was never asked has no weight."""
    there = ~np.isnan(score_N)
    out: FloatArray = weights_BN[:, there] @ score_N[there] / weights_BN[:, there].sum(axis=1)
    return out


def _auc(asked: Asked, p_RNK: FloatArray, weights_BN: FloatArray) -> FloatArray:
    """Area under the ROC curve: of all pairs that one model has ranked, the share in the right order.

    Only rows of the same fold are compared: probabilities of models that were fitted on different rows need not be on
    one scale. Leaving one row out there are no such pairs, and all rows of a round are compared. With more than two
    classes each is held against the others, and the areas are averaged.
    """
    y, classes = asked.y, np.unique(asked.y[asked.rows])
    if len(classes) < 2:
        return np.full(len(weights_BN), np.nan)
    fold_RN = np.where(asked.fold_RN >= 0, 0, -1) if asked.alone else asked.fold_RN
    areas = []
    for k in classes[classes > 0] if asked.n_classes == 2 else classes:
        won, pairs = np.zeros(len(weights_BN)), np.zeros(len(weights_BN))
        for p_NK, fold_N in zip(p_RNK, fold_RN, strict=True):
            for fold in np.unique(fold_N[fold_N >= 0]):
                rows = np.flatnonzero(fold_N == fold)
                more = _pairs(p_NK[rows, k], y[rows] == k, weights_BN[:, rows])
                won, pairs = won + more[0], pairs + more[1]
        areas.append(np.divide(won, pairs, out=np.full(len(won), np.nan), where=pairs > 0))
    out: FloatArray = np.mean(areas, axis=0)
    return out


def _pairs(score: FloatArray, positive: npt.NDArray[np.bool_], weights_BN: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weight of the pairs in the right order, ties by half, and of all pairs."""
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(score[order]) > 0])
    weights_BN = weights_BN[:, order]
    up = np.add.reduceat(weights_BN * positive[order], starts, axis=1)
    down = np.add.reduceat(weights_BN * ~positive[order], starts, axis=1)
    below = np.cumsum(down, axis=1) - down
    return (up * (below + down / 2)).sum(axis=1), up.sum(axis=1) * down.sum(axis=1)


def _numbers(asked: Asked, answer_RN: FloatArray, weights_BN: FloatArray) -> dict[str, FloatArray]:
    error = answer_RN - asked.y
    square_B = _mean(_over_rounds(error**2), weights_BN)
    centred = asked.y - asked.y[asked.rows].mean()
    spread_B = _mean(centred**2, weights_BN) - _mean(centred, weights_BN) ** 2
    return {
        "r2": 1 - np.divide(square_B, spread_B, out=np.full_like(square_B, np.nan), where=spread_B > 0),
        "rmse": np.sqrt(square_B),
        "mae": _mean(_over_rounds(np.abs(error)), weights_BN),
    }
