"""Tables too wide to load: a numeric Parquet file or a NumPy file that is read a few columns at a time.

Folding never needs a whole table. Routing goes over it in blocks of columns and an encoder takes one leaf, so a file
can stay where it is. What is opened here behaves like a read-only two-dimensional array inside a `Table`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from scff.errors import DataError
from scff.tables.naming import as_row_names
from scff.tables.sheet import Sheet
from scff.tables.table import Table, as_table, check_unique

__all__ = ["ParquetColumns", "is_wide", "open_labelled", "open_wide", "wide_sheet"]

# Above this many columns a Parquet file is better left on disk.
_WIDE = 4096

# Columns beside the numbers: names, labels, groups. With more of them a table is one of many kinds.
_FEW = 16


class ParquetColumns:
    """Numeric columns of a Parquet file, read when they are asked for.

    Parameters
    ----------
    path : path
    names : sequence of str, optional
        Which columns, in which order; all of them by default.

    Raises
    ------
    DataError
        If a column is missing or not numeric.
    """

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        self._file = _open(path)
        self.path = path
        schema = self._file.schema_arrow
        self.names = tuple(_column_names(schema) if names is None else names)
        check_unique(schema.names)
        known = dict(zip(schema.names, schema.types, strict=True))
        kinds = set()
        for name in self.names:
            if name not in known:
                raise DataError(f"{path} has no column {name!r}; it must hold the columns the model was fitted on.")
            if not _is_numeric(known[name]):
                raise DataError(
                    f"Column {name!r} of {path} is {known[name]}, not a number; load the table with pandas."
                )
            kinds.add(known[name])
        # The rule of `as_table`: single precision only where the whole table is.
        self.dtype = np.dtype(np.float32 if kinds == {pa.float32()} else np.float64)
        groups = self._file.metadata
        sizes = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._rows = range(int(self._starts[-1]))
        self._lock = threading.Lock()
        self._kept = threading.local()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self._rows), len(self.names)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: Any) -> Any:
        """``[start:stop]`` is a view of rows; ``[rows, columns]`` reads those columns into an array."""
        if isinstance(key, slice):
            part = object.__new__(ParquetColumns)
            part.__dict__ = self.__dict__ | {"_rows": self._rows[key]}
            return part
        rows, columns = key
        indices = np.arange(len(self.names))[columns]
        window = self._rows[rows] if isinstance(rows, slice) else self._rows
        block = self._read(window, indices)
        return block if isinstance(rows, slice) else block[rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.floating]:
        whole = self._read(self._rows, np.arange(len(self.names)))
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __reduce__(self) -> Any:
        # A saved model holds its support rows: it must not stop working when the file moves.
        return np.asarray, (np.asarray(self),)

    def _read(self, rows: range, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.floating]:
        if not rows:
            return np.empty((0, len(indices)), dtype=self.dtype)
        first = int(np.searchsorted(self._starts, rows.start, side="right")) - 1
        last = int(np.searchsorted(self._starts, rows.stop, side="left"))
        # A leaf is asked for again by every chunk of rows: each thread keeps the block it read last.
        key = (first, last, indices.tobytes())
        if getattr(self._kept, "key", None) != key:
            self._kept.key = self._kept.block = None  # before the next block comes in, not after
            with self._lock:  # Arrow's reader is for one thread
                self._kept.block = self._decode(range(first, last), indices)
            self._kept.key = key
        block: npt.NDArray[np.floating] = self._kept.block
        offset = rows.start - int(self._starts[first])
        return block[offset : offset + len(rows)]

    def _decode(self, groups: range, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.floating]:
        names = [self.names[j] for j in indices]
        try:
            read = self._file.read_row_groups(list(groups), columns=names, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{self.path} cannot be read ({str(error).splitlines()[0][:160]}).") from error
        out = np.empty((read.num_rows, len(names)), dtype=self.dtype)
        for j, name in enumerate(names):
            column = read.column(name)
            out[:, j] = (column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column).to_numpy()
            if np.isinf(out[:, j]).any():
                raise DataError(
                    f"{self.path} contains infinity in column {name!r}; replace infinite values by missing ones or a "
                    "large number."
                )
        out.flags.writeable = False  # it is handed out more than once
        return out


def open_wide(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> Table:
    """Open a table without loading it.

    Parameters
    ----------
    path : path
        A Parquet file of numeric columns, or a two-dimensional ``.npy`` file of floats, which is memory-mapped. Column
        order on disk (``numpy.asfortranarray`` before ``numpy.save``) suits tables larger than memory.
    columns : sequence of str, optional
        Names of the columns of a Parquet file to open, in this order.

    Returns
    -------
    Table
        What `FoldedClassifier.fit` and its predictions take. Infinite values of a Parquet file are reported when they
        are read.

    Raises
    ------
    DataError
        If the file is missing, of another kind, or not numeric.
    """
    path = Path(path)
    if path.suffix in (".parquet", ".pq"):
        source = ParquetColumns(path, columns)
        return Table(source, source.names)
    if path.suffix != ".npy":
        raise DataError(f"{path} is neither Parquet nor .npy by its name; load it and pass the table itself.")
    try:
        values = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as a NumPy array ({error}); check the path.") from error
    if values.ndim != 2 or values.dtype not in (np.float32, np.float64):
        raise DataError(
            f"{path} holds {values.dtype} in {values.ndim} dimensions; save a two-dimensional float32 or float64 array."
        )
    return as_table(values)


def is_wide(path: Path) -> bool:
    """Whether a file is better read a few columns at a time: Parquet with very many columns."""
    if path.suffix not in (".parquet", ".pq") or not path.is_file():
        return False
    return len(_open(path).schema_arrow.names) > _WIDE


def wide_sheet(path: Path, named: Collection[str] = (), features: Sequence[str] | None = None) -> Sheet | None:
    """Open a very wide Parquet file: numbers stay on disk, the few other columns are read.

    Parameters
    ----------
    path : Path
    named : collection of str
        Columns that are no measurements, whatever they hold.
    features : sequence of str, optional
        The measurements that are wanted; all numeric columns by default.

    Returns
    -------
    Sheet or None
        None where a column of text is no row name: categories are for a table in memory.
    """
    file = _open(path)
    schema = file.schema_arrow
    kinds = dict(zip(schema.names, schema.types, strict=True))
    names = _column_names(schema)
    if features is not None:
        wanted = [name for name in features if name in kinds]
        if len(wanted) < len(features) or not all(_is_numeric(kinds[name]) for name in wanted):
            return None
    else:
        wanted = [name for name in names if name not in named and _is_numeric(kinds[name])]
    chosen = set(wanted)
    others = [name for name in names if name not in chosen and (name in named or not _is_numeric(kinds[name]))]
    if not wanted or len(others) > _FEW:
        return None
    hidden = [name for name in schema.names if name not in set(names)]
    beside = pd.DataFrame(file.read(columns=others + hidden, use_pandas_metadata=False).to_pandas(ignore_metadata=True))
    if features is None and not all(name in named or beside[name].is_unique for name in others):
        return None
    del file  # the footer of 100,000 columns takes 300 MB, and once is enough
    row_names = as_row_names(beside[hidden[0]]) if len(hidden) == 1 else None
    values = ParquetColumns(path, wanted)
    return Sheet(str(path), values, tuple(wanted), row_names, beside[others])


def open_labelled(path: str | os.PathLike[str], target: str) -> tuple[Table, npt.NDArray[Any]]:
    """Open a Parquet table without loading it, and read its target column.

    Raises
    ------
    DataError
        As `open_wide`; also if there is no such target.
    """
    path = Path(path)
    file = _open(path)
    names = _column_names(file.schema_arrow)
    if target not in names:
        raise DataError(f"{path} has no column {target!r}; name its label column.")
    labels = file.read(columns=[target]).column(target).to_pandas().to_numpy()
    del file  # the footer of 100,000 columns takes 300 MB, and once is enough
    return open_wide(path, [name for name in names if name != target]), labels


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError as error:
        raise DataError(f"There is no file {path}; check the path.") from error
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0][:160]}).") from error


def _column_names(schema: pa.Schema) -> list[str]:
    """The columns, without an index that pandas stored among them."""
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    hidden = {entry for entry in index if isinstance(entry, str)}
    return [name for name in schema.names if name not in hidden]


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))
