"""Linear models of wide tables in the time that few rows deserve: the same minimum as scikit-learn's, found faster.

An L2 penalty does not change when the columns are rotated. So ridge and logistic regression are fitted in the space
that the labelled rows span, which has at most as many dimensions as there are rows. An L1 penalty does change; there
most columns have no weight, and the minimum is found on the few that may have one (Tibshirani et al. 2012, "strong
rules").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import ElasticNet, ElasticNetCV, LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss

__all__ = ["ELASTIC_NET_CS", "LOGISTIC_CS", "RIDGE_ALPHAS", "elastic_net", "elastic_net_numbers", "logistic", "ridge"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Pair = tuple[IntArray, IntArray]

LOGISTIC_CS: Sequence[float] = tuple(10.0**e for e in range(-5, 3))
"""Penalties that logistic regression may choose from, as scikit-learn's ``C``."""

ELASTIC_NET_CS: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Penalties that the elastic net of classes may choose from; its ``l1_ratio`` is 0.5."""

RIDGE_ALPHAS: Sequence[float] = tuple(10.0**e for e in range(-2, 7))
"""Penalties that ridge regression may choose from."""

_L1_RATIO = 0.5
_SWEEPS = 100
_TOLERANCE = 1e-5
_MOVED = 1e-3  # of a log-odds: less is not worth another sweep


def rotated(X: FloatArray, Q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows and queries in a basis of the space that the rows span; as they are where there are few columns.

    Products among rows, and of queries with rows, stay as they are, and a linear model with an L2 penalty knows nothing
    else.
    """
    if X.shape[1] <= X.shape[0]:
        return X, Q
    basis = np.linalg.svd(X, full_matrices=False)[2]
    return X @ basis.T, Q @ basis.T


def logistic(X: FloatArray, y: IntArray, Q: FloatArray, inner: list[Pair]) -> FloatArray:
    """Probabilities by logistic regression on standardised rows, its penalty chosen by log-loss on inner folds."""
    X, Q = rotated(X, Q)
    model = LogisticRegressionCV(
        Cs=list(LOGISTIC_CS),
        cv=inner,
        scoring="neg_log_loss",
        l1_ratios=(0.0,),
        tol=1e-6,
        max_iter=10_000,
        use_legacy_attributes=False,
    )
    out: FloatArray = model.fit(X, y).predict_proba(Q)
    return out


def ridge(X: FloatArray, y: FloatArray, Q: FloatArray, inner: list[Pair]) -> FloatArray:
    """Numbers by ridge regression on standardised rows, its penalty chosen by squared error on inner folds."""
    X, Q = rotated(X, Q)
    model = RidgeCV(RIDGE_ALPHAS, cv=inner, scoring="neg_mean_squared_error")
    out: FloatArray = model.fit(X, y).predict(Q)
    return out


def elastic_net_numbers(X: FloatArray, y: FloatArray, Q: FloatArray, inner: list[Pair]) -> FloatArray:
    """Numbers by an elastic net on standardised rows, its penalty chosen from a path of 30."""
    model = ElasticNetCV(l1_ratio=_L1_RATIO, alphas=30, cv=inner, max_iter=10_000, tol=1e-3)
    out: FloatArray = model.fit(X, y).predict(Q)
    return out


def elastic_net(X: FloatArray, y: IntArray, Q: FloatArray, inner: list[Pair]) -> FloatArray:
    """Probabilities by logistic regression with half an L1 penalty, its strength chosen by log-loss on inner folds."""
    n_classes = int(y.max()) + 1
    losses = np.zeros(len(ELASTIC_NET_CS))
    for train, test in inner:
        for i, p in enumerate(elastic_net_path(X[train], y[train], X[test], ELASTIC_NET_CS, n_classes)):
            losses[i] += log_loss(y[test], p, labels=np.arange(n_classes)) / len(inner)
    best = int(losses.argmin())
    return elastic_net_path(X, y, Q, ELASTIC_NET_CS[: best + 1], n_classes)[-1]


def elastic_net_path(
    X: FloatArray, y: IntArray, Q: FloatArray, Cs: Sequence[float], n_classes: int
) -> list[FloatArray]:
    """Probabilities of queries for every strength of the penalty, the strongest first: each starts at the last minimum.

    The objective is scikit-learn's: ``C * sum(log-loss) + l1 * |w| + (1 - l1) / 2 * |w|^2``, the intercept free; for
    two classes one vector of weights, for more one for each class.
    """
    onehot = np.eye(n_classes)[y]
    truth = onehot[:, 1:] if n_classes == 2 else onehot
    w = np.zeros((X.shape[1], truth.shape[1]))
    b = np.zeros(truth.shape[1])
    out = []
    last = Cs[0]
    pull = X.T @ (_probabilities(np.zeros_like(truth)) - truth)
    for C in Cs:
        # Few columns can enter between two neighbouring penalties; those left out are looked at again afterwards.
        some = np.abs(pull).max(axis=1) >= _L1_RATIO * (2 / C - 1 / last)
        some |= w.any(axis=1)
        while True:
            columns = np.flatnonzero(some)
            w[columns], b = _minimum(np.ascontiguousarray(X[:, columns]), truth, w[columns], b, C)
            pull = X.T @ (_probabilities(X[:, columns] @ w[columns] + b) - truth)
            forgotten = ~some & (np.abs(pull).max(axis=1) > _L1_RATIO / C * (1 + 1e-3))
            if not forgotten.any():
                break
            some |= forgotten
        last = C
        p = _probabilities(Q @ w + b)
        out.append(np.hstack([1 - p, p]) if n_classes == 2 else p)
    return out


def _probabilities(scores: FloatArray) -> FloatArray:
    if scores.shape[1] == 1:
        p: FloatArray = 0.5 * (1 + np.tanh(scores / 2))
        return p
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p


def _minimum(X: FloatArray, truth: FloatArray, w: FloatArray, b: FloatArray, C: float) -> tuple[FloatArray, FloatArray]:
    """Weights and intercept at the minimum: one weighted elastic net for each class in turn, until none moves a row.

    This is Newton's method with the curvature of one class at a time (Friedman et al. 2010); a step that does not lower
    the objective is halved.
    """
    if X.shape[1] == 0:
        share = np.clip(truth.mean(axis=0), 1e-12, 1 - 1e-12)
        return w, np.log(share / (1 - share)) if len(share) == 1 else np.log(share)
    w, b = w.copy(), b.copy()
    model = ElasticNet(l1_ratio=_L1_RATIO, warm_start=True, tol=_TOLERANCE, max_iter=10_000)
    eta = X @ w + b
    best = _objective(eta, truth, w, C)
    for _ in range(_SWEEPS):
        before = eta
        for k in range(truth.shape[1]):
            p = _probabilities(eta)[:, k]
            curve = np.maximum(p * (1 - p), 1e-5)
            model.set_params(alpha=1 / (C * curve.sum()))
            model.coef_ = w[:, k].copy()
            model.fit(X, eta[:, k] + (truth[:, k] - p) / curve, sample_weight=curve)
            old = w[:, k].copy(), b[k]
            share = 1.0
            while share > 1e-3:
                w[:, k] = old[0] + share * (model.coef_ - old[0])
                b[k] = old[1] + share * (model.intercept_ - old[1])
                new = X @ w + b
                now = _objective(new, truth, w, C)
                if now <= best + 1e-10 * abs(best):
                    break
                share /= 2
            else:
                w[:, k], b[k] = old
                new, now = eta, best
            eta, best = new, now
        if np.abs(eta - before).max() < _MOVED:
            break
    return w, b


def _objective(eta: FloatArray, truth: FloatArray, w: FloatArray, C: float) -> float:
    if eta.shape[1] == 1:
        loss = np.logaddexp(0.0, eta[:, 0]).sum() - float((truth * eta).sum())
    else:
        loss = np.logaddexp.reduce(eta, axis=1).sum() - float((truth * eta).sum())
    return float(C * loss + _L1_RATIO * np.abs(w).sum() + (1 - _L1_RATIO) / 2 * (w**2).sum())
