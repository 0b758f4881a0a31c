"""Mixing presentations: weights on the simplex and a temperature, from held-back predictions alone.

Shape legend: ``P`` presentations, ``N`` held-back rows, ``K`` classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

__all__ = ["Mixture", "earned", "fit_mixture", "losses_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_SMALLEST = 1e-12

#: Below this a probability is no clearer a no: one reading alone forbids nothing.
_SURE = 1e-4

#: Below this an alternative is left out: the first for those that cost nothing, the second for a pass of the model.
_LEAST_WEIGHT, _LEAST_FOR_A_PASS = 0.02, 0.05

#: Rows that the prior weights count for: with few held-back rows weights stay near it.
_PSEUDO_ROWS = 4.0

#: How strongly the temperature is held at 1, in rows.
_CALM = 20.0

_TEMPERATURES = (0.4, 2.5)
_ROUNDS = 300


@dataclass(frozen=True)
class Mixture:
    """How predictions are put together: half-way between the mean of probabilities and that of their logarithms.

    The first asks for one reading that knows the answer, the second adds up what all of them know a little about.

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
        mixed_NK = _pooled(np.asarray(self.weights_P), proba_PNK)
        if self.temperature == 1.0:
            return mixed_NK
        return _tempered(mixed_NK, self.temperature)


def fit_mixture(
    proba_PNK: FloatArray,
    y: IntArray,
    prior_P: FloatArray | None = None,
    passes_P: npt.NDArray[np.bool_] | None = None,
) -> Mixture:
    """Weights and temperature that make held-back rows likely.

    Parameters
    ----------
    proba_PNK : ndarray
        Probabilities of held-back rows by every alternative.
    y : ndarray of int
        Their class codes.
    prior_P : ndarray, optional
        What the weights are drawn to; equal by default.
    passes_P : ndarray of bool, optional
        Which alternatives cost a pass of the model; they must earn more weight to be kept.

    Returns
    -------
    Mixture
    """
    own_PN = np.maximum(proba_PNK[:, np.arange(len(y)), y], _SMALLEST)
    prior_P = np.ones(len(own_PN)) if prior_P is None else prior_P
    weights_P = earned(lambda kept_P: _weights(own_PN[kept_P], prior_P[kept_P]), len(own_PN), passes_P)
    mixed_NK = _pooled(weights_P, proba_PNK)

    def loss(log_temperature: float) -> float:
        # A handful of rows knows little about sureness.
        pull = _CALM * log_temperature**2 / len(y)
        return float(losses_of(_tempered(mixed_NK, np.exp(log_temperature)), y).mean()) + pull

    found = minimize_scalar(loss, bounds=tuple(np.log(_TEMPERATURES)), method="bounded", options={"xatol": 1e-3})
    return Mixture(tuple(map(float, weights_P)), float(np.exp(found.x)))


def earned(
    weigh: Callable[[npt.NDArray[np.bool_]], FloatArray], n: int, passes_P: npt.NDArray[np.bool_] | None
) -> FloatArray:
    """Weights of alternatives; what earns too little is left out, and the others are weighed again.

    Parameters
    ----------
    weigh : callable
        Weights of those alternatives that a mask keeps.
    n : int
        How many there are.
    passes_P : ndarray of bool, optional
        Which cost a pass of the model; they must earn more to be kept.

    Returns
    -------
    ndarray
        0 for what is left out.
    """
    weights_P = weigh(np.ones(n, dtype=np.bool_))
    least_P = np.where(False if passes_P is None else passes_P, _LEAST_FOR_A_PASS, _LEAST_WEIGHT)
    kept_P = weights_P >= np.minimum(least_P, weights_P.max())
    if kept_P.all():
        return weights_P
    out_P = np.zeros(n)
    out_P[kept_P] = weigh(kept_P)
    return out_P


def losses_of(proba_NK: FloatArray, y: IntArray) -> FloatArray:
    """Negative log-likelihood of every row."""
    out: FloatArray = -np.log(np.maximum(proba_NK[np.arange(len(y)), y], _SMALLEST))
    return out


def _weights(own_PN: FloatArray, prior_P: FloatArray) -> FloatArray:
    """The likeliest weights under a Dirichlet prior, by expectation and maximisation: a convex problem."""
    prior_P = prior_P / prior_P.sum()
    weights_P = prior_P
    for _ in range(_ROUNDS):
        share_PN = weights_P[:, None] * own_PN
        share_PN /= share_PN.sum(axis=0)
        weights_P = (share_PN.sum(axis=1) + _PSEUDO_ROWS * prior_P) / (own_PN.shape[1] + _PSEUDO_ROWS)
    return weights_P


def _pooled(weights_P: FloatArray, proba_PNK: FloatArray) -> FloatArray:
    """One reading is what it is; several meet half-way between their arithmetic and their geometric mean."""
    (kept,) = np.nonzero(weights_P)
    if len(kept) == 1:
        alone: FloatArray = proba_PNK[kept[0]]
        return alone
    geometric_NK = np.exp(np.tensordot(weights_P, np.log(np.maximum(proba_PNK, _SURE)), axes=1))
    geometric_NK /= geometric_NK.sum(axis=1, keepdims=True)
    mixed: FloatArray = (np.tensordot(weights_P, proba_PNK, axes=1) + geometric_NK) / 2
    return mixed


def _tempered(proba_NK: FloatArray, temperature: float) -> FloatArray:
    logits = np.log(np.maximum(proba_NK, _SMALLEST)) / temperature
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    out: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return out
