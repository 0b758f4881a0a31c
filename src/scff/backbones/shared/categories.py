"""Numbers for models that read nothing else: categories become the rank of their label on the support.

Column order is kept, a label unknown to the support is missing, dates are their ticks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.tables.codes import as_numbers, label_ranks
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
        columns = (support.values.iloc[:, j] for j in range(support.n_columns))
        return cls({j: label_ranks(column) for j, column in enumerate(columns) if as_numbers(column) is None})

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
        numbers = as_numbers(column)
        # A column that was numeric on the support may come as text that holds numbers.
        return pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan) if numbers is None else numbers
