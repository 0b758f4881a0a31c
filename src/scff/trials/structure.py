"""Columns with company: those that correlate with another column by more than chance.

What is measured twice, or made from a common source, shows up in several columns; a column that goes with no other is,
in a table of thousands, most likely noise. No label takes part, so this may be known before any row is held back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from scff.trials.scales import EqualScale

__all__ = ["structured_columns"]

#: Chance of a single false pair in the whole table.
_CHANCE = 0.05

#: Fewer columns with company than this may be chance.
_FEWEST = 5

#: Partners that a block of columns is compared with at a time.
_TOGETHER = 1024

#: Most columns that others are compared with; beyond it a spread of them stands for all.
_PARTNERS = 4096


def structured_columns(X: Any) -> npt.NDArray[np.bool_]:
    """Which columns correlate with another one beyond a Bonferroni bound over all pairs.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        Numbers; NaN counts as the column's median.

    Returns
    -------
    ndarray of bool
        All True where hardly any is: chance makes a pair now and then, and does not tell columns apart.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 9))
    >>> X[:, 3:8] += X[:, :1]
    >>> structured_columns(X)
    array([ True, False, False,  True,  True,  True,  True,  True, False])
    """
    n, n_columns = X.shape
    everything = np.ones(n_columns, dtype=bool)
    if n < 4 or n_columns < 3:
        return everything
    scale = EqualScale.fit(X)
    partners = np.arange(0, n_columns, -(-n_columns // _PARTNERS))
    unit = np.empty((n, len(partners)), dtype=np.float32)
    for part, z in scale(X):
        inside = np.flatnonzero((partners >= part.start) & (partners < part.stop))
        unit[:, inside] = _unit(z[:, partners[inside] - part.start])
    strongest = np.zeros(n_columns)
    for part, z in scale(X):
        own = _unit(z).T
        for start in range(0, len(partners), _TOGETHER):
            some = partners[start : start + _TOGETHER]
            r = np.abs(own @ unit[:, start : start + _TOGETHER])
            inside = np.flatnonzero((some >= part.start) & (some < part.stop))
            r[some[inside] - part.start, inside] = 0.0  # a column goes with itself
            strongest[part] = np.maximum(strongest[part], r.max(axis=1))
    t = float(stats.t.isf(_CHANCE / (n_columns * (n_columns - 1)), n - 2))
    found = strongest >= t / np.sqrt(n - 2 + t**2)
    return found if found.sum() >= _FEWEST else everything


def _unit(z: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Columns at length one; constant ones stay zero."""
    z = z - z.mean(axis=0)
    length = np.sqrt((z**2).sum(axis=0))
    out: npt.NDArray[np.float32] = np.divide(z, length, out=np.zeros_like(z), where=length > 1e-9).astype(np.float32)
    return out
