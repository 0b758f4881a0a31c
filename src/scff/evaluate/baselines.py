"""What a user would pick instead: plain models on the same folds, with everything they choose chosen inside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

from scff.backbones.shared.categories import OrdinalCodes
from scff.errors import DataError, shown
from scff.evaluate import linear
from scff.evaluate.splits import inner_splits
from scff.tables.table import Table

__all__ = ["CLASS_BASELINES", "NUMBER_BASELINES", "Baseline", "Unavailable", "answer", "choose"]

FloatArray = npt.NDArray[np.float64]
_TREES = 300


@dataclass(frozen=True)
class Part:
    """Labelled rows and query rows as numbers, and the folds a penalty may be chosen on."""

    X: FloatArray
    y: npt.NDArray[Any]
    Q: FloatArray
    groups: npt.NDArray[Any] | None
    seed: int

    @property
    def filled(self) -> tuple[FloatArray, FloatArray]:
        """Missing values filled with the median of their column."""
        fill = SimpleImputer(strategy="median", keep_empty_features=True)
        return fill.fit_transform(self.X), fill.transform(self.Q)

    @property
    def standardised(self) -> tuple[FloatArray, FloatArray]:
        """The same, every column with mean 0 and variance 1."""
        X, Q = self.filled
        scale = StandardScaler().fit(X)
        return scale.transform(X), scale.transform(Q)

    def inner(self, classified: bool) -> list[Any]:
        """Folds inside the labelled rows; groups stay whole here too."""
        return inner_splits(self.y, self.groups, classified=classified)


@dataclass(frozen=True)
class Baseline:
    """A plain model.

    Attributes
    ----------
    words : str
        Its name for people.
    answer : callable
        From a part to probabilities of its query rows, or numbers in one column.
    package : str or None
        What must be installed for it.
    """

    words: str
    answer: Callable[[Part], FloatArray]
    package: str | None = None


@dataclass(frozen=True)
class Unavailable:
    """A baseline that could not take part, and why."""

    words: str
    reason: str


def _logistic(part: Part) -> FloatArray:
    X, Q = part.standardised
    return linear.logistic(X, part.y, Q, part.inner(True))


def _elastic_net(part: Part) -> FloatArray:
    X, Q = part.standardised
    return linear.elastic_net(X, part.y, Q, part.inner(True))


def _forest(part: Part) -> FloatArray:
    X, Q = part.filled
    out: FloatArray = RandomForestClassifier(_TREES, random_state=part.seed, n_jobs=1).fit(X, part.y).predict_proba(Q)
    return out


def _lightgbm(part: Part) -> FloatArray:
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(**_boosting(part)).fit(part.X, part.y)
    out: FloatArray = model.booster_.predict(part.Q, num_threads=1)
    return np.c_[1 - out, out] if out.ndim == 1 else out


def _majority(part: Part) -> FloatArray:
    share = np.bincount(part.y) / len(part.y)
    return np.tile(share, (len(part.Q), 1))


def _ridge(part: Part) -> FloatArray:
    X, Q = part.standardised
    return linear.ridge(X, part.y, Q, part.inner(False))[:, None]


def _elastic_net_numbers(part: Part) -> FloatArray:
    X, Q = part.standardised
    return linear.elastic_net_numbers(X, part.y, Q, part.inner(False))[:, None]


def _forest_numbers(part: Part) -> FloatArray:
    X, Q = part.filled
    # A third of the columns at each split, as is usual for numbers: all of them would be slow and no better.
    model = RandomForestRegressor(_TREES, max_features=1 / 3, random_state=part.seed, n_jobs=1)
    out: FloatArray = model.fit(X, part.y).predict(Q)
    return out[:, None]


def _lightgbm_numbers(part: Part) -> FloatArray:
    from lightgbm import LGBMRegressor

    model = LGBMRegressor(**_boosting(part)).fit(part.X, part.y)
    out: FloatArray = model.booster_.predict(part.Q, num_threads=1)
    return out[:, None]


def _mean(part: Part) -> FloatArray:
    return np.full((len(part.Q), 1), part.y.mean())


def _boosting(part: Part) -> dict[str, Any]:
    """LightGBM for few rows: its default of 20 rows in a leaf would leave most gene tables without a single split.

    A leaf for every eight rows, 15 at most. Always 15 took nearly twice the time and moved the AUC of four gene tables
    by 0.012 at most, either way.
    """
    return {
        "n_estimators": 100,
        "learning_rate": 0.05,
        "num_leaves": int(np.clip(len(part.y) // 8, 4, 15)),
        "min_child_samples": int(np.clip(len(part.y) // 20, 2, 20)),
        "colsample_bytree": 0.3,
        "max_bin": 63,
        "random_state": part.seed,
        "n_jobs": 1,
        "verbose": -1,
        "force_col_wise": True,
    }


CLASS_BASELINES: dict[str, Baseline] = {
    "logistic": Baseline("logistic regression", _logistic),
    "elastic-net": Baseline("elastic net", _elastic_net),
    "random-forest": Baseline("random forest", _forest),
    "lightgbm": Baseline("LightGBM", _lightgbm, "lightgbm"),
    "majority": Baseline("class frequencies", _majority),
}
"""Baselines of a classifier, by name."""

NUMBER_BASELINES: dict[str, Baseline] = {
    "ridge": Baseline("ridge regression", _ridge),
    "elastic-net": Baseline("elastic net", _elastic_net_numbers),
    "random-forest": Baseline("random forest", _forest_numbers),
    "lightgbm": Baseline("LightGBM", _lightgbm_numbers, "lightgbm"),
    "mean": Baseline("mean of the target", _mean),
}
"""Baselines of a regressor, by name."""


def choose(names: Sequence[str] | None, *, classified: bool) -> tuple[dict[str, Baseline], dict[str, Unavailable]]:
    """The named baselines, all by default, and those that cannot take part here.

    Raises
    ------
    DataError
        If there is no baseline of that name.
    """
    known = CLASS_BASELINES if classified else NUMBER_BASELINES
    if names is not None and (isinstance(names, str) or not isinstance(names, Collection)):
        raise DataError(f"baselines must be a list of names, not {shown(names)!r}; choose from {', '.join(known)}.")
    for name in names or ():
        if not isinstance(name, str) or name not in known:
            raise DataError(f"There is no baseline {shown(name)!r}; choose from {', '.join(known)}.")
    chosen = {name: known[name] for name in (known if names is None else names)}
    absent = {
        name: Unavailable(one.words, f"the package {one.package} is not installed (pip install {one.package})")
        for name, one in chosen.items()
        if one.package is not None and find_spec(one.package) is None
    }
    return {name: one for name, one in chosen.items() if name not in absent}, absent


def answer(
    baseline: Baseline, support: Table, y: npt.NDArray[Any], queries: Table, groups: npt.NDArray[Any] | None, seed: int
) -> FloatArray:
    """What a baseline says about query rows: probabilities of the classes in ``y``, or numbers in one column.

    Text and categories become numbers by the labels of the support, as they do for the folded models.
    """
    codes = OrdinalCodes.fit(support)
    X, Q = (np.asarray(codes.transform(rows).values, dtype=np.float64) for rows in (support, queries))
    return baseline.answer(Part(X, y, Q, groups, seed))
