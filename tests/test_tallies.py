"""Tallies of what classes hold as one of the readings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import MultinomialNB

from scff.tables.table import as_table
from scff.trials.agenda import agenda
from scff.trials.tallies import Tallies, can_be_tallied
from trial_cases import case_of


def texts(n=60, n_classes=2, seed=0, words=40):
    """Counts of 400 rare words; every class uses each of them a little more or less often, none of them tells much."""
    y = np.arange(n) % n_classes
    frequency = np.random.default_rng(99).gamma(0.3, size=(n_classes, 400))
    rng = np.random.default_rng(seed)
    return rng.poisson(frequency[y] * words / frequency[y].sum(1, keepdims=True)).astype(float), y


@pytest.mark.parametrize("n_classes", [2, 4])
def test_it_is_as_right_as_naive_bayes_and_surer_only_where_it_may_be(tiny_v1, n_classes):
    X, y = texts(80, n_classes, words=12)
    Q, yq = texts(300, n_classes, seed=1, words=12)
    X, Q = np.repeat(X, 5, axis=1), np.repeat(Q, 5, axis=1)  # five columns that say the same
    held, answer = Tallies().answer(case_of(tiny_v1, X, y))
    assert held is None
    p = answer(as_table(Q))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    own = MultinomialNB().fit(X, y).predict_proba(Q)
    assert (p.argmax(1) == yq).mean() > (own.argmax(1) == yq).mean() - 0.05 > 0.6
    rows = np.arange(len(yq))
    assert -np.log(p[rows, yq]).mean() < -np.log(np.maximum(own[rows, yq], 1e-12)).mean()


def test_on_noise_it_costs_little(tiny_v1):
    losses = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, Q = (rng.poisson(0.3, size=(n, 500)).astype(float) for n in (60, 200))
        p = Tallies().answer(case_of(tiny_v1, X, np.arange(60) % 2))[1](as_table(Q))
        losses.append(-np.log(p).mean())
    assert np.mean(losses) < np.log(2) + 0.1


def test_held_back_rows_are_answered_like_new_ones_and_their_labels_change_nothing(tiny_v1):
    X, y = texts(80)
    fitted, new = np.arange(50), np.arange(50, 80)
    held, answer = Tallies().answer(case_of(tiny_v1, X, y).part(fitted, new))
    np.testing.assert_allclose(held, answer(as_table(X[50:])), atol=1e-12)
    other, _ = Tallies().answer(case_of(tiny_v1, X, np.r_[y[:50], 1 - y[50:]]).part(fitted, new))
    np.testing.assert_array_equal(held, other)


def test_presence_is_tallied_where_amounts_mislead(tiny_v1):
    X, y = texts(60)
    rng = np.random.default_rng(3)
    wild = X * rng.lognormal(0, 4, size=X.shape)
    Q, yq = texts(200, seed=1)
    _, answer = Tallies().answer(case_of(tiny_v1, wild, y))
    p = answer(as_table(Q * rng.lognormal(0, 4, size=Q.shape)))
    assert (p.argmax(1) == yq).mean() > 0.8


def test_the_unit_of_the_table_and_the_depth_of_a_row_change_nothing(tiny_v1):
    X, y = texts(60)
    Q, _ = texts(20, seed=1)
    p = Tallies().answer(case_of(tiny_v1, X, y))[1](as_table(Q))
    deeper = Q * np.arange(1, 21)[:, None]
    again = Tallies().answer(case_of(tiny_v1, 1e-200 * X, y))[1](as_table(1e-200 * deeper))
    np.testing.assert_allclose(p, again, atol=1e-9)


def test_only_tables_of_noughts_and_more_are_tallied(tiny_v1):
    X, y = texts(60)
    assert not can_be_tallied(case_of(tiny_v1, X + 0.1, y))
    assert can_be_tallied(case_of(tiny_v1, X, y))
    _, alternatives = agenda(case_of(tiny_v1, X, y), "auto")
    assert "tallies" in [one.name for one in alternatives]
    X[3, 7] = -1.0
    assert not can_be_tallied(case_of(tiny_v1, X, y))
    _, alternatives = agenda(case_of(tiny_v1, X, y), "auto")
    assert "tallies" not in [one.name for one in alternatives]


def test_empty_rows_unknown_columns_holes_text_and_negative_queries_are_read(tiny_v1):
    X, y = texts(40)
    X[:, :20] = 0.0  # no labelled row holds these
    X[5] = 0.0
    X[7, 30:60] = np.nan
    frame = pd.DataFrame(X).rename(columns=str).assign(text=np.where(y, "a", "b"))
    _, answer = Tallies().answer(case_of(tiny_v1, frame, y))
    Q = frame.copy()
    Q.iloc[:10, :20] = 5.0
    Q.iloc[11:20, 100:200] = -3.0
    p = answer(as_table(Q))
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_the_only_row_of_a_class_is_tallied_too(tiny_v1):
    X, y = texts(30)
    y[-1] = 2
    p = Tallies().answer(case_of(tiny_v1, X, y))[1](as_table(X))
    assert p.shape == (30, 3)
    assert np.isfinite(p).all()
