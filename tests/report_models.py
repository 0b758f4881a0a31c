"""Fitted models the report tests share; each is fitted once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import PolynomialFeatures

from scff import FoldedClassifier

torch.set_num_threads(1)


@dataclass(frozen=True, eq=False)
class Example:
    model: FoldedClassifier
    X_test: pd.DataFrame
    y_test: Any


@cache
def breast_cancer(**parameters: Any) -> Example:
    """Breast cancer widened to 495 columns by products of its 30."""
    data = load_breast_cancer(as_frame=True)
    X = PolynomialFeatures(2, include_bias=False).set_output(transform="pandas").fit_transform(data.data)
    y = data.target_names[data.target]
    return _fit(X, y, 120, 150, **parameters)


@cache
def digits(**parameters: Any) -> Example:
    """A table of 10 classes and 64 columns."""
    data = load_digits(as_frame=True)
    return _fit(data.data, data.target.to_numpy(), 200, 150, leaf_width=16, **parameters)


@cache
def noisy(n_columns: int = 300, **parameters: Any) -> Example:
    """A binary table where a tenth of the columns is informative."""
    rng = np.random.default_rng(0)
    y = np.arange(140) % 2
    X = rng.normal(size=(140, n_columns))
    X[:, : n_columns // 10] += 0.8 * y[:, None]
    frame = pd.DataFrame(X, columns=[f"probe_{j:05d}" for j in range(n_columns)])
    return _fit(frame, y, 70, 70, **parameters)


@cache
def grouped(**parameters: Any) -> Example:
    """Five columns that tell, and forty that move with them."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    source = rng.normal(size=(120, 5))
    X = rng.normal(size=(120, 200))
    X[:, :45] = np.tile(source, 9) + 0.5 * X[:, :45]
    X[:, :5] += 1.5 * y[:, None]
    return _fit(pd.DataFrame(X, columns=[f"gene_{j}" for j in range(200)]), y, 80, 40, **parameters)


@cache
def narrow(**parameters: Any) -> Example:
    """Three columns, one of which tells."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3))
    X[:, 0] += 3 * y
    return _fit(pd.DataFrame(X, columns=["a", "b", "c"]), y, 40, 20, **({"method": "scff"} | parameters))


@cache
def long_names(**parameters: Any) -> Example:
    """Three classes and 200 columns with names that no page has room for."""
    rng = np.random.default_rng(0)
    names = ["adenocarcinoma of the lung, poorly differentiated", "squamous", "a healthy control without any finding"]
    y = np.array(names)[np.arange(90) % 3]
    X = rng.normal(size=(90, 200))
    X[:, :30] += (y == "squamous")[:, None]
    frame = pd.DataFrame(X, columns=[f"ENSG{j:011d}.a_long_name_of_a_transcript|{j}" for j in range(200)])
    return _fit(frame, y, 60, 30, leaf_width=32, **parameters)


def _fit(X: pd.DataFrame, y: Any, n_support: int, n_test: int, **parameters: Any) -> Example:
    order = np.random.default_rng(0).permutation(len(y))
    a, b = order[:n_support], order[n_support : n_support + n_test]
    model = FoldedClassifier(backbone="nano", **parameters).fit(X.iloc[a], y[a])
    return Example(model, X.iloc[b], y[b])
