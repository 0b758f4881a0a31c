"""Mixing presentations: weights on the simplex and a temperature, from held-back predictions alone.

Shape legend: ``P`` presentations, ``N`` held-back rows, ``K`` classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize, minimize_scalar

__all__ = ["Mixture", "fit_mixture", "losses_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_SMALLEST = 1e-12

#: Below this a presentation costs more than it brings.
_LEAST_WEIGHT = 0.05

#: How strongly weights are held together, in rows: with few rows they stay near each other.
_TOGETHER = 4.0

_TEMPERATURES = (0.4, 2.5)


@dataclass(frozen=True)
class Mixture:
    """How predictions are put together.

    Attributes
    ----------
    weights_P : tuple of float
        They sum to one; 0 for what is left out.
    temperature : float
        Applied to the logarithm of the mixture; below 1 it gets surer.
    """

    weights_P: tuple[float, ...]
    temperature: float = 1.0

    def __call__(self, proba_PNK: FloatArray) -> FloatArray:
        """Probabilities_NK of the mixture."""
        mixed_NK = np.tensordot(np.asarray(self.weights_P), proba_PNK, axes=1)
        if self.temperature == 1.0:
            return mixed_NK
        return _tempered(mixed_NK, self.temperature)


def fit_mixture(proba_PNK: FloatArray, y: IntArray) -> Mixture:
    """Weights and temperature that make held-back rows likely.

    Parameters
    ----------
    proba_PNK : ndarray
        Probabilities of held-back rows by every presentation.
    y : ndarray of int
        Their class codes.

    Returns
    -------
    Mixture
    """
    own_PN = np.maximum(proba_PNK[:, np.arange(len(y)), y], _SMALLEST)
    weights_P = _weights(own_PN)
    kept = weights_P >= _LEAST_WEIGHT
    if not kept.all():
        weights_P = np.zeros(len(own_PN))
        weights_P[kept] = _weights(own_PN[kept])
    mixed_NK = np.tensordot(weights_P, proba_PNK, axes=1)

    def loss(log_temperature: float) -> float:
        # A pull towards 1 of the weight of a few rows: a handful of rows knows little about sureness.
        pull = _TOGETHER * log_temperature**2 / len(y)
        return float(losses_of(_tempered(mixed_NK, np.exp(log_temperature)), y).mean()) + pull

    found = minimize_scalar(loss, bounds=tuple(np.log(_TEMPERATURES)), method="bounded", options={"xatol": 1e-3})
    return Mixture(tuple(map(float, weights_P)), float(np.exp(found.x)))


def losses_of(proba_NK: FloatArray, y: IntArray) -> FloatArray:
    """Negative log-likelihood of every row."""
    out: FloatArray = -np.log(np.maximum(proba_NK[np.arange(len(y)), y], _SMALLEST))
    return out


def _weights(own_PN: FloatArray) -> FloatArray:
    """Weights on the simplex that minimise the mean loss, drawn together by the weight of a few rows."""
    n_presentations, n_rows = own_PN.shape
    if n_presentations == 1:
        return np.ones(1)

    def loss(theta_P: FloatArray) -> tuple[float, FloatArray]:
        weights = np.exp(theta_P - theta_P.max())
        weights /= weights.sum()
        mixed = weights @ own_PN
        value = -np.log(mixed).mean() + _TOGETHER / n_rows * np.square(theta_P).mean()
        # d/dtheta of -log(w.p): w (1 - p / mixed), averaged over rows.
        slope = weights * (1 - (own_PN / mixed).mean(axis=1))
        return float(value), slope + 2 * _TOGETHER / n_rows * theta_P / n_presentations

    theta_P = minimize(loss, np.zeros(n_presentations), jac=True, method="L-BFGS-B").x
    weights: FloatArray = np.exp(theta_P - theta_P.max())
    weights /= weights.sum()
    return weights


def _tempered(proba_NK: FloatArray, temperature: float) -> FloatArray:
    logits = np.log(np.maximum(proba_NK, _SMALLEST)) / temperature
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    out: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return out
