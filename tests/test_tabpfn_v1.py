"""TabPFN v1: the released weights, the released package's own numbers, and what folding adds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import StratifiedKFold, train_test_split

from conftest import paper
from scff import FoldedClassifier
from scff.backbones import get_spec, load_backbone
from scff.backbones.shared.categories import OrdinalCodes
from scff.backbones.tabpfn.v1 import read
from scff.backbones.weights import checkpoints
from scff.errors import BackboneError, CheckpointError
from scff.tables.table import Table, as_table

GOLDEN = Path(__file__).parent / "data" / "tabpfn_v1_golden.npz"


@pytest.fixture(scope="session")
def weights():
    """The released file, fetched if need be."""
    try:
        return checkpoints.fetch(get_spec("tabpfn-v1"))
    except checkpoints.CheckpointMissing as error:
        pytest.skip(f"the released weights of TabPFN v1 cannot be had here: {error}")


@pytest.mark.parametrize("name", ["plain", "awkward", "wide"])
@pytest.mark.parametrize("cache", [True, False])
def test_the_released_package_gives_the_same_probabilities(weights, name, cache):
    with np.load(GOLDEN) as golden:
        Xs, ys, Xq, proba = (golden[f"{name}/{part}"] for part in ("Xs", "ys", "Xq", "proba"))
    model = paper("tabpfn-v1", method="native", cache=cache).fit(Xs, ys)
    assert model.checkpoint_.sha256 == checkpoints.sha256(weights)
    np.testing.assert_allclose(model.predict_proba(Xq), proba, atol=1e-5)


def test_at_the_papers_support_size_madeline_gains_on_every_fold(weights, data_dir):
    frame = pd.read_parquet(data_dir / "madeline.parquet")
    X, y = frame.drop(columns="target").to_numpy(np.float32), frame["target"].to_numpy()
    for support, query in StratifiedKFold(5, shuffle=True, random_state=20260904).split(X, y):
        support, query = support[:2048], query[:128]
        native = paper("tabpfn-v1", method="native").fit(X[support], y[support])
        folded = FoldedClassifier("tabpfn-v1").fit(X[support], y[support])
        assert folded.score(X[query], y[query]) - native.score(X[query], y[query]) >= 0.15


def test_on_few_rows_madeline_gains_fifteen_points(weights, data_dir):
    frame = pd.read_parquet(data_dir / "madeline.parquet")
    X, y = frame.drop(columns="target").to_numpy(np.float32), frame["target"].to_numpy()
    gains = []
    for seed in range(4):
        Xs, Xq, ys, yq = train_test_split(X, y, train_size=512, test_size=256, stratify=y, random_state=seed)
        native = paper("tabpfn-v1", method="native").fit(Xs, ys)
        folded = FoldedClassifier("tabpfn-v1").fit(Xs, ys)
        gains.append(folded.score(Xq, yq) - native.score(Xq, yq))
    assert np.mean(gains) >= 0.15, gains


def test_leaves_never_exceed_the_slots(tiny, wide):
    Xs, ys, Xq = wide
    model = paper(tiny, leaf_width=128).fit(Xs, ys)
    assert model.plan_.leaf_width == 100
    assert max(map(len, model.plan_.leaves)) <= 100
    assert model.predict_proba(Xq).shape == (len(Xq), 2)


def test_a_leaf_is_scaled_by_its_own_width(tiny):
    # One column in one leaf: slot 0 holds 100 times its clipped z-score, every other slot nothing.
    backbone = load_backbone(tiny, torch.device("cpu"))
    x = np.linspace(-1, 1, 9)[:, None]
    view = backbone.views(Table(x), np.arange(9) % 2, n_estimators=1, cache=True, random_state=0).view(0)
    message, _ = view.encode_support([np.array([0])])
    z = (x[:, 0] - x.mean()) / (x.std(ddof=1) + 1e-6)
    net = backbone.model
    expected = torch.from_numpy(100 * z).float()[:, None] * net.encoder.weight[:, 0] + net.encoder.bias
    torch.testing.assert_close(message[0], expected.detach(), atol=1e-4, rtol=1e-4)


def test_native_reads_everything_when_the_varying_columns_fit(tiny):
    rng = np.random.default_rng(0)
    X = np.ones((30, 150))
    X[:, ::3] = rng.normal(size=(30, 50))
    backbone = load_backbone(tiny, torch.device("cpu"))
    view = backbone.views(Table(X), np.arange(30) % 2, n_estimators=1, cache=True, random_state=0).view(0)
    np.testing.assert_array_equal(view.native_columns(view.columns), np.arange(0, 150, 3))


def test_the_hundred_columns_follow_the_seed_and_leave_the_global_state_alone(tiny):
    X = np.random.default_rng(0).normal(size=(20, 300))
    backbone = load_backbone(tiny, torch.device("cpu"))
    y = np.arange(20) % 2
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    drawn = []
    for seed in (0, 0, 1):
        view = backbone.views(Table(X), y, n_estimators=1, cache=True, random_state=seed).view(0)
        drawn.append(view.native_columns(view.columns))
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert len(np.unique(drawn[0])) == 100
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_more_classes_than_the_model_has(tiny, wide):
    Xs, _, _ = wide
    with pytest.raises(BackboneError, match="at most 10 classes"):
        paper(tiny).fit(Xs, np.arange(len(Xs)) % 11)


def test_views_change_the_answer_and_average(tiny, wide):
    Xs, ys, Xq = wide
    one = paper(tiny, n_estimators=1).fit(Xs, ys).predict_proba(Xq)
    four = paper(tiny, n_estimators=4).fit(Xs, ys).predict_proba(Xq)
    np.testing.assert_allclose(four.sum(axis=1), 1)
    assert np.abs(one - four).max() > 1e-4


def test_a_damaged_file_is_refused(tiny, tmp_path):
    with pytest.raises(CheckpointError, match="not a TabPFN v1 checkpoint"):
        read(_saved(tmp_path, {"config": {}}))
    state, _, config = torch.load(tiny, weights_only=True)
    state["module.encoder.weight"] = state["module.encoder.weight"][:, :50]
    with pytest.raises(CheckpointError, match="do not fit"):
        read(_saved(tmp_path, (state, None, config)))


def test_the_specification_names_the_papers_file():
    weights = get_spec("tabpfn-v1").weights
    assert weights.sha256.startswith("3c9aadaeddbf")


def test_categories_keep_their_codes_between_support_and_query():
    support = pd.DataFrame({"a": ["x", "z", None, "y"], "b": [1.0, 2.0, 3.0, 4.0], "c": [True, False, True, True]})
    codes = OrdinalCodes.fit(as_table(support))
    query = pd.DataFrame({"a": ["z", "new", "x", None], "b": [9.0] * 4, "c": [False, True, None, True]})
    out = codes.transform(as_table(query)).values
    np.testing.assert_array_equal(out[:, 0], [2, np.nan, 0, np.nan])
    np.testing.assert_array_equal(out[:, 1], [9] * 4)
    np.testing.assert_array_equal(out[:, 2], [0, 1, np.nan, 1])


def _saved(folder, payload):
    path = folder / "odd.cpkt"
    torch.save(payload, path)
    return path
