"""Column scores on the support, safe in float32 and for huge offsets: one-way ANOVA, linear-regression F, discoveries.

scikit-learn's ``f_classif`` and ``f_regression`` work with uncentred sums of squares. In float32 a column of mean
1e3 and unit variance then gets a negative F; in float64 the same happens near 1e8. Here every block of columns is
copied to float64, filled with its support medians and centred before anything is squared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

__all__ = ["anova", "centred_blocks", "count_discoveries", "linear"]

FloatArray = npt.NDArray[np.float64]

# 2 MB of float64 a block: large enough to amortise the Python loop, small enough to stay in a core's cache.
_BLOCK_BYTES = 2 << 20
_EPS = float(np.finfo(np.float64).eps)

# A mean this many times the spread is rounded by more than a billionth of it, with a margin of a thousand.
_FAR = 1e4

# Of a regression's total: with less than this left over, the difference of the two is off by a ten-billionth or more.
_NEARLY = 1e-3


def anova(X: Any, y: npt.NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """One-way ANOVA of every column.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Numeric columns, or anything with a shape that gives them as ``X[:, start:stop]``; NaN is filled with
        the column's median on a copy, a column of NaN counts as constant.
    y : ndarray of int of shape (n,)
        Class codes ``0 .. k-1``, all of them present.

    Returns
    -------
    f, p : ndarray of shape (D,)
        Constant columns get F = 0 and p = 1, perfect separation F = inf and p = 0. With as many classes as
        rows there is no within-class variation to compare with: every column gets F = 0 and p = 1.
    """
    n, n_columns = X.shape
    counts = np.bincount(y).astype(np.float64)
    df_between, df_within = len(counts) - 1, n - len(counts)
    f = np.zeros(n_columns)
    p = np.ones(n_columns)
    if df_between < 1 or df_within < 1:
        return f, p
    # Rows sorted by class make each class a contiguous slab: sums need no n-by-k indicator matrix.
    order = np.argsort(y, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    for columns, block, varies in centred_blocks(X, order):
        means = np.add.reduceat(block, starts, axis=0) / counts[:, None]
        between = counts @ means**2
        # Residuals from the class means, not a difference of squares: exact zero for perfect separation.
        for k, start in enumerate(starts):
            block[start : start + int(counts[k])] -= means[k]
        within = np.einsum("ij,ij->j", block, block)
        # n centred values rounded to float64 leave this much where the exact residual is zero.
        floor = (between + within) * (n * _EPS) ** 2
        f[columns] = _ratio(between / df_between, within / df_within, varies, floor)
    p[:] = np.where(np.isinf(f), 0.0, special.fdtrc(df_between, df_within, f))
    return f, p


def linear(X: Any, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """F test of the simple linear regression of ``y`` on every column; same conventions as `anova`."""
    n, n_columns = X.shape
    f = np.zeros(n_columns)
    p = np.ones(n_columns)
    # The target is as a column is: of any scale, and maybe far from zero.
    ((_, centred_1, (y_varies,)),) = centred_blocks(np.asarray(y, dtype=np.float64)[:, None])
    centred = centred_1[:, 0]
    total = float(centred @ centred)
    if n < 3 or not y_varies:
        return f, p
    for columns, block, varies in centred_blocks(X):
        squares = np.einsum("ij,ij->j", block, block)
        slope = np.divide(centred @ block, squares, out=np.zeros(len(squares)), where=squares > 0)
        explained = slope**2 * squares
        left = np.maximum(total - explained, 0)
        # A difference loses its digits where the fit is nearly perfect; residuals keep them.
        for j in np.flatnonzero(left < _NEARLY * total):
            residual = centred - slope[j] * block[:, j]
            left[j] = residual @ residual
        floor = np.full(len(squares), total * (n * _EPS) ** 2)
        f[columns] = _ratio(explained, left / (n - 2), varies, floor)
    p[:] = np.where(np.isinf(f), 0.0, special.fdtrc(1, n - 2, f))
    return f, p


def count_discoveries(p: FloatArray, fdr: float) -> int:
    """Benjamini-Hochberg count: the largest k with p_(k) <= fdr * k / m."""
    m = len(p)
    passed = np.flatnonzero(np.sort(p) <= fdr * np.arange(1, m + 1) / m)
    return int(passed[-1]) + 1 if len(passed) else 0


def centred_blocks(
    X: Any, order: npt.NDArray[np.int64] | None = None
) -> Iterator[tuple[slice, FloatArray, npt.NDArray[np.bool_]]]:
    """Yield column blocks as centred, median-filled float64 copies, and which columns vary.

    Columns come in units of a power of two near their largest value: that rounds nothing, no score depends on it, and
    the squares of anything a float can hold neither overflow nor vanish.

    Parameters
    ----------
    X : ndarray, or anything with a shape that gives columns as ``X[:, start:stop]``
    order : ndarray of int, optional
        Order of the rows; their own by default.
    """
    n, n_columns = X.shape
    width = max(1, _BLOCK_BYTES // (8 * n))
    for start in range(0, n_columns, width):
        columns = slice(start, min(start + width, n_columns))
        block = np.array(X[:, columns], dtype=np.float64)
        if order is not None:
            block = block[order]
        block /= _power_of_two(block)
        low, high = block.min(axis=0), block.max(axis=0)  # NaN where a column has a missing value
        for j in np.flatnonzero(np.isnan(low)):
            missing = np.isnan(block[:, j])
            # A column with no value at all is constant, whatever it is filled with.
            block[missing, j] = 0.0 if missing.all() else np.median(block[~missing, j])
            low[j], high[j] = block[:, j].min(), block[:, j].max()
        mean = block.mean(axis=0)
        block -= mean
        # Far from zero the mean is rounded by more than the spread can bear: what is left of it goes too.
        far = np.abs(mean) > _FAR * np.abs(block).max(axis=0)
        if far.any():
            block[:, far] -= block[:, far].mean(axis=0)
        # Constancy is decided on the values: the variance of a constant 0.1 need not be exactly zero.
        yield columns, block, high > low


def _ratio(signal: FloatArray, noise: FloatArray, varies: npt.NDArray[np.bool_], floor: FloatArray) -> FloatArray:
    """``signal / noise``; 0 for constant columns, infinity where the noise is rounding error alone."""
    perfect = varies & (noise <= floor) & (signal > 0)
    f = np.divide(signal, noise, out=np.zeros_like(signal), where=varies & ~perfect & (noise > 0))
    f[perfect] = np.inf
    return f


def _power_of_two(block: FloatArray) -> FloatArray:
    """For every column a power of two that brings its largest value near 1."""
    largest = np.fmax.reduce(np.abs(block), axis=0, initial=0.0)
    exponent = np.where(largest > 0, np.frexp(largest)[1], 0)
    # 2**1024 is no float; half of it is near enough.
    out: FloatArray = np.ldexp(1.0, np.clip(exponent, -1000, 1023))
    return out
