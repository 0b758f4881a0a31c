from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

import report_models
from scff import FoldedClassifier, compile_plan
from scff.gate.decide import relearn
from scff.report.columns import EFFECT
from scff.report.leaf_out import leave_leaves_out, prototype_nll
from scff.report.subject import Subject
from scff.tables.table import Table


def nll_by_hand(z, y):
    """Nearest prototypes written out, each row against its own class without itself, at the best scale."""
    labels = np.unique(y)
    squares = np.empty((len(y), len(labels)))
    for i, row in enumerate(z):
        for j, k in enumerate(labels):
            others = (y == k) & (np.arange(len(y)) != i)
            squares[i, j] = np.sum((row - z[others].mean(axis=0)) ** 2)
    own = np.searchsorted(labels, y)

    def loss(log_beta):
        return -log_softmax(-np.exp(log_beta) * squares, axis=1)[np.arange(len(y)), own].mean()

    grid = np.log(1 / squares.mean()) + np.linspace(-12, 12, 400)
    best = grid[np.argmin([loss(x) for x in grid])]
    return minimize_scalar(loss, bounds=(best - 0.2, best + 0.2), method="bounded", options={"xatol": 1e-9}).fun


def halves(y):
    first = np.zeros(len(y), bool)
    for k in np.unique(y):
        first[np.flatnonzero(y == k)[::2]] = True
    return np.flatnonzero(first), np.flatnonzero(~first)


def seen_as_new(model, leaves, fit, new):
    """Messages of some leaves: of the half that is the encoder's support, and of the other as query rows."""
    X, y = model.fitted_.support.values, model.fitted_.y
    view = (
        model.fitted_.compiled()[0]
        .backbone.views(Table(X[fit]), y[fit], n_estimators=1, cache=True, random_state=0)
        .view(0)
    )
    rows = view.prepare(Table(X[new]))
    support, query = [], []
    for leaf in leaves:
        message, cache = view.encode_support([leaf])
        support.append(message[0].double().numpy())
        query.append(view.encode_query([leaf], cache, rows)[0].double().numpy())
    return support, query


def test_scores_strata_and_leaves_are_those_of_the_plan():
    model = report_models.noisy(leaf_width=16, method="scff").model
    frame, plan = model.column_evidence(shuffled=0), model.plan_
    assert sorted(frame["position"]) == list(range(300))
    assert (np.diff(frame["F"]) <= 0).all()
    for name, row in frame.iterrows():
        j = row["position"]
        assert name == plan.names[j]
        assert (row["F"], row["p"], row["q"]) == (plan.f[j], plan.p[j], plan.q[j])
        assert j in plan.leaves[row["leaf"]]
        assert row["stratum"] == ("core" if j in plan.core else "tail")


def test_core_effect_is_the_loss_without_the_leaf_computed_from_scratch():
    model = report_models.noisy(leaf_width=16, method="scff", tail="off").model
    y, leaves = model.fitted_.y, model.plan_.core_leaves
    assert len(leaves) > 1
    expected = np.zeros(len(leaves))
    a, b = halves(y)
    for fit, new in ((a, b), (b, a)):
        _, messages = seen_as_new(model, leaves, fit, new)
        full = nll_by_hand(np.mean(messages, axis=0), y[new])
        for g in range(len(leaves)):
            rest = [message for i, message in enumerate(messages) if i != g]
            expected[g] += (nll_by_hand(np.mean(rest, axis=0), y[new]) - full) / 2
    frame = model.column_evidence(shuffled=0).set_index("leaf")[EFFECT]
    for g, effect in enumerate(expected):
        found = frame.loc[[g]].unique()
        assert len(found) == 1, "an effect belongs to the whole leaf"
        assert found[0] == pytest.approx(effect, abs=1e-6)


ALWAYS_IN = ["raw-residual", "fixed-prototype"]  # rules that let the Tail in whatever the backbone's weights are


@pytest.mark.parametrize("rule", ALWAYS_IN)
def test_tail_effect_compares_with_the_tail_learned_without_the_leaf(rule):
    model = report_models.noisy(leaf_width=64, method="scff", tail=rule).model
    gate, plan, y = model.gate_, model.plan_, model.fitted_.y
    assert gate.accepted is not None
    n_core = len(plan.core_leaves)
    assert len(plan.tail_leaves) > 1
    effect = gain = 0.0
    a, b = halves(y)
    for fit, new in ((a, b), (b, a)):
        support, query = seen_as_new(model, plan.leaves, fit, new)
        c_S, c_Q = np.mean(support[:n_core], axis=0), np.mean(query[:n_core], axis=0)

        def loss(tails, support=support, query=query, c_S=c_S, c_Q=c_Q, fit=fit, new=new):
            t_S, t_Q = (np.mean([messages[g] for g in tails], axis=0) for messages in (support, query))
            return nll_by_hand(c_Q + relearn(gate, c_S, t_S, y[fit]).update(c_Q, t_Q), y[new])

        everything = range(n_core, len(plan.leaves))
        effect += (loss(everything[1:]) - loss(everything)) / 2
        gain += (nll_by_hand(c_Q, y[new]) - loss(everything)) / 2
    measured = leave_leaves_out(Subject.of(model.fitted_))
    assert measured.effects[n_core] == pytest.approx(effect, abs=1e-6)
    assert measured.tail_gain == pytest.approx(gain, abs=1e-6)
    assert model.column_evidence(shuffled=0)["used"].all()


@pytest.mark.parametrize("rule", ALWAYS_IN)
def test_relearning_from_the_same_messages_gives_the_gates_own_update(rule):
    model = report_models.noisy(leaf_width=64, method="scff", tail=rule).model
    folded = model.fitted_.readings[0].views[0]
    c, t = folded.core.mean_SE.numpy(), folded.tail.mean_SE.numpy()
    again = relearn(model.gate_, c, t, model.fitted_.y)
    np.testing.assert_allclose(again.support_update, model.gate_.support_update, rtol=1e-12)
    np.testing.assert_allclose(again.update(c[:9], t[:9]), model.gate_.update(c[:9], t[:9]), rtol=1e-12)


def test_hidden_labels_cannot_flatter_a_leaf(checkpoint_dir):
    """With random labels no leaf of noise is worth anything, although the encoder reads support labels."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(120) % 2)
    backbone = str(checkpoint_dir / "v2.ckpt")  # no training has taught these weights to forget a row's own label
    model = FoldedClassifier(backbone=backbone, leaf_width=32, method="scff", tail="fixed-prototype").fit(
        rng.normal(size=(120, 100)), y
    )
    seen = model.fitted_.readings[0].views[0]
    merged = seen.core.mean_SE.double().numpy() + model.gate_.support_update
    assert prototype_nll(merged, model.fitted_.y) < 0.6, "the labels show in the support's own messages"
    measured = leave_leaves_out(Subject.of(model.fitted_))
    assert measured.tail_gain < 0.05
    assert np.abs(measured.effects).max() < 0.05


def test_a_tail_that_is_kept_out_has_exactly_no_effect():
    frame = report_models.digits(method="scff").model.column_evidence(shuffled=0)
    tail = frame[frame["stratum"] == "tail"]
    assert len(tail) > 0
    assert (tail[EFFECT] == 0).all()
    assert not tail["used"].any()
    assert frame.loc[frame["stratum"] == "core", "used"].all()


def test_the_only_core_leaf_is_compared_with_knowing_nothing():
    model = report_models.noisy(method="scff", tail="off").model
    assert len(model.plan_.core_leaves) == 1
    y = model.fitted_.y
    a, b = halves(y)
    losses = [
        nll_by_hand(seen_as_new(model, model.plan_.core_leaves, *pair)[1][0], y[pair[1]]) for pair in ((a, b), (b, a))
    ]
    expected = np.log(2) - np.mean(losses)
    frame = model.column_evidence(shuffled=0)
    assert frame.loc[frame["stratum"] == "core", EFFECT].unique() == pytest.approx([expected])


@pytest.mark.parametrize("method", ["native", "mass-huber"])
def test_methods_that_do_not_average_leaves_claim_no_effect(method):
    model = report_models.noisy(method=method).model
    frame = model.column_evidence(shuffled=0)
    assert frame[EFFECT].isna().all()
    assert frame["used"].all()
    assert set(frame["stratum"]) == ({"native"} if method == "native" else {"core", "tail"})
    plan = compile_plan(model.fitted_.support, model.fitted_.y)
    np.testing.assert_array_equal(frame.sort_values("position")["F"], plan.f)


def test_raw_core_has_one_leaf():
    frame = report_models.noisy(leaf_width=16, method="raw-core").model.column_evidence(shuffled=0)
    assert set(frame.loc[frame["stratum"] == "core", "leaf"]) == {0}
    assert set(frame.loc[frame["stratum"] != "core", "leaf"]) == {-1}


def test_the_same_after_a_round_trip_through_a_file():
    model = report_models.noisy(leaf_width=64, method="scff", tail="raw-residual").model
    again = pickle.loads(pickle.dumps(model))
    before, after = model.column_evidence(shuffled=0), again.column_evidence(shuffled=0)
    np.testing.assert_allclose(after[EFFECT], before[EFFECT], atol=1e-6)
    assert list(before.index) == list(after.index)


def test_prototype_nll_is_the_written_out_one():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(30, 3)), np.arange(30) % 3
    assert prototype_nll(z, y) == pytest.approx(nll_by_hand(z, y))
    assert prototype_nll(1000 * z, y) == pytest.approx(prototype_nll(z, y))
    assert prototype_nll(np.ones((6, 2)), np.arange(6) % 2) == pytest.approx(np.log(2))
    assert prototype_nll(z + 9 * y[:, None], y) < 0.01


def test_classes_of_few_rows_are_left_out_and_none_left_is_nan():
    rng = np.random.default_rng(0)
    y = np.r_[np.arange(40) % 2, 2, 2]
    X = rng.normal(size=(42, 60)) + (np.arange(60) < 9) * y[:, None]
    model = FoldedClassifier(backbone="nano", method="scff", leaf_width=16).fit(X, y)
    assert np.isfinite(model.column_evidence(shuffled=0)[EFFECT]).all()
    rare = FoldedClassifier(backbone="nano", method="scff", leaf_width=16).fit(X[37:], y[37:])
    assert rare.column_evidence(shuffled=0)[EFFECT].isna().all()


def test_a_column_that_is_constant_on_one_half_is_no_trouble():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 40)) + (np.arange(40) < 9) * y[:, None]
    X[:, 30:] = 0.0
    X[halves(y)[0], 30:] = rng.normal(size=(20, 10))
    model = FoldedClassifier(backbone="nano", method="scff", leaf_width=4, tail="raw-residual").fit(X, y)
    assert np.isfinite(model.column_evidence(shuffled=0)[EFFECT]).all()


def test_one_leaf_that_holds_everything_is_still_measured():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    model = FoldedClassifier(backbone="nano", method="scff", fdr=0.99).fit(rng.normal(size=(40, 4)) + 2 * y[:, None], y)
    assert model.gate_ is None
    assert len(model.plan_.leaves) == 1
    assert np.isfinite(model.column_evidence(shuffled=0)[EFFECT]).all()


def test_columns_named_by_numbers_are_shuffled_like_others(few_shuffled):
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = pd.DataFrame(rng.normal(size=(80, 12)))
    X[0] += 4 * y
    X[11] = np.where(X[11] > 0, "high", "low")  # with text the table stays a frame
    rise = FoldedClassifier("nano", method="bounded-core").fit(X, y).column_evidence()["shuffle_loss_change"].dropna()
    assert rise.iloc[0] > 0.3
