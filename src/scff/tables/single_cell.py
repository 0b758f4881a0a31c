"""What single-cell programs write: ``.h5ad`` files, and 10x or other folders around a Matrix Market file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from scff.errors import DataError, MissingDependency
from scff.tables.matrix_market import read_matrix_market
from scff.tables.naming import as_row_names
from scff.tables.sheet import Sheet
from scff.tables.sparse import SparseColumns, is_sparse

__all__ = ["is_matrix_folder", "read_h5ad", "read_matrix_folder", "sheet_of_anndata"]

_MATRICES = ("matrix.mtx", "matrix.mtx.gz")
_FEATURES = ("features.tsv.gz", "features.tsv", "genes.tsv.gz", "genes.tsv")
_BARCODES = ("barcodes.tsv.gz", "barcodes.tsv")


def read_h5ad(path: Path, layer: str | None = None) -> Sheet:
    """Read an AnnData file: cells in rows, ``obs`` beside them.

    Raises
    ------
    MissingDependency
        If the package is not installed.
    DataError
        If there is no such layer.
    """
    try:
        import anndata
    except ImportError as error:
        raise MissingDependency(f"{path} needs the package anndata; install scff's extra `anndata`.") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own affairs: names that repeat are refused below
        return sheet_of_anndata(anndata.read_h5ad(path), str(path), layer)


def sheet_of_anndata(adata: Any, origin: str, layer: str | None = None) -> Sheet:
    """An AnnData object as a sheet.

    Raises
    ------
    DataError
        If there is no such layer, or no matrix.
    """
    if layer is not None and layer not in adata.layers:
        known = ", ".join(map(str, adata.layers)) or "none"
        raise DataError(f"{origin} has no layer {layer!r}; its layers are: {known}.")
    X = adata.X if layer is None else adata.layers[layer]
    if X is None:
        raise DataError(f"{origin} has no matrix X; name one of its layers.")
    values = SparseColumns(X) if is_sparse(X) else X
    beside = adata.obs.reset_index(drop=True)
    beside.columns = beside.columns.map(str)
    return Sheet(origin, values, tuple(map(str, adata.var_names)), as_row_names(adata.obs_names), beside)


def is_matrix_folder(path: Path) -> bool:
    """Whether a folder holds a Matrix Market file as 10x names it."""
    return path.is_dir() and any((path / name).is_file() for name in _MATRICES)


def read_matrix_folder(path: Path) -> Sheet:
    """Read the folder of a 10x run: features in rows and cells in columns there, the other way round here.

    Raises
    ------
    DataError
        If names and matrix do not fit.
    """
    matrix = read_matrix_market(_first(path, _MATRICES)).values.matrix.T
    cells = _listed(_first(path, _BARCODES))
    features = _listed(_first(path, _FEATURES))
    if matrix.shape != (len(cells), len(features)):
        raise DataError(
            f"{path} has a matrix of {matrix.shape[1]} features and {matrix.shape[0]} cells, but names for "
            f"{len(features)} and {len(cells)}."
        )
    # Symbols are what people know; the identifiers before them are what is unique.
    symbols = features.iloc[:, min(1, features.shape[1] - 1)]
    names = symbols if symbols.is_unique else features.iloc[:, 0]
    return Sheet(str(path), SparseColumns(matrix), tuple(map(str, names)), as_row_names(cells.iloc[:, 0]))


def _first(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise DataError(f"{folder} has no {names[-1]}; a 10x folder has one beside its matrix.")


def _listed(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", header=None, dtype=str, keep_default_na=False)
