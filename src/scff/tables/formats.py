"""Files by their names: text, Parquet, Arrow, Excel, NumPy, single-cell formats."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from scff.errors import DataError, MissingDependency, NoRows, SCFFError, shown
from scff.tables.delimited import COMPRESSIONS, read_delimited
from scff.tables.matrix_market import read_matrix_market
from scff.tables.on_disk import is_wide, wide_sheet
from scff.tables.sheet import Sheet
from scff.tables.single_cell import is_matrix_folder, read_h5ad, read_matrix_folder
from scff.tables.sparse import SparseColumns

__all__ = ["KNOWN", "Hints", "load"]

logger = logging.getLogger(__name__)

KNOWN = "CSV, TSV, TXT (also gz, zst, bz2, xz), Parquet, Feather, Arrow, xlsx, h5ad, mtx, npy, npz, or a 10x folder"
"""What can be read, in words."""

_TEXT = {".csv", ".tsv", ".txt", ".tab", ".dat"}


@dataclass(frozen=True)
class Hints:
    """What is known about a file before it is read.

    Attributes
    ----------
    layer : str, optional
        Which matrix of an ``.h5ad`` file.
    named : collection of str
        Columns that are no measurements: target, groups.
    features : sequence of str, optional
        Columns that a model wants, where there is one.
    texts : collection of str
        Those of them that it knows as labels.
    """

    layer: str | None = None
    named: Collection[str] = ()
    features: Sequence[str] | None = None
    texts: Collection[str] = ()


def load(path: Path, hints: Hints = Hints()) -> Sheet:  # noqa: B008  (frozen)
    """Read a file, whatever it is.

    Raises
    ------
    DataError
        If there is no such file, or it cannot be read.
    MissingDependency
        If its format needs a package that is not installed.
    """
    if not os.path.exists(path):  # which answers for names that no file system takes
        raise DataError(f"There is no file {shown(path, 200)}; check the path.")
    try:
        sheet = _load(path, hints)
    except SCFFError:
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from error
    except Exception as error:  # a damaged file raises two dozen unrelated types below: zip, XML, HDF5, Arrow, pandas
        said = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise DataError(f"{path} cannot be read as a table ({said}).") from error
    if 0 in sheet.values.shape:
        rows, columns = sheet.values.shape
        raise NoRows(f"{path} holds no rows ({rows} rows, {columns} columns).", sheet.heads)
    logger.info("read %s: %d rows, %d columns", path, *sheet.values.shape)
    return replace(sheet, origin=_from_here(path))


def _from_here(path: Path) -> str:
    """A path as somebody in the working directory would write it, where it is below."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(path)


def _load(path: Path, hints: Hints) -> Sheet:
    if is_matrix_folder(path):
        return read_matrix_folder(path)
    suffix, origin = path.suffix.lower(), str(path)
    inner = Path(path.stem).suffix.lower() if suffix in COMPRESSIONS else suffix
    if suffix in (".parquet", ".pq") or path.is_dir():
        if is_wide(path):
            found = wide_sheet(path, hints.named, hints.features)
            if found is not None:
                return found
            logger.info("%s is loaded as a whole: it has columns that are not numbers", path)
        return Sheet.of_frame(pd.read_parquet(path), origin)
    if suffix in (".feather", ".arrow", ".ipc"):
        return Sheet.of_frame(_read_arrow(path), origin)
    if inner in _TEXT:
        return Sheet.of_frame(read_delimited(path, hints.texts), origin)
    if suffix in (".xlsx", ".xlsm"):
        try:
            import openpyxl  # noqa: F401
        except ImportError as error:
            raise MissingDependency(f"{path} needs the package openpyxl; install scff's extra `excel`.") from error
        return Sheet.of_frame(_read_excel(path), origin)
    if suffix == ".h5ad":
        return read_h5ad(path, hints.layer)
    if inner == ".mtx":
        return read_matrix_market(path)
    if suffix == ".npy":
        values = np.load(path, mmap_mode="r", allow_pickle=False)
        return Sheet(origin, _matrix(values, origin))
    if suffix == ".npz":
        return _read_npz(path)
    raise DataError(f"{path} is of no kind that is known by its name; convert it to one of {KNOWN}.")


def _read_excel(path: Path) -> pd.DataFrame:
    """The first sheet, with its first row as names; pandas would number those that repeat or are empty in silence."""
    head = pd.read_excel(path, engine="openpyxl", header=None, nrows=1)
    names = [] if head.empty else [str(name) for name in head.iloc[0] if not pd.isna(name)]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise DataError(f"Column name {repeated[0]!r} occurs more than once in {path}; rename the columns.")
    frame = pd.read_excel(path, engine="openpyxl")
    if frame.shape[1] > 2 and 2 * len(names) < frame.shape[1]:
        raise DataError(f"The first row of {path} does not name its columns; begin the first sheet with the header.")
    return frame


def _read_arrow(path: Path) -> pd.DataFrame:
    with pa.memory_map(str(path)) as source:
        try:
            table = pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            table = pa.ipc.open_stream(source).read_all()
        table.validate(full=True)  # Arrow takes offsets and codes on faith, and reads wherever they point
        return pd.DataFrame(table.to_pandas())


def _read_npz(path: Path) -> Sheet:
    """A sparse matrix as SciPy saves it, or one matrix with what describes its rows and columns beside it."""
    with np.load(path, allow_pickle=False) as archive:
        arrays: dict[str, Any] = {name: archive[name] for name in archive.files}
    if {"indices", "indptr", "data", "shape"} <= set(arrays) or {"row", "col", "data", "shape"} <= set(arrays):
        from scipy.sparse import load_npz

        return Sheet(str(path), SparseColumns(load_npz(path)))
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    if len(matrices) != 1:
        found = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise DataError(f"{path} must hold one two-dimensional array of measurements; it holds {found or 'nothing'}.")
    values = _matrix(arrays.pop(matrices[0]), str(path))
    n_rows, n_columns = values.shape
    texts = [name for name, array in arrays.items() if array.dtype.kind == "U" and array.shape == (n_columns,)]
    # With as many rows as columns, text that repeats is labels of rows.
    heads = [name for name in texts if n_rows != n_columns or len(np.unique(arrays[name])) == n_columns]
    names = tuple(map(str, arrays.pop(heads[0]))) if heads else None
    beside = {name: array for name, array in arrays.items() if array.shape == (n_rows,)}
    return Sheet(str(path), values, names, beside=pd.DataFrame(beside))


def _matrix(values: Any, origin: str) -> Any:
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise DataError(f"{origin} holds {values.dtype} in {values.ndim} dimensions; save a two-dimensional array.")
    return values
