"""Votes of trees as one of the readings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from backbone_models import tiny_tabpfn_v1
from scff.backbones import load_backbone
from scff.tables.table import as_table
from scff.trials.agenda import agenda
from scff.trials.case import Case, Settings
from scff.trials.forest import Forest


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    path = tiny_tabpfn_v1(tmp_path_factory.mktemp("v1") / "v1.cpkt")
    return load_backbone(path, torch.device("cpu"))


def case_of(backbone, X, y):
    return Case(backbone, as_table(X), np.asarray(y), Settings(leaf_width=32))


def boxes(n=120, seed=0):
    """A class that sits in the corner of two columns: no weighted sum of columns tells it."""
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, ((X[:, 0] > 0) == (X[:, 1] > 0)).astype(int)


def test_it_tells_what_no_weighted_sum_of_columns_tells(backbone):
    X, y = boxes()
    Q, yq = boxes(200, 1)
    held, answer = Forest().answer(case_of(backbone, X, y))
    assert held is None
    p = answer(as_table(Q))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (p.argmax(axis=1) == yq).mean() > 0.8
    # Votes are those of scikit-learn's own forest; only how sure they are is ours.
    own = RandomForestClassifier(100, random_state=0).fit(X, y).predict_proba(Q)[:, 1]
    assert np.corrcoef(np.argsort(np.argsort(own)), np.argsort(np.argsort(p[:, 1])))[0, 1] > 0.99


def test_on_noise_it_is_not_sure(backbone):
    rng = np.random.default_rng(0)
    _, answer = Forest().answer(case_of(backbone, rng.normal(size=(60, 200)), np.arange(60) % 3))
    p = answer(as_table(rng.normal(size=(100, 200))))
    assert 0.1 < p.min() < p.max() < 0.7


def test_held_back_rows_are_answered_without_their_labels(backbone):
    X, y = boxes()
    case = case_of(backbone, X, y)
    part = case.part(np.arange(60), np.arange(60, 120))
    held, answer = Forest().answer(part)
    np.testing.assert_array_equal(held, answer(as_table(X[60:])))
    other = case_of(backbone, X, np.r_[y[:60], 1 - y[60:]]).part(np.arange(60), np.arange(60, 120))
    np.testing.assert_array_equal(held, Forest().answer(other)[0])


def test_very_wide_tables_show_it_columns_spread_without_a_look_at_labels(backbone):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 10_000)).astype(np.float32), np.arange(20) % 2
    columns = Forest().columns(case_of(backbone, X, y))
    assert len(columns) == 4096
    assert (columns[0], columns[-1]) == (0, 9999)
    assert np.diff(columns).max() <= 3
    np.testing.assert_array_equal(columns, Forest().columns(case_of(backbone, X, 1 - y)))
    assert "4,096 of 10,000 columns" in Forest().words(case_of(backbone, X, y))


def test_missing_values_text_and_wild_cells_are_read(backbone):
    X, y = boxes(40)
    frame = pd.DataFrame(X).rename(columns=str).assign(text=np.where(y, "a", "b"))
    frame.iloc[::3, 2] = np.nan
    frame.iloc[3, 3] = 1e300
    _, answer = Forest().answer(case_of(backbone, frame, y))
    p = answer(as_table(frame))
    assert np.isfinite(p).all()
    assert (p.argmax(axis=1) == y).all()


def test_it_is_among_what_is_tried(backbone):
    X, y = boxes()
    _, alternatives = agenda(case_of(backbone, X, y), "auto")
    assert "forest" in [one.name for one in alternatives]
