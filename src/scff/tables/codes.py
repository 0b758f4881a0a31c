"""Columns as numbers: numbers as they are, points in time by their ticks, labels by their rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types as pdt

__all__ = ["as_numbers", "label_ranks", "sorted_codes"]

Floats = npt.NDArray[np.float64]


def as_numbers(column: pd.Series[Any]) -> Floats | None:
    """A column of numbers or points in time, missing values as NaN; None for one of labels."""
    if pdt.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if pdt.is_datetime64_any_dtype(column.dtype) or pdt.is_timedelta64_dtype(column.dtype):
        return np.where(column.isna(), np.nan, column.astype("int64").to_numpy(dtype=np.float64))
    return None


def sorted_codes(column: pd.Series[Any]) -> Floats:
    """A column as numbers, labels by their place in sorted order or, of a categorical, in its own order."""
    numbers = as_numbers(column)
    if numbers is not None:
        return numbers
    try:
        codes, _ = pd.factorize(column, sort=True)
    except TypeError:  # labels of several types have no order of their own
        codes, _ = pd.factorize(column.astype(str).where(column.notna()), sort=True)
    return np.where(codes < 0, np.nan, codes.astype(np.float64))


def label_ranks(column: pd.Series[Any]) -> dict[Any, int]:
    """The rank of each label of a column, to give new rows the same numbers; whatever the order of a categorical."""
    present = pd.unique(column.astype(object)[column.notna()])
    # By type name first: labels of several types have no order of their own.
    ordered = sorted(present, key=lambda label: (type(label).__name__, label))
    return {label: rank for rank, label in enumerate(ordered)}
