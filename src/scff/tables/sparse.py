"""Sparse tables: counts of cells, words, mutations. They stay sparse; only the columns in use become an array.

What is here behaves like a read-only two-dimensional array inside a `Table`: rows are cut out as sparse rows, columns
come as a dense block. Folding asks for a leaf at a time and routing for a block, so the whole is never dense.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.errors import DataError

__all__ = ["SparseColumns", "is_sparse"]


_WHOLE = np.zeros(0, dtype=np.int64)


def is_sparse(X: Any) -> bool:
    """Whether this is one of SciPy's sparse matrices or arrays; SciPy is not imported to find out."""
    return type(X).__module__.startswith("scipy.sparse") and hasattr(X, "tocsr")


def _sound(matrix: Any) -> Any:
    """A matrix as CSR, its indices looked at: SciPy reads and writes wherever they point."""
    try:
        if any(getattr(matrix, name, _WHOLE).dtype.kind not in "iu" for name in ("indices", "indptr")):
            raise ValueError("its indices are no whole numbers")
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        elif hasattr(matrix, "row") and hasattr(matrix, "col"):
            matrix = type(matrix)((matrix.data, (matrix.row, matrix.col)), shape=matrix.shape)
        rows = matrix.tocsr()
        rows.check_format(full_check=True)
        return rows
    except (ValueError, TypeError, IndexError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise DataError(f"This sparse table is damaged ({said}); build it again.") from error


class SparseColumns:
    """A sparse numeric table that gives dense columns when they are asked for.

    Parameters
    ----------
    matrix : scipy sparse matrix or array
        Of any layout; numbers other than ``float32`` become ``float64``.

    Raises
    ------
    DataError
        If it holds complex numbers, objects or infinity, or its indices point outside of it.

    Examples
    --------
    >>> from scipy import sparse
    >>> table = SparseColumns(sparse.random(1000, 30_000, density=0.05, rng=0))
    >>> table[10:20].shape
    (10, 30000)
    >>> table[:, [5, 7]].shape
    (1000, 2)
    """

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2:
            raise DataError(f"X must have two dimensions, rows and columns; it has {matrix.ndim}.")
        if matrix.dtype.kind not in "fiub":
            raise DataError(f"A sparse table must hold numbers; this one holds {matrix.dtype}.")
        rows = _sound(matrix)
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
        if np.isinf(rows.data).any():
            column = int(rows.indices[int(np.isinf(rows.data).argmax())])
            raise DataError(
                f"X contains infinity in column {column}; replace infinite values by NaN (missing) or a large number."
            )
        self._rows = rows

    @classmethod
    def _of(cls, rows: Any) -> SparseColumns:
        """Rows that were looked at before."""
        made = object.__new__(cls)
        made._rows = rows
        return made

    @cached_property
    def _by_column(self) -> Any:
        return self._rows.tocsc()

    @property
    def matrix(self) -> Any:
        """The rows, as SciPy's CSR."""
        return self._rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n_rows, n_columns = self._rows.shape
        return int(n_rows), int(n_columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        dtype: np.dtype[Any] = self._rows.dtype
        return dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """``[start:stop]`` gives sparse rows, ``[rows, columns]`` an array."""
        if isinstance(key, slice):
            return SparseColumns._of(self._rows[key])
        rows, columns = key
        if isinstance(rows, slice):
            part = self if rows == slice(None) else SparseColumns._of(self._rows[rows])
            # In the memory order of an array, so that sums over it are the same to the last bit.
            return np.ascontiguousarray(part._by_column[:, columns].toarray())
        return self.take(np.asarray(rows))[:, columns]

    def copied(self) -> SparseColumns:
        """The same rows in memory of their own."""
        return SparseColumns._of(self._rows.copy())

    def take(self, rows: npt.NDArray[Any]) -> SparseColumns:
        """These rows, in this order."""
        return SparseColumns._of(self._rows[rows])

    def pick(self, columns: npt.NDArray[np.int64]) -> SparseColumns:
        """These columns, in this order, as a sparse table."""
        return SparseColumns._of(self._by_column[:, columns].tocsr())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.floating]:
        whole: npt.NDArray[np.floating] = self._rows.toarray()
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"_rows": self._rows}
