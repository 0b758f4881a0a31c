"""What few columns with company have in common as one of the readings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import scff
from scff import FoldedClassifier
from scff.tables.table import as_table
from scff.trials.agenda import agenda
from scff.trials.case import Case
from scff.trials.narrow import Direct
from scff.trials.sources import NearSources, Sources, has_sources
from scff.trials.structure import structured_columns
from trial_cases import case_of


def hidden(n=240, seed=0, columns=12, noise=150):
    """Three things that cannot be seen, twelve columns that measure them, and 150 of noise; a class is two corners."""
    rng = np.random.default_rng([seed, 1])
    source = rng.normal(size=(n, 3)) + 1.5 * rng.choice([-1, 1], size=(n, 3))
    mixing = np.random.default_rng(99).normal(size=(3, columns))
    X = np.hstack([source @ mixing + 0.2 * rng.normal(size=(n, columns)), rng.normal(size=(n, noise))])
    y = ((source[:, 0] > 0) == (source[:, 1] > 0)).astype(int)
    return X[:, np.random.default_rng(98).permutation(columns + noise)], y


def loss(p, y):
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean()


def test_they_are_the_components_of_the_columns_with_company(tiny_v1):
    X, y = hidden()
    case = case_of(tiny_v1, X, y)
    (columns,) = np.nonzero(structured_columns(X))
    assert len(columns) == 12
    np.testing.assert_array_equal(Sources().columns(case), columns)
    shown = Sources().show(case)
    Q, _ = hidden(60, 1)
    found = shown.table(as_table(Q)).values
    assert found.shape == (60, 3), "three sources are behind twelve columns"
    mean, deviation = X[:, columns].mean(axis=0), X[:, columns].std(axis=0)
    Z = np.clip((X[:, columns] - mean) / deviation, -4, 4)
    loadings = np.linalg.svd(Z - Z.mean(axis=0))[2][:3]
    expected = ((Q[:, columns] - mean) / deviation) @ loadings.T
    for ours, own in zip(found.T, expected.T, strict=True):
        assert abs(np.corrcoef(ours, own)[0, 1]) > 0.9999
    assert "3 summary columns of the 12" in Sources().words(case)


def test_nearness_among_them_tells_what_noise_hides(tiny_v1):
    X, y = hidden()
    Q, yq = hidden(300, 1)
    held, answer = NearSources().answer(case_of(tiny_v1, X, y))
    assert held is None
    p = answer(as_table(Q))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert loss(p, yq) < 0.45
    near = Direct("equal", True).answer(case_of(tiny_v1, X, y))[1](as_table(Q))
    assert loss(p, yq) < loss(near, yq) - 0.1


def test_held_back_rows_are_read_like_new_ones_and_their_labels_change_nothing(tiny_v1):
    X, y = hidden(80)
    fitted, new = np.arange(60), np.arange(60, 80)
    part = case_of(tiny_v1, X, y).part(fitted, new)
    held, answer = NearSources().answer(part)
    np.testing.assert_allclose(held, answer(as_table(X[60:])), atol=1e-9)
    shown = Sources().show(part)
    np.testing.assert_allclose(shown.held_back.values, shown.table(as_table(X[60:])).values, atol=1e-5)
    other, _ = NearSources().answer(case_of(tiny_v1, X, np.r_[y[:60], 1 - y[60:]]).part(fitted, new))
    np.testing.assert_array_equal(held, other)


@pytest.mark.parametrize(("columns", "noise", "asked"), [(12, 150, True), (12, 0, False), (40, 150, False)])
def test_they_are_asked_for_where_few_columns_have_company(tiny_v1, columns, noise, asked):
    X, y = hidden(columns=columns, noise=noise)
    case = case_of(tiny_v1, X, y)
    assert has_sources(case) == asked
    names = [one.name for one in agenda(case, "auto")[1]]
    assert ("sources" in names) == ("near-sources" in names) == asked


def test_noise_alone_has_none(tiny_v1):
    rng = np.random.default_rng(0)
    assert not has_sources(case_of(tiny_v1, rng.normal(size=(60, 300)), np.arange(60) % 2))


def test_holes_text_and_wild_cells_are_read(tiny_v1):
    X, y = hidden()
    X[::7, :40] = np.nan
    frame = pd.DataFrame(X).rename(columns=str).assign(text=np.where(y, "a", "b"))
    case = case_of(tiny_v1, frame, y)
    assert has_sources(case)
    Q = frame.head(30).copy()
    Q.iloc[3, :] = np.nan
    Q.iloc[4, :-1] = 1e30
    p = NearSources().answer(case)[1](as_table(Q))
    assert np.isfinite(p).all()
    assert np.isfinite(Sources().show(case).table(as_table(Q)).values).all()


def test_more_rows_than_landmarks_are_shown_alike(tiny_v1, monkeypatch):
    X, y = hidden(160)
    monkeypatch.setattr("scff.trials.case.LANDMARKS", 100)
    shown_to_model, views_of = [], Case.views_of
    monkeypatch.setattr(Case, "views_of", lambda self, table: shown_to_model.append(table) or views_of(self, table))
    case = case_of(tiny_v1, X, y)
    assert len(case.landmarks) < 110
    shown = Sources().show(case)
    np.testing.assert_allclose(shown_to_model[-1].values, shown.table(as_table(X)).values, atol=1e-4)


def test_a_model_that_reads_them_is_saved_and_says_so(tmp_path):
    X, y = hidden()
    Q, yq = hidden(100, 1)
    clf = FoldedClassifier("nano").fit(X, y)
    (verdict,) = clf.verdicts_
    weights = {one.name: one.weight for one in verdict.tried}
    assert weights["sources"] + weights["near-sources"] > 0.5
    p = clf.predict_proba(Q)
    assert loss(p, yq) < 0.45
    clf.save(tmp_path / "model.scff")
    np.testing.assert_array_equal(scff.load(tmp_path / "model.scff").predict_proba(Q), p)
