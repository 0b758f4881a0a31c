"""Class evidence in row representations: the Fisher ratio as a function of a step, and nearest prototypes.

The numbers the Tail gate compares. Everything here is float64: the gate compares small differences of large sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "FisherForm",
    "Prototypes",
    "alternate_halves",
    "as_float",
    "bandwidth_of",
    "class_means",
    "rounding_energy",
    "softmax",
    "square_distances",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FisherForm:
    """The Fisher ratio of ``b + alpha * v`` as a ratio of two quadratics in alpha."""

    between: tuple[float, float, float]
    within: tuple[float, float, float]

    @classmethod
    def of(cls, b: FloatArray, v: FloatArray, y: IntArray) -> FisherForm:
        """Between- and within-class scatter of both, and between them."""
        counts = np.bincount(y)[:, None]
        b, v = b - b.mean(axis=0), v - v.mean(axis=0)
        b_means, v_means = class_means(b, y), class_means(v, y)
        b_rest, v_rest = b - b_means[y], v - v_means[y]
        return cls(
            between=(
                float((counts * b_means**2).sum()),
                float((counts * b_means * v_means).sum()),
                float((counts * v_means**2).sum()),
            ),
            within=(
                float(np.vdot(b_rest, b_rest)),
                float(np.vdot(b_rest, v_rest)),
                float(np.vdot(v_rest, v_rest)),
            ),
        )

    def __call__(self, alpha: float) -> float:
        """The Fisher ratio at one step."""
        above = self.between[0] + 2 * alpha * self.between[1] + alpha**2 * self.between[2]
        below = self.within[0] + 2 * alpha * self.within[1] + alpha**2 * self.within[2]
        return above / below if below > 0 else (np.inf if above > 0 else 0.0)

    def best_step(self) -> float:
        """The exact maximiser in [0, 1]: the end points and the real roots of the derivative's numerator."""
        (b0, b1, b2), (w0, w1, w2) = self.between, self.within
        steps = [
            0.0,
            1.0,
            *(x for x in _roots(b2 * w1 - b1 * w2, b2 * w0 - b0 * w2, b1 * w0 - b0 * w1) if 0 < x < 1),
        ]
        return max(steps, key=self)


@dataclass(frozen=True)
class Prototypes:
    """A nearest-prototype classifier fitted on one half of the support."""

    centroids: FloatArray
    bandwidth: float

    @classmethod
    def of(cls, z: FloatArray, y: IntArray) -> Prototypes:
        """Fit on labelled rows."""
        centroids = class_means(z, y)
        return cls(centroids, bandwidth_of(centroids))

    def score(self, z: FloatArray, y: IntArray) -> tuple[float, float]:
        """Mean NLL and accuracy."""
        if self.bandwidth == 0:  # all centroids coincide: nothing is known about any row
            n_classes = len(self.centroids)
            return float(np.log(n_classes)), float((y == 0).mean())
        logits = -square_distances(z, self.centroids) / self.bandwidth
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return float(-log_p[np.arange(len(y)), y].mean()), float((logits.argmax(axis=1) == y).mean())


def alternate_halves(y: IntArray) -> tuple[IntArray, IntArray]:
    """Deal the rows of every class alternately into two halves."""
    first = np.zeros(len(y), dtype=bool)
    for k in range(int(y.max()) + 1):
        first[np.flatnonzero(y == k)[::2]] = True
    return np.flatnonzero(first), np.flatnonzero(~first)


def class_means(z: FloatArray, y: IntArray) -> FloatArray:
    """Mean of the rows of each class."""
    return np.stack([z[y == k].mean(axis=0) for k in range(int(y.max()) + 1)])


def bandwidth_of(centroids: FloatArray) -> float:
    """Median positive squared distance between class centroids; 0 where all coincide."""
    upper = square_distances(centroids, centroids)[np.triu_indices(len(centroids), 1)]
    positive = upper[upper > 0]
    return float(np.median(positive)) if len(positive) else 0.0


def square_distances(z: FloatArray, centroids: FloatArray) -> FloatArray:
    """Squared distance of every row to every centroid."""
    # One class at a time: K is small, and the expanded form |z|^2 - 2 z.mu + |mu|^2 would cancel.
    return np.stack([((z - mu) ** 2).sum(axis=1) for mu in centroids], axis=1)


def softmax(logits: FloatArray) -> FloatArray:
    """Softmax over the last of two axes."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    out: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return out


def _roots(a: float, b: float, c: float) -> tuple[float, ...]:
    """Real roots of ``a x^2 + b x + c`` without cancellation."""
    if a == 0:
        return () if b == 0 else (-c / b,)
    discriminant = b * b - 4 * a * c
    if discriminant < 0:
        return ()
    q = -0.5 * (b + np.copysign(np.sqrt(discriminant), b))
    return (float(q / a), float(c / q)) if q != 0 else (0.0,)


def rounding_energy(z: FloatArray, reference: FloatArray) -> float:
    """Energy that float32 messages of this size carry as rounding error."""
    return float(z.size * (np.abs(reference).max() * np.finfo(np.float32).eps) ** 2)


def as_float(z: Any) -> FloatArray:
    """Any array or tensor as float64."""
    return np.asarray(z, dtype=np.float64)
