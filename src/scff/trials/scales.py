"""Two ways to bring all columns of a table to one scale, in blocks of columns, learned on labelled rows without labels.

*Equal*: every column counts the same. Filled with its median, scaled to unit variance, drawn in at four deviations and
scaled again, so that one wild cell moves nothing.

*Shares*: columns count by how much they vary. A table without negative values (counts, intensities) is taken as
the square roots of each row's shares, which makes rows of unlike depth comparable; any other as it is, centred, in
units of its overall deviation.

Shape legend: ``T`` rows, ``D`` columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["EqualScale", "Scale", "ShareScale", "blocks"]

FloatArray = npt.NDArray[np.float64]

#: Deviations beyond which a value is drawn in.
_CLIP = 4.0

#: Columns looked at together: a few megabytes with a thousand rows.
_BLOCK = 1024


class Scale(Protocol):
    """A scale for all columns of a table."""

    def __call__(self, X: Any) -> Iterator[tuple[slice, FloatArray]]:
        """Blocks of columns of rows at this scale."""
        ...


@dataclass(frozen=True)
class EqualScale:
    """Every column counts the same; each field has one entry a column."""

    peak: FloatArray
    fill: FloatArray
    mean: FloatArray
    width: FloatArray
    mean_in: FloatArray
    width_in: FloatArray

    @classmethod
    def fit(cls, X: Any) -> EqualScale:
        """Learn from labelled rows."""
        peak, fill = _peaks_and_medians(X)
        mean, mean_in = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        width, width_in = np.ones(X.shape[1]), np.ones(X.shape[1])
        for part in blocks(X):
            raw = _filled(X, part, peak, fill)
            mean[part] = raw.mean(axis=0)
            raw -= mean[part]
            # Constancy is decided on the values: the variance of a constant 0.1 need not be exactly zero.
            varies = raw.max(axis=0) > raw.min(axis=0)
            width[part] = np.where(varies, np.sqrt((raw**2).mean(axis=0)), np.inf)
            raw = np.clip(raw / width[part], -_CLIP, _CLIP)
            mean_in[part] = raw.mean(axis=0)
            spread = raw.std(axis=0)
            width_in[part] = np.where(varies & (spread > 0), spread, np.inf)
        return cls(peak, fill, mean, width, mean_in, width_in)

    def __call__(self, X: Any) -> Iterator[tuple[slice, FloatArray]]:
        """Blocks of columns at this scale; constant ones are zero."""
        for part in blocks(X):
            raw = (_filled(X, part, self.peak, self.fill) - self.mean[part]) / self.width[part]
            yield part, (np.clip(raw, -_CLIP, _CLIP) - self.mean_in[part]) / self.width_in[part]


@dataclass(frozen=True)
class ShareScale:
    """Columns count by how much they vary.

    Attributes
    ----------
    peak : float
        Largest value there is.
    fill, mean : ndarray of shape (D,)
    shares : bool
        Whether rows are taken as the square roots of their shares.
    width : float
        Overall deviation.
    """

    peak: float
    fill: FloatArray
    mean: FloatArray
    shares: bool
    width: float

    @classmethod
    def fit(cls, X: Any) -> ShareScale:
        """Learn from labelled rows."""
        peaks, fills = _peaks_and_medians(X)
        peak = float(peaks.max(initial=1e-300))
        fill = fills * (peaks / peak)
        start = cls(peak, fill, np.zeros(X.shape[1]), _no_negative(X), 1.0)
        mean = np.zeros(X.shape[1])
        energy = 0.0
        for part, raw in start._raw(X):
            mean[part] = raw.mean(axis=0)
            energy += float(((raw - mean[part]) ** 2).mean(axis=0).sum())
        width = float(np.sqrt(energy / max(1, X.shape[1])))
        return cls(peak, fill, mean, start.shares, width if width > 0 else np.inf)

    def __call__(self, X: Any) -> Iterator[tuple[slice, FloatArray]]:
        """Blocks of columns at this scale."""
        for part, raw in self._raw(X):
            yield part, (raw - self.mean[part]) / self.width

    def amounts(self, X: Any) -> Iterator[tuple[slice, FloatArray]]:
        """Blocks of columns in units of the peak; what is negative counts as nothing."""
        for part in blocks(X):  # a new row may hold a negative value where no labelled one did
            yield part, np.maximum(_filled(X, part, self.peak, self.fill), 0.0)

    def _raw(self, X: Any) -> Iterator[tuple[slice, FloatArray]]:
        if not self.shares:
            yield from ((part, _filled(X, part, self.peak, self.fill)) for part in blocks(X))
            return
        total_T = np.zeros(X.shape[0])
        for _, amount_TD in self.amounts(X):
            total_T += amount_TD.sum(axis=1)
        for part, amount_TD in self.amounts(X):
            yield part, np.sqrt(amount_TD / np.maximum(total_T, 1e-300)[:, None])


def blocks(X: Any) -> Iterator[slice]:
    """Slices of columns, the same for any rows of a table."""
    n_columns = X.shape[1]
    return (slice(start, min(start + _BLOCK, n_columns)) for start in range(0, n_columns, _BLOCK))


def _peaks_and_medians(X: Any) -> tuple[FloatArray, FloatArray]:
    """Largest absolute value of every column, and its median in units of it."""
    peak, fill = np.ones(X.shape[1]), np.zeros(X.shape[1])
    for part in blocks(X):
        raw = np.array(X[:, part], dtype=np.float64)
        missing = np.isnan(raw)
        high = np.max(np.where(missing, 0.0, np.abs(raw)), axis=0)
        peak[part] = np.where(high > 0, high, 1.0)
        for j in np.flatnonzero(missing.any(axis=0)):
            known = raw[~missing[:, j], j]
            fill[part.start + j] = np.median(known / peak[part][j]) if len(known) else 0.0
    return peak, fill


def _filled(X: Any, part: slice, peak: FloatArray | float, fill: FloatArray) -> FloatArray:
    """Columns in units of a peak, so that squares of anything a float can hold stay finite; holes filled."""
    raw: FloatArray = np.array(X[:, part], dtype=np.float64) / (peak if isinstance(peak, float) else peak[part])
    missing = np.isnan(raw)
    return np.where(missing, fill[part], raw) if missing.any() else raw


def _no_negative(X: Any) -> bool:
    return all(not (np.asarray(X[:, part]) < 0).any() for part in blocks(X))
