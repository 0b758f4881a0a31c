"""TabPFN-3 and 3.5: the package's own numbers, its column order, its caches."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
import torch

from backbone_models import tabpfn_classifier, tiny_tabpfn
from conftest import paper
from scff.backbones import get_spec, load_backbone
from scff.backbones.weights import checkpoints
from scff.errors import BackboneError, BackboneNotAvailable, CheckpointError, CheckpointMissing
from scff.tables.table import Table, as_table

pytest.importorskip("tabpfn", reason="the tabpfn package is not installed (pip install tabpfn)")


@pytest.fixture(scope="module", params=["tabpfn_v3", "tabpfn_v3_5"])
def path(request, tmp_path_factory):
    return tiny_tabpfn(request.param, tmp_path_factory.mktemp("tabpfn") / "model.ckpt")


@pytest.fixture(scope="module")
def table():
    """Numeric columns, one with three values (categorical for the package), one constant, one with a gap."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(140, 24))
    X[:, 5] = rng.integers(0, 3, 140)
    X[:, 9] = 1.0
    X[3, 4] = np.nan
    y = np.arange(140) % 3
    X[:, 7] += y
    return X[:120], y[:120], X[120:]


@pytest.mark.parametrize("cache", [True, False])
def test_native_is_the_package(path, table, cache):
    Xs, ys, Xq = table
    ours = paper(path, method="native", cache=cache).fit(Xs, ys).predict_proba(Xq)
    np.testing.assert_allclose(ours, tabpfn_classifier(path, "quantile_uni").fit(Xs, ys).predict_proba(Xq), atol=5e-7)


def test_logits_without_a_cache_are_the_package_bit_for_bit(path, table):
    Xs, ys, Xq = table
    view = _view(path, Xs, ys, cache=False)
    ours = view.native(view.compile_native(view.columns), Table(Xq)).numpy()
    theirs = tabpfn_classifier(path, "quantile_uni").fit(Xs, ys).predict_raw_logits(Xq)[0]
    np.testing.assert_array_equal(ours, theirs)


def test_one_leaf_is_native_through_the_seam(path, table):
    Xs, ys, Xq = table
    view = _view(path, Xs, ys, cache=False)
    native = view.native(view.compile_native(view.columns), Table(Xq))
    support, cache = view.encode_support([view.columns])
    query = view.encode_query([view.columns], cache, view.prepare(Table(Xq)))
    torch.testing.assert_close(view.predict(view.build_context(support[0]), query[0]), native, atol=0, rtol=0)


def test_columns_are_the_users(path, table):
    Xs, ys, _ = table
    view = _view(path, Xs, ys)
    np.testing.assert_array_equal(view._support.origin, [5, *(j for j in range(24) if j not in (5, 9))])
    np.testing.assert_array_equal(view.columns, [j for j in range(24) if j != 9])


def test_a_leaf_holds_what_the_user_named(path, table):
    # The message of a leaf must follow its own columns and no other.
    Xs, ys, _ = table
    leaf = np.array([2, 5, 7])
    base = _view(path, Xs, ys).encode_support([leaf])[0]
    for column, changes in ((7, True), (5, True), (3, False), (0, False)):
        X = Xs.copy()
        X[:, column] = np.roll(X[:, column], 1)
        moved = _view(path, X, ys).encode_support([leaf])[0]
        assert (not torch.equal(base, moved)) == changes, column


def test_dates_and_text_keep_their_column(path, table):
    Xs, ys, _ = table
    frame = pd.DataFrame(Xs[:, :4], columns=list("abcd"))
    frame["kind"] = np.array(["x", "y", "z"])[ys]
    frame["day"] = pd.date_range("2020-01-01", periods=len(ys), freq="17D")
    view = _view(path, frame, ys)
    np.testing.assert_array_equal(view.columns, np.arange(6))
    assert (view._support.origin == 5).sum() == 1  # a date is a number by then
    model = paper(path, leaf_width=2, leaf_batch=4).fit(frame, ys)
    single = paper(path, leaf_width=2, leaf_batch=1).fit(frame, ys)
    np.testing.assert_allclose(model.predict_proba(frame), single.predict_proba(frame), atol=1e-5)


def test_views_are_the_packages(path, table):
    Xs, ys, Xq = table
    ours = paper(path, method="native", n_estimators=3).fit(Xs, ys).predict_proba(Xq)
    theirs = tabpfn_classifier(path, "quantile_uni", 3, "shuffle").fit(Xs, ys).predict_proba(Xq)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_merging_leaves_does_not_touch_its_argument(path, table):
    Xs, ys, _ = table
    view = _view(path, Xs, ys)
    h = view.encode_support([view.columns])[0][0]
    before = h.clone()
    view.build_context(h)
    torch.testing.assert_close(h, before, atol=0, rtol=0)


def test_classes_beyond_the_checkpoints(path, table):
    with pytest.raises(BackboneError, match="at most 10 classes"):
        paper(path).fit(table[0], np.arange(120) % 11)


def test_global_random_state_is_left_alone(path, table):
    Xs, ys, Xq = table
    states = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    paper(path, leaf_width=8).fit(Xs, ys).predict_proba(Xq)
    np.testing.assert_array_equal(np.random.get_state()[1], states[0])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[1])


def test_a_damaged_file_is_one_sentence(path, tmp_path):
    payload = torch.load(path, weights_only=True)
    payload["state_dict"].popitem()
    torch.save(payload, tmp_path / "odd.ckpt")
    with pytest.raises(CheckpointError, match="cannot be loaded by the tabpfn package"):
        load_backbone(tmp_path / "odd.ckpt", torch.device("cpu"))


def test_a_changed_package_is_one_sentence(path, monkeypatch):
    from scff.backbones.tabpfn import v3 as tabpfn_v3

    monkeypatch.setattr(tabpfn_v3._Seam, "predict_from", lambda self, h, y, cache: self.predict_wrongly(h))
    with pytest.raises(BackboneError, match="not one this version knows"):
        get_spec("tabpfn-v3").load(path, torch.device("cpu"))


def test_without_the_package_there_is_a_hint(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tabpfn", None)
    with pytest.raises(BackboneNotAvailable, match=r"pip install 'tabpfn"):
        get_spec("tabpfn-v3").load(path, torch.device("cpu"))


def test_a_licence_not_accepted_is_one_sentence(monkeypatch, tmp_path):
    from huggingface_hub.errors import GatedRepoError

    def refuse(*args, **kwargs):
        raise GatedRepoError.__new__(GatedRepoError)  # its constructor differs between versions of the hub package

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.hf_hub_download", refuse)
    with pytest.raises(CheckpointMissing, match=r"accept their licence.*huggingface\.co/Prior-Labs/tabpfn_3.*HF_TOKEN"):
        checkpoints.fetch(get_spec("tabpfn-v3"))


def _view(path, X, y, cache=True):
    backbone = load_backbone(path, torch.device("cpu"))
    return backbone.views(as_table(X), np.asarray(y), n_estimators=1, cache=cache, random_state=0).view(0)
