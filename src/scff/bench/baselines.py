"""What a user would pick instead of a foundation model: plain models on numbers, with their usual settings."""

from __future__ import annotations

from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scff.backbones.shared.categories import OrdinalCodes
from scff.errors import MissingDependency
from scff.tables.table import as_table

__all__ = ["baseline"]


def baseline(name: str) -> Any:
    """An unfitted baseline that takes a DataFrame with categories and missing values.

    Parameters
    ----------
    name : {"lightgbm", "logistic", "random-forest"}
    """
    impute = SimpleImputer(strategy="median", keep_empty_features=True)
    if name == "logistic":
        return _OnNumbers(make_pipeline(impute, StandardScaler(), LogisticRegression(max_iter=1000)))
    if name == "random-forest":
        return _OnNumbers(make_pipeline(impute, RandomForestClassifier(300, random_state=0, n_jobs=1)))
    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise MissingDependency("The LightGBM arm needs its package: pip install lightgbm.") from error
    return _OnNumbers(LGBMClassifier(random_state=0, verbose=-1, n_jobs=1))


class _OnNumbers(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model of numbers: categories by their codes, one code book for support and query."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: pd.DataFrame, y: Any) -> _OnNumbers:
        self.codes_ = OrdinalCodes.fit(as_table(X))
        self.model_ = clone(self.model).fit(self._numbers(X), y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: pd.DataFrame) -> Any:
        return self.model_.predict_proba(self._numbers(X))

    def _numbers(self, X: pd.DataFrame) -> Any:
        return self.codes_.transform(as_table(X)).values
