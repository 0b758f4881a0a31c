"""What a user would pick instead, by name, on tables with categories and missing values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from scff.backbones.registry import get_spec
from scff.backbones.shared.categories import OrdinalCodes
from scff.backbones.weights import checkpoints
from scff.bench.rivals import ElasticNet, Logistic, LogisticInner, LogisticPlain, Rival, Svm
from scff.bench.rivals_trees import LightGBM, RandomForest
from scff.errors import DataError
from scff.estimators.classifier import FoldedClassifier
from scff.tables.table import as_table

__all__ = ["RIVALS", "baseline", "rival"]


class GeneICL(Rival):
    """GeneICL's own inference on all columns: the mean of its three checkpoints, one forward pass each."""

    def learn(self, X: npt.NDArray[np.float64], y: npt.NDArray[np.int64]) -> None:
        """Keep the support with each checkpoint."""
        first = checkpoints.fetch(get_spec("geneicl"))
        paths = [first.with_name(first.name.replace("_s0", f"_s{seed}")) for seed in range(3)]
        self.model_ = [FoldedClassifier(backbone=str(path), method="native").fit(X, y) for path in paths]
        self.facts_ = {"checkpoints": [model.checkpoint_.sha256[:12] for model in self.model_]}

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Mean probabilities."""
        out: npt.NDArray[np.float64] = np.mean([model.predict_proba(np.asarray(X)) for model in self.model_], axis=0)
        return out


RIVALS: dict[str, tuple[Callable[[], Rival], str]] = {
    "logistic": (Logistic, "logistic regression, its penalty chosen by log-loss"),
    "logistic-inner": (LogisticInner, "the same, scaled anew in every inner fold"),
    "logistic-plain": (LogisticPlain, "standardised logistic regression, nothing tuned"),
    "elastic-net": (ElasticNet, "logistic regression with half an L1 penalty, tuned, on the 500 strongest columns"),
    "svm-linear": (lambda: Svm("linear"), "linear support vector machine, tuned and calibrated"),
    "svm-rbf": (lambda: Svm("rbf"), "support vector machine with Gaussian kernel, tuned and calibrated"),
    "random-forest": (RandomForest, "random forest, 500 trees"),
    "lightgbm": (LightGBM, "LightGBM, tuned by inner cross-validation, three boosters"),
    "lightgbm-default": (lambda: LightGBM(tuned=False), "LightGBM, default parameters"),
    "geneicl": (GeneICL, "GeneICL's own inference, mean of its three checkpoints"),
}
"""Every rival without a backbone of ours by name: how to make it, and what it is."""


def rival(name: str) -> Rival:
    """An unfitted rival on numbers by name."""
    if name not in RIVALS:
        raise DataError(f"There is no rival {name!r}; known are {', '.join(RIVALS)}.")
    return RIVALS[name][0]()


def baseline(name: str) -> Any:
    """An unfitted rival that takes a DataFrame with categories and missing values."""
    return _OnNumbers(rival(name))


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
