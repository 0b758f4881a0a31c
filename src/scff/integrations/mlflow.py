"""A folded model as an MLflow model: the safe model file inside, predictions by `scff.serving.Scorer`.

>>> import mlflow, scff.integrations.mlflow as flavour  # doctest: +SKIP
>>> with mlflow.start_run():  # doctest: +SKIP
...     flavour.log_model(clf, name="model", input_example=X[:3])
>>> mlflow.pyfunc.load_model("runs:/.../model").predict(X)  # doctest: +SKIP

What MLflow stores is the file that ``clf.save`` writes: JSON, Arrow and safetensors, no pickle. `load_model` gives the
estimator back, ``mlflow.pyfunc.load_model`` and ``mlflow models serve`` predictions as a table.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from scff import __version__
from scff.errors import MissingDependency, ModelFileError
from scff.models.file import load
from scff.report.quality import Quality

if TYPE_CHECKING:
    from scff.estimators.classifier import FoldedClassifier
    from scff.estimators.regressor import FoldedRegressor

__all__ = ["FLAVOUR", "load_model", "log_facts", "log_model", "save_model"]

FLAVOUR = "scff"
_FILE = "model.scff"


def save_model(
    model: FoldedClassifier | FoldedRegressor,
    path: str | Path,
    *,
    mlflow_model: Any = None,
    signature: Any = None,
    input_example: Any = None,
    metadata: dict[str, Any] | None = None,
    proba: bool = True,
) -> None:
    """Write a fitted model as a folder that MLflow reads.

    Parameters
    ----------
    model : FoldedClassifier or FoldedRegressor
        Fitted on a table with column names.
    path : path
        The folder, which must not exist.
    mlflow_model : mlflow.models.Model, optional
        Filled in; `log_model` hands its own over.
    signature : ModelSignature, optional
        What goes in and comes out; by default what the model was fitted on, and what it predicts of it.
    input_example : DataFrame, optional
        Rows stored beside the model.
    metadata : dict, optional
        Stored with it.
    proba : bool, default=True
        Whether ``pyfunc`` predictions have one probability column per class.
    """
    mlflow = _mlflow()
    from mlflow.models import Model, infer_signature
    from mlflow.models.utils import _save_example

    from scff.serving import Scorer

    folder = Path(path)
    if folder.exists():
        raise ModelFileError(f"There is something at {folder} already; name a folder that is new.")
    folder.mkdir(parents=True)
    model.save(folder / _FILE)
    about = Model() if mlflow_model is None else mlflow_model
    scorer = Scorer(model, proba=proba)
    if signature is None:
        rows = _support_rows(model)
        signature = infer_signature(rows, scorer(rows))
    about.signature = signature
    if input_example is not None:
        _save_example(about, input_example, str(folder))
    if metadata is not None:
        about.metadata = metadata
    needs = [f"scff=={__version__}", f"mlflow=={mlflow.__version__}"]
    (folder / "requirements.txt").write_text("\n".join(needs) + "\n")
    mlflow.pyfunc.add_to_model(
        about, loader_module=__name__, data=_FILE, python_env=None, model_config={"proba": proba}
    )
    facts = _weights_of(model)
    about.add_flavor(FLAVOUR, scff_version=__version__, data=_FILE, code=None, **facts)
    about.save(str(folder / "MLmodel"))


def log_model(model: FoldedClassifier | FoldedRegressor, name: str | None = None, **options: Any) -> Any:
    """Log a fitted model in the active run.

    Parameters
    ----------
    model : FoldedClassifier or FoldedRegressor
    name : str, optional
        Of the model in the run.
    **options
        Of `save_model`, and ``registered_model_name``, ``await_registration_for``, ... of MLflow.

    Returns
    -------
    ModelInfo
        With ``model_uri``, which `load_model` and ``mlflow.pyfunc.load_model`` take.
    """
    _mlflow()
    import sys

    from mlflow.models import Model

    return Model.log(artifact_path=None, name=name, flavor=sys.modules[__name__], model=model, **options)


def load_model(model_uri: str, dst_path: str | None = None) -> FoldedClassifier | FoldedRegressor:
    """The estimator behind a URI of MLflow; nothing in its files is executed.

    Raises
    ------
    ModelFileError
        If it is no folded model.
    """
    _mlflow()
    from mlflow.models import Model
    from mlflow.tracking.artifact_utils import _download_artifact_from_uri

    folder = Path(_download_artifact_from_uri(artifact_uri=model_uri, output_path=dst_path))
    flavours = Model.load(str(folder)).flavors
    if FLAVOUR not in flavours:
        raise ModelFileError(f"{model_uri} holds no folded model; it has {', '.join(flavours) or 'nothing'}.")
    return load(folder / str(flavours[FLAVOUR]["data"]))


def log_facts(model: FoldedClassifier, X_test: Any = None, y_test: Any = None) -> None:
    """Log what a classifier used and decided: parameters, plan, gate, verdicts, column evidence and the report.

    Parameters
    ----------
    model : FoldedClassifier
        Fitted.
    X_test, y_test : array-like, optional
        Held-back rows; with them the scores are logged too.
    """
    mlflow = _mlflow()
    report = model.report(X_test, y_test)
    mlflow.log_params({name: str(value) for name, value in model.get_params().items()})
    mlflow.set_tags(_weights_of(model))
    mlflow.log_metrics({f"seconds_{stage}": value for stage, value in model.seconds_.items()})
    if isinstance(report.quality, Quality):
        mlflow.log_metrics({"accuracy": report.quality.accuracy, "log_loss": report.quality.log_loss})
    if model.plan_ is not None:
        mlflow.log_metrics({"core_columns": len(model.plan_.core), "tail_columns": len(model.plan_.tail)})
        mlflow.log_text(model.plan_.to_json(), "plan.json")
    gate = model.gate_
    if gate is not None:
        mlflow.log_metric("alpha", gate.alpha)
        candidates = [asdict(candidate) for candidate in gate.candidates]
        decided = {"accepted": gate.accepted, "alpha": gate.alpha, "reason": gate.reason, "candidates": candidates}
        mlflow.log_dict(decided, "gate.json")
    if model.verdicts_:
        mlflow.log_dict({"verdicts": [asdict(verdict) for verdict in model.verdicts_]}, "verdicts.json")
    mlflow.log_text(report.columns.to_csv(), "columns.csv")
    mlflow.log_text(report.html, "report.html")


class _Predictor:
    """What ``mlflow.pyfunc`` calls."""

    def __init__(self, path: str, proba: bool) -> None:
        from scff.serving import Scorer

        self._scorer = Scorer(path, proba=proba)

    def predict(self, rows: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Predictions as a table, a row for a row."""
        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows, columns=self._scorer.names)
        predicted: pd.DataFrame = self._scorer(frame)
        return predicted


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> _Predictor:
    """Called by MLflow with the path of the model file."""
    return _Predictor(path, bool((model_config or {}).get("proba", True)))


def _support_rows(model: FoldedClassifier | FoldedRegressor) -> pd.DataFrame:
    """A few labelled rows as they were fitted, for the signature."""
    support = model.fitted_.support.rows(0, 5)
    if isinstance(support.values, pd.DataFrame):
        return support.values
    import numpy as np

    return pd.DataFrame(np.asarray(support.values), columns=list(support.names or ()))


def _mlflow() -> Any:
    try:
        import mlflow
        import mlflow.pyfunc
    except ImportError as error:
        raise MissingDependency(
            "scff.integrations.mlflow needs MLflow; install it with: pip install mlflow-skinny"
        ) from error
    return mlflow


def _weights_of(model: FoldedClassifier | FoldedRegressor) -> dict[str, str]:
    """Which weights the answer is made of."""
    facts, beside = {"backbone": model.backbone_, "checkpoint_sha256": model.checkpoint_.sha256}, model.fitted_.beside
    return facts if beside is None else facts | {"beside": beside.backbone, "beside_sha256": beside.sha256}
