"""The integration examples, each where its package is installed.

`make integrations` runs those that need an environment of their own: AutoGluon and TabArena hold pandas back.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "integrations"


@pytest.fixture(autouse=True)
def _examples_on_path(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(tmp_path)


def need(package):
    if importlib.util.find_spec(package.split(".")[0]) is None:
        pytest.skip(f"{package} is not installed: make integrations")
    return pytest.importorskip(package, reason=f"{package} is not installed: make integrations")


@pytest.fixture
def wide():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = pd.DataFrame(rng.normal(size=(120, 2100)), columns=[f"x{j}" for j in range(2100)])
    X.iloc[:, :40] += 0.8 * y[:, None]
    return X, y


def test_grid_search_over_leaf_width_and_method():
    import sklearn_grid

    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = pd.DataFrame(rng.normal(size=(60, 12)) + y[:, None])
    X.columns = [f"c{j}" for j in X]
    found = sklearn_grid.search(X, y, folds=2)
    assert len(found.cv_results_["params"]) == 4
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert found.best_estimator_[-1].n_features_in_ == 12 * 13 / 2 + 12


def test_mlflow_gets_plan_gate_scores_and_report(tmp_path, monkeypatch):
    mlflow = need("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the small distribution has no database
    import mlflow_logging

    from scff import FoldedClassifier, FoldPlan

    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.normal(size=(80, 40)) + (np.arange(40) < 5) * y[:, None]
    clf = FoldedClassifier(backbone="nano", method="scff", leaf_width=16).fit(X[:50], y[:50])
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with mlflow.start_run() as run:
        mlflow_logging.log_folded(clf, X[50:], y[50:])
    saved = mlflow.get_run(run.info.run_id)
    assert saved.data.metrics["accuracy"] == clf.score(X[50:], y[50:])
    assert saved.data.metrics["alpha"] == clf.gate_.alpha
    assert saved.data.params["leaf_width"] == "16"
    text = lambda name: mlflow.artifacts.load_text(f"{saved.info.artifact_uri}/{name}")  # noqa: E731
    assert FoldPlan.from_json(text("plan.json")) == clf.plan_
    assert json.loads(text("gate.json"))["reason"] == clf.gate_.reason
    assert text("report.html").startswith("<!doctype html>")
    with mlflow.start_run() as run:
        mlflow_logging.log_folded(FoldedClassifier(backbone="nano", leaf_width=16).fit(X[:50], y[:50]))
    verdicts = mlflow.artifacts.load_text(f"{mlflow.get_run(run.info.run_id).info.artifact_uri}/verdicts.json")
    assert json.loads(verdicts)["verdicts"][0]["tried"][0]["name"] == "core"


def test_autogluon_fits_a_table_wider_than_it_gives_other_models(wide):
    need("autogluon.tabular")
    from autogluon.tabular import TabularPredictor
    from autogluon_model import FoldedModel

    X, y = wide
    table = X.assign(label=y)
    predictor = TabularPredictor(label="label", verbosity=0, path="ag").fit(
        table[:80],
        tuning_data=table[80:100],
        hyperparameters={FoldedModel: {"backbone": "nano", "leaf_width": 256}},
        fit_weighted_ensemble=False,
    )
    assert predictor.model_names() == ["SCFF"]
    again = TabularPredictor.load("ag")
    proba = again.predict_proba(table[100:])
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(proba, predictor.predict_proba(table[100:]), atol=1e-5)
    model = predictor._trainer.load_model("SCFF")
    assert model.params_aux["max_features"] is None
    assert model.model.leaf_width == 256
    assert model.model.plan_.n_columns == 2100


def test_autogluon_bags_it(wide):
    need("autogluon.tabular")
    from autogluon.tabular import TabularPredictor
    from autogluon_model import FoldedModel

    X, y = wide
    table = X.iloc[:, :150].assign(label=np.where(y, "a", "b"))
    predictor = TabularPredictor(label="label", verbosity=0, path="ag").fit(
        table[:80], hyperparameters={FoldedModel: {"backbone": "nano"}}, num_bag_folds=2, fit_weighted_ensemble=False
    )
    assert set(predictor.predict(table[80:])) <= {"a", "b"}


def test_tabarena_makes_experiments_of_it():
    need("tabarena")
    from tabarena_model import FoldedModel, experiments

    found = experiments(n_random=2, backbone="nano")
    assert len(found) == 3
    assert all(experiment.name.startswith("SCFF") for experiment in found)
    assert FoldedModel.supported_problem_types() == ["binary", "multiclass"]
    sys.modules.pop("autogluon_model", None)
