"""Class means, nearest prototypes and halves, in float64: the gate compares small differences of large sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "Prototypes",
    "alternate_halves",
    "as_float",
    "class_means",
    "log_softmax",
    "median_distance",
    "square_distances",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def alternate_halves(y: IntArray) -> tuple[IntArray, IntArray]:
    """Deal the rows of every class alternately into two halves."""
    first = np.zeros(len(y), dtype=bool)
    for k in range(int(y.max()) + 1):
        first[np.flatnonzero(y == k)[::2]] = True
    return np.flatnonzero(first), np.flatnonzero(~first)


def class_means(z: FloatArray, y: IntArray) -> FloatArray:
    """Mean of the rows of each class."""
    return np.stack([z[y == k].mean(axis=0) for k in range(int(y.max()) + 1)])


def square_distances(z: FloatArray, centroids: FloatArray) -> FloatArray:
    """Squared distance of every row to every centroid."""
    # One class at a time: K is small, and the expanded form |z|^2 - 2 z.mu + |mu|^2 would cancel.
    return np.stack([((z - mu) ** 2).sum(axis=1) for mu in centroids], axis=1)


def median_distance(centroids: FloatArray) -> float:
    """Median positive squared distance between class centroids; 0 where all coincide."""
    upper = square_distances(centroids, centroids)[np.triu_indices(len(centroids), 1)]
    positive = upper[upper > 0]
    return float(np.median(positive)) if len(positive) else 0.0


def log_softmax(logits: FloatArray) -> FloatArray:
    """Logarithm of the softmax over the last of two axes."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    out: FloatArray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return out


def as_float(z: Any) -> FloatArray:
    """Any array or tensor as float64."""
    return np.asarray(z, dtype=np.float64)


@dataclass(frozen=True)
class Prototypes:
    """A nearest-prototype classifier fitted on one half of the support."""

    centroids: FloatArray
    scale: float

    @classmethod
    def of(cls, z: FloatArray, y: IntArray) -> Prototypes:
        """Fit on labelled rows."""
        centroids = class_means(z, y)
        return cls(centroids, median_distance(centroids))

    def score(self, z: FloatArray, y: IntArray) -> tuple[float, float]:
        """Mean NLL and accuracy."""
        if self.scale == 0:  # all centroids coincide: nothing is known about any row
            return float(np.log(len(self.centroids))), float((y == 0).mean())
        logits = -square_distances(z, self.centroids) / self.scale
        own = log_softmax(logits)[np.arange(len(y)), y]
        return float(-own.mean()), float((logits.argmax(axis=1) == y).mean())
