"""Grid search over leaf width and method, inside an ordinary pipeline.

python examples/integrations/sklearn_grid.py
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PolynomialFeatures

from scff import FoldedClassifier

GRID = {"folded__leaf_width": [32, 128], "folded__method": ["auto", "scff"]}


def search(X: pd.DataFrame, y: np.ndarray, folds: int = 3) -> GridSearchCV:
    """Add products to a table, fold it, and choose leaf width and method by log-loss."""
    pipeline = Pipeline(
        [
            ("products", PolynomialFeatures(2, include_bias=False).set_output(transform="pandas")),
            ("folded", FoldedClassifier(backbone="nano")),
        ]
    )
    cv = StratifiedKFold(folds, shuffle=True, random_state=0)
    # One job: the frozen weights are shared within a process, and torch uses the cores already.
    return GridSearchCV(pipeline, GRID, cv=cv, scoring="neg_log_loss", n_jobs=1).fit(X, y)


if __name__ == "__main__":
    data = load_breast_cancer(as_frame=True)
    X, X_test, y, y_test = train_test_split(data.data, data.target, train_size=180, random_state=0)
    found = search(X, y)
    table = pd.DataFrame(found.cv_results_)
    print(table[["param_folded__leaf_width", "param_folded__method", "mean_test_score"]].to_string(index=False))
    print(f"best {found.best_params_}: accuracy on held-back rows {found.best_estimator_.score(X_test, y_test):.3f}")
    print(found.best_estimator_[-1].plan_)
