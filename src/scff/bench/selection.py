"""Columns chosen first, then the backbone's own inference on them alone: what folding is compared with."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer

from scff.plan.compile import compile_plan
from scff.tables.table import as_table

__all__ = ["KBest", "Prefix", "Select", "Subsets"]


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
        self._fit(X, y, _strongest(X, y, len(self.plan_.core)))
        return self


class KBest(Prefix):
    """The ``k`` columns of the largest ANOVA F, as many as a model reads at once.

    Parameters
    ----------
    model : estimator
        Reads the chosen columns.
    k : int
    """

    def fit(self, X: pd.DataFrame, y: Any) -> KBest:
        """Choose the columns and fit the model on them."""
        self._fit(X, y, _strongest(X, y, min(self.k, X.shape[1])))
        return self


class Subsets(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The mean over random subsets of the columns, one view each: divide and conquer (Ye et al. 2025).

    Parameters
    ----------
    model : estimator
        Reads a subset; its ``random_state`` becomes the subset's number.
    width : int
        Columns in a subset.
    n : int
        Subsets.
    """

    def __init__(self, model: Any, width: int, n: int) -> None:
        self.model = model
        self.width = width
        self.n = n

    def fit(self, X: pd.DataFrame, y: Any) -> Subsets:
        """Draw the subsets and fit a model on each."""
        random = np.random.default_rng(0)
        width = min(self.width, X.shape[1])
        self.columns_ = [random.choice(X.shape[1], width, replace=False) for _ in range(self.n)]
        self.models_ = [
            clone(self.model).set_params(random_state=i).fit(X.iloc[:, columns], y)
            for i, columns in enumerate(self.columns_)
        ]
        self.classes_ = self.models_[0].classes_
        return self

    def predict_proba(self, X: pd.DataFrame) -> Any:
        """Mean probabilities."""
        parts = zip(self.models_, self.columns_, strict=True)
        return np.mean([model.predict_proba(X.iloc[:, columns]) for model, columns in parts], axis=0)


def _strongest(X: pd.DataFrame, y: Any, k: int) -> Any:
    """The columns of the largest ANOVA F by scikit-learn."""
    filled = SimpleImputer(strategy="median", keep_empty_features=True).fit_transform(as_table(X).numeric())
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # constant columns have no F
        return SelectKBest(f_classif, k=k).fit(filled, y).get_support(indices=True)
