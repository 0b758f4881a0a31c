"""FoldedRegressor on every family that predicts numbers."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from backbone_models import tiny_tabicl_regressor, tiny_tabpfn
from scff import FoldedClassifier, FoldedRegressor
from scff.backbones import get_spec, load_backbone
from scff.backbones.weights import checkpoints
from scff.errors import BackboneError, CheckpointMissing, DataError, MemoryBudgetError

FAMILIES = ["tabicl", "tabpfn_v3", "tabpfn_v3_5", "tabpfn_v2"]


def _checkpoint(family, folder):
    if family == "tabicl":
        return tiny_tabicl_regressor(folder / "regressor.ckpt")
    pytest.importorskip("tabpfn", reason="the tabpfn package is not installed (pip install tabpfn)")
    return tiny_tabpfn(family, folder / "regressor.ckpt", "regression" if family != "tabpfn_v3_5" else "both")


@pytest.fixture(scope="module", params=FAMILIES)
def path(request, tmp_path_factory):
    return _checkpoint(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def tabicl_path(tmp_path_factory):
    return _checkpoint("tabicl", tmp_path_factory.mktemp("tabicl"))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 60))
    y = 30 + 7 * (X[:, :8].sum(axis=1) + 0.3 * rng.normal(size=90))
    X[4, 3] = np.nan
    return X[:70], y[:70], X[70:]


@pytest.fixture(scope="session")
def real():
    """The released weights of TabPFN v2's regressor."""
    pytest.importorskip("tabpfn", reason="the tabpfn package is not installed (pip install tabpfn)")
    try:
        return checkpoints.fetch(get_spec("tabpfn-v2-regressor"))
    except CheckpointMissing as error:
        pytest.skip(f"the released weights of TabPFN v2's regressor cannot be had here: {error}")


@pytest.mark.parametrize("cache", [True, False])
def test_native_tabicl_is_the_package(tabicl_path, table, cache):
    from tabicl import TabICLRegressor

    Xs, ys, Xq = table
    ours = FoldedRegressor(tabicl_path, method="native", cache=cache).fit(Xs, ys).predict(Xq)
    theirs = TabICLRegressor(
        n_estimators=1, model_path=tabicl_path, allow_auto_download=False, kv_cache=cache, device="cpu"
    )
    np.testing.assert_allclose(ours, theirs.fit(Xs, ys).predict(Xq), rtol=1e-5)


@pytest.mark.parametrize("family", ["tabpfn_v3", "tabpfn_v3_5", "tabpfn_v2"])
def test_native_tabpfn_is_the_package(family, tmp_path, table):
    path = _checkpoint(family, tmp_path)
    Xs, ys, Xq = table
    ours = FoldedRegressor(path, method="native").fit(Xs, ys).predict(Xq)
    transform, temperature = ("none", 0.9) if family == "tabpfn_v2" else ("quantile_uni", "auto")
    theirs = _package(path, transform, temperature).fit(Xs, ys).predict(Xq)
    # A prediction near nought has no digits of its own: rounding goes by the spread of the target.
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.ptp(ys))


def test_one_leaf_is_native(path, table):
    Xs, ys, Xq = table
    Xs, Xq = Xs[:, :8], Xq[:, :8]
    folded = FoldedRegressor(path, method="scff", fdr=0.99).fit(Xs, ys)
    assert len(folded.plan_.leaves) == 1
    native = FoldedRegressor(path, method="native").fit(Xs, ys)
    np.testing.assert_array_equal(folded.predict(Xq), native.predict(Xq))


def test_folded_predictions_do_not_depend_on_blocks(path, table):
    Xs, ys, Xq = table
    model = FoldedRegressor(path, method="scff", leaf_width=4).fit(Xs, ys)
    assert model.plan_.routing == "linear"
    assert len(model.plan_.leaves) > 2
    once = model.predict(Xq)
    spread = np.ptp(ys)
    for other in ({"cache": False}, {"cache": "disk"}, {"leaf_batch": 3}, {"query_chunk": 3}, {"memory_limit": "4GiB"}):
        blocks = FoldedRegressor(path, method="scff", leaf_width=4, **other).fit(Xs, ys).predict(Xq)
        np.testing.assert_allclose(blocks, once, atol=1e-5 * spread)
    np.testing.assert_allclose(model.predict(Xq[3:5]), once[3:5], atol=1e-5 * spread)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(copy.predict(Xq), once, atol=1e-5 * spread)


def test_units_of_the_target(path, table):
    Xs, ys, Xq = table
    model = FoldedRegressor(path, leaf_width=16)
    plain = model.fit(Xs, ys).predict(Xq)
    shifted = model.fit(Xs, 1000 * ys - 5e5).predict(Xq)
    np.testing.assert_allclose(shifted, 1000 * plain - 5e5, rtol=1e-4, atol=1e-3 * np.ptp(1000 * ys))


def test_targets_that_cannot_be_used(tabicl_path, table):
    Xs, ys, Xq = table
    model = FoldedRegressor(tabicl_path)
    with pytest.raises(DataError, match="NaN or infinity"):
        model.fit(Xs, np.where(np.arange(70) == 3, np.nan, ys))
    with pytest.raises(DataError, match="one column of numbers"):
        model.fit(Xs, ys.astype(str) + "x")
    with pytest.raises(DataError, match="one number per row"):
        model.fit(Xs, ys[:-1])
    with pytest.raises(DataError, match="The 'method' parameter"):
        FoldedRegressor(tabicl_path, method="mass-huber").fit(Xs, ys)
    assert (model.fit(Xs, np.full(70, 4.25)).predict(Xq) == 4.25).all()


def test_a_refused_refit_leaves_the_model_as_it_was(tabicl_path, table):
    Xs, ys, Xq = table
    model = FoldedRegressor(tabicl_path).fit(Xs, ys)
    before = model.predict(Xq)
    with pytest.raises(MemoryBudgetError):
        model.set_params(memory_limit="1MiB").fit(Xs[:, :20], -ys)
    model.set_params(memory_limit=None)
    assert np.array_equal(model.predict(Xq), before)


def test_the_task_decides_what_a_name_and_a_file_mean(tabicl_path, table, tmp_path):
    Xs, ys, _ = table
    with pytest.raises(BackboneError, match="is for FoldedRegressor"):
        FoldedClassifier(tabicl_path).fit(Xs, ys > 30)
    with pytest.raises(BackboneError, match="is for FoldedClassifier; for regression there are"):
        FoldedRegressor("nano").fit(Xs, ys)
    assert load_backbone(tabicl_path, torch.device("cpu"), "regression").spec.name == "tabicl-v2-regressor"


def test_auto_never_uses_the_network(monkeypatch, tmp_path, table):
    Xs, ys, _ = table
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointMissing, match="scff backbones fetch tabpfn-v2-regressor"):
        FoldedRegressor().fit(Xs, ys)


def test_real_weights_fold_a_real_table(real, data_dir):
    frame = pd.read_parquet(data_dir / "regression" / "blood_brain.parquet")
    X, y = frame.drop(columns="target").to_numpy(np.float64), frame["target"].to_numpy(np.float64)
    order = np.random.default_rng(0).permutation(len(y))
    support, query = order[:140], order[140:]
    model = FoldedRegressor("tabpfn-v2", method="scff", leaf_width=48).fit(X[support], y[support])
    assert model.backbone_ == "tabpfn-v2-regressor"
    assert len(model.plan_.leaves) > 1
    # Random weights would be at or below zero; the real ones explain the table.
    assert model.score(X[query], y[query]) > 0.3


@parametrize_with_checks([FoldedRegressor(backbone="tabicl-regressor-of-the-tests")])
def test_scikit_learn_checks(estimator, check, tabicl_path, request):
    # One check asks for a good score, which random weights cannot have.
    learns = check.func.__name__ == "check_regressors_train"
    estimator.set_params(backbone=request.getfixturevalue("real") if learns else str(tabicl_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def _package(path, transform, temperature):
    """The package's own regressor on the same view."""
    import tabpfn
    from tabpfn.base import ModelSpecs
    from tabpfn.model_loading import load_model
    from tabpfn.preprocessing import PreprocessorConfig

    model, criterion, config, inference = load_model(path=path, estimator_type="regressor")
    view = PreprocessorConfig(
        transform, categorical_name="numeric", append_original=False, max_features_per_estimator=10**6
    )
    return tabpfn.TabPFNRegressor(
        model_path=ModelSpecs(model, config, inference, criterion),
        device="cpu",
        n_estimators=1,
        softmax_temperature=temperature,
        inference_precision=torch.float32,
        ignore_pretraining_limits=True,
        inference_config={
            "PREPROCESS_TRANSFORMS": [view],
            "FEATURE_SHIFT_METHOD": None,
            "FINGERPRINT_FEATURE": False,
            "POLYNOMIAL_FEATURES": "no",
            "SUBSAMPLE_SAMPLES": None,
            "REGRESSION_Y_PREPROCESS_TRANSFORMS": (None,),
        },
    )
