"""Linear models and kernels that a user would pick instead: whatever they choose, they choose inside the labelled rows.

Each is an estimator on numbers that may be missing; ``facts_`` says what it chose. All run on one thread.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

__all__ = ["ElasticNet", "Logistic", "LogisticInner", "LogisticPlain", "Rival", "Svm", "inner_folds"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Path = Callable[[FloatArray, IntArray, FloatArray, FloatArray], list[FloatArray]]

#: Columns that the elastic net keeps, by ANOVA F inside each fold: its solver is slow on thousands.
_ELASTIC_NET_COLUMNS = 500


class Rival(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator that learns from class codes and keeps what it chose."""

    def fit(self, X: Any, y: Any) -> Rival:
        """Choose and learn."""
        self.facts_: dict[str, Any] = {}
        self.classes_, codes = np.unique(y, return_inverse=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a slow end of a path of penalties is no error, nor is a rare class
            self.learn(np.asarray(X), codes)
        return self

    @abstractmethod
    def learn(self, X: FloatArray, y: IntArray) -> None:
        """Fit on codes 0 to k - 1."""

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities."""
        out: FloatArray = self.model_.predict_proba(self.rows(np.asarray(X)))
        return out

    def rows(self, X: FloatArray) -> FloatArray:
        """Query rows as the model takes them."""
        return X


class _Rows:
    """Median-filled columns of mean 0 and variance 1, learnt from the labelled rows; perhaps in their row space.

    Distances and products among labelled rows, and products of queries with them, stay as they are in a basis of the
    space that the labelled rows span: whatever is linear with an L2 penalty has the same solution there, on at most as
    many columns as there are labelled rows. ``rest`` adds one column for what a query has outside of that space, so
    that its distances stay as well.
    """

    def __init__(self, X: FloatArray, *, rotate: bool = True, rest: bool = False) -> None:
        impute = SimpleImputer(strategy="median", keep_empty_features=True)
        self._scale = make_pipeline(impute, StandardScaler()).fit(X.astype(np.float64))
        self._basis: FloatArray | None = None
        self._rest = rest
        Z = self._scale.transform(X.astype(np.float64))
        if rotate and Z.shape[1] > Z.shape[0]:
            self._basis = np.linalg.svd(Z, full_matrices=False)[2]
        self.support: FloatArray = self._rotated(Z, outside=False)

    def __call__(self, X: FloatArray) -> FloatArray:
        return self._rotated(self._scale.transform(X.astype(np.float64)), outside=True)

    def _rotated(self, Z: FloatArray, outside: bool) -> FloatArray:
        if self._basis is None:
            return Z
        inside: FloatArray = Z @ self._basis.T
        if not self._rest:
            return inside
        left = np.maximum((Z**2).sum(1) - (inside**2).sum(1), 0) if outside else np.zeros(len(Z))
        return np.column_stack([inside, np.sqrt(left)])


class Logistic(Rival):
    """Logistic regression, its L2 penalty chosen by log-loss."""

    def learn(self, X: FloatArray, y: IntArray) -> None:
        """Choose the penalty on rows that are scaled once."""
        self.rows_ = _Rows(X)
        self.model_ = LogisticRegressionCV(
            Cs=np.logspace(-4, 1, 6),
            cv=inner_folds(y),
            scoring="neg_log_loss",
            l1_ratios=(0.0,),
            max_iter=5_000,
            use_legacy_attributes=False,
        ).fit(self.rows_.support, y)
        self.facts_ = {"C": float(self.model_.C_)}

    def rows(self, X: FloatArray) -> FloatArray:
        """Scaled, in the row space."""
        return self.rows_(X)


class LogisticInner(Rival):
    """Logistic regression whose inner folds fill and scale for themselves, as they would have to on new rows.

    That matters for columns that are nearly always zero: a new row may lie hundreds of deviations away. The penalty is
    stronger there, and the log-loss better; not always the accuracy.
    """

    def learn(self, X: FloatArray, y: IntArray) -> None:
        """Choose the penalty, then fit on everything."""
        Cs = np.logspace(-4, 1, 6)

        def path(X: FloatArray, y: IntArray, Q: FloatArray, Cs: FloatArray) -> list[FloatArray]:
            rows = _Rows(X)
            model = LogisticRegression(max_iter=5_000, warm_start=True)
            return [model.set_params(C=C).fit(rows.support, y).predict_proba(rows(Q)) for C in Cs]

        C = float(Cs[_least_loss(path, X, y, Cs)])
        self.rows_ = _Rows(X)
        self.model_ = LogisticRegression(C=C, max_iter=5_000).fit(self.rows_.support, y)
        self.facts_ = {"C": C}

    def rows(self, X: FloatArray) -> FloatArray:
        """Scaled, in the row space."""
        return self.rows_(X)


class LogisticPlain(Rival):
    """Logistic regression as everybody tries it first."""

    def learn(self, X: FloatArray, y: IntArray) -> None:
        """Fill, scale, fit."""
        impute = SimpleImputer(strategy="median", keep_empty_features=True)
        self.model_ = make_pipeline(impute, StandardScaler(), LogisticRegression(max_iter=2_000)).fit(X, y)


class ElasticNet(Rival):
    """Logistic regression with half an L1 penalty, its strength chosen by log-loss, on the strongest columns."""

    def learn(self, X: FloatArray, y: IntArray) -> None:
        """Choose the strength on inner folds that select columns for themselves."""
        Cs = np.logspace(-2.5, 1, 6)

        def path(X: FloatArray, y: IntArray, Q: FloatArray, Cs: FloatArray) -> list[FloatArray]:
            rows, keep, model = self._screened(X, y)
            kept, asked = (keep.transform(part).astype(np.float32) for part in (rows.support, rows(Q)))
            return [model.set_params(C=C).fit(kept, y).predict_proba(asked) for C in Cs]

        best = _least_loss(path, X, y, Cs)
        self.rows_, self.keep_, self.model_ = self._screened(X, y)
        support = np.float32(self.keep_.transform(self.rows_.support))
        for C in Cs[: best + 1]:  # along the path, each from the last
            self.model_.set_params(C=C).fit(support, y)
        self.facts_ = {"C": float(Cs[best])}

    def _screened(self, X: FloatArray, y: IntArray) -> tuple[_Rows, Any, Any]:
        rows = _Rows(X, rotate=False)
        with np.errstate(all="ignore"):  # constant columns have no F
            keep = SelectKBest(f_classif, k=min(_ELASTIC_NET_COLUMNS, X.shape[1])).fit(rows.support, y)
        return (
            rows,
            keep,
            LogisticRegression(l1_ratio=0.5, solver="saga", warm_start=True, tol=1e-3, max_iter=300, random_state=0),
        )

    def rows(self, X: FloatArray) -> FloatArray:
        """Scaled, the kept columns."""
        return np.float32(self.keep_.transform(self.rows_(X)))  # type: ignore[return-value]


class Svm(Rival):
    """Support vector machine with calibrated probabilities; everything is chosen by their log-loss.

    Parameters
    ----------
    kernel : {"linear", "rbf"}
    """

    def __init__(self, kernel: Literal["linear", "rbf"]) -> None:
        self.kernel = kernel

    def learn(self, X: FloatArray, y: IntArray) -> None:
        """Search C, and with "rbf" gamma."""
        self.rows_ = _Rows(X, rest=self.kernel == "rbf")
        grid: dict[str, Any] = {"estimator__C": np.logspace(-4, 0, 5)}
        if self.kernel == "rbf":
            grid = {"estimator__C": [0.3, 1.0, 3.0, 10.0, 30.0]}
            grid["estimator__gamma"] = np.array([0.1, 0.3, 1]) / X.shape[1]
        if y.max() > 1:
            grid["method"] = ["sigmoid", "temperature"]
        inner, rarest = inner_folds(y), int(np.bincount(y).min())
        within = max(2, min(3, rarest - -(-rarest // inner.n_splits)))  # rows of the rarest class every fold leaves
        calibrated = CalibratedClassifierCV(SVC(kernel=self.kernel), cv=StratifiedKFold(within), ensemble=False)
        self.model_ = GridSearchCV(calibrated, grid, scoring="neg_log_loss", cv=inner).fit(self.rows_.support, y)
        best = self.model_.best_params_
        self.facts_ = {key.removeprefix("estimator__"): str(best[key]) for key in grid}

    def rows(self, X: FloatArray) -> FloatArray:
        """Scaled, in the row space."""
        return self.rows_(X)


def inner_folds(y: IntArray, most: int = 3) -> StratifiedKFold:
    """Inner folds: three, or as many as the rarest class has rows, but two at least."""
    return StratifiedKFold(max(2, min(most, int(np.bincount(y).min()))), shuffle=True, random_state=0)


def _least_loss(path: Path, X: FloatArray, y: IntArray, Cs: FloatArray) -> int:
    """Return which penalty of a path has the least log-loss on the inner folds."""
    losses = np.zeros(len(Cs))
    for train, test in inner_folds(y).split(X, y):
        test = test[np.isin(y[test], y[train])]  # a class of one row can be held back or learnt, not both
        for i, p in enumerate(path(X[train], y[train], X[test], Cs)):
            losses[i] += log_loss(y[test], p, labels=np.unique(y[train]), normalize=False)
    return int(losses.argmin())
