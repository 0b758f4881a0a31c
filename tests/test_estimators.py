"""FoldedClassifier: what users put in, what they get back, what they store."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tabicl import TabICLClassifier

from conftest import checkpoint_path, make_wide, paper
from scff import FoldedClassifier, TailRule
from scff.errors import BackboneNotAvailable, CheckpointError, CheckpointMissing, DataError


def mixed_frame(n=80, seed=0):
    """Numbers, text, categories, booleans and missing values of every kind."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, "yes", "no")
    frame = pd.DataFrame({f"n{j}": rng.normal(size=n) + (j % 3) * (y == "yes") for j in range(20)})
    frame["text"] = rng.choice(["red", "green", "blue"], n)
    frame["category"] = pd.Categorical(rng.choice(["low", "high"], n))
    frame["flag"] = rng.random(n) < 0.5
    frame["whole"] = rng.integers(0, 5, n)
    frame.loc[::5, "n3"] = np.nan
    frame.loc[::7, "text"] = None
    return frame[[*frame.columns[10:], *frame.columns[:10]]], y


@pytest.mark.parametrize("cache", [True, False])
def test_mixed_frames_are_native_when_one_leaf_holds_them(backbone, cache):
    X, y = mixed_frame()
    upstream = TabICLClassifier(
        n_estimators=1, model_path=checkpoint_path(backbone), allow_auto_download=False, device="cpu", kv_cache=cache
    )
    as_number = X.assign(flag=X["flag"].astype(float))  # TabICL alone would drop NumPy's bool without a word
    upstream.fit(as_number[:60], y[:60])
    native = paper(backbone, method="native", cache=cache).fit(X[:60], y[:60])
    np.testing.assert_array_equal(native.predict_proba(X[60:]), upstream.predict_proba(as_number[60:]))


def test_mixed_frames_fold_and_name_their_columns():
    polars = pytest.importorskip("polars", reason="polars is in the test extra")
    X, y = mixed_frame()
    clf = paper("nano", leaf_width=4).fit(X[:60], y[:60])
    assert clf.feature_names_in_.tolist() == list(X.columns)
    assert clf.plan_.names == tuple(X.columns)
    assert sorted(np.concatenate(clf.plan_.leaves)) == list(range(24))
    strongest = {clf.plan_.name(j) for j in clf.plan_.core}
    assert {"n2", "n5", "n8"} <= strongest
    assert "text" not in strongest
    expected = clf.predict_proba(X[60:])
    np.testing.assert_array_equal(clf.predict_proba(polars.from_pandas(X[60:])), expected)
    assert set(clf.predict(X[60:])) <= {"yes", "no"}


def test_polars_at_fit_equals_pandas_at_fit():
    polars = pytest.importorskip("polars", reason="polars is in the test extra")
    X, y = mixed_frame()
    a = paper("nano", leaf_width=4).fit(X[:60], y[:60])
    b = paper("nano", leaf_width=4).fit(polars.from_pandas(X[:60]), y[:60])
    assert a.plan_ == b.plan_
    np.testing.assert_allclose(a.predict_proba(X[60:]), b.predict_proba(X[60:]), atol=1e-6)


def test_missing_values_and_unknown_categories_at_predict():
    X, y = mixed_frame()
    clf = paper("nano", leaf_width=4).fit(X[:60], y[:60])
    rows = X[60:].copy()
    rows["text"] = "violet"
    rows["n1"] = np.nan
    proba = clf.predict_proba(rows)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-6)


def test_ensemble_views_are_tabicls_own(backbone):
    X, y, Q = make_wide(3, n_columns=12)
    upstream = TabICLClassifier(
        n_estimators=4, model_path=checkpoint_path(backbone), allow_auto_download=False, device="cpu", random_state=7
    ).fit(X, y)
    native = paper(backbone, method="native", n_estimators=4, random_state=7).fit(X, y)
    if backbone != "nano":
        # TabICL embeds the columns of ungrouped models once, with the class order of the first view. That is right
        # for v1, which does not look at labels there; nano does, and here every view sees its own.
        np.testing.assert_allclose(native.predict_proba(Q), upstream.predict_proba(Q), atol=1e-5)
    folded = paper(backbone, n_estimators=4, leaf_width=5).fit(X, y)
    assert len(folded.gates_) == 4
    assert np.isfinite(folded.predict_proba(Q)).all()


@pytest.mark.parametrize("method", ["scff", "native", "raw-core", "bounded-core", "mass-huber"])
def test_every_method_learns(method):
    X, y = load_breast_cancer(return_X_y=True)
    clf = paper("nano", method=method, leaf_width=8).fit(X[:200], y[:200])
    assert clf.score(X[200:400], y[200:400]) > 0.88


@pytest.mark.parametrize(
    "settings",
    [
        {"routing": "random"},
        {"tail": "centred"},
        {"tail": "raw-residual"},
        {"tail": "fixed-prototype"},
        {"tail": "fisher"},
        {"tail": "no-single-leaf-fallback"},
        {"tail": "no-binary-restriction"},
        {"tail": TailRule(single_leaf_fallback=False)},
    ],
)
def test_component_controls_run(settings):
    X, y, Q = make_wide(3)
    proba = paper("nano", leaf_width=32, **settings).fit(X, y).predict_proba(Q)
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-6)


def test_pipelines_and_grid_search():
    X, y = load_breast_cancer(return_X_y=True)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), paper("nano")),
        {"foldedclassifier__leaf_width": [4, 16], "foldedclassifier__method": ["scff", "bounded-core"]},
        cv=2,
    )
    assert search.fit(X[:120], y[:120]).best_score_ > 0.85


def test_pickles_hold_no_weights_and_predict_the_same(tmp_path, checkpoint_dir):
    X, y, Q = make_wide()
    clf = paper(checkpoint_dir / "v2.ckpt", leaf_width=16, tail="raw-residual").fit(X, y)
    expected = clf.predict_proba(Q)
    size = len(pickle.dumps(clf))
    assert size < X.nbytes + 60 * 32 * 8 * 4 + 100_000
    path = tmp_path / "model.joblib"
    joblib.dump(clf, path)
    # In a new process, as a user would: nothing of this one's memory can help.
    np.save(tmp_path / "q.npy", Q)
    code = f"""
        import joblib, numpy as np
        clf = joblib.load({str(path)!r})
        assert clf.gate_.accepted == {clf.gate_.accepted!r}
        np.save({str(tmp_path / "p.npy")!r}, clf.predict_proba(np.load({str(tmp_path / "q.npy")!r})))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, env=_env())
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), expected)


def _env():
    import os

    return os.environ | {"OMP_NUM_THREADS": "1"}


def test_a_saved_model_wants_the_very_weights_it_was_fitted_with(tmp_path, checkpoint_dir):
    X, y, Q = make_wide()
    weights = tmp_path / "mine.ckpt"
    weights.write_bytes((checkpoint_dir / "v2.ckpt").read_bytes())
    saved = pickle.dumps(paper(weights).fit(X, y))
    weights.write_bytes((checkpoint_dir / "v1.ckpt").read_bytes())
    with pytest.raises(CheckpointError, match="not those this model was fitted with"):
        pickle.loads(saved).predict(Q)
    weights.unlink()
    with pytest.raises(CheckpointMissing, match="not on this machine"):
        pickle.loads(saved).predict(Q)


def test_auto_takes_what_is_here_and_says_so_once(monkeypatch, tmp_path):
    from scff.backbones import registry

    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(registry, "_hinted", set())
    monkeypatch.setattr("socket.socket.connect", _no_network)
    X, y, _ = make_wide()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert FoldedClassifier().fit(X, y).backbone_ == "nano"
    hints = [str(w.message) for w in caught if 'backbone="auto"' in str(w.message)]
    assert len(hints) == 1
    assert "scff backbones fetch tabicl-v2" in hints[0]


def _no_network(*_):
    raise AssertionError("the network was used")


X0, y0, Q0 = make_wide(n_columns=6)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (X0, np.zeros(60), "one class"),
        (X0, [None] * 60, "60 of 60 target values are missing"),
        (X0, None, "requires y"),
        (np.where(np.arange(6) == 3, np.inf, X0), y0, "infinity|inf"),
        (pd.DataFrame(np.where(np.arange(6) == 3, np.inf, X0), columns=list("abcdef")), y0, "infinity in column 'd'"),
        (pd.DataFrame(X0, columns=list("aabcde")), y0, "'a' occurs more than once"),
        (pd.DataFrame(X0, columns=list("abcdef"))[:0], y0[:0], "no rows"),
        (np.empty((0, 6)), np.empty(0), "0 sample"),
        (X0, y0[:-1], "one label per row|inconsistent"),
        (np.full((60, 3), "a"), y0, "DataFrame|convert"),
    ],
)
def test_bad_tables_are_one_typed_error(X, y, message):
    with pytest.raises(DataError, match=message) as caught:
        paper("nano").fit(X, y)
    assert "\n\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"method": "magic"}, DataError, "The 'method' parameter"),
        ({"tail": "magic"}, DataError, "The 'tail' parameter"),
        ({"cache": "tape"}, DataError, "The 'cache' parameter"),
        ({"n_estimators": 0}, DataError, "n_estimators"),
        ({"leaf_width": 0}, DataError, "leaf_width"),
        ({"memory_limit": "lots"}, DataError, "is not a size"),
        ({"backbone": "gpt"}, BackboneNotAvailable, "no backbone 'gpt'; known are"),
        ({"backbone": "missing.ckpt"}, CheckpointMissing, "no checkpoint at missing.ckpt"),
    ],
)
def test_bad_parameters_are_one_typed_error(settings, error, message):
    with pytest.raises(error, match=message):
        FoldedClassifier(**({"backbone": "nano"} | settings)).fit(X0, y0)


def test_an_all_constant_table_predicts_the_class_frequencies_of_nothing_better():
    X = np.ones((30, 5))
    clf = paper("nano").fit(X, np.arange(30) % 2)
    assert clf.plan_.core.tolist() == [0]
    proba = clf.predict_proba(X[:3])
    assert np.isfinite(proba).all()
    assert np.ptp(proba, axis=0).max() == 0


def test_a_class_unseen_at_fit_scores_as_wrong_and_is_never_predicted():
    clf = paper("nano").fit(X0, y0)
    assert clf.score(Q0, np.full(len(Q0), 2)) == 0


def test_different_columns_at_predict_are_refused():
    frame = pd.DataFrame(X0, columns=list("abcdef"))
    clf = paper("nano").fit(frame, y0)
    with pytest.raises(DataError, match="feature names"):
        clf.predict(frame.rename(columns={"a": "z"}))
    with pytest.raises(DataError, match="features"):
        paper("nano").fit(X0, y0).predict(Q0[:, :5])
    with pytest.raises(DataError, match="'c' was numeric at fit"):
        clf.predict(frame.assign(c="text"))
    empty = frame.assign(c=pd.Series([None] * len(frame), dtype=object))
    assert np.isfinite(clf.predict_proba(empty)).all()  # a file of only missing values has lost its type
