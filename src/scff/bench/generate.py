"""A feature generator fitted on the support: arithmetic of column pairs, and statistics of groups.

It stands for the feature engineering that makes wide tables out of narrow ones. No label is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.tables.table import as_table

__all__ = ["FeatureGenerator"]

FloatArray = npt.NDArray[np.float64]

_ARITHMETIC: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "times": lambda a, b: a * b,
    "minus": lambda a, b: a - b,
    "plus": lambda a, b: a + b,
    "over": lambda a, b: a / (np.abs(b) + 1.0),
}
_GROUP_SIZE = 50


class FeatureGenerator:
    """Generate columns up to ``max_columns`` in all.

    Parameters
    ----------
    max_columns : int, default=2000

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.0]})
    >>> list(FeatureGenerator().fit(X).transform(X).columns)[:4]
    ['a', 'b', 'a times b', 'a minus b']
    """

    def __init__(self, max_columns: int = 2000) -> None:
        self.max_columns = max_columns

    def fit(self, X: pd.DataFrame) -> FeatureGenerator:
        """Learn scales, groups and which candidates are worth keeping from support rows."""
        numeric = self._numeric(X)
        with np.errstate(invalid="ignore"):
            self._centre = np.nan_to_num(np.nanmean(numeric, axis=0))
            spread = np.nanstd(numeric, axis=0)
        self._spread = np.where(np.isfinite(spread) & (spread > 0), spread, 1.0)
        self._names = list(map(str, X.columns))
        self._groups: dict[int, dict[float, npt.NDArray[np.bool_]]] = {}
        standard = self._standard(numeric)
        for j in range(numeric.shape[1]):
            values = np.unique(numeric[:, j][~np.isnan(numeric[:, j])])
            if 2 <= len(values) <= min(_GROUP_SIZE, len(X) // 2):
                self._groups[j] = {float(v): numeric[:, j] == v for v in values}
        self._means = {
            j: {v: standard[rows].mean(axis=0) for v, rows in groups.items()} for j, groups in self._groups.items()
        }
        self._kept: list[str] = []
        room = max(0, self.max_columns - numeric.shape[1])
        for name, column in self._candidates(numeric, standard):
            if len(self._kept) == room:
                break
            if np.ptp(column) > 0:
                self._kept.append(name)
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """The table with the generated columns behind its own."""
        numeric = self._numeric(X)
        kept = set(self._kept)
        made: dict[str, FloatArray] = {}
        for name, column in self._candidates(numeric, self._standard(numeric)):
            if len(made) == len(kept):
                break
            if name in kept:
                made[name] = column
        own = X.set_axis(self._names, axis=1)
        return pd.concat([own, pd.DataFrame(made, index=X.index)], axis=1)

    def _candidates(self, numeric: FloatArray, standard: FloatArray) -> Iterator[tuple[str, FloatArray]]:
        names = self._names
        for a, b in combinations(range(len(names)), 2):
            for word, function in _ARITHMETIC.items():
                yield f"{names[a]} {word} {names[b]}", function(standard[:, a], standard[:, b])
            for group, value in ((a, b), (b, a)):
                if group in self._groups:
                    mean = self._group_mean(numeric[:, group], group, value)
                    yield f"mean of {names[value]} in {names[group]}", mean
                    yield f"{names[value]} against {names[group]}", standard[:, value] - mean

    def _group_mean(self, column: FloatArray, group: int, value: int) -> FloatArray:
        out = np.zeros(len(column))  # a group the support does not have gets the overall mean, which is zero
        for level, means in self._means[group].items():
            out[column == level] = means[value]
        return out

    def _standard(self, numeric: FloatArray) -> FloatArray:
        filled: FloatArray = np.where(np.isnan(numeric), self._centre, numeric)
        standard: FloatArray = (filled - self._centre) / self._spread
        return standard

    @staticmethod
    def _numeric(X: pd.DataFrame) -> FloatArray:
        return np.asarray(as_table(X).numeric(), dtype=np.float64)
