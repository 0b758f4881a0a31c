"""The paper's table "Executable checks for the residual/prototype update", with its settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from scff import compile_plan
from scff.fold.algorithm import fold
from scff.fold.caches import CacheStore
from scff.fold.encode import FoldOptions, LocalEngine
from scff.gate.decide import decide
from scff.gate.record import TailRule
from scff.tables.table import Table


def engine():
    return LocalEngine(CacheStore(), FoldOptions())


def separable_tail(n=200, size=8, seed=0):
    """A Core that says little and a Tail whose class signal lies off the Core."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    core = rng.normal(size=(n, size)).astype(np.float32)
    core[:, 0] += 0.4 * y
    signal = np.zeros(size)
    signal[1] = 4.0
    t = 0.5 * core + y[:, None] * signal + rng.normal(scale=0.5, size=(n, size))
    return core, t.astype(np.float32), y


def test_exact_coverage_and_bounded_leaves():
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    X = rng.normal(size=(100, 1025))
    X[:, :300] += y[:, None]
    plan = compile_plan(X, y)
    assert sorted(np.concatenate(plan.leaves)) == list(range(1025))
    # 1025 columns need nine leaves of at most 128 when no leaf is shared between two strata of other sizes.
    everything = compile_plan(X[:, :], y, fdr=0.999999)
    assert len(everything.core) == 1025
    assert len(everything.leaves) == 9
    assert max(map(len, everything.leaves)) <= 128


class RecordingView:
    """A row backbone of fixed random maps, to watch what the fold does with messages."""

    def __init__(self, X, y, size=6, message=None):
        self.columns = np.arange(X.shape[1])
        self._X, self._size, self._message = X, size, message

    def _encode(self, leaf, X):
        if self._message is not None:
            return torch.from_numpy(self._message(leaf, X)).float()
        weights = np.random.default_rng(leaf[0]).normal(size=(len(leaf), self._size))
        return torch.from_numpy(np.tanh(X[:, leaf] @ weights / len(leaf) ** 0.5)).float()

    def prepare(self, rows):
        return rows.values

    def encode_support(self, leaves):
        from scff.backbones.base import LeafCache

        return torch.stack([self._encode(leaf, self._X) for leaf in leaves]), LeafCache({}, None)

    def encode_query(self, leaves, cache, rows):
        return torch.stack([self._encode(leaf, rows) for leaf in leaves])

    def build_context(self, h_SE):
        return h_SE

    def predict(self, context, h_QE):
        return h_QE


def test_support_only_routing_under_a_hundredfold_query_shift():
    core, t, y = separable_tail()
    decision = decide(core, t, y, n_tail_leaves=3)
    assert decision.accepted
    rng = np.random.default_rng(1)
    query_core, query_tail = rng.normal(size=(2, 50, 8))
    before = decision.update(query_core, query_tail)
    after = decision.update(100 * query_core, 100 * query_tail)
    assert not np.allclose(before, after)  # the queries moved,
    assert decision == decide(core, t, y, n_tail_leaves=3)  # the decision did not


def test_residual_is_orthogonal_to_the_core():
    core, t, y = separable_tail()
    rule = TailRule(candidates=("raw",))
    decision = decide(core, t, y, n_tail_leaves=3, rule=rule)
    assert decision.accepted == "raw"
    b = core - core.mean(axis=0)
    r = decision.support_update
    assert abs((r * b).sum()) / np.sqrt((r**2).sum() * (b**2).sum()) < 5.1e-07


def test_prototype_update_lies_in_the_span_of_the_class_prototypes():
    core, t, y = separable_tail()
    rule = TailRule(candidates=("prototype",))
    decision = decide(core, t, y, n_tail_leaves=3, rule=rule)
    assert decision.accepted == "prototype"
    b, u = core - core.mean(axis=0), t - t.mean(axis=0)
    r = u - decision.rho * b
    span = r[y == 1].mean(axis=0) - r[y == 0].mean(axis=0)  # two classes: rank one
    v = decision.support_update
    projected = np.outer(v @ span / (span @ span), span)
    assert np.abs(v - projected).max() / np.abs(v).max() < 6e-08 * 10


def test_split_half_fisher_improves_on_both_halves():
    core, t, y = separable_tail()
    decision = decide(core, t, y, n_tail_leaves=3)
    for candidate in decision.candidates:
        assert candidate.fisher_a[1] > 10 * candidate.fisher_a[0]
        assert candidate.fisher_b[1] > 10 * candidate.fisher_b[0]


def test_prototype_nll_gains_in_both_directions():
    core, t, y = separable_tail()
    decision = decide(core, t, y, n_tail_leaves=3)
    best = next(c for c in decision.candidates if c.name == decision.accepted)
    assert best.nll_gain > 0.439
    assert best.nll_gain == max(c.nll_gain for c in decision.candidates if c.passed)


@pytest.mark.parametrize("n_leaves", [2, 4, 8, 16])
def test_symmetric_nuisance_tail_leaves_the_core_unchanged(n_leaves):
    """Pairs of opposite Tail messages average to nothing, however many there are."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 1 + n_leaves))
    X[:, 0] += 3 * y
    noise = rng.normal(size=(60, 6))
    core_message = rng.normal(size=(60, 6)) + 2 * y[:, None]

    def message(leaf, rows):
        sign = 1 if leaf[0] % 2 else -1
        return core_message[: len(rows)] if leaf[0] == 0 else sign * noise[: len(rows)]

    plan = compile_plan(X, y, leaf_width=1, fdr=1e-4)
    assert plan.core.tolist() == [0]
    assert len(plan.tail_leaves) == n_leaves
    view = RecordingView(X, y, message=message)
    folded = fold(view, plan, y, engine(), rule=TailRule())
    assert folded.gate.accepted is None
    np.testing.assert_array_equal(folded.predict(Table(X)).numpy(), core_message.astype(np.float32))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_exact_fallback_of_a_rejected_and_of_a_multiclass_tail(n_classes):
    rng = np.random.default_rng(3)
    y = np.arange(90) % n_classes
    X = rng.normal(size=(90, 60))
    X[:, :4] += 2 * y[:, None]
    plan = compile_plan(X, y, leaf_width=8)
    full = fold(RecordingView(X, y), plan, y, engine(), rule=TailRule())
    assert full.gate.accepted is None
    assert full.gate.alpha == 0
    core = fold(RecordingView(X, y), plan, y, engine(), rule=None)
    assert torch.equal(full.predict(Table(X)), core.predict(Table(X)))
