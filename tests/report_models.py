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


def _fit(X: pd.DataFrame, y: Any, n_support: int, n_test: int, **parameters: Any) -> Example:
    order = np.random.default_rng(0).permutation(len(y))
    a, b = order[:n_support], order[n_support : n_support + n_test]
    model = FoldedClassifier(backbone="nano", **parameters).fit(X.iloc[a], y[a])
    return Example(model, X.iloc[b], y[b])
