"""A folded model as an MLflow model: the safe model file inside, predictions by `scff.serving.Scorer`.

>>> import mlflow, scff.integrations.mlflow as flavour  # doctest: +SKIP
>>> with mlflow.start_run():  # doctest: +SKIP
...     flavour.log_model(clf, name="model", input_example=X[:3])
>>> mlflow.pyfunc.load_model("runs:/.../model").predict(X)  # doctest: +SKIP

What MLflow stores is the file that ``clf.save`` writes: JSON, Arrow and safetensors, no pickle. `load_model` gives the
estimator back, ``mlflow.pyfunc.load_model`` and ``mlflow models serve`` predictions as a table.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.api import types as pdt
from sklearn.utils.validation import check_is_fitted

from scff import __version__
from scff.errors import DataError, MissingDependency, ModelFileError
from scff.models.file import load
from scff.report.quality import Quality

if TYPE_CHECKING:
    from scff.estimators.classifier import FoldedClassifier
    from scff.estimators.regressor import FoldedRegressor
    from scff.serving import Scorer

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
    pip_requirements: list[str] | None = None,
    extra_pip_requirements: list[str] | None = None,
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
        What goes in and comes out; by default the names of the columns that were fitted, of any type, since the model
        itself takes counts, truth values and missing ones for numbers and says what it cannot take.
    input_example : DataFrame, optional
        Rows stored beside the model.
    metadata : dict, optional
        Stored with it.
    proba : bool, default=True
        Whether ``pyfunc`` predictions have one probability column per class.
    pip_requirements, extra_pip_requirements : list of str, optional
        What an environment for this model needs, instead of or beside this version of the library and of MLflow: the
        path of a wheel, where the library is on no index that the environment reaches.

    Raises
    ------
    ModelFileError
        If there is something at the path already.
    DataError
        If it was fitted on an array.
    """
    mlflow = _mlflow()
    from mlflow.models import Model
    from mlflow.models.utils import _save_example
    from mlflow.utils.environment import _CONDA_ENV_FILE_NAME, _PYTHON_ENV_FILE_NAME

    from scff.serving import Scorer

    folder = Path(path)
    if folder.exists():
        raise ModelFileError(f"There is something at {folder} already; name a folder that is new.")
    check_is_fitted(model)
    scorer = Scorer(model, proba=proba)
    about = Model() if mlflow_model is None else mlflow_model
    about.signature = _signature(scorer) if signature is None else signature
    if metadata is not None:
        about.metadata = metadata
    folder.mkdir(parents=True)
    try:
        model.save(folder / _FILE)
        if input_example is not None:
            _save_example(about, input_example, str(folder))
        _write_environment(folder, pip_requirements, extra_pip_requirements)
        mlflow.pyfunc.add_to_model(
            about,
            loader_module=__name__,
            data=_FILE,
            conda_env=_CONDA_ENV_FILE_NAME,
            python_env=_PYTHON_ENV_FILE_NAME,
            model_config={"proba": proba},
        )
        about.add_flavor(FLAVOUR, scff_version=__version__, data=_FILE, code=None, **_weights_of(model))
        about.save(str(folder / "MLmodel"))
    except BaseException:
        shutil.rmtree(folder)
        raise


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
        predicted: pd.DataFrame = self._scorer(self._dated(frame))
        return predicted

    def _dated(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Rows with the dates that a request has as text, JSON and CSV having no others."""
        support = self._scorer.model.fitted_.support
        dates = [self._scorer.names[j] for j, kind in support.times if kind == "dates"]
        as_text = [name for name in dates if name in frame and pdt.is_string_dtype(frame[name].dtype)]
        try:
            return frame.assign(**{name: pd.to_datetime(frame[name]) for name in as_text})
        except ValueError as error:
            raise DataError(f"A column that held dates at fit holds something else ({error}); give dates.") from error


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> _Predictor:
    """Called by MLflow with the path of the model file."""
    return _Predictor(path, bool((model_config or {}).get("proba", True)))


def _signature(scorer: Scorer) -> Any:
    """Columns of any type in, predictions out.

    The types of MLflow are narrower than what a column of the fit takes: it would refuse whole numbers and truth values
    where floats were fitted, and a missing value where there was none.
    """
    import pyarrow as pa
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import AnyType

    kinds = {pa.string(): DataType.string, pa.int64(): DataType.long, pa.bool_(): DataType.boolean}
    kinds[pa.float64()] = DataType.double
    label, *probabilities = scorer.outputs
    said = [ColSpec(kinds.get(scorer.label_type(), AnyType()), name=label)]
    said += [ColSpec(DataType.double, name=name) for name in probabilities]
    columns = [ColSpec(AnyType(), name=name, required=False) for name in scorer.names]
    return ModelSignature(inputs=Schema(columns), outputs=Schema(said))


def _write_environment(folder: Path, wanted: list[str] | None, more: list[str] | None) -> None:
    """What an environment for the model needs, in the three files that flavours of MLflow write."""
    import yaml
    from mlflow.utils import environment

    conda, requirements, constraints = environment._process_pip_requirements([f"scff=={__version__}"], wanted, more)
    (folder / environment._CONDA_ENV_FILE_NAME).write_text(yaml.safe_dump(conda, default_flow_style=False))
    (folder / environment._REQUIREMENTS_FILE_NAME).write_text("".join(f"{line}\n" for line in requirements))
    if constraints:
        (folder / environment._CONSTRAINTS_FILE_NAME).write_text("".join(f"{line}\n" for line in constraints))
    environment._PythonEnv.current().to_yaml(str(folder / environment._PYTHON_ENV_FILE_NAME))


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
