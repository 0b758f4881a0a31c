"""What may stand in a column of a frame: numbers, points in time, labels; everything else is refused by name.

Dates become days since 1970 and durations days, whatever unit pandas keeps them in; truth values become 0 and 1; what
is missing, in any of pandas' ways to write it, becomes NaN. Labels stay labels.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types as pdt

from scff.errors import DataError

__all__ = ["alike", "usable", "usable_column"]

_DAY = pd.Timedelta(days=1)
_NUMBERS = {"integer", "floating", "mixed-integer-float", "decimal", "boolean"}
_TIMES = {"date", "datetime", "datetime64"}
_DURATIONS = {"timedelta", "timedelta64"}
_LABELS = {"mixed-integer", "mixed", "categorical", "time", "period", "interval"}
_SCALARS = (str, int, float, np.generic)


def usable(frame: pd.DataFrame, categorical: Collection[Any] = ()) -> pd.DataFrame:
    """A frame of numbers and labels only.

    Parameters
    ----------
    frame : DataFrame
    categorical : collection of str or int
        Names of columns whose numbers are codes of categories.

    Raises
    ------
    DataError
        Naming the column that holds something else.
    """
    changed: dict[Any, pd.Series[Any]] = {}
    for j, dtype in enumerate(frame.dtypes):
        name = frame.columns[j]
        if isinstance(dtype, np.dtype) and dtype.kind in "fiu" and dtype.itemsize <= 8 and name not in categorical:
            continue
        column = frame.iloc[:, j]
        new = _codes(column) if name in categorical else usable_column(column, str(name))
        if new is not column:
            changed[name] = new
    return _with(frame, changed)


def usable_column(column: pd.Series[Any], name: str) -> pd.Series[Any]:
    """A column as numbers or labels.

    Raises
    ------
    DataError
        If it holds complex numbers, lists, other objects, or infinity among labels.
    """
    dtype: Any = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        column, dtype = _from_arrow(column, name)
    if isinstance(dtype, pd.SparseDtype):
        column = pd.Series(np.asarray(column.array), index=column.index, name=column.name)
        dtype = column.dtype
    if pdt.is_complex_dtype(dtype):
        raise DataError(f"Column {name!r} holds complex numbers; give real and imaginary part as two columns.")
    if pdt.is_bool_dtype(dtype) or (pdt.is_numeric_dtype(dtype) and pdt.is_extension_array_dtype(dtype)):
        return _series(column, column.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan))
    if pdt.is_numeric_dtype(dtype):
        if getattr(dtype, "itemsize", 8) <= 8:
            return column
        with np.errstate(over="ignore"):  # what is beyond a float is infinite, and refused where that is looked for
            return column.astype(np.float64)  # long doubles: no model takes them, nor a file
    if pdt.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype) or pdt.is_timedelta64_dtype(dtype):
        return _series(column, _days(column))
    if isinstance(dtype, pd.CategoricalDtype):
        return _category(column, name)
    if isinstance(dtype, pd.StringDtype):
        # Only the kind that writes NaN: backbones stumble over pd.NA.
        return column if dtype.na_value is not pd.NA else _series(column, _objects(column))
    if dtype == np.dtype(object):
        try:
            return _object_column(column, name)
        except ArithmeticError as error:  # beyond any float, or a decimal that signals that it is no number
            raise DataError(
                f"Column {name!r} holds a number that no float can; make it smaller, or missing where it is none."
            ) from error
        except UnicodeEncodeError as error:
            raise DataError(f"Column {name!r} holds text with half a character; write it as UTF-8 first.") from error
    raise DataError(f"Column {name!r} is {dtype}; give numbers, dates, text or categories.")


def alike(frame: pd.DataFrame, support: pd.DataFrame) -> pd.DataFrame:
    """Rows with the kinds of column that the support has, which a file format may have lost.

    Raises
    ------
    DataError
        Naming the column that was a number at fit and is text now, or the other way round.
    """
    changed: dict[Any, pd.Series[Any]] = {}
    for j, dtype in enumerate(support.dtypes):
        name, column = frame.columns[j], frame.iloc[:, j]
        numeric = pdt.is_numeric_dtype(column.dtype)
        coded = _has_number_labels(column.dtype)
        if pdt.is_numeric_dtype(dtype) or _has_number_labels(dtype):
            # As text, a number would be a label that nobody has seen.
            if not numeric and not (coded and _has_number_labels(dtype)):
                changed[name] = _numbers(column, str(name))
        elif numeric or coded:
            if column.notna().any():
                kind = "of numbers" if coded else column.dtype
                raise DataError(f"Column {str(name)!r} was text at fit and is {kind} now; give text again.")
            changed[name] = column.astype(object)
    return _with(frame, changed)


def _numbers(column: pd.Series[Any], name: str) -> pd.Series[Any]:
    """Text that holds numbers, as numbers."""
    found = pd.to_numeric(column.astype(object), errors="coerce")
    wrong = column[(found.isna() | np.isinf(found.astype(np.float64))) & column.notna()]
    if len(wrong):
        raise DataError(
            f"Column {name!r} was numeric at fit and holds {str(wrong.iloc[0])[:40]!r} now; give numbers again."
        )
    return _series(column, found.to_numpy(dtype=np.float64, na_value=np.nan))


def _has_number_labels(dtype: Any) -> bool:
    return isinstance(dtype, pd.CategoricalDtype) and pdt.is_numeric_dtype(dtype.categories.dtype)


def _object_column(column: pd.Series[Any], name: str) -> pd.Series[Any]:
    kind = pdt.infer_dtype(column, skipna=True)
    if kind in _NUMBERS:
        numbers = pd.to_numeric(column.astype(object).where(column.notna(), np.nan)).astype(np.float64)
        return _series(column, numbers)
    if kind in _TIMES:
        try:
            return _series(column, _days(pd.to_datetime(column, utc=True)))
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(f"Column {name!r} holds dates that cannot be read ({error}).") from error
    if kind in _DURATIONS:
        return _series(column, _days(pd.to_timedelta(column)))
    if kind == "complex":
        raise DataError(f"Column {name!r} holds complex numbers; give real and imaginary part as two columns.")
    if kind == "empty":
        return _series(column, np.full(len(column), np.nan))
    if kind == "string":
        # None and NaN and pd.NA are all the same to a reader; to backbones they are not.
        return _series(column, _objects(column)) if column.isna().any() else column
    present = column[column.notna()] if kind in _LABELS else column
    _check_cells(present, name, plain=kind in _LABELS)
    # Labels of several types have no order of their own: as text they have.
    return _series(column, column.astype(object).map(_label).where(column.notna(), np.nan))


def _shown(value: Any) -> str:
    """The beginning of a value, without its place in memory."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(value))[:40]


def _check_cells(present: pd.Series[Any], name: str, *, plain: bool) -> None:
    for value in present:
        if not (plain and (isinstance(value, _SCALARS) or _is_label(value))):
            raise DataError(
                f"Column {name!r} holds {_called(value)} (such as {_shown(value)!r}); a cell must be one number, "
                "date or label. Take it apart into columns of its own."
            )
        if isinstance(value, float | np.floating) and np.isinf(value):
            raise DataError(
                f"Column {name!r} contains infinity among labels; replace it by a label or a missing value."
            )
        if isinstance(value, complex | np.complexfloating):
            raise DataError(f"Column {name!r} holds complex numbers; give real and imaginary part as two columns.")
        if isinstance(value, bytes):
            raise DataError(f"Column {name!r} holds bytes; decode them to text first.")


def _is_label(value: Any) -> bool:
    """Whether a value stands for itself: dates, times, decimals do; containers and other objects do not."""
    return type(value).__module__.split(".")[0] in ("datetime", "decimal", "pandas", "fractions") and not hasattr(
        value, "__len__"
    )


def _called(value: Any) -> str:
    kind = type(value).__name__
    return {"list": "lists", "dict": "dicts", "tuple": "tuples", "set": "sets", "ndarray": "arrays"}.get(
        kind, f"objects of type {kind}"
    )


def _label(value: Any) -> Any:
    return value if isinstance(value, str) or value is None else str(value)


def _category(column: pd.Series[Any], name: str) -> pd.Series[Any]:
    labels = column.cat.categories
    _check_cells(pd.Series(labels, dtype=object), name, plain=True)
    _refuse_huge_labels(labels, name)
    if pdt.is_numeric_dtype(labels.dtype) or pdt.infer_dtype(labels) == "string":
        return column
    return column.cat.rename_categories([_label(label) for label in labels])


def _codes(column: pd.Series[Any]) -> pd.Series[Any]:
    """Numbers that are names of categories; whole ones and floats alike, for a file with a hole in it has floats."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _category(column, str(column.name))
    plain = usable_column(column, str(column.name))
    if pdt.is_numeric_dtype(plain.dtype):
        plain = plain.astype(np.float64)
        _check_cells(plain[np.isinf(plain)].astype(object), str(column.name), plain=True)
        _refuse_huge_labels(plain, str(column.name))
    return plain.astype("category")


def _refuse_huge_labels(labels: Any, name: str) -> None:
    """Refuse numbers as labels that cannot even be added up, as encoders do to see whether they are finite."""
    if pdt.is_float_dtype(labels.dtype) and (np.abs(labels) > np.finfo(np.float32).max).any():
        raise DataError(f"Column {name!r} has numbers beyond any unit as labels; make them text.")


def _days(column: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """Points in time as days since 1970, durations as days; the same whatever unit they are kept in."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if pdt.is_datetime64_any_dtype(column.dtype):
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        column = column - pd.Timestamp(0)
    days: npt.NDArray[np.float64] = (column / _DAY).to_numpy(  # type: ignore[operator]
        dtype=np.float64, na_value=np.nan
    )
    return days


def _from_arrow(column: pd.Series[Any], name: str) -> tuple[pd.Series[Any], Any]:
    """A column on Arrow's types as one on pandas' own."""
    import pyarrow as pa

    kind = column.dtype.pyarrow_dtype  # type: ignore[union-attr]
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(f"Column {name!r} holds {kind} cells; a cell must be one number, date or label.")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        column = _series(column, _objects(column))
    else:
        column = _series(column, column.array.__arrow_array__().to_pandas())
    return column, column.dtype


def _objects(column: pd.Series[Any]) -> Any:
    return column.astype(object).where(column.notna(), np.nan)


def _series(column: pd.Series[Any], values: Any) -> pd.Series[Any]:
    """Other values under the same name and rows."""
    return pd.Series(np.asarray(values), index=column.index, name=column.name)


def _with(frame: pd.DataFrame, changed: dict[Any, pd.Series[Any]]) -> pd.DataFrame:
    """The frame with some of its columns exchanged; names may be numbers."""
    if not changed:
        return frame
    columns = {name: changed.get(name, frame.iloc[:, j]) for j, name in enumerate(frame.columns)}
    return pd.DataFrame(columns, index=frame.index, columns=frame.columns, copy=False)
