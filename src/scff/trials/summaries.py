"""Summary columns of a whole table: principal components, and scores that carry the labels of the other rows.

A score is kernel ridge regression on the class or number. A labelled row gets the score that all the *other* labelled
rows give it, in closed form, so that it does not know its own label; a new row gets the score of all of them.

Shape legend: ``S`` labelled rows, ``T`` any rows, ``k`` components, ``C`` scores: one for two classes, else one each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from scff.fold.threads import small_matrices
from scff.gate.class_evidence import log_softmax
from scff.trials.folds import are_codes
from scff.trials.whole import Kernel, Products

__all__ = ["Calibration", "Components", "Line", "Scores", "calibrated"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Directions of less than this share of the leading variance are rounding, not data.
_NOTHING = 1e-9

#: Penalties that are tried, in units of the mean variance of a row.
_PENALTIES = (1e-2, 1e-1, 1.0, 10.0, 100.0)

#: How strongly a bias is held at nought, in rows: with several classes each has few rows to learn its own from.
_HELD, _HELD_OF_SEVERAL = 0.01, 1.0

#: A number goes at most this far beyond its score.
_FURTHEST = 2.0


@dataclass(frozen=True, eq=False)
class Components:
    """Leading principal components.

    Attributes
    ----------
    support_Sk : ndarray
        Of the labelled rows: uncorrelated, of falling variance.
    """

    support_Sk: FloatArray
    _kernel: Kernel
    _map_Sk: FloatArray

    @classmethod
    def fit(cls, kernel: Kernel, most: int) -> Components:
        """At most so many, and no more than there are directions."""
        variance, vectors = kernel.directions
        k = min(most, int((variance > _NOTHING * max(variance[0], 1e-300)).sum()))
        lengths = np.sqrt(variance[:k])
        return cls(vectors[:, :k] * lengths, kernel, vectors[:, :k] / np.maximum(lengths, 1e-300))

    def __call__(self, products: Products) -> FloatArray:
        """Components_Tk of other rows."""
        return self._kernel(products) @ self._map_Sk


@dataclass(frozen=True, eq=False)
class Scores:
    """What labelled rows say about the class or number of another.

    Attributes
    ----------
    support_SC : ndarray
        Of every labelled row by the others, less what their class frequencies alone would say.
    error : float
        Mean squared error of left-out rows.
    """

    support_SC: FloatArray
    error: float
    _kernel: Kernel
    _map_SC: FloatArray

    @classmethod
    def fit(cls, kernel: Kernel, y: npt.NDArray[Any]) -> Scores:
        """Kernel ridge regression at the penalty that predicts left-out rows best."""
        n, target_SC = len(y), _targets(y)
        mean_C = target_SC.mean(axis=0)
        variance, vectors = kernel.directions
        along_SC = vectors.T @ (target_SC - mean_C)
        # A left-out row moves the mean of the others away from its own label: left in, the intercept would tell it.
        others_SC = (n * mean_C - target_SC) / (n - 1)
        best: tuple[float, FloatArray, FloatArray] | None = None
        for penalty in _PENALTIES:
            ridge = penalty * max(float(variance.sum()) / n, 1e-300)
            kept = variance / (variance + ridge)
            leverage_S = (vectors**2) @ kept + 1 / n
            fitted_SC = mean_C + vectors @ (kept[:, None] * along_SC)
            left_out_SC = target_SC - (target_SC - fitted_SC) / np.maximum(1 - leverage_S, 1e-6)[:, None]
            error = float(((target_SC - left_out_SC) ** 2).mean())
            if best is None or error < best[0]:
                best = error, left_out_SC - others_SC, vectors @ (along_SC / (variance + ridge)[:, None])
        assert best is not None
        return cls(best[1], best[0], kernel, best[2])

    def __call__(self, products: Products) -> FloatArray:
        """Scores_TC of other rows."""
        return self._kernel(products) @ self._map_SC


@dataclass(frozen=True)
class Calibration:
    """From scores to probabilities: one slope for all classes and a bias for each, learned on left-out scores."""

    size: float
    slope: float
    bias_K: FloatArray

    @classmethod
    def fit(cls, scores_SC: FloatArray, y: IntArray) -> Calibration:
        """The likeliest, with a slight pull towards knowing nothing."""
        size = float(scores_SC.std()) + 1e-12
        z_SK, n, n_classes = _by_class(scores_SC / size), len(y), int(y.max()) + 1
        target_SK, held = np.eye(n_classes)[y], _HELD if n_classes == 2 else _HELD_OF_SEVERAL

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            log_p = log_softmax(theta[0] * z_SK + theta[1:])
            error = (np.exp(log_p) - target_SK) / n
            value = -log_p[np.arange(n), y].mean() + (0.05 * theta[0] ** 2 + held * (theta[1:] ** 2).sum()) / n
            slope = np.r_[(error * z_SK).sum() + 0.1 * theta[0] / n, error.sum(axis=0) + 2 * held * theta[1:] / n]
            return float(value), slope

        start = np.r_[1.0, np.log(target_SK.mean(axis=0))]
        with small_matrices():
            theta = minimize(loss, start, jac=True, method="L-BFGS-B").x
        return cls(size, float(theta[0]), theta[1:])

    def __call__(self, scores_TC: FloatArray) -> FloatArray:
        """Probabilities_TK."""
        out: FloatArray = np.exp(log_softmax(self.slope * _by_class(scores_TC / self.size) + self.bias_K))
        return out


@dataclass(frozen=True)
class Line:
    """From a score to a number: how far to follow it, learned on left-out scores."""

    mean: float
    slope: float

    @classmethod
    def fit(cls, scores_S1: FloatArray, y: FloatArray) -> Line:
        """Least squares; a score that points the wrong way says nothing."""
        along_S, n = scores_S1[:, 0], len(y)
        others_S = (y.sum() - y) / (n - 1)  # what a left-out score was added to
        size = float(along_S @ along_S)
        slope = float(along_S @ (y - others_S)) / size if size > 0 else 0.0
        return cls(float(y.mean()), float(np.clip(slope, 0.0, _FURTHEST)))

    def __call__(self, scores_T1: FloatArray) -> FloatArray:
        """Numbers_T1."""
        return self.mean + self.slope * scores_T1


def calibrated(scores_SC: FloatArray, y: npt.NDArray[Any], forwards: bool = False) -> Calibration | Line:
    """What makes answers of left-out scores: probabilities of classes, or numbers.

    Parameters
    ----------
    scores_SC : ndarray
    y : ndarray
    forwards : bool
        Scores that still hold a trace of the row that was left out point away from it where they know nothing else:
        then only the class frequencies are believed.
    """
    if not are_codes(y):
        return Line.fit(scores_SC, y)
    found = Calibration.fit(scores_SC, y)
    if forwards and found.slope < 0:
        return replace(found, slope=0.0, bias_K=np.log(np.bincount(y) / len(y)))
    return found


def _targets(y: npt.NDArray[Any]) -> FloatArray:
    """What scores are regressed on: the number, the sign of one of two classes, or each of several."""
    if not are_codes(y):
        return y[:, None]
    n_classes = int(y.max()) + 1
    return np.eye(n_classes)[y] if n_classes > 2 else 2.0 * y[:, None] - 1.0


def _by_class(scores_TC: FloatArray) -> FloatArray:
    """A score for every class; the one of two classes speaks for the second."""
    return np.hstack([np.zeros_like(scores_TC), scores_TC]) if scores_TC.shape[1] == 1 else scores_TC
