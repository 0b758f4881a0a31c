"""The eight promises of the design, on TabICL v1 and v2 architectures and on nano; each test can fail."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from tabicl import TabICLClassifier

from conftest import checkpoint_path, make_wide, paper
from scff.backbones import load_backbone
from scff.backbones.registry import specs
from scff.fold.algorithm import Folded
from scff.fold.encode import FoldOptions


def fitted(backbone, X, y, **kwargs):
    return paper(backbone, leaf_width=kwargs.pop("leaf_width", 16), **kwargs).fit(X, y)


# 1. Leaves are disjoint, cover every view column once, are bounded and in original order.


def test_1_leaves_partition_the_view_columns(backbone, wide):
    X, y, _ = wide
    X = X.copy()
    X[:, 5] = 3.0  # constant on the support: TabICL drops it, so it is in no leaf
    plan = fitted(backbone, X, y).plan_
    assert sorted(np.concatenate(plan.leaves)) == [j for j in range(300) if j != 5]
    assert max(map(len, plan.leaves)) <= 16
    assert all((np.diff(leaf) > 0).all() for leaf in plan.leaves)
    assert plan.dropped.tolist() == [5]
    assert plan.unused == {"x5": "one value on the labelled rows"}


def test_1_leaf_width_is_bounded_by_the_backbone(wide, monkeypatch):
    from dataclasses import replace

    from scff.backbones.spec import Limits

    X, y, _ = wide
    loaded = load_backbone("nano", torch.device("cpu"))
    monkeypatch.setattr(loaded, "spec", replace(specs()["nano"], limits=Limits(leaf_width=10)))
    assert max(map(len, fitted("nano", X, y, leaf_width=64).plan_.leaves)) <= 10


# 2. Plan and gate are functions of the support alone.


@pytest.mark.parametrize("cache", [True, False])
def test_2_queries_change_nothing_on_the_support_side(backbone, wide, cache):
    X, y, Q = wide
    clf = fitted(backbone, X, y, cache=cache, tail="raw-residual")
    assert clf.gate_.accepted  # so that the Tail takes part
    before = clf.plan_.hash, clf.gate_
    reference = clf.predict_proba(Q)
    order = np.random.default_rng(1).permutation(len(Q))
    np.testing.assert_allclose(clf.predict_proba(Q[order]), reference[order], atol=1e-5)
    np.testing.assert_allclose(clf.predict_proba(Q[:3]), reference[:3], atol=1e-5)
    shifted = np.vstack([Q[:5], 100 * Q[5:]])
    np.testing.assert_allclose(clf.predict_proba(shifted)[:5], reference[:5], atol=1e-5)
    assert (clf.plan_.hash, clf.gate_) == before
    np.testing.assert_array_equal(clf.predict_proba(Q), reference)


# 3. One leaf is native inference, bit for bit.


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_3_native_is_tabicl_itself(backbone, cache, n_classes):
    X, y, Q = make_wide(n_classes, n_columns=40)
    upstream = TabICLClassifier(
        n_estimators=1, model_path=checkpoint_path(backbone), allow_auto_download=False, device="cpu", kv_cache=cache
    ).fit(X, y)
    expected = upstream.predict_proba(Q)
    native = paper(backbone, method="native", cache=cache).fit(X, y)
    np.testing.assert_array_equal(native.predict_proba(Q), expected)


@pytest.mark.parametrize("cache", [True, False])
def test_3_a_plan_of_one_leaf_is_native(backbone, cache):
    X, y, Q = make_wide(n_columns=20, informative=20, n_support=200)
    folded = paper(backbone, cache=cache).fit(X, y)
    assert len(folded.plan_.leaves) == 1
    native = paper(backbone, cache=cache, method="native").fit(X, y)
    np.testing.assert_array_equal(folded.predict_proba(Q), native.predict_proba(Q))


@pytest.mark.parametrize("cache", [True, False])
def test_3_more_classes_than_the_model_has_go_through_tabicls_hierarchy(backbone, cache):
    X, y, Q = make_wide(13, n_columns=30, n_support=130)
    upstream = TabICLClassifier(
        n_estimators=1, model_path=checkpoint_path(backbone), allow_auto_download=False, device="cpu"
    ).fit(X, y)
    expected = upstream.predict_proba(Q)
    native = paper(backbone, method="native", cache=cache).fit(X, y)
    np.testing.assert_array_equal(native.predict_proba(Q), expected)
    one_leaf = paper(backbone, method="mass-huber", leaf_width=30, cache=cache).fit(X, y)
    np.testing.assert_allclose(one_leaf.predict_proba(Q), expected, atol=1e-5)


# 4. A rejected gate and a multiclass task return the bounded Core bit for bit.


@pytest.mark.parametrize(("n_classes", "unused"), [(3, False), (3, True), (2, False)])
def test_4_exact_core_when_the_tail_is_not_let_in(backbone, n_classes, unused, monkeypatch):
    X, y, Q = make_wide(n_classes)
    if n_classes == 2:
        X = np.hstack([X[:, :30], np.zeros((len(X), 30))])
        X[:, 30:] = X[:, :1] * (1 + np.arange(30))  # a Tail without a word of its own may still be let in,
        y = np.r_[[0] * (len(y) - 3), [1] * 3]  # but a class of three rows cannot be checked on halves
        Q = np.hstack([Q[:, :30], Q[:, :1] * (1 + np.arange(30))])
    if unused:  # as the paper literally does: an audit option of the engine, without a name in the estimator
        monkeypatch.setattr(FoldOptions, "audits", True)
    full = fitted(backbone, X, y)
    assert full.gate_.accepted is None
    assert len(full.plan_.tail_leaves) > 0
    core = fitted(backbone, X, y, method="bounded-core")
    np.testing.assert_array_equal(full.predict_proba(Q), core.predict_proba(Q))


# 5. One context pass and one head pass per prediction.


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("tail", ["off", "raw-residual"])
def test_5_one_context_and_one_head_pass(backbone, wide, cache, tail, monkeypatch):
    X, y, Q = wide
    clf = fitted(backbone, X, y, cache=cache, tail=tail)
    icl = load_backbone(backbone, torch.device("cpu")).model.icl_predictor
    calls = {"context": 0, "head": 0}
    for name in ("forward", "forward_with_cache"):
        original = getattr(icl.tf_icl, name)

        def counted(*args, _original=original, **kwargs):
            calls["context"] += 1
            return _original(*args, **kwargs)

        monkeypatch.setattr(icl.tf_icl, name, counted)
    hook = icl.decoder.register_forward_hook(lambda *_: calls.update(head=calls["head"] + 1))
    try:
        clf.predict_proba(Q)
    finally:
        hook.remove()
    assert calls == {"context": 1, "head": 1}


# 6. Chunking, caching and batching change a probability by at most 1e-5.


@pytest.mark.parametrize("n_classes", [2, 13])
def test_6_blocks_do_not_matter(backbone, n_classes, monkeypatch):
    X, y, Q = make_wide(n_classes, n_columns=100, n_support=65)
    rule = {"tail": "raw-residual"}
    reference = fitted(backbone, X, y, **rule).predict_proba(Q)
    variants = [
        {"cache": False},
        {"cache": "disk"},
        {"leaf_batch": 4},
        {"query_chunk": 3},
        {"query_chunk": 7, "leaf_batch": 3, "cache": False},
    ]
    for variant in variants:
        proba = fitted(backbone, X, y, **rule, **variant).predict_proba(Q)
        np.testing.assert_allclose(proba, reference, atol=1e-5, err_msg=str(variant))
    monkeypatch.setattr("scff.backbones.tabicl.encoder.BLOCK_BYTES", 1)
    np.testing.assert_allclose(fitted(backbone, X, y, **rule).predict_proba(Q), reference, atol=1e-5)


def test_6_several_passes_agree_with_one(backbone, wide, monkeypatch):
    X, y, Q = wide
    clf = fitted(backbone, X, y, tail="raw-residual")
    reference = clf.predict_proba(Q)
    folded = clf.fitted_.readings[0].views[0]
    assert isinstance(folded, Folded)
    monkeypatch.setattr(folded.engine, "pass_rows", 9)
    monkeypatch.setattr(folded.engine, "_options", FoldOptions(query_chunk=4))
    np.testing.assert_allclose(clf.predict_proba(Q), reference, atol=1e-5)


# 7. No global random state is read or changed; the same input gives the same output.


@pytest.mark.parametrize("settings", [{}, {"n_estimators": 3}, {"routing": "random"}, {"method": "mass-huber"}])
def test_7_global_random_state_is_left_alone(backbone, wide, settings):
    X, y, Q = wide
    outputs = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - the global state is what this is about
        torch.manual_seed(seed)
        before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
        outputs.append(fitted(backbone, X, y, **settings).predict_proba(Q))
        assert random.getstate() == before[0]
        np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
        assert torch.equal(torch.get_rng_state(), before[2])
    np.testing.assert_array_equal(outputs[0], outputs[1])
