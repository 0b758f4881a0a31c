"""A folded model logged to MLflow, and predictions of what was logged.

pip install mlflow-skinny
python mlflow_model.py
"""

from __future__ import annotations

import mlflow
import pandas as pd

from scff import FoldedClassifier
from scff.integrations import mlflow as flavour


def log(clf: FoldedClassifier, X_test: pd.DataFrame, y_test: pd.Series) -> str:
    """Log what the model decided and the model itself; gives its address."""
    with mlflow.start_run():
        flavour.log_facts(clf, X_test, y_test)
        return flavour.log_model(clf, name="model", input_example=X_test[:3]).model_uri


if __name__ == "__main__":
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer(as_frame=True)
    X, X_test, y, y_test = train_test_split(data.data, data.target, train_size=200, random_state=0)
    address = log(FoldedClassifier(backbone="nano", leaf_width=8).fit(X, y), X_test, y_test)
    print(address)
    print(mlflow.pyfunc.load_model(address).predict(X_test[:5]))
