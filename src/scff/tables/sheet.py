"""A table as its file has it, before anything is known about its columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.errors import DataError
from scff.tables.naming import UNNAMED, as_row_names, index_names
from scff.tables.sparse import SparseColumns

__all__ = ["Sheet"]


@dataclass(frozen=True, eq=False)
class Sheet:
    """What a file holds.

    Attributes
    ----------
    origin : str
        What to call it in a message.
    values : DataFrame, ndarray, SparseColumns or Columns
        Cells. In a frame any column may be anything; in all others every column is a measurement.
    names : tuple of str or None
        Columns of a table that is no frame; None where nobody named them.
    row_names : ndarray of str or None
        Rows, where the file itself has a place for their names.
    beside : DataFrame
        Columns that describe the rows and are never measurements.
    """

    origin: str
    values: Any
    names: tuple[str, ...] | None = None
    row_names: npt.NDArray[np.object_] | None = None
    beside: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def of_frame(cls, frame: pd.DataFrame, origin: str) -> Sheet:
        """A sheet from a frame; its index names the rows if it is more than a count."""
        return cls(origin, frame, row_names=index_names(frame))

    @property
    def is_frame(self) -> bool:
        """Whether columns may be anything."""
        return isinstance(self.values, pd.DataFrame)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def heads(self) -> list[str]:
        """Names of the columns, without those beside."""
        return [str(name) for name in (self.values.columns if self.is_frame else self.names or ())]

    def turned(self, feature_column: str | None = None) -> tuple[Sheet, str]:
        """Rows and columns exchanged: features were in rows. Also what was left out on the way, in words.

        Parameters
        ----------
        feature_column : str, optional
            The column with the names of the features; by default the first one that is not numeric.

        Raises
        ------
        DataError
            If there is no such column, or a feature occurs twice.
        """
        if not self.is_frame:
            if not isinstance(self.values, np.ndarray | SparseColumns):
                raise DataError(f"{self.origin} stays on disk and cannot be turned; save it with samples in rows.")
            matrix = self.values
            flipped = SparseColumns(matrix.matrix.T) if isinstance(matrix, SparseColumns) else matrix.T
            names = None if self.row_names is None else tuple(map(str, self.row_names))
            rows = None if self.names is None else as_row_names(list(self.names))
            return Sheet(self.origin, flipped, names, rows), ""
        frame: pd.DataFrame = self.values
        features = self.row_names
        texts = [name for name, dtype in zip(frame.columns, frame.dtypes, strict=True) if not _is_number(dtype)]
        if features is None:
            first = frame.columns[0]
            column = feature_column or (first if first == UNNAMED or not texts else texts[0])
            if column not in frame.columns:
                raise DataError(f"{self.origin} has no column {column!r} with the names of its features.")
            features = as_row_names(frame[column])
            frame = frame.drop(columns=column)
            texts = [name for name in texts if name != column]
        _no_repeats(features, self.origin)
        # Beside the samples there may be columns about the features: all text, where samples hold numbers.
        left_out = [name for name in texts if pd.to_numeric(frame[name], errors="coerce").isna().mean() > 0.5]
        if left_out and len(left_out) < frame.shape[1]:
            frame = frame.drop(columns=left_out)
        else:
            left_out = []
        rows, names = as_row_names(list(frame.columns)), tuple(map(str, features))
        if all(_is_number(dtype) for dtype in frame.dtypes):
            cells = np.ascontiguousarray(frame.to_numpy(dtype=np.float64, na_value=np.nan).T)
            turned = Sheet(self.origin, cells, names, rows)
        else:  # a row of text among the numbers, such as the label
            mixed = pd.DataFrame(frame.to_numpy(dtype=object).T, columns=list(names))
            turned = Sheet(self.origin, mixed.apply(_as_read), row_names=rows)
        told = (
            f"{self.origin}: {', '.join(map(str, left_out))} left out, as it tells about features" if left_out else ""
        )
        return turned, told

    def take(self, rows: npt.NDArray[np.int64]) -> Sheet:
        """These rows, in this order; all of them cost nothing."""
        if len(rows) == self.n_rows and np.array_equal(rows, np.arange(self.n_rows)):
            return self
        from scff.tables.storage import PickedRows

        values = self.values
        if isinstance(values, pd.DataFrame):
            values = values.iloc[rows].reset_index(drop=True)
        elif isinstance(values, SparseColumns):
            values = values.take(rows)
        else:
            values = values[rows] if type(values) is np.ndarray else PickedRows(values, rows)
        names = None if self.row_names is None else self.row_names[rows]
        beside = self.beside.iloc[rows].reset_index(drop=True) if self.beside.shape[1] else self.beside
        return replace(self, values=values, row_names=names, beside=beside)


def _is_number(dtype: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype))


def _as_read(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column whose cells came from many: as numbers where all of them are."""
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if (numbers.notna() | column.isna()).all() else column.astype(object)


def _no_repeats(features: npt.NDArray[np.object_], origin: str) -> None:
    counts = pd.Series(features).value_counts()
    repeated = counts[counts > 1]
    if len(repeated):
        more = f", and so do {len(repeated) - 1} more" if len(repeated) > 1 else ""
        raise DataError(
            f"Feature {repeated.index[0]!r} occurs more than once in {origin}{more}; give every feature its own name."
        )
