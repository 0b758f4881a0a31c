"""Votes of trees as one of the readings."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

from scff.tables.table import as_table
from scff.trials.agenda import agenda
from scff.trials.forest import Forest
from trial_cases import case_of


def boxes(n=120, seed=0):
    """A class that sits in the corner of two columns: no weighted sum of columns tells it."""
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, ((X[:, 0] > 0) == (X[:, 1] > 0)).astype(int)


def test_it_tells_what_no_weighted_sum_of_columns_tells(tiny_v1):
    X, y = boxes()
    Q, yq = boxes(200, 1)
    held, answer = Forest().answer(case_of(tiny_v1, X, y))
    assert held is None
    p = answer(as_table(Q))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (p.argmax(axis=1) == yq).mean() > 0.8
    # Votes are those of scikit-learn's own forest; only how sure they are is ours.
    own = RandomForestClassifier(100, random_state=0).fit(X, y).predict_proba(Q)[:, 1]
    assert np.corrcoef(np.argsort(np.argsort(own)), np.argsort(np.argsort(p[:, 1])))[0, 1] > 0.99


def test_on_noise_it_is_not_sure(tiny_v1):
    rng = np.random.default_rng(0)
    _, answer = Forest().answer(case_of(tiny_v1, rng.normal(size=(60, 200)), np.arange(60) % 3))
    p = answer(as_table(rng.normal(size=(100, 200))))
    assert 0.1 < p.min() < p.max() < 0.7


def test_no_row_is_voted_on_by_a_tree_that_saw_its_label(tiny_v1):
    X, y = boxes()
    votes = Forest().grown(case_of(tiny_v1, X, y)).votes_SK
    for row in (0, 60, 119):
        other = y.copy()
        other[row] = 1 - y[row]
        again = Forest().grown(case_of(tiny_v1, X, other)).votes_SK
        np.testing.assert_array_equal(again[row], votes[row])
        assert (again != votes).any()
    held, _ = Forest().answer(case_of(tiny_v1, X, y).part(np.arange(60), np.arange(60, 120)))
    assert (held.argmax(axis=1) == y[60:]).mean() > 0.7


def test_one_forest_serves_all_splits_and_backbones(tiny_v1, monkeypatch):
    grown = []
    fit = RandomForestClassifier.fit
    monkeypatch.setattr(RandomForestClassifier, "fit", lambda self, X, y: grown.append(len(y)) or fit(self, X, y))
    X, y = boxes()
    case = case_of(tiny_v1, X, y)
    for part in (case.part(np.arange(60), np.arange(60, 120)), case.part(np.arange(60, 120), np.arange(60)), case):
        Forest().answer(part)
    Forest().answer(case.read_by(tiny_v1))
    assert grown == [120]
    Forest().answer(case.relabelled(1 - y))
    assert grown == [120, 120]


def test_where_groups_are_given_no_tree_has_seen_the_rest_of_a_group(tiny_v1):
    X, y = boxes()
    fitted, new = np.arange(60), np.arange(60, 120)
    held, answer = Forest(out_of_bag=False).answer(case_of(tiny_v1, X, y).part(fitted, new))
    np.testing.assert_array_equal(held, answer(as_table(X[60:])))
    other, _ = Forest(out_of_bag=False).answer(case_of(tiny_v1, X, np.r_[y[:60], 1 - y[60:]]).part(fitted, new))
    np.testing.assert_array_equal(held, other)
    groups = np.arange(120) // 4
    for given, out_of_bag in ((groups, False), (None, True)):
        _, alternatives = agenda(case_of(tiny_v1, X, y), "auto", given)
        assert next(one for one in alternatives if one.name == "forest").out_of_bag is out_of_bag


def test_a_class_that_a_split_lacks_is_left_out_of_it(tiny_v1):
    X, y = boxes()
    y = y + 2 * (np.arange(120) >= 110)
    held, _ = Forest().answer(
        case_of(tiny_v1, X, np.unique(y, return_inverse=True)[1]).part(np.arange(60), np.arange(60, 110))
    )
    assert held.shape == (50, 2)
    np.testing.assert_allclose(held.sum(axis=1), 1)


def test_very_wide_tables_show_it_columns_spread_without_a_look_at_labels(tiny_v1):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 10_000)).astype(np.float32), np.arange(20) % 2
    columns = Forest().columns(case_of(tiny_v1, X, y))
    assert len(columns) == 4096
    assert (columns[0], columns[-1]) == (0, 9999)
    assert np.diff(columns).max() <= 3
    np.testing.assert_array_equal(columns, Forest().columns(case_of(tiny_v1, X, 1 - y)))
    assert "4,096 of 10,000 columns" in Forest().words(case_of(tiny_v1, X, y))


def test_missing_values_text_and_wild_cells_are_read(tiny_v1):
    X, y = boxes(40)
    frame = pd.DataFrame(X).rename(columns=str).assign(text=np.where(y, "a", "b"))
    frame.iloc[::3, 2] = np.nan
    frame.iloc[3, 3] = 1e300
    _, answer = Forest().answer(case_of(tiny_v1, frame, y))
    p = answer(as_table(frame))
    assert np.isfinite(p).all()
    assert (p.argmax(axis=1) == y).all()


def test_it_is_among_what_is_tried(tiny_v1):
    X, y = boxes()
    _, alternatives = agenda(case_of(tiny_v1, X, y), "auto")
    assert "forest" in [one.name for one in alternatives]
