"""What a user hands in, as one thing: a table is a numeric array, or a DataFrame where it has other columns too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types as pdt

from scff.errors import DataError
from scff.tables.codes import sorted_codes

__all__ = ["Columns", "Table", "as_table", "check_unique"]

# Columns looked at together on the search for infinity: bounds the working copy on very wide tables.
_BLOCK = 1024


class Columns(Protocol):
    """A numeric table that stays on disk: as much of an array as folding needs."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any) -> Any:
        """``[start:stop]`` gives rows without reading them, ``[rows, columns]`` an array."""
        ...


@dataclass(frozen=True)
class PickedRows:
    """Some rows of a numeric table, in any order, picked when columns are asked for: the table is not copied."""

    base: npt.NDArray[np.floating] | Columns
    picked: npt.NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.picked), int(self.base.shape[1])

    @property
    def dtype(self) -> Any:
        """Type of the values."""
        return self.base.dtype  # type: ignore[union-attr]

    def __len__(self) -> int:
        return len(self.picked)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return PickedRows(self.base, self.picked[key])
        rows, columns = key
        return self.base[:, columns][self.picked[rows]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.floating]:
        whole = np.asarray(self.base)[self.picked]
        return whole if dtype is None else whole.astype(dtype, copy=False)


@dataclass(frozen=True)
class Table:
    """Rows of a user's table.

    Attributes
    ----------
    values : ndarray, Columns or DataFrame
        A float array, in memory or on disk, where every column is numeric; otherwise the DataFrame itself.
    names : tuple of str or None
        Column names, if the input had any.
    """

    values: npt.NDArray[np.floating] | pd.DataFrame | Columns
    names: tuple[str, ...] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows, self.n_columns

    @property
    def is_numeric(self) -> bool:
        """Whether every column is numeric."""
        return not isinstance(self.values, pd.DataFrame)

    def rows(self, start: int, stop: int) -> Table:
        """Rows ``start`` to ``stop``, without a copy where the storage allows it."""
        if isinstance(self.values, pd.DataFrame):
            return Table(self.values.iloc[start:stop], self.names)
        return Table(self.values[start:stop], self.names)

    def chunks(self, step: int) -> Iterator[Table]:
        """All rows, at most ``step`` at a time."""
        return (self.rows(start, start + step) for start in range(0, self.n_rows, step))

    def take(self, rows: npt.NDArray[np.int64]) -> Table:
        """These rows, in this order; a numeric table is not copied for it."""
        if isinstance(self.values, pd.DataFrame):
            return Table(self.values.iloc[rows], self.names)
        return Table(PickedRows(self.values, rows), self.names)

    def columns(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.floating]:
        """Copy the named columns of a numeric table, contiguous by row."""
        if isinstance(self.values, pd.DataFrame):
            raise TypeError("only a numeric table has numeric columns")
        return np.ascontiguousarray(self.values[:, indices])

    def like(self, support: Table) -> Table:
        """These rows with the column types of the support, which a file format may have lost."""
        if self.is_numeric == support.is_numeric:
            return self
        if not isinstance(self.values, pd.DataFrame):
            return Table(pd.DataFrame(np.asarray(self.values), columns=list(support.names or ())), self.names)
        for name in self.values.columns:
            column = self.values[name]
            if not pdt.is_numeric_dtype(column.dtype) and column.notna().any():
                raise DataError(f"Column {str(name)!r} was numeric at fit and is {column.dtype} now.")
        return as_table(self.values.apply(pd.to_numeric))

    def numeric(self) -> npt.NDArray[np.floating] | Columns:
        """Every column as numbers, for ranking: categories by their sorted codes, missing values as NaN."""
        if not isinstance(self.values, pd.DataFrame):
            return self.values
        out = np.empty((self.n_rows, self.n_columns), dtype=np.float64)
        for j in range(self.n_columns):
            out[:, j] = sorted_codes(self.values.iloc[:, j])
        return out


def as_table(X: Any) -> Table:
    """Bring an array, a pandas or polars DataFrame, or a `Table` into one form.

    Raises
    ------
    DataError
        If column names repeat, a value is infinite, or an array is not two-dimensional and numeric.
    """
    if isinstance(X, Table):
        return X
    if _is_polars(X):
        X = X.to_pandas()
    if not isinstance(X, pd.DataFrame):
        try:
            values = np.asarray(X)
            if values.dtype.kind in "cMm":
                raise TypeError(f"it holds {values.dtype} values")
            if values.dtype.kind not in "fiub":
                values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"A plain array must hold numbers ({error}); pass text or categories in a pandas or polars DataFrame."
            ) from error
        if values.ndim != 2:
            raise DataError(f"X must have two dimensions, rows and columns; it has {values.ndim}.")
        return Table(_finite(_floats(values), None))
    names = tuple(map(str, X.columns))
    check_unique(names)
    # Truth values are numbers here: backbones disagree on them, and TabICL drops NumPy's bool without a word.
    flags = [name for name, dtype in zip(X.columns, X.dtypes, strict=True) if pdt.is_bool_dtype(dtype)]
    if flags:
        X = X.assign(**{name: X[name].astype("Float64").astype("float64") for name in flags})
    if all(pdt.is_numeric_dtype(t) for t in X.dtypes):
        single = all(t == np.float32 for t in X.dtypes)
        values = X.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
        return Table(_finite(np.ascontiguousarray(values), names), names)
    for j, dtype in enumerate(X.dtypes):
        if pdt.is_float_dtype(dtype):
            _finite(X.iloc[:, [j]].to_numpy(dtype=np.float64, na_value=np.nan), names[j : j + 1])
    return Table(X, names)


def _is_polars(X: Any) -> bool:
    # By name: polars need not be installed to use arrays and pandas.
    return type(X).__module__.split(".")[0] == "polars" and hasattr(X, "to_pandas")


def _floats(values: npt.NDArray[Any]) -> npt.NDArray[np.floating]:
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _finite(values: npt.NDArray[np.floating], names: Sequence[str] | None) -> npt.NDArray[np.floating]:
    # The sum is cheap and infinite or NaN whenever a value is; only then look closer, some columns at a time.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(values.sum(dtype=np.float64))
    if suspicious:
        for start in range(0, values.shape[1], _BLOCK):
            infinite = np.isinf(values[:, start : start + _BLOCK]).any(axis=0)
            if infinite.any():
                j = start + int(infinite.argmax())
                column = f"column {names[j]!r}" if names is not None else f"column {j}"
                raise DataError(
                    f"X contains infinity in {column}; replace infinite values by NaN (missing) or a large number."
                )
    return values


def check_unique(names: Sequence[str]) -> None:
    """Refuse column names that repeat.

    Raises
    ------
    DataError
        Naming the first of them.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"Column name {name!r} occurs more than once; rename the columns so that each is unique.")
        seen.add(name)
