"""Numbers for models that read nothing else: categories become the rank of their label on the support.

Column order is kept, a label unknown to the support is missing, dates are their ticks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types as pdt

from scff.tables.table import Table

__all__ = ["OrdinalCodes"]


@dataclass(frozen=True)
class OrdinalCodes:
    """Category labels of a support table, column by column.

    Attributes
    ----------
    labels : dict of int to dict
        For every column that is not numeric, the rank of each label; empty for a numeric table.
    """

    labels: dict[int, dict[Any, int]]

    @classmethod
    def fit(cls, support: Table) -> OrdinalCodes:
        """Learn the labels of a support table."""
        if not isinstance(support.values, pd.DataFrame):
            return cls({})
        frame = support.values
        labels = {}
        for j in range(frame.shape[1]):
            column = frame.iloc[:, j]
            if not _has_ticks(column):
                present = pd.unique(column.astype(object)[column.notna()])
                # By type name first: labels of several types have no order of their own.
                ordered = sorted(present, key=lambda v: (type(v).__name__, v))
                labels[j] = {label: rank for rank, label in enumerate(ordered)}
        return cls(labels)

    def transform(self, rows: Table) -> Table:
        """Rows as a numeric table with the same columns; a numeric table passes through."""
        if not isinstance(rows.values, pd.DataFrame):
            return rows
        out = np.empty((rows.n_rows, rows.n_columns), dtype=np.float64)
        for j in range(rows.n_columns):
            out[:, j] = self._column(j, rows.values.iloc[:, j])
        return Table(out, rows.names)

    def _column(self, j: int, column: pd.Series[Any]) -> npt.NDArray[np.float64]:
        if j in self.labels:
            known = self.labels[j]
            return np.array([known.get(v, np.nan) if v == v else np.nan for v in column.astype(object)], np.float64)
        if pdt.is_datetime64_any_dtype(column.dtype) or pdt.is_timedelta64_dtype(column.dtype):
            return np.where(column.isna(), np.nan, column.astype("int64").to_numpy(dtype=np.float64))
        return pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)


def _has_ticks(column: pd.Series[Any]) -> bool:
    """Whether a column is a number or a point in time already."""
    dtype = column.dtype
    return bool(
        (pdt.is_numeric_dtype(dtype) and not pdt.is_bool_dtype(dtype))
        or pdt.is_datetime64_any_dtype(dtype)
        or pdt.is_timedelta64_dtype(dtype)
    )
