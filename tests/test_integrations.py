"""The integrations and their examples, each where its package is installed.

`make integrations` runs those that need an environment of their own: AutoGluon and TabArena hold pandas back.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from scff import FoldedClassifier, FoldedRegressor, FoldPlan

FOLDER = Path(__file__).parents[1] / "examples" / "integrations"


@pytest.fixture(autouse=True)
def _examples_on_path(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(tmp_path)


def need(package):
    if importlib.util.find_spec(package.split(".")[0]) is None:
        pytest.skip(f"{package} is not installed: make integrations")
    return pytest.importorskip(package, reason=f"{package} is not installed: make integrations")


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = pd.DataFrame(rng.normal(size=(120, 3000)), columns=[f"x{j}" for j in range(3000)])
    X.iloc[:, :40] += 0.8 * y[:, None]
    return X, y


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model file, and rows to predict with their keys."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = pd.DataFrame(rng.normal(size=(80, 8)), columns=[f"g{j}" for j in range(8)])
    X.iloc[:40, :3] += y[:, None]
    clf = FoldedClassifier("nano", method="raw-core").fit(X[:40], np.where(y, "ill", "well"))
    path = tmp_path_factory.mktemp("saved") / "model.scff"
    clf.save(path)
    rows = X[40:].reset_index(drop=True).assign(key=[f"s{i:02d}" for i in range(40)])
    return path, rows, clf.predict_proba(X[40:])


def check(out, rows, proba):
    out = out.sort_values("key")
    assert list(out) == ["key", "prediction", "p_ill", "p_well"]
    assert list(out["key"]) == list(rows["key"])
    np.testing.assert_allclose(out[["p_ill", "p_well"]], proba, atol=1e-5)


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


def test_a_web_service_in_twenty_lines(saved, monkeypatch):
    need("fastapi")
    need("httpx")
    from fastapi.testclient import TestClient

    path, rows, proba = saved
    monkeypatch.setenv("MODEL", str(path))
    import fastapi_service

    try:
        client = TestClient(fastapi_service.app)
        features = rows.drop(columns="key")
        got = client.post("/predict", json=features[:5].to_dict(orient="records"))
        assert got.status_code == 200
        np.testing.assert_allclose([row["p_ill"] for row in got.json()], proba[:5, 0], atol=1e-5)
        refused = client.post("/predict", json=[{"g0": 1.0}])
        assert refused.status_code == 422
        assert "'g1' and 6 more" in refused.json()["detail"]
    finally:
        sys.modules.pop("fastapi_service")


def test_spark_scores_where_its_rows_are(saved, monkeypatch):
    need("pyspark")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    import spark_scoring
    from pyspark.sql import SparkSession

    path, rows, proba = saved
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        table = spark.createDataFrame(rows).repartition(3)
        out = spark_scoring.predict(table, str(path), keep=["key"]).toPandas()
        empty = spark_scoring.predict(table.limit(0), str(path), keep=["key"])
        assert empty.columns == ["key", "prediction", "p_ill", "p_well"]
        assert empty.count() == 0
    finally:
        spark.stop()
    check(out, rows, proba)


def test_dask_scores_partition_by_partition(saved):
    dd = need("dask.dataframe")
    import dask_scoring

    path, rows, proba = saved
    out = dask_scoring.predict(dd.from_pandas(rows, npartitions=3), str(path), keep=["key"])
    assert list(out.columns) == ["key", "prediction", "p_ill", "p_well"]
    check(out.compute(scheduler="sync"), rows, proba)


@pytest.fixture
def tracking(tmp_path, monkeypatch):
    mlflow = need("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the small distribution has no database
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    return mlflow


def test_mlflow_logs_a_model_that_serves_predictions(saved, tracking):
    need("httpx")
    import mlflow_model
    from fastapi.testclient import TestClient
    from mlflow.pyfunc import scoring_server

    import scff
    from scff.integrations import mlflow as flavour

    path, rows, proba = saved
    clf = scff.load(path)
    features = rows.drop(columns="key")
    address = mlflow_model.log(clf, features, clf.predict(features))
    again = flavour.load_model(address)
    np.testing.assert_allclose(again.predict_proba(features), proba, atol=1e-6)
    served = tracking.pyfunc.load_model(address)
    assert served.metadata.signature.outputs.input_names() == ["prediction", "p_ill", "p_well"]
    np.testing.assert_allclose(served.predict(features)[["p_ill", "p_well"]], proba, atol=1e-6)
    client = TestClient(scoring_server.init(served))
    got = client.post("/invocations", json={"dataframe_split": features[:3].to_dict(orient="split")})
    assert got.status_code == 200
    assert [row["prediction"] for row in got.json()["predictions"]] == list(clf.predict(features[:3]))
    folder = Path(tracking.artifacts.download_artifacts(address))
    assert not [file.name for file in folder.rglob("*") if file.suffix in (".pkl", ".pickle", ".joblib")]
    assert (folder / "model.scff").read_bytes()[:2] == b"PK"


@pytest.fixture(scope="module")
def mixed():
    """Columns of all kinds, and a model of them."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = pd.DataFrame(
        {
            "count": rng.integers(0, 9, 40),
            "flag": rng.integers(0, 2, 40).astype(bool),
            "few": pd.array([1, 2, 3, 4] * 10, dtype="Int64"),
            "day": pd.date_range("2020-01-01", periods=40).to_numpy()[rng.permutation(40)],
            "kind": ["x", "z", "y", "x"] * 10,
            "x": rng.normal(size=40) + 2 * y,
        }
    )
    return FoldedClassifier("nano", method="raw-core").fit(X, y), X


def test_mlflow_takes_the_rows_that_the_model_takes(mixed, tracking, tmp_path):
    from scff.integrations import mlflow as flavour

    clf, X = mixed
    flavour.save_model(clf, tmp_path / "model", input_example=X[:3])
    served = tracking.pyfunc.load_model(str(tmp_path / "model"))
    assert served.metadata.signature.inputs.input_names() == list(X)
    assert [str(kind) for kind in served.metadata.signature.outputs.input_types()] == [
        "DataType.long",
        "DataType.double",
        "DataType.double",
    ]
    for rows in (
        X,
        X.astype({"count": float, "flag": float}),
        X.assign(x=[1, 2] * 20, flag=[0, 1] * 20),
        X.assign(few=pd.array([None, 2, 3, 4] * 10, dtype="Int64"), kind=None, x=None),
        X.assign(count=X["count"].where(X.index > 3), day=X["day"].where(X.index > 3)),
        X[["x", *list(X)[:-1]]],
    ):
        got = served.predict(rows)
        np.testing.assert_allclose(got[["p_0", "p_1"]], clf.predict_proba(rows[list(X)]), atol=1e-6)
    np.testing.assert_allclose(
        served.predict(X.assign(day=X["day"].astype(str)))["p_1"], clf.predict_proba(X)[:, 1], atol=1e-6
    )


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_the_command_of_mlflow_predicts(mixed, tracking, tmp_path, kind):
    from scff.integrations import mlflow as flavour

    clf, X = mixed
    flavour.save_model(clf, tmp_path / "model", extra_pip_requirements=["einops"])
    assert {"conda.yaml", "python_env.yaml", "requirements.txt"} <= {
        path.name for path in (tmp_path / "model").iterdir()
    }
    needs = (tmp_path / "model" / "requirements.txt").read_text().split()
    assert sorted(line.partition("==")[0] for line in needs) == ["einops", "mlflow", "scff"]
    if kind == "csv":
        X.to_csv(tmp_path / "in.csv", index=False)
    else:
        split = json.loads(X.assign(day=X["day"].astype(str)).to_json(orient="split"))
        (tmp_path / "in.json").write_text(json.dumps({"dataframe_split": split}))
    command = [str(Path(sys.executable).parent / "mlflow"), "models", "predict", "--env-manager", "local"]
    command += ["-m", str(tmp_path / "model"), "-i", str(tmp_path / f"in.{kind}"), "-t", kind, "-o", "out.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads((tmp_path / "out.json").read_text())["predictions"]
    np.testing.assert_allclose([row["p_1"] for row in said], clf.predict_proba(X)[:, 1], atol=1e-6)


def test_mlflow_leaves_no_half_made_folder(mixed, tracking, tmp_path):
    from sklearn.exceptions import NotFittedError

    from scff.errors import DataError
    from scff.integrations import mlflow as flavour

    clf, X = mixed
    of_an_array = FoldedClassifier("nano", method="raw-core").fit(X[["count", "x"]].to_numpy(), np.arange(40) % 2)
    with pytest.raises(DataError, match="fitted on an array without column names"):
        flavour.save_model(of_an_array, tmp_path / "model")
    with pytest.raises(NotFittedError):
        flavour.save_model(FoldedClassifier(), tmp_path / "model")
    with pytest.raises(tracking.exceptions.MlflowException):
        flavour.save_model(clf, tmp_path / "model", input_example=object())
    assert not (tmp_path / "model").exists()


def test_mlflow_refuses_what_is_no_folded_model(saved, tracking, tmp_path):
    from scff.errors import ModelFileError
    from scff.integrations import mlflow as flavour

    class Other(tracking.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):
            return model_input

    tracking.pyfunc.save_model(tmp_path / "other", python_model=Other())
    with pytest.raises(ModelFileError, match="holds no folded model"):
        flavour.load_model(str(tmp_path / "other"))
    with pytest.raises(ModelFileError, match="name a folder that is new"):
        flavour.save_model(FoldedClassifier(), tmp_path)


def test_mlflow_gets_plan_gate_scores_and_report(tracking):
    from scff.integrations import mlflow as flavour

    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.normal(size=(80, 40)) + (np.arange(40) < 5) * y[:, None]
    clf = FoldedClassifier(backbone="nano", method="scff", leaf_width=16).fit(X[:50], y[:50])
    with tracking.start_run() as run:
        flavour.log_facts(clf, X[50:], y[50:])
    logged = tracking.get_run(run.info.run_id)
    assert logged.data.metrics["accuracy"] == clf.score(X[50:], y[50:])
    assert logged.data.metrics["alpha"] == clf.gate_.alpha
    assert logged.data.params["leaf_width"] == "16"
    text = lambda name: tracking.artifacts.load_text(f"{logged.info.artifact_uri}/{name}")  # noqa: E731
    assert FoldPlan.from_json(text("plan.json")) == clf.plan_
    assert json.loads(text("gate.json"))["reason"] == clf.gate_.reason
    assert text("report.html").startswith("<!doctype html>")


def test_autogluon_trains_it_beside_lightgbm_on_three_thousand_columns_and_keeps_it(wide):
    need("autogluon.tabular")
    need("lightgbm")
    import autogluon_table
    from autogluon.tabular import TabularPredictor

    from scff.integrations.autogluon import register

    register()  # a second call, in the example, changes nothing
    X, y = wide
    table = X.assign(label=y)
    predictor = autogluon_table.train(table[:100], "label", "ag", backbone="nano", trials=0)
    assert {"SCFF", "LightGBM"} <= set(predictor.model_names())
    board = predictor.leaderboard(table[100:]).set_index("model")
    assert board.loc["SCFF", "score_test"] > board.loc["LightGBM", "score_test"]
    again = TabularPredictor.load("ag")
    proba = again.predict_proba(table[100:], model="SCFF")
    np.testing.assert_allclose(proba, predictor.predict_proba(table[100:], model="SCFF"), atol=1e-5)
    model = predictor._trainer.load_model("SCFF")
    assert model.params_aux["max_features"] is None
    assert model.model.plan_.n_columns == 3000
    assert model.get_device() == "cpu"
    assert model.estimate_memory_usage(X=X[:80]) < 2 << 30


def test_autogluon_bags_it(wide):
    need("autogluon.tabular")
    from autogluon.tabular import TabularPredictor

    from scff.integrations.autogluon import FoldedModel

    X, y = wide
    table = X.iloc[:, :150].assign(label=np.where(y, "a", "b"))
    predictor = TabularPredictor(label="label", verbosity=0, path="ag").fit(
        table[:80],
        hyperparameters={FoldedModel: {"backbone": "nano", "trials": 0}},
        num_bag_folds=2,
        fit_weighted_ensemble=False,
    )
    assert set(predictor.predict(table[80:])) <= {"a", "b"}


def test_autogluon_predicts_numbers_with_it(wide, tmp_path):
    need("autogluon.tabular")
    from autogluon.tabular import TabularPredictor

    from backbone_models import tiny_tabicl_regressor
    from scff.integrations.autogluon import FoldedModel

    checkpoint = tiny_tabicl_regressor(tmp_path / "regressor.ckpt")
    table = wide[0].iloc[:, :60].assign(height=wide[0]["x0"] * 3 + 100)
    predictor = TabularPredictor(label="height", problem_type="regression", verbosity=0, path="ag").fit(
        table[:80],
        tuning_data=table[80:100],
        hyperparameters={FoldedModel: {"backbone": str(checkpoint), "method": "auto", "trials": 0}},
        fit_weighted_ensemble=False,
    )
    model = predictor._trainer.load_model("SCFF")
    assert isinstance(model.model, FoldedRegressor)
    np.testing.assert_allclose(predictor.predict(table[100:]), model.model.predict(table[100:].drop(columns="height")))


def test_memory_of_a_fit_grows_with_the_leaf_and_not_with_the_columns():
    from scff.integrations.planning import memory_of_fit

    one = memory_of_fit(200, 128, {"backbone": "nano"})
    many = memory_of_fit(200, 100_000, {"backbone": "nano"})
    assert many - one == 3 * 8 * 200 * (100_000 - 128)
    assert memory_of_fit(200, 128, {"backbone": "nano", "leaf_width": 16}) < one
    assert memory_of_fit(200, 128, {"backbone": "nano", "memory_limit": "1MiB"}) < one
    assert memory_of_fit(2000, 128, {"backbone": "nano"}, device="cuda") > memory_of_fit(
        200, 128, {"backbone": "nano"}, device="cuda"
    )


def test_tabarena_runs_a_job_of_it(wide):
    need("tabarena")
    import tabarena_job
    from tabarena.models._registry import get_model_registry

    from scff.integrations.tabarena import info, register

    register()
    assert get_model_registry()["SCFF"] is info
    assert len(info.search_space().generate_all_bag_experiments(num_random_configs=2)) == 3
    X, y = wide
    table = X.iloc[:, :200].assign(label=pd.Series(y).astype("category"))
    results = tabarena_job.run(table, "label", 80, "nano")
    assert results["metric_error"] < 0.3
    assert results["framework"].startswith("SCFF_c1")
