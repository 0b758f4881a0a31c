"""Columns of dates and durations: once they are days, a number does not say what it was, so the table remembers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from scff.errors import DataError

__all__ = ["KINDS", "TimeKind", "check_times", "times_of"]

TimeKind = Literal["dates", "durations"]
KINDS: tuple[str, ...] = get_args(TimeKind)

_INFERRED: dict[str, TimeKind] = {
    "date": "dates",
    "datetime": "dates",
    "datetime64": "dates",
    "timedelta": "durations",
    "timedelta64": "durations",
}


def times_of(frame: pd.DataFrame) -> tuple[tuple[int, TimeKind], ...]:
    """Which columns of a frame hold points in time or spans of it, by their places."""
    plain = "fiub"  # most columns of most tables, told apart without looking at each as a column of its own
    dtypes = enumerate(frame.dtypes)
    found = ((j, _kind(frame, j)) for j, t in dtypes if not (isinstance(t, np.dtype) and t.kind in plain))
    return tuple((j, kind) for j, kind in found if kind is not None)


def check_times(
    values: Any,
    now: Sequence[tuple[int, TimeKind]],
    at_fit: Sequence[tuple[int, TimeKind]],
    support: Any,
    names: Sequence[str] | None,
) -> None:
    """Refuse rows with days where the support has plain numbers, or the other way round.

    Parameters
    ----------
    values, support : array or DataFrame
        The rows, and those of the fit, with days for times.
    now, at_fit : sequence of (int, str)
        Their `times_of`.
    names : sequence of str or None
        Names of the columns.

    Raises
    ------
    DataError
        Naming the first such column. A column that is missing altogether is of any kind.
    """
    here, there = dict(now), dict(at_fit)
    for j in sorted(here.keys() | there.keys()):
        if here.get(j) == there.get(j) or j >= values.shape[1] or not _present(values, j):
            continue
        column = f"Column {names[j]!r}" if names is not None else f"Column {j}"
        before, after = there.get(j) or _called(support, j), here.get(j) or _called(values, j)
        raise DataError(f"{column} held {before} at fit and holds {after} now; give {before} again.")


def _kind(frame: pd.DataFrame, j: int) -> TimeKind | None:
    column = frame.iloc[:, j]
    dtype: Any = column.dtype
    if isinstance(dtype, pd.ArrowDtype) and dtype.kind != "m":
        return "dates" if dtype.kind == "M" or str(dtype).startswith("date") else None
    if pdt.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return "dates"
    if pdt.is_timedelta64_dtype(dtype) or isinstance(dtype, pd.ArrowDtype):
        return "durations"
    if dtype == np.dtype(object):
        return _INFERRED.get(pdt.infer_dtype(column, skipna=True))
    return None


def _present(values: Any, j: int) -> bool:
    column = values.iloc[:, j] if isinstance(values, pd.DataFrame) else values[:, [j]]
    return bool(np.any(~np.asarray(pd.isna(column))))


def _called(values: Any, j: int) -> str:
    is_text = isinstance(values, pd.DataFrame) and not pdt.is_numeric_dtype(values.dtypes.iloc[j])
    return "text" if is_text else "numbers"
