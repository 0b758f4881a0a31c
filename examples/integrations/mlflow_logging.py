"""Log a folded model to MLflow: parameters, scores, the plan, the gate's numbers, verdicts, column evidence, report.

pip install mlflow-skinny
python examples/integrations/mlflow_logging.py
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import mlflow

from scff import FoldedClassifier


def log_folded(clf: FoldedClassifier, X_test: Any = None, y_test: Any = None) -> None:
    """Log a fitted model into the active run.

    Parameters
    ----------
    clf : FoldedClassifier
        A fitted model.
    X_test, y_test : array-like, optional
        Held-back rows; with them the scores are logged too.
    """
    report = clf.report(X_test, y_test)
    mlflow.log_params({name: str(value) for name, value in clf.get_params().items()})
    mlflow.set_tags({"backbone": clf.backbone_, "checkpoint_sha256": clf.checkpoint_.sha256})
    mlflow.log_metrics({f"seconds_{stage}": value for stage, value in clf.seconds_.items()})
    if report.quality is not None:
        mlflow.log_metrics({"accuracy": report.quality.accuracy, "log_loss": report.quality.log_loss})
    if clf.plan_ is not None:
        mlflow.log_metrics({"core_columns": len(clf.plan_.core), "tail_columns": len(clf.plan_.tail)})
        mlflow.log_text(clf.plan_.to_json(), "plan.json")
    if clf.gate_ is not None:
        mlflow.log_metric("alpha", clf.gate_.alpha)
        gate = {
            "accepted": clf.gate_.accepted,
            "alpha": clf.gate_.alpha,
            "reason": clf.gate_.reason,
            "candidates": [asdict(candidate) for candidate in clf.gate_.candidates],
        }
        mlflow.log_dict(gate, "gate.json")
    if clf.verdicts_:
        mlflow.log_dict({"verdicts": [asdict(verdict) for verdict in clf.verdicts_]}, "verdicts.json")
    mlflow.log_text(report.columns.to_csv(), "columns.csv")
    mlflow.log_text(report.html, "report.html")


if __name__ == "__main__":
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer(as_frame=True)
    X, X_test, y, y_test = train_test_split(data.data, data.target, train_size=200, random_state=0)
    with mlflow.start_run() as run:
        log_folded(FoldedClassifier(backbone="nano", leaf_width=8).fit(X, y), X_test, y_test)
    print(f"logged as run {run.info.run_id}")
