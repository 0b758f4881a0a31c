"""Putting numbers together: weights on the simplex, from held-back predictions alone.

Shape legend: ``P`` presentations, ``N`` held-back rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from scff.trials.mixture import Mixture, earned

__all__ = ["Average", "errors_of", "fit_average", "mixed"]

FloatArray = npt.NDArray[np.float64]

#: Rows that the prior weights count for, each as far off as the best alternative is on average.
_PSEUDO_ROWS = 4.0

#: How much more than anything else it counts that weights sum to one.
_SURELY = 1e4


@dataclass(frozen=True)
class Average:
    """A weighted mean of numbers.

    Attributes
    ----------
    weights_P : tuple of float
        They sum to one; 0 for what is left out.
    temperature : float
        Numbers have none.
    """

    weights_P: tuple[float, ...]
    temperature: float = 1.0

    def __call__(self, values_PN1: FloatArray) -> FloatArray:
        """Numbers_N1 of the mixture."""
        mixed: FloatArray = np.tensordot(np.asarray(self.weights_P), values_PN1, axes=1)
        return mixed


def mixed(weights_P: tuple[float, ...], temperature: float, classified: bool) -> Mixture | Average:
    """How what is read of one task is put together."""
    return Mixture(weights_P, temperature) if classified else Average(weights_P)


def fit_average(
    values_PN1: FloatArray,
    y: FloatArray,
    prior_P: FloatArray | None = None,
    passes_P: npt.NDArray[np.bool_] | None = None,
) -> Average:
    """Weights that bring the mean close to held-back rows.

    Parameters
    ----------
    values_PN1 : ndarray
        Predictions of held-back rows by every alternative.
    y : ndarray
        Their numbers.
    prior_P : ndarray, optional
        What the weights are drawn to; equal by default.
    passes_P : ndarray of bool, optional
        Which alternatives cost a pass of the model; they must earn more weight to be kept.

    Returns
    -------
    Average
    """
    values_PN = values_PN1[..., 0]
    prior_P = np.ones(len(values_PN)) if prior_P is None else prior_P
    weights_P = earned(lambda kept_P: _weights(values_PN[kept_P], y, prior_P[kept_P]), len(values_PN), passes_P)
    return Average(tuple(map(float, weights_P)))


def errors_of(values_N1: FloatArray, y: FloatArray) -> FloatArray:
    """Squared error of every row, in units of the variance of all of them."""
    variance = float(y.var())
    out: FloatArray = (values_N1[:, 0] - y) ** 2 / (variance if variance > 0 else 1.0)
    return out


def _weights(values_PN: FloatArray, y: FloatArray, prior_P: FloatArray) -> FloatArray:
    """Least squares on the simplex, held at the prior: as rows of one non-negative problem."""
    prior_P = prior_P / prior_P.sum()
    away = values_PN - y  # weights sum to one: what the mean leaves over is the mean of what each leaves over
    best = float((away**2).mean(axis=1).min()) ** 0.5
    away /= max(best, 1e-9 * (float(y.std()) or 1.0))
    hold = np.sqrt(_PSEUDO_ROWS / prior_P)
    rows = np.vstack([away.T, np.diag(hold), np.full((1, len(prior_P)), _SURELY)])
    target = np.r_[np.zeros(len(y)), hold * prior_P, _SURELY]
    found, _ = nnls(rows, target)
    weights: FloatArray = found / found.sum()
    return weights
