"""Columns chosen first, then the backbone's own inference on them alone: what folding is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer

from scff.plan.compile import compile_plan
from scff.tables.table import as_table

__all__ = ["Prefix", "Select"]


class Prefix(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The k highest-ranked columns of the support, in original order, as one leaf.

    Parameters
    ----------
    model : estimator
        Reads the chosen columns.
    k : int
    """

    def __init__(self, model: Any, k: int) -> None:
        self.model = model
        self.k = k

    def fit(self, X: pd.DataFrame, y: Any) -> Prefix:
        """Rank the columns and fit the model on the best."""
        self.plan_ = compile_plan(X, y)
        ranked = np.concatenate([self.plan_.core, self.plan_.tail])
        self._fit(X, y, np.sort(ranked[: self.k]))
        return self

    def _fit(self, X: pd.DataFrame, y: Any, columns: Any) -> None:
        self.columns_ = columns
        self.model_ = clone(self.model).fit(X.iloc[:, self.columns_], y)
        self.classes_ = self.model_.classes_

    def predict_proba(self, X: pd.DataFrame) -> Any:
        """Class probabilities from the chosen columns."""
        return self.model_.predict_proba(X.iloc[:, self.columns_])


class Select(Prefix):
    """What a user would write by hand: scikit-learn's `SelectKBest`, with the K of the fold plan.

    Parameters
    ----------
    model : estimator
        Reads the chosen columns.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: pd.DataFrame, y: Any) -> Select:
        """Choose the columns and fit the model on them."""
        self.plan_ = compile_plan(X, y)
        filled = SimpleImputer(strategy="median", keep_empty_features=True).fit_transform(as_table(X).numeric())
        with np.errstate(all="ignore"):
            best = SelectKBest(f_classif, k=len(self.plan_.core)).fit(filled, y)
        self._fit(X, y, best.get_support(indices=True))
        return self
