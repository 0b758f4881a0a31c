"""Boosted trees as one of the readings."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import scff
from scff import FoldedClassifier
from scff.tables.table import as_table
from scff.trials.agenda import agenda
from scff.trials.boosted import Boosted
from scff.trials.reading import Choice
from trial_cases import case_of


def steps(n=160, seed=0, n_columns=40):
    """A class that two of the columns tell by steps, among noise."""
    X = np.random.default_rng(seed).normal(size=(n, n_columns))
    return X, ((X[:, 7] > 0.3) | (X[:, 23] > 1.0)).astype(int)


def test_they_tell_steps(tiny_v1):
    X, y = steps()
    Q, yq = steps(300, 1)
    held, answer = Boosted().answer(case_of(tiny_v1, X, y))
    assert held is None
    p = answer(as_table(Q))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (p.argmax(axis=1) == yq).mean() > 0.9
    np.testing.assert_array_equal(p, Boosted().answer(case_of(tiny_v1, X, y))[1](as_table(Q)))


def test_they_grow_on_all_labelled_rows_in_the_end(tiny_v1, monkeypatch):
    X, y = steps(1400)
    grown = []
    fit = HistGradientBoostingClassifier.fit
    monkeypatch.setattr(
        HistGradientBoostingClassifier, "fit", lambda self, X, y: grown.append(len(y)) or fit(self, X, y)
    )
    case = case_of(tiny_v1, X, y)
    assert len(case.landmarks) < 1400
    Boosted().answer(case)
    monkeypatch.setattr("scff.trials.boosted.BOOSTED_MOST", 1200)
    Boosted().answer(case_of(tiny_v1, X, y))
    assert grown[0] == 1400
    assert 1200 <= grown[1] <= 1204  # two rows of every class, at least


def test_a_part_knows_its_own_labels_alone(tiny_v1):
    X, y = steps()
    fitted, new = np.arange(100), np.arange(100, 160)
    held, answer = Boosted().answer(case_of(tiny_v1, X, y).part(fitted, new))
    np.testing.assert_array_equal(held, answer(as_table(X[new])))
    assert (held.argmax(axis=1) == y[new]).mean() > 0.8
    others = np.r_[y[fitted], 1 - y[new]]
    np.testing.assert_array_equal(held, Boosted().answer(case_of(tiny_v1, X, others).part(fitted, new))[0])


def test_they_choose_from_the_strongest_columns(tiny_v1):
    X, y = steps()
    case = case_of(tiny_v1, X, y)
    columns = Boosted(most=5).columns(case)
    assert len(columns) == 5
    assert {7, 23} <= set(columns)
    Q = X.copy()
    Q[:, np.setdiff1d(np.arange(40), columns)] = 1e308  # numbers of any size are read
    answer = Boosted(most=5).answer(case)[1]
    np.testing.assert_array_equal(answer(as_table(Q)), answer(as_table(X)))
    assert Boosted(most=5).words(case) == "no model: boosted trees over the 5 strongest columns"


def test_holes_and_numbers_of_any_size_are_read(tiny_v1):
    X, y = steps()
    X[::7, 7], X[::5, 23], X[0, 7] = np.nan, -1e308, 1e308
    p = Boosted().answer(case_of(tiny_v1, X, y))[1](as_table(X))
    assert np.isfinite(p).all()
    assert (p.argmax(axis=1) == y).mean() > 0.9


@pytest.mark.parametrize(("n", "asked"), [(100, False), (101, True)])
def test_they_are_asked_where_rows_are_not_few(tiny_v1, n, asked):
    X, y = steps(n)
    _, alternatives = agenda(case_of(tiny_v1, X, y), "auto")
    assert any(one.name == "boosted" for one in alternatives) is asked
    assert not any(one.name == "boosted" for one in agenda(case_of(tiny_v1, X, y), 0)[1])


def test_many_classes_take_fewer_steps(tiny_v1, monkeypatch):
    taken = []
    fit = HistGradientBoostingClassifier.fit
    monkeypatch.setattr(
        HistGradientBoostingClassifier, "fit", lambda self, X, y: taken.append(self.max_iter) or fit(self, X, y)
    )
    X = np.random.default_rng(0).normal(size=(120, 6))
    for n_classes, steps_taken in ((2, 100), (10, 100), (30, 33), (60, 20)):
        Boosted().answer(case_of(tiny_v1, X, np.arange(120) % n_classes))
        assert taken.pop() == steps_taken


def test_a_model_that_reads_them_is_kept_in_a_file(tmp_path, monkeypatch):
    X, y = steps(120)
    Q = steps(30, 1)[0]
    monkeypatch.setattr("scff.trials.contest.chosen", lambda verdict, asked: (Choice(Boosted(), 1.0),))
    model = FoldedClassifier("nano").fit(X, y)
    p = model.predict_proba(Q)
    model.save(tmp_path / "model.scff")
    monkeypatch.undo()
    again = scff.load(tmp_path / "model.scff")
    np.testing.assert_array_equal(again.predict_proba(Q), p)
    assert any("boosted trees" in one.words for one in again.verdicts_[0].tried)
