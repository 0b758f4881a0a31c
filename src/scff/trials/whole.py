"""The whole table at once: what all columns together say about a row, in a few summary columns.

Everything goes through the products of rows over all columns, a matrix of labelled rows by labelled rows that is summed
over blocks of columns: a table of 100,000 columns on disk costs one more pass and no memory to speak of. A summary is a
linear map of the scaled columns, so that query rows need the labelled ones no more once it is known.

Columns are numbers (categories by their codes), filled with their medians, scaled to unit
variance, drawn in at four deviations and scaled again: one wild cell moves nothing.

Shape legend: ``S`` labelled rows, ``N`` held-back rows, ``Q`` query rows, ``D`` columns, ``k`` summary columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from scff.tables.table import Table

__all__ = ["ColumnScale", "Summary", "Whole"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Deviations beyond which a value is drawn in.
_CLIP = 4.0

#: Directions of less than this share of the leading variance are rounding, not data.
_NOTHING = 1e-9

_BLOCK_BYTES = 8 << 20


@dataclass(frozen=True)
class ColumnScale:
    """How columns are brought to one scale, learned on labelled rows; every field has one entry a column."""

    peak: FloatArray
    fill: FloatArray
    mean: FloatArray
    width: FloatArray
    mean_in: FloatArray
    width_in: FloatArray

    @classmethod
    def fit(cls, X: Any) -> ColumnScale:
        """Learn from rows, in blocks of columns."""
        n_columns = X.shape[1]
        peak, fill, mean, mean_in = (np.zeros(n_columns) for _ in range(4))
        width, width_in = np.ones(n_columns), np.ones(n_columns)
        for part in _blocks(X):
            raw = np.array(X[:, part], dtype=np.float64)
            missing = np.isnan(raw)
            # In units of the largest value: squares of anything a float can hold stay finite.
            high = np.max(np.where(missing, 0.0, np.abs(raw)), axis=0)
            peak[part] = np.where(high > 0, high, 1.0)
            raw /= peak[part]
            if missing.any():
                for j in np.flatnonzero(missing.any(axis=0)):
                    known = raw[~missing[:, j], j]
                    fill[part.start + j] = np.median(known) if len(known) else 0.0
                raw = np.where(missing, fill[part], raw)
            mean[part] = raw.mean(axis=0)
            raw -= mean[part]
            # Constancy is decided on the values: the variance of a constant 0.1 need not be exactly zero.
            varies = raw.max(axis=0) > raw.min(axis=0)
            width[part] = np.where(varies, np.sqrt((raw**2).mean(axis=0)), np.inf)
            raw /= width[part]
            np.clip(raw, -_CLIP, _CLIP, out=raw)
            mean_in[part] = raw.mean(axis=0)
            spread = raw.std(axis=0)
            width_in[part] = np.where(varies & (spread > 0), spread, np.inf)
        return cls(peak, fill, mean, width, mean_in, width_in)

    def __call__(self, X: Any, part: slice) -> FloatArray:
        """Some columns of rows at that scale; constant ones are zero."""
        raw = np.array(X[:, part], dtype=np.float64) / self.peak[part]
        raw = np.where(np.isnan(raw), self.fill[part], raw) - self.mean[part]
        out: FloatArray = (np.clip(raw / self.width[part], -_CLIP, _CLIP) - self.mean_in[part]) / self.width_in[part]
        return out


@dataclass(frozen=True, eq=False)
class Whole:
    """Labelled rows through all columns at once.

    Attributes
    ----------
    gram_SS : ndarray
        Products of the labelled rows over all scaled columns.
    cross_NS : ndarray
        Products of held-back rows with them; no rows where nothing is held back.
    X : array
        The labelled rows, for the maps of query rows.
    scale : ColumnScale
    """

    gram_SS: FloatArray
    cross_NS: FloatArray
    X: Any
    scale: ColumnScale

    @classmethod
    def of(cls, table: Table) -> Whole:
        """Read a table of labelled rows once for its scale and once for its products."""
        X = table.values
        scale = ColumnScale.fit(X)
        n = table.n_rows
        gram_SS = np.zeros((n, n))
        for part in _blocks(X):
            z = scale(X, part)
            gram_SS += z @ z.T
        return cls(gram_SS, np.empty((0, n)), X, scale)

    def part(self, fitted: IntArray, new: IntArray, table: Table) -> Whole:
        """Some labelled rows as support and others as held back, without reading the table again.

        The scale stays that of all labelled rows; it knows no label.
        """
        return Whole(self.gram_SS[np.ix_(fitted, fitted)], self.gram_SS[np.ix_(new, fitted)], table.values, self.scale)

    @cached_property
    def directions(self) -> tuple[FloatArray, FloatArray]:
        """Variances and unit vectors_SS of the centred products, largest first."""
        variance, vectors = eigh(self._centred(self.gram_SS))
        variance = np.maximum(variance[::-1], 0.0)
        vectors = vectors[:, ::-1]
        # The sign of a direction is free; fixed, so that the same rows always give the same columns.
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
        return variance, np.where(largest < 0, -vectors, vectors)

    def components(self, k: int) -> Summary:
        """The leading principal components, at most as many as there are directions."""
        variance, vectors = self.directions
        k = min(k, int((variance > _NOTHING * variance[0]).sum()))
        lengths = np.sqrt(variance[:k])
        return self._summary(vectors[:, :k] * lengths, vectors[:, :k] / lengths)

    def _summary(self, support_Sk: FloatArray, dual_Sk: FloatArray) -> Summary:
        return Summary(self, support_Sk, self._centred(self.cross_NS) @ dual_Sk, dual_Sk)

    def _centred(self, products_TS: FloatArray) -> FloatArray:
        """Products with the mean labelled row taken off both sides."""
        by_row = self.gram_SS.mean(axis=0)
        out: FloatArray = products_TS - products_TS.mean(axis=1, keepdims=True) - by_row + by_row.mean()
        return out


@dataclass(frozen=True, eq=False)
class Summary:
    """A few columns that sum up all of them.

    Attributes
    ----------
    whole : Whole
    support_Sk, held_Nk : ndarray
        The summary of labelled and of held-back rows.
    dual_Sk : ndarray
        What each labelled row adds to the map of other rows.
    """

    whole: Whole
    support_Sk: FloatArray
    held_Nk: FloatArray
    dual_Sk: FloatArray

    @property
    def width(self) -> int:
        """How many columns it has."""
        return int(self.support_Sk.shape[1])

    @cached_property
    def _map(self) -> tuple[FloatArray, FloatArray]:
        """Loadings_Dk of the scaled columns, and what the mean labelled row takes off."""
        X, scale = self.whole.X, self.whole.scale
        dual_Sk = self.dual_Sk - self.dual_Sk.mean(axis=0)  # the mean row drops out
        loadings_Dk = np.empty((X.shape[1], self.width))
        offset_k = np.zeros(self.width)
        for part in _blocks(X):
            z_S = scale(X, part)
            loadings_Dk[part] = z_S.T @ dual_Sk
            offset_k += z_S.mean(axis=0) @ loadings_Dk[part]
        return loadings_Dk, offset_k

    def __call__(self, rows: Table) -> FloatArray:
        """The summary of query rows, in blocks of columns."""
        loadings_Dk, offset_k = self._map
        X = rows.values
        out_Qk = np.zeros((rows.n_rows, self.width)) - offset_k
        for part in _blocks(X):
            out_Qk += self.whole.scale(X, part) @ loadings_Dk[part]
        return out_Qk


def _blocks(X: Any) -> Iterator[slice]:
    n, n_columns = X.shape
    width = max(1, _BLOCK_BYTES // (8 * max(n, 1)))
    return (slice(start, min(start + width, n_columns)) for start in range(0, n_columns, width))
