"""Numbers that a model can take: models calculate in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from scff.errors import DataError
from scff.tables.sparse import SparseColumns
from scff.tables.table import Table

__all__ = ["refuse_huge"]

_LARGEST = float(np.finfo(np.float32).max)


def refuse_huge(table: Table) -> None:
    """Refuse numbers that single precision cannot hold; a plan alone takes any (`scff.compile_plan`).

    Tables on disk are not read for it.

    Raises
    ------
    DataError
        Naming the first such column.
    """
    values: Any = table.values
    if isinstance(values, pd.DataFrame):
        floats = [j for j, dtype in enumerate(values.dtypes) if pdt.is_float_dtype(dtype) and dtype != np.float32]
        huge = [j for j in floats if _is_huge(values.iloc[:, j].to_numpy(dtype=np.float64, na_value=np.nan))]
    elif isinstance(values, SparseColumns):
        cells = values.matrix
        far = np.flatnonzero(np.abs(cells.data) > _LARGEST) if _is_huge(cells.data) else np.empty(0, np.int64)
        huge = cells.indices[far].tolist()
    elif isinstance(values, np.ndarray) and not isinstance(values, np.memmap) and _is_huge(values):
        huge = [j for j in range(values.shape[1]) if _is_huge(values[:, j])]
    else:
        return
    if huge:
        name = f"column {min(huge)}" if table.names is None else f"column {table.names[min(huge)]!r}"
        raise DataError(
            f"X holds a number beyond {_LARGEST:.1e} in {name}, more than a model takes; bring the column to another "
            "unit, or replace the value by NaN (missing)."
        )


def _is_huge(values: Any) -> bool:
    if values.dtype != np.float64 or values.size == 0:
        return False
    # Reductions that pass over NaN without a copy of the table.
    return bool(np.fmax.reduce(values, axis=None) > _LARGEST or np.fmin.reduce(values, axis=None) < -_LARGEST)
