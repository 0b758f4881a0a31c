"""The Tail gate, number by number."""

from __future__ import annotations

import numpy as np
import pytest

from scff.errors import DataError
from scff.gate.class_evidence import Prototypes, alternate_halves
from scff.gate.decide import FisherForm, decide
from scff.gate.record import TAIL_RULES, TailRule
from scff.names import TAILS


def messages(n=120, size=5, k=2, strength=3.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    c = rng.normal(size=(n, size)) + 0.3 * y[:, None]
    directions = rng.normal(size=(k, size))
    return c, 0.4 * c + strength * directions[y] + rng.normal(size=(n, size)), y


def test_fisher_form_is_the_fisher_ratio():
    c, t, y = messages(k=3)
    form = FisherForm.of(c, t, y)
    for alpha in (0.0, 0.3, 1.0):
        z = c + alpha * t
        means = np.stack([z[y == k].mean(0) for k in range(3)])
        between = sum((y == k).sum() * ((means[k] - z.mean(0)) ** 2).sum() for k in range(3))
        within = sum(((z[y == k] - means[k]) ** 2).sum() for k in range(3))
        assert form(alpha) == pytest.approx(between / within)


@pytest.mark.parametrize("seed", range(12))
def test_the_step_is_the_exact_maximiser(seed):
    rng = np.random.default_rng(seed)
    y = np.arange(40) % 2
    b = rng.normal(size=(40, 3)) + rng.normal(size=3) * y[:, None]
    v = rng.normal(size=(40, 3)) + rng.normal(size=3) * y[:, None]
    form = FisherForm.of(b, v, y)
    grid = np.linspace(0, 1, 20001)
    assert form(form.best_step()) >= max(map(form, grid)) - 1e-12
    assert 0 <= form.best_step() <= 1


def test_halves_alternate_within_every_class():
    y = np.array([0, 1, 0, 0, 1, 2, 0, 1, 2])
    first, second = alternate_halves(y)
    assert first.tolist() == [0, 1, 3, 5, 7]
    assert second.tolist() == [2, 4, 6, 8]


def test_candidates_have_the_support_rms_of_the_core():
    c, t, y = messages()
    b = c - c.mean(0)
    for name in ("raw", "prototype"):
        decision = decide(c, t, y, n_tail_leaves=2, rule=TailRule(candidates=(name,)))
        v = decision.support_update / decision.alpha
        assert (v**2).mean() == pytest.approx((b**2).mean())


def test_the_prototype_map_follows_the_paper_row_by_row():
    """Leave-one-out own centroid for support rows, all-support centroids for queries, written out naively."""
    c, t, y = messages(n=30)
    decision = decide(c, t, y, n_tail_leaves=2, rule=TailRule(candidates=("prototype",), check="none"))
    b, u = c - c.mean(0), t - t.mean(0)
    rho = (u * b).sum() / (b * b).sum()
    assert decision.rho == pytest.approx(rho)
    r = u - rho * b
    mu = np.stack([r[y == k].mean(0) for k in (0, 1)])
    s = ((mu[0] - mu[1]) ** 2).sum()
    q = np.bincount(y) / len(y)

    def mapped(row, centroids):
        weights = np.exp(-((row - centroids) ** 2).sum(1) / s)
        return (weights / weights.sum()) @ (mu - q @ mu)

    expected = []
    for i in range(30):
        own = mu.copy()
        mates = (y == y[i]) & (np.arange(30) != i)
        own[y[i]] = r[mates].mean(0)
        expected.append(mapped(r[i], own))
    expected = np.array(expected)
    scale = decision.alpha * np.sqrt((b**2).sum() / (expected**2).sum())
    np.testing.assert_allclose(decision.support_update, scale * expected, rtol=1e-9)
    new_c, new_t = np.random.default_rng(9).normal(size=(2, 4, 5))
    new_r = (new_t - t.mean(0)) - rho * (new_c - c.mean(0))
    np.testing.assert_allclose(
        decision.update(new_c, new_t), scale * np.array([mapped(row, mu) for row in new_r]), rtol=1e-9
    )


def test_acceptance_needs_every_check():
    c, t, y = messages()
    decision = decide(c, t, y, n_tail_leaves=2)
    assert decision.accepted
    for candidate in decision.candidates:
        assert candidate.passed == (candidate.fisher_improves and candidate.nll_gain > 0 and candidate.accuracy_holds)
        assert candidate.alpha == min(candidate.alpha_a, candidate.alpha_b)
    # Labels that have nothing to do with the messages: nothing to let in.
    rejected = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        noise = decide(rng.normal(size=(80, 6)), rng.normal(size=(80, 6)), np.arange(80) % 2, n_tail_leaves=2)
        rejected += noise.accepted is None
    assert rejected >= 10


def test_prototype_scores_are_those_of_the_definition():
    c, _, y = messages(n=40, k=3)
    fitted = Prototypes.of(c[:20], y[:20])
    distances = np.stack([((c[20:] - mu) ** 2).sum(1) for mu in fitted.centroids], axis=1)
    p = np.exp(-distances / fitted.scale)
    p /= p.sum(1, keepdims=True)
    nll, accuracy = fitted.score(c[20:], y[20:])
    assert nll == pytest.approx(-np.log(p[np.arange(20), y[20:]]).mean())
    assert accuracy == (p.argmax(1) == y[20:]).mean()


def test_one_tail_leaf_is_accepted_on_fisher_alone():
    found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y = np.arange(30) % 2
        c, t = rng.normal(size=(30, 4)) + 0.5 * y[:, None], rng.normal(size=(30, 4)) + 0.4 * y[:, None]
        several, one = (decide(c, t, y, n_tail_leaves=n) for n in (2, 1))
        for a, b in zip(several.candidates, one.candidates, strict=True):
            assert b.passed == b.fisher_improves
            found += b.passed and not a.passed
    assert found  # the fallback made a difference somewhere


@pytest.mark.parametrize("k", [3, 5])
def test_multiclass_tasks_keep_to_the_core_unless_the_rule_says_otherwise(k):
    c, t, y = messages(k=k)
    assert decide(c, t, y, n_tail_leaves=2).accepted is None
    assert "classes" in decide(c, t, y, n_tail_leaves=2).reason
    assert decide(c, t, y, n_tail_leaves=2, rule=TAIL_RULES["no-binary-restriction"]).accepted


def test_a_class_too_small_for_two_halves_is_refused():
    c, t, _ = messages(n=40)
    for rare, accepted in ((3, False), (4, True)):
        y = np.r_[np.zeros(40 - rare, int), np.ones(rare, int)]
        t_separating = t + 30 * y[:, None]
        decision = decide(c, t_separating, y, n_tail_leaves=1)
        assert (decision.accepted is not None) == accepted, decision


@pytest.mark.parametrize("t", ["zero", "core", "constant"])
def test_a_tail_without_a_word_of_its_own_is_refused(t):
    c, _, y = messages()
    tails = {"zero": np.zeros_like(c), "core": -3 * c, "constant": np.ones_like(c)}
    decision = decide(c, tails[t], y, n_tail_leaves=4)
    assert decision.accepted is None
    assert decision.alpha == 0
    np.testing.assert_array_equal(decision.update(c, c), 0)


def test_a_core_without_variation_has_no_projection():
    _, t, y = messages()
    decision = decide(np.ones_like(t), t, y, n_tail_leaves=2)
    assert decision.rho == 0
    assert decision.accepted is None  # and no scale for an update either


def test_the_names_of_the_rules_are_written_down_once_more_without_them():
    """A help text lists them before the rules themselves are imported."""
    assert ("off", *TAIL_RULES) == TAILS


def test_controls_do_what_their_names_say():
    c, t, y = messages(k=3)
    assert decide(c, t, y, n_tail_leaves=2, rule=TAIL_RULES["centred"]).rho == 0
    for name in ("raw-residual", "fixed-prototype"):
        decision = decide(c, t, y, n_tail_leaves=2, rule=TAIL_RULES[name])
        assert decision.alpha == 1
        assert decision.accepted == ("raw" if name == "raw-residual" else "prototype")
    fisher = decide(c, t, y, n_tail_leaves=2, rule=TAIL_RULES["fisher"])
    assert fisher.accepted == "prototype"
    assert 0 < fisher.alpha <= 1


def test_stretching_the_representation_does_not_pass_as_evidence():
    c, _, y = messages()
    own = Prototypes.of(c, y)
    stretched = Prototypes.of(10 * c, y)
    assert stretched.score(10 * c, y)[0] == pytest.approx(own.score(c, y)[0])


def test_shapes_must_agree():
    c, t, y = messages()
    with pytest.raises(DataError, match="same rows"):
        decide(c, t[:-1], y, n_tail_leaves=2)
