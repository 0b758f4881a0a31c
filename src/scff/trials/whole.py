"""The whole table at once: products of rows over all columns, and kernels made of them.

A matrix of labelled rows by labelled rows is summed over blocks of columns: a table of 100,000 columns on disk costs
one more pass and no memory to speak of. Parts of the labelled rows look their products up, and query rows meet the
labelled ones in blocks as well.

Shape legend: ``S`` labelled rows, ``T`` any rows, ``D`` columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from scff.fold.threads import small_matrices
from scff.trials.scales import EqualScale, Scale, ShareScale

__all__ = ["Kernel", "Products", "Whole"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Products:
    """Products of rows with the labelled rows, and of each with itself."""

    with_TS: FloatArray
    own_T: FloatArray

    def of(self, rows: IntArray, labelled: IntArray) -> Products:
        """Those of some rows with some of the labelled ones."""
        return Products(self.with_TS[np.ix_(rows, labelled)], self.own_T[rows])


@dataclass(frozen=True, eq=False)
class Whole:
    """Labelled rows through all columns at once.

    Attributes
    ----------
    scale : Scale
    X : array
        The labelled rows as numbers.
    products : Products
        Of the labelled rows with each other.
    """

    scale: Scale
    X: Any
    products: Products

    @classmethod
    def of(cls, X: Any, scale: type[EqualScale] | type[ShareScale]) -> Whole:
        """Read a table of labelled rows once for its scale and once for its products."""
        fitted = scale.fit(X)
        n = X.shape[0]
        gram_SS = np.zeros((n, n))
        for _, z_S in fitted(X):
            gram_SS += z_S @ z_S.T
        return cls(fitted, X, Products(gram_SS, np.diag(gram_SS).copy()))

    def meet(self, rows: Any) -> Products:
        """Products of query rows with the labelled ones."""
        with_QS, own_Q = np.zeros((rows.shape[0], self.X.shape[0])), np.zeros(rows.shape[0])
        for (_, z_Q), (_, z_S) in zip(self.scale(rows), self.scale(self.X), strict=True):
            with_QS += z_Q @ z_S.T
            own_Q += np.einsum("ij,ij->i", z_Q, z_Q)
        return Products(with_QS, own_Q)


class Kernel:
    """A similarity of rows with labelled rows, centred on these, and its directions.

    Parameters
    ----------
    products : Products
        Of the labelled rows with each other.
    radial : bool
        Whether nearness counts (a Gaussian of the median distance) instead of the product.
    radius : float
        What is near, in median distances.
    """

    def __init__(self, products: Products, radial: bool, radius: float = 1.0) -> None:
        self._own_S = products.own_T
        self._radius = None
        if radial:
            upper = np.triu_indices(len(self._own_S), 1)
            distance = self._distances(products)[upper]
            self._radius = float(np.median(distance)) if len(distance) and np.median(distance) > 0 else 1.0
            self._radius *= radius
        raw_SS = self._raw(products)
        self._mean_S = raw_SS.mean(axis=0)
        self._centred_SS = self._centre(raw_SS)

    @cached_property
    def directions(self) -> tuple[FloatArray, FloatArray]:
        """Variances, largest first, and unit vectors_SS."""
        with small_matrices():
            variance, vectors = eigh(self.__dict__.pop("_centred_SS"))  # which nobody else asks for
        variance, vectors = np.maximum(variance[::-1], 0.0), vectors[:, ::-1]
        # The sign of a direction is free; fixed, so that the same rows always give the same columns.
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
        return variance, np.where(largest < 0, -vectors, vectors)

    def __call__(self, products: Products) -> FloatArray:
        """Centred similarity_TS of other rows with the labelled ones."""
        return self._centre(self._raw(products))

    def _raw(self, products: Products) -> FloatArray:
        if self._radius is None:
            return products.with_TS
        out: FloatArray = np.exp(-self._distances(products) / self._radius)
        return out

    def _distances(self, products: Products) -> FloatArray:
        return np.maximum(products.own_T[:, None] + self._own_S - 2 * products.with_TS, 0.0)

    def _centre(self, raw_TS: FloatArray) -> FloatArray:
        out: FloatArray = raw_TS - raw_TS.mean(axis=1, keepdims=True) - self._mean_S + self._mean_S.mean()
        return out
