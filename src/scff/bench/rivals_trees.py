"""Trees that a user would pick instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from scff.bench.rivals import Rival, inner_folds
from scff.errors import MissingDependency

__all__ = ["LightGBM", "RandomForest"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: What LightGBM may choose from; everything else, and the number of trees, is common to all.
_CHOICES: tuple[dict[str, Any], ...] = (
    {"num_leaves": 7, "min_data_in_leaf": 4, "feature_fraction": 0.3},
    {"num_leaves": 15, "min_data_in_leaf": 10, "feature_fraction": 0.3},
    {"num_leaves": 15, "min_data_in_leaf": 2, "feature_fraction": 0.1, "extra_trees": True},
    {"num_leaves": 15, "min_data_in_leaf": 5, "feature_fraction": 1.0},
)


class RandomForest(Rival):
    """Random forest of 500 trees."""

    def learn(self, X: FloatArray, y: IntArray) -> None:
        """Fill and fit."""
        impute = SimpleImputer(strategy="median", keep_empty_features=True)
        self.model_ = make_pipeline(impute, RandomForestClassifier(500, n_jobs=1, random_state=0)).fit(X, y)


class LightGBM(Rival):
    """LightGBM on few rows: shape and number of trees by cross-validated log-loss, three boosters averaged.

    Parameters
    ----------
    tuned : bool, default=True
        False takes it as it comes.
    """

    def __init__(self, tuned: bool = True) -> None:
        self.tuned = tuned

    def learn(self, X: FloatArray, y: IntArray) -> None:
        """Choose one of four shapes, then train."""
        try:
            import lightgbm as lgb
        except ImportError as error:
            raise MissingDependency("LightGBM needs its package: pip install lightgbm.") from error
        if not self.tuned:
            self.model_ = lgb.LGBMClassifier(random_state=0, verbose=-1, n_jobs=1).fit(X, y)
            return
        k = int(y.max()) + 1
        task = {"objective": "binary"} if k == 2 else {"objective": "multiclass", "num_class": k}
        common = {
            "learning_rate": 0.05 if k == 2 else 0.1,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "lambda_l2": 1.0,
            "max_bin": 63,
            "min_data_in_bin": 1,
            "num_threads": 1,
            "force_col_wise": True,
            "feature_pre_filter": False,
            "verbosity": -1,
            "seed": 0,
            **task,
        }
        tried, inner = [], list(inner_folds(y).split(X, y))
        for choice in _CHOICES:
            params = {**common, **choice}
            stop = lgb.early_stopping(30, verbose=False)
            result = lgb.cv(params, lgb.Dataset(X, y, params=params), 500, folds=inner, callbacks=[stop])
            curve = next(values for key, values in result.items() if key.endswith("-mean"))
            tried.append((min(curve), len(curve), choice))
        _, trees, choice = min(tried, key=lambda one: one[0])
        seeded = [{**common, **choice, "seed": seed} for seed in range(3)]
        self.model_ = [lgb.train(params, lgb.Dataset(X, y, params=params), trees) for params in seeded]
        self.facts_ = {"trees": trees, **choice}

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities."""
        if not self.tuned:
            return super().predict_proba(X)
        raw = [np.asarray(booster.predict(np.asarray(X), num_threads=1)) for booster in self.model_]
        out: FloatArray = np.mean([np.c_[1 - p, p] if p.ndim == 1 else p for p in raw], axis=0)
        return out
