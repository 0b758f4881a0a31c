"""What every backbone owes: one suite, run on every adapter the environment can import.

Weights are small and random, of the real packages' own classes; they prove interfaces, never quality. An adapter whose
package is not installed is skipped with the reason; ``make contract`` has an environment for each.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import torch

from backbone_models import ADAPTERS
from conftest import paper
from scff.backbones import load_backbone
from scff.backbones.base import TokenView
from scff.errors import BackboneError
from scff.tables.table import Table, as_table

CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=ADAPTERS)
def adapter(request):
    chosen = ADAPTERS[request.param]
    if chosen.package and find_spec(chosen.package.split(".")[0]) is None:
        pytest.skip(f"{request.param} needs the package {chosen.package}, which is not installed here")
    return chosen


@pytest.fixture(scope="module")
def path(adapter, tmp_path_factory):
    return adapter.build(tmp_path_factory.mktemp("model"))


def make_table(n_classes=2, n_columns=26, n_support=56, n_query=13, seed=0):
    """Support X and y, query X: some columns informative, all numeric."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_support + n_query) % n_classes
    X = rng.normal(size=(len(y), n_columns))
    X[:, : n_columns // 3] += 1.5 * (y[:, None] == rng.integers(0, n_classes, n_columns // 3))
    X = X[:, rng.permutation(n_columns)]
    return X[:n_support], y[:n_support], X[n_support:]


def view_of(path, X, y, cache=True):
    return (
        load_backbone(path, CPU).views(as_table(X), np.asarray(y), n_estimators=1, cache=cache, random_state=0).view(0)
    )


def proba(path, Xs, ys, Xq, **options):
    return paper(path, **options).fit(Xs, ys).predict_proba(Xq)


@pytest.mark.parametrize("n_classes", [2, 7])
def test_native_is_the_upstream_package(adapter, path, n_classes):
    if adapter.upstream is None:
        pytest.skip(adapter.no_upstream)
    Xs, ys, Xq = make_table(n_classes)
    theirs = adapter.upstream(path, Xs, ys, Xq)
    for cache in (True, False):
        ours = proba(path, Xs, ys, Xq, method="native", cache=cache)
        np.testing.assert_allclose(ours, theirs, atol=adapter.parity)


@pytest.mark.parametrize("n_classes", [2, 7])
def test_one_leaf_is_native(path, n_classes):
    Xs, ys, Xq = make_table(n_classes)
    folded = paper(path, fdr=0.9999, leaf_width=64).fit(Xs, ys)
    if len(folded.plan_.leaves) > 1:  # a column without any signal; leave it out for this promise
        Xs, Xq = Xs[:, folded.plan_.core], Xq[:, folded.plan_.core]
        folded = paper(path, fdr=0.9999, leaf_width=64).fit(Xs, ys)
    assert len(folded.plan_.leaves) == 1
    np.testing.assert_array_equal(folded.predict_proba(Xq), proba(path, Xs, ys, Xq, method="native"))


def test_encoding_all_columns_as_a_leaf_gives_native_logits(path):
    # The seam itself, not the shortcut for one leaf.
    Xs, ys, Xq = make_table(3)
    for cache in (True, False):
        view = view_of(path, Xs, ys, cache)
        native = view.native(view.compile_native(view.columns), Table(Xq))
        if isinstance(view, TokenView):
            support, state = view.tokenize_support(view.columns)
            query = view.tokenize_query(view.columns, state, view.prepare(Table(Xq)))
        else:
            message, state = view.encode_support([view.columns])
            support, query = message[0], view.encode_query([view.columns], state, view.prepare(Table(Xq)))[0]
        torch.testing.assert_close(view.predict(view.build_context(support), query), native, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("leaf_width", [1, 2, 5])
def test_narrow_leaves(path, leaf_width):
    Xs, ys, Xq = make_table(3, n_columns=9)
    model = paper(path, leaf_width=leaf_width).fit(Xs, ys)
    assert max(map(len, model.plan_.leaves)) <= leaf_width
    out = model.predict_proba(Xq)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-6)


def test_missing_values_and_constant_columns(path):
    Xs, ys, Xq = make_table(2)
    Xs, Xq = Xs.copy(), Xq.copy()
    Xs[::7, 3] = Xq[::3, 3] = Xq[:, 5] = np.nan
    Xs[:, 11] = Xq[:, 11] = 4.0
    model = paper(path, leaf_width=8).fit(Xs, ys)
    assert 11 in model.plan_.dropped
    assert 11 not in np.concatenate(model.plan_.leaves)
    out = model.predict_proba(Xq)
    assert np.isfinite(out).all()
    without = np.delete(np.arange(Xs.shape[1]), 11)
    np.testing.assert_allclose(out, proba(path, Xs[:, without], ys, Xq[:, without], leaf_width=8), atol=1e-5)


def test_categories(path):
    Xs, ys, Xq = make_table(3)
    labels = np.array(["red", "green", "blue"])
    frame, query = (pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]) for X in (Xs, Xq))
    frame["colour"], query["colour"] = labels[ys], labels[np.arange(len(Xq)) % 3]
    frame["size"] = pd.Categorical(labels[ys][::-1])
    query["size"] = pd.Categorical(labels[np.arange(len(Xq)) % 2])
    model = paper(path, leaf_width=8).fit(frame, ys)
    leaves = {model.plan_.name(j) for leaf in model.plan_.leaves for j in leaf}
    assert {"colour", "size"} <= leaves
    assert "colour" in {model.plan_.name(j) for j in model.plan_.core}
    out = model.predict_proba(query)
    assert np.isfinite(out).all()
    query["colour"] = "unknown to the support"
    assert np.isfinite(model.predict_proba(query)).all()


def test_more_classes_than_the_model_has(adapter, path):
    Xs, ys, Xq = make_table(13, n_support=65)
    model = paper(path, leaf_width=8)
    if adapter.many_classes:
        np.testing.assert_allclose(model.fit(Xs, ys).predict_proba(Xq).sum(axis=1), 1, atol=1e-5)
    else:
        with pytest.raises(BackboneError, match="at most 10 classes"):
            model.fit(Xs, ys)


@pytest.mark.parametrize("n_classes", [2, 7])
def test_blocks_and_caches_change_nothing(adapter, path, n_classes):
    Xs, ys, Xq = make_table(n_classes)
    once = proba(path, Xs, ys, Xq, leaf_width=6)
    for other in ({"query_chunk": 4}, {"leaf_batch": 3}, {"cache": False}, {"cache": "disk"}, {"memory_limit": "8GiB"}):
        np.testing.assert_allclose(proba(path, Xs, ys, Xq, leaf_width=6, **other), once, atol=1e-5, err_msg=str(other))
    if not adapter.rows_meet:
        model = paper(path, leaf_width=6).fit(Xs, ys)
        np.testing.assert_allclose(model.predict_proba(Xq[4:7]), once[4:7], atol=1e-5)


def test_the_support_does_not_see_query_rows(adapter, path):
    Xs, ys, Xq = make_table(2)
    model = paper(path, leaf_width=6).fit(Xs, ys)
    plan, gate = model.plan_.hash, model.gate_
    alone = model.predict_proba(Xq[:1])
    crowd = model.predict_proba(np.vstack([Xq[:1], 1e3 * Xq[1:]]))[:1]
    assert (model.plan_.hash, model.gate_) == (plan, gate)
    if adapter.rows_meet:
        pytest.skip(adapter.rows_meet)
    np.testing.assert_allclose(crowd, alone, atol=1e-5)


def test_one_context_and_one_head_call(path, monkeypatch):
    Xs, ys, Xq = make_table(2)
    backbone = load_backbone(path, CPU)  # kept, because loading it anew probes it, which calls everything once
    kind = type(backbone.views(Table(Xs), ys, n_estimators=1, cache=True, random_state=0).view(0))
    calls = []
    for name in ("build_context", "predict", "native"):
        original = getattr(kind, name)

        def counted(self, *args, _name=name, _original=original):
            calls.append(_name)
            return _original(self, *args)

        monkeypatch.setattr(kind, name, counted)
    model = paper(path, leaf_width=6, tail="paper").fit(Xs, ys)  # a trial makes calls of its own
    assert len(model.plan_.leaves) > 2
    assert calls == ["build_context"]
    model.predict_proba(Xq)
    assert calls == ["build_context", "predict"]


def test_the_same_input_gives_the_same_output_and_no_global_state_moves(path):
    Xs, ys, Xq = make_table(2)
    load_backbone(path, CPU)
    states = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    first = proba(path, Xs, ys, Xq, leaf_width=6)
    np.testing.assert_array_equal(np.random.get_state()[1], states[0])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[1])
    np.testing.assert_array_equal(first, proba(path, Xs, ys, Xq, leaf_width=6))
