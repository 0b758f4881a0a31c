"""Matrix Market files, read here: SciPy's reader takes the process with it where a file is cut off inside a number."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.tables.sheet import Sheet
from scff.tables.sparse import SparseColumns

__all__ = ["read_matrix_market"]

_KINDS, _FIELDS = ("coordinate", "array"), ("real", "double", "integer", "unsigned-integer", "pattern")
_SYMMETRIES = {"general": 0.0, "symmetric": 1.0, "skew-symmetric": -1.0}
_LONGEST_LINE = 1 << 16
#: Rows or columns that no entry speaks of cost memory all the same; a file has at most so many for each of its entries.
_EMPTY_LINES, _EMPTY_SHARE = 10**7, 100


def read_matrix_market(path: Path) -> Sheet:
    """Read a Matrix Market file, rows as rows; it has no names.

    Raises
    ------
    ValueError
        If it is none, or not whole.
    """
    with _open(path) as file:
        kind, field, symmetry = _head(file)
        sizes = _sizes(file)
        if len(sizes) != (3 if kind == "coordinate" else 2):
            raise ValueError("its line of sizes is no such line")
        columns = 1 if kind == "array" else 2 if field == "pattern" else 3
        if kind == "array" and (field == "pattern" or symmetry != "general"):
            raise ValueError("its numbers are stored in a way that is not known here")
        body = _body(file, columns)
    if kind == "array":
        n_rows, n_columns = sizes
        if len(body) != n_rows * n_columns:
            raise ValueError(f"it has {len(body)} numbers and says {n_rows * n_columns}")
        return Sheet(str(path), body[:, 0].reshape(n_columns, n_rows).T.copy())
    return Sheet(str(path), SparseColumns(_matrix(body, sizes, _SYMMETRIES[symmetry])))


def _open(path: Path) -> IO[bytes]:
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix.lower(), open)
    return opener(path, "rb")  # type: ignore[no-any-return]


def _head(file: IO[bytes]) -> tuple[str, str, str]:
    words = file.readline(_LONGEST_LINE).decode("latin-1").lower().split()
    known = len(words) == 5 and words[:2] == ["%%matrixmarket", "matrix"]
    if not known or words[2] not in _KINDS or words[3] not in _FIELDS or words[4] not in _SYMMETRIES:
        raise ValueError("its first line is not that of a matrix of numbers")
    return words[2], words[3], words[4]


def _sizes(file: IO[bytes]) -> list[int]:
    while line := file.readline(_LONGEST_LINE):
        words = line.decode("latin-1").split()
        if words and not words[0].startswith("%"):
            if not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
                raise ValueError("its line of sizes is no such line")
            return [int(word) for word in words]
    raise ValueError("it ends before its line of sizes")


def _body(file: IO[bytes], columns: int) -> npt.NDArray[np.float64]:
    """Every line behind the sizes; places are whole numbers far below what a float holds exactly."""
    try:
        read = pd.read_csv(file, sep=r"\s+", header=None, dtype=np.float64)
    except pd.errors.EmptyDataError:
        return np.empty((0, columns))
    if read.shape[1] != columns:
        raise ValueError(f"its lines have {read.shape[1]} numbers, not {columns}")
    return read.to_numpy()


def _matrix(body: npt.NDArray[np.float64], sizes: list[int], mirrored: float) -> Any:
    from scipy.sparse import coo_array

    n_rows, n_columns, entries = sizes
    if len(body) != entries:
        raise ValueError(f"it has {len(body)} entries and says {entries}")
    if max(n_rows, n_columns) > max(_EMPTY_LINES, _EMPTY_SHARE * entries):
        raise ValueError(f"it says that it has {n_rows} rows and {n_columns} columns, for {entries} entries")
    places = body[:, :2] - 1
    inside = (places >= 0) & (places < [n_rows, n_columns]) & (places % 1 == 0)
    if not inside.all():
        raise ValueError(f"entry {int((~inside).any(axis=1).argmax()) + 1} lies outside of the matrix")
    rows, columns = places.astype(np.int64).T
    values = body[:, 2] if body.shape[1] == 3 else np.ones(len(body))
    if mirrored:
        if n_rows != n_columns:
            raise ValueError("it is symmetric and not square")
        off = rows != columns
        rows, columns = np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])
        values = np.concatenate([values, mirrored * values[off]])
    return coo_array((values, (rows, columns)), shape=(n_rows, n_columns)).tocsr()
