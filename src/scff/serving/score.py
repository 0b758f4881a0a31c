"""Predictions of a table on disk, as a table."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pandas as pd

from scff.errors import DataError
from scff.estimators.base import FoldedEstimator
from scff.estimators.classifier import FoldedClassifier
from scff.estimators.regressor import FoldedRegressor
from scff.tables.files import read_columns

__all__ = ["local_copy", "parts_of", "score_table"]

M = TypeVar("M", bound=FoldedEstimator)


def score_table(model: FoldedClassifier | FoldedRegressor, path: Path, proba: bool) -> pd.DataFrame:
    """Predict the rows of a table; with ``proba`` also one probability column per class, where there are classes."""
    names = [str(name) for name in model.feature_names_in_]
    rows = read_columns(path, names, model.fitted_.support.is_numeric)
    if isinstance(model, FoldedRegressor):
        return pd.DataFrame({"prediction": model.predict(rows)})
    P = model.predict_proba(rows)
    out = pd.DataFrame({"prediction": model.classes_[P.argmax(axis=1)]})
    if proba:
        for k, label in enumerate(model.classes_):
            out[f"p_{label}"] = P[:, k]
    return out


def local_copy(model: M, *, progress: bool) -> M:
    """The same model, to be compiled in the process it is used in, with or without progress bars."""
    fitted = model.fitted_
    copied = copy.copy(model)
    copied.fitted_ = replace(fitted, settings=replace(fitted.settings, engine="local", progress=progress))
    return copied


def parts_of(path: Path) -> list[Path]:
    """The files of a table: the Parquet files of a directory in the order of their paths, or the one file.

    Raises
    ------
    DataError
        If a directory holds none.
    """
    if not path.is_dir():
        return [path]
    # Names that start with a dot or an underscore are notes of whoever wrote the directory.
    found = sorted(part for part in path.rglob("*.parquet") if not part.name.startswith((".", "_")))
    if not found:
        raise DataError(f"There is no .parquet file in {path}; check the path.")
    return found
