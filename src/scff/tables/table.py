"""What a user hands in, as one thing: a table is a numeric array, or a DataFrame where it has other columns too."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types as pdt

from scff.errors import DataError
from scff.tables.codes import sorted_codes
from scff.tables.columns import alike, usable
from scff.tables.foreign import as_frame, is_anndata
from scff.tables.naming import as_row_names, check_writable, index_names
from scff.tables.sparse import SparseColumns, is_sparse
from scff.tables.storage import Columns, PickedRows
from scff.tables.times import TimeKind, check_times, times_of

__all__ = ["Block", "Table", "as_table", "check_unique", "column_names"]

# Columns looked at together on the search for infinity: bounds the working copy on very wide tables.
_BLOCK = 1024


@dataclass(frozen=True)
class Block:
    """Columns that came from one of several tables: ``start`` to ``stop``."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True)
class Table:
    """Rows of a user's table.

    Attributes
    ----------
    values : ndarray, Columns or DataFrame
        A float array, in memory or on disk, or a sparse one, where every column is numeric; otherwise a DataFrame.
    names : tuple of str or None
        Column names, if the input had any.
    row_names : ndarray of str or None
        What each row is called.
    id_column : str or None
        The column that said so. It is not among the features.
    aside : tuple of (str, str)
        Columns of the input that are no features, each with the reason.
    blocks : tuple of Block
        The tables it was put together from, where there were several.
    times : tuple of (int, str)
        Places of the columns whose numbers are days, and whether they were ``"dates"`` or ``"durations"``.
    """

    values: npt.NDArray[np.floating] | pd.DataFrame | Columns
    names: tuple[str, ...] | None = None
    row_names: npt.NDArray[np.object_] | None = field(default=None, repr=False)
    id_column: str | None = None
    aside: tuple[tuple[str, str], ...] = ()
    blocks: tuple[Block, ...] = ()
    times: tuple[tuple[int, TimeKind], ...] = ()

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
        part = self.values.iloc[start:stop] if isinstance(self.values, pd.DataFrame) else self.values[start:stop]
        return replace(self, values=part, row_names=None if self.row_names is None else self.row_names[start:stop])

    def chunks(self, step: int) -> Iterator[Table]:
        """All rows, at most ``step`` at a time."""
        return (self.rows(start, start + step) for start in range(0, self.n_rows, step))

    def take(self, rows: npt.NDArray[np.int64]) -> Table:
        """These rows, in this order; an array is not copied for it."""
        values: Any
        if isinstance(self.values, pd.DataFrame):
            values = self.values.iloc[rows]
        elif isinstance(self.values, SparseColumns):
            values = self.values.take(rows)
        else:
            values = PickedRows(self.values, rows)
        return replace(self, values=values, row_names=None if self.row_names is None else self.row_names[rows])

    def columns(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.floating]:
        """Copy the named columns of a numeric table, contiguous by row."""
        if isinstance(self.values, pd.DataFrame):
            raise TypeError("only a numeric table has numeric columns")
        return np.ascontiguousarray(self.values[:, indices])

    def like(self, support: Table) -> Table:
        """These rows with the column types of the support, which a file format may have lost.

        Raises
        ------
        DataError
            Naming the column that was a number at fit and is text or a date now, or the other way round.
        """
        check_times(self.values, self.times, support.times, support.values, support.names)
        if isinstance(support.values, pd.DataFrame):
            frame = self.values
            if not isinstance(frame, pd.DataFrame):
                frame = pd.DataFrame(np.asarray(frame), columns=support.values.columns)
            return replace(self, values=alike(frame, support.values))
        if not isinstance(self.values, pd.DataFrame):
            return self
        numbers = pd.DataFrame(np.empty((0, support.n_columns)), columns=self.values.columns)
        return as_table(alike(self.values, numbers))

    def numeric(self) -> npt.NDArray[np.floating] | Columns:
        """Every column as numbers, for ranking: categories by their sorted codes, missing values as NaN."""
        if not isinstance(self.values, pd.DataFrame):
            return self.values
        out = np.empty((self.n_rows, self.n_columns), dtype=np.float64)
        for j in range(self.n_columns):
            out[:, j] = sorted_codes(self.values.iloc[:, j])
        return out


def as_table(X: Any, categorical: Collection[Any] = ()) -> Table:
    """Bring an array, a sparse matrix, a frame of any library, an AnnData or a `Table` into one form.

    Parameters
    ----------
    X : array-like, scipy sparse, DataFrame, AnnData or Table
    categorical : collection of str or int
        Names, or for an array numbers, of columns that hold codes of categories.

    Raises
    ------
    DataError
        If column names repeat, a value is infinite, a column holds what is no number, date or label, or an array is not
        two-dimensional and numeric.
    """
    if isinstance(X, Table):
        return X
    if is_anndata(X):
        made = as_table(X.X)
        names = tuple(map(str, X.var_names))
        check_unique(names)
        return replace(made, names=names, row_names=as_row_names(X.obs_names))
    frame = as_frame(X)
    if frame is not None:
        return _of_frame(frame, categorical)
    if is_sparse(X):
        _no_codes(categorical, "a sparse table")
        return Table(SparseColumns(X))
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
    if categorical:
        made = _of_frame(pd.DataFrame(values), categorical)
        return replace(made, names=None)
    return Table(_finite(_floats(values), None))


def _of_frame(frame: pd.DataFrame, categorical: Collection[Any]) -> Table:
    names = column_names(frame)
    unknown = [name for name in categorical if name not in frame.columns]
    if unknown:
        raise DataError(f"There is no column {unknown[0]!r} to take as categories; check `categorical`.")
    row_names = index_names(frame)
    if len(names) and all(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes) and not categorical:
        return Table(
            SparseColumns(
                frame.sparse.to_coo()  # type: ignore[attr-defined]
            ),
            names,
            row_names,
        )
    given, frame = frame, usable(frame, categorical)
    times = times_of(given)
    if all(pdt.is_numeric_dtype(t) for t in frame.dtypes):
        single = all(t == np.float32 for t in frame.dtypes)
        values = frame.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
        return Table(_finite(np.ascontiguousarray(values), names), names, row_names, times=times)
    for j, dtype in enumerate(frame.dtypes):
        if pdt.is_float_dtype(dtype):
            _finite(frame.iloc[:, [j]].to_numpy(dtype=np.float64, na_value=np.nan), names[j : j + 1])
    return Table(frame, names, row_names, times=times)


def _no_codes(categorical: Collection[Any], what: str) -> None:
    if categorical:
        raise DataError(f"Columns of {what} are numbers; pass those of `categorical` in a DataFrame.")


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


def column_names(frame: pd.DataFrame) -> tuple[str, ...]:
    """Names of the columns; numbers by their digits.

    Raises
    ------
    DataError
        If a name is neither text nor a number, some are text and others not, or one repeats.
    """
    labels: list[Any] = list(frame.columns)
    texts = [isinstance(label, str) for label in labels]
    if not all(texts):
        numbers = [isinstance(label, int | float | np.number) and type(label) is not bool for label in labels]
        if not all(numbers):
            odd = next(label for label, text in zip(labels, texts, strict=True) if not text)
            shown = str(odd).split(" at 0x")[0][:40]
            raise DataError(
                f"Column name {shown!r} is {type(odd).__name__}, not text; name every column in words, for instance "
                "with `X.columns = X.columns.map(str)`."
            )
    names = tuple(map(str, labels))
    check_unique(names)
    return names


def check_unique(names: Sequence[str]) -> None:
    """Refuse column names that repeat, or that no file can hold.

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
    check_writable(names, "Column name")
