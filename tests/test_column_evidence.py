from __future__ import annotations

import pickle

import numpy as np
import pytest

import report_models
from scff import FoldedClassifier, compile_plan
from scff.report.columns import EFFECT, support_prototype_nll


def nll_by_hand(z, y):
    """Nearest prototypes written out: fit on one half, score the other, both ways."""
    halves = [np.zeros(len(y), bool), np.zeros(len(y), bool)]
    for k in np.unique(y):
        rows = np.flatnonzero(y == k)
        halves[0][rows[::2]] = halves[1][rows[1::2]] = True
    losses = []
    for fit, to in (halves, halves[::-1]):
        mu = np.array([z[fit & (y == k)].mean(axis=0) for k in np.unique(y)])
        pairs = [np.sum((a - b) ** 2) for i, a in enumerate(mu) for b in mu[:i]]
        logits = np.array([[-np.sum((row - m) ** 2) for m in mu] for row in z[to]]) / np.median(pairs)
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        losses.append(-np.log(p[np.arange(to.sum()), y[to]]).mean())
    return np.mean(losses)


def test_scores_strata_and_leaves_are_those_of_the_plan():
    model = report_models.noisy(leaf_width=16).model
    frame, plan = model.column_evidence(), model.plan_
    assert sorted(frame["position"]) == list(range(300))
    assert (np.diff(frame["F"]) <= 0).all()
    for name, row in frame.iterrows():
        j = row["position"]
        assert name == plan.names[j]
        assert (row["F"], row["p"], row["q"]) == (plan.f[j], plan.p[j], plan.q[j])
        assert j in plan.leaves[row["leaf"]]
        assert row["stratum"] == ("core" if j in plan.core else "tail")


def test_core_effect_is_the_loss_without_the_leaf_computed_from_scratch():
    model = report_models.noisy(leaf_width=16, tail="off").model
    y = model._codes
    view = model._members()[0].view
    messages = [view.encode_support([leaf])[0][0].double().numpy() for leaf in model.plan_.core_leaves]
    assert len(messages) > 1
    full = nll_by_hand(np.mean(messages, axis=0), y)
    frame = model.column_evidence().set_index("leaf")[EFFECT]
    for i in range(len(messages)):
        without = nll_by_hand(np.mean([m for j, m in enumerate(messages) if j != i], axis=0), y)
        found = frame.loc[[i]].unique()
        assert len(found) == 1, "an effect belongs to the whole leaf"
        assert found[0] == pytest.approx(without - full, abs=1e-5)


ALWAYS_IN = ["raw-residual", "fixed-prototype"]  # rules that let the Tail in whatever the backbone's weights are


@pytest.mark.parametrize("rule", ALWAYS_IN)
def test_tail_effect_compares_with_the_tail_refitted_without_the_leaf(rule):
    model = report_models.noisy(leaf_width=64, tail=rule).model
    gate, plan, y = model.gate_, model.plan_, model._codes
    assert gate.accepted is not None
    assert len(plan.tail_leaves) > 1
    view = model._members()[0].view
    encode = lambda leaves: [view.encode_support([leaf])[0][0].double().numpy() for leaf in leaves]  # noqa: E731
    c, tails = np.mean(encode(plan.core_leaves), axis=0), encode(plan.tail_leaves)
    full = nll_by_hand(c + gate.support_update, y)
    without = nll_by_hand(c + gate.refit(c, np.mean(tails[1:], axis=0), y), y)
    frame = model.column_evidence()
    found = frame.loc[frame["leaf"] == len(plan.core_leaves), EFFECT].unique()
    assert found == pytest.approx([without - full], abs=1e-5)
    assert frame["used"].all()


@pytest.mark.parametrize("rule", ALWAYS_IN)
def test_refit_on_the_same_messages_is_the_gates_own_update(rule):
    model = report_models.noisy(leaf_width=64, tail=rule).model
    member = model._members()[0]
    again = model.gate_.refit(member.core.mean_SE.numpy(), member.tail.mean_SE.numpy(), model._codes)
    np.testing.assert_allclose(again, model.gate_.support_update, rtol=1e-12)


def test_a_tail_that_is_kept_out_has_exactly_no_effect():
    frame = report_models.digits().model.column_evidence()
    tail = frame[frame["stratum"] == "tail"]
    assert len(tail) > 0
    assert (tail[EFFECT] == 0).all()
    assert not tail["used"].any()
    assert frame.loc[frame["stratum"] == "core", "used"].all()


def test_the_only_core_leaf_is_compared_with_knowing_nothing():
    model = report_models.noisy(tail="off").model
    assert len(model.plan_.core_leaves) == 1
    member = model._members()[0]
    frame = model.column_evidence()
    expected = np.log(2) - nll_by_hand(member.core.mean_SE.double().numpy(), model._codes)
    assert frame.loc[frame["stratum"] == "core", EFFECT].unique() == pytest.approx([expected])


@pytest.mark.parametrize("method", ["native", "mass-huber"])
def test_methods_that_do_not_average_leaves_claim_no_effect(method):
    model = report_models.noisy(method=method).model
    frame = model.column_evidence()
    assert frame[EFFECT].isna().all()
    assert frame["used"].all()
    assert set(frame["stratum"]) == ({"native"} if method == "native" else {"core", "tail"})
    plan = compile_plan(model._support, model._codes)
    np.testing.assert_array_equal(frame.sort_values("position")["F"], plan.f)


def test_raw_core_has_one_leaf():
    frame = report_models.noisy(leaf_width=16, method="raw-core").model.column_evidence()
    assert set(frame.loc[frame["stratum"] == "core", "leaf"]) == {0}
    assert set(frame.loc[frame["stratum"] != "core", "leaf"]) == {-1}


def test_the_same_after_a_round_trip_through_a_file():
    model = report_models.noisy(leaf_width=64, tail="raw-residual").model
    again = pickle.loads(pickle.dumps(model))
    before, after = model.column_evidence(), again.column_evidence()
    np.testing.assert_allclose(after[EFFECT], before[EFFECT], atol=1e-6)
    assert list(before.index) == list(after.index)


def test_a_class_of_one_row_is_left_out_of_the_score():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(21, 3)), np.array([0, 1] * 10 + [2])
    assert support_prototype_nll(z, y) == pytest.approx(nll_by_hand(z[:20], y[:20]))
    assert np.isnan(support_prototype_nll(z[[0, 20]], np.array([0, 1])))


def test_one_leaf_that_holds_everything_is_still_measured():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    model = FoldedClassifier(backbone="nano", fdr=0.99).fit(rng.normal(size=(40, 4)) + 2 * y[:, None], y)
    assert model.gate_ is None
    assert len(model.plan_.leaves) == 1
    assert np.isfinite(model.column_evidence()[EFFECT]).all()
