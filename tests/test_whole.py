"""Summaries of a whole table against what they are by definition."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from scff.trials import summaries
from scff.trials.mixture import losses_of
from scff.trials.scales import EqualScale, ShareScale
from scff.trials.structure import structured_columns
from scff.trials.summaries import Calibration, Components, Scores
from scff.trials.whole import Kernel, Whole

SCALES = [EqualScale, ShareScale]


def scaled(scale, X):
    return np.hstack([block for _, block in scale(X)])


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    X = rng.normal(size=(30, 2500)) * rng.gamma(2.0, size=2500) + rng.normal(size=2500)
    X[:, :50] += y[:, None]
    return X, y, rng.normal(size=(7, 2500))


@pytest.mark.parametrize("scale", SCALES)
def test_products_are_those_of_the_scaled_table(table, scale):
    X, _, Q = table
    whole = Whole.of(X, scale)
    Z, ZQ = scaled(whole.scale, X), scaled(whole.scale, Q)
    np.testing.assert_allclose(whole.products.with_TS, Z @ Z.T, rtol=1e-9)
    met = whole.meet(Q)
    np.testing.assert_allclose(met.with_TS, ZQ @ Z.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(met.own_T, (ZQ**2).sum(axis=1), rtol=1e-9)


def test_components_are_the_principal_components(table):
    X, _, Q = table
    whole = Whole.of(X, EqualScale)
    Z, ZQ = scaled(whole.scale, X), scaled(whole.scale, Q)
    found = Components.fit(Kernel(whole.products, radial=False), 4)
    pca = PCA(4, svd_solver="full").fit(Z)
    np.testing.assert_allclose(np.abs(found.support_Sk), np.abs(pca.transform(Z)), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.abs(found(whole.meet(Q))), np.abs(pca.transform(ZQ)), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found(whole.meet(X)), found.support_Sk, rtol=1e-6, atol=1e-6)


def test_a_part_is_what_its_rows_alone_would_be(table):
    X, _, _ = table
    whole = Whole.of(X, EqualScale)
    fitted, new = np.arange(20), np.arange(20, 30)
    Z = scaled(whole.scale, X)
    part = Components.fit(Kernel(whole.products.of(fitted, fitted), radial=False), 3)
    pca = PCA(3, svd_solver="full").fit(Z[fitted])
    held = part(whole.products.of(new, fitted))
    np.testing.assert_allclose(np.abs(held), np.abs(pca.transform(Z[new])), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("radial", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_labelled_row_is_scored_by_the_others(table, radial, n_classes):
    """The closed form against leaving every row out and solving anew, the kernel's centre being that of all rows."""
    X, _, _ = table
    y = np.arange(30) % n_classes
    kernel = Kernel(Whole.of(X, EqualScale).products, radial)
    scores = Scores.fit(kernel, y)
    target = np.eye(n_classes)[y] if n_classes > 2 else 2.0 * y[:, None] - 1
    variance, vectors = kernel.directions
    gram = vectors @ np.diag(variance) @ vectors.T
    # The penalty that was chosen, found again by its map: (K + ridge) a = y - mean, so ridge a = y - mean - K a.
    rest = target - target.mean(axis=0) - gram @ scores._map_SC
    ridge = float((rest * scores._map_SC).sum() / (scores._map_SC**2).sum())
    for i in (0, 11, 29):
        others = np.delete(np.arange(30), i)
        # Ridge with a free intercept on the rows that are left.
        system = np.block(
            [[gram[np.ix_(others, others)] + ridge * np.eye(29), np.ones((29, 1))], [np.ones((1, 29)), 0]]
        )
        solved = np.linalg.solve(system, np.vstack([target[others], np.zeros((1, target.shape[1]))]))
        predicted = gram[i, others] @ solved[:29] + solved[29]
        np.testing.assert_allclose(scores.support_SC[i], predicted - target[others].mean(axis=0), rtol=1e-5, atol=1e-6)


def test_scores_of_noise_do_not_know_their_own_label():
    rng = np.random.default_rng(3)
    hits = []
    for _ in range(20):
        y = rng.permutation(np.arange(40) % 2)
        kernel = Kernel(Whole.of(rng.normal(size=(40, 300)), EqualScale).products, radial=False)
        hits.append(((Scores.fit(kernel, y).support_SC[:, 0] > 0) == y).mean())
    assert 0.4 < np.mean(hits) < 0.6


def test_calibration_gives_the_frequencies_where_scores_say_nothing():
    rng = np.random.default_rng(0)
    y = (np.arange(400) % 4 == 0).astype(np.int64)
    said = Calibration.fit(rng.normal(size=(400, 1)), y)(rng.normal(size=(50, 1)))
    assert np.abs(said[:, 1] - 0.25).max() < 0.15
    sure = Calibration.fit(2.0 * y[:, None] - 1, y)(np.array([[-1.0], [1.0]]))
    assert sure[0, 0] > 0.95
    assert sure[1, 1] > 0.95


def test_few_rows_of_several_classes_do_not_say_which_is_likelier(monkeypatch):
    rng, y, new = np.random.default_rng(3), np.repeat(np.arange(8), 6), np.repeat(np.arange(8), 200)

    def drawn(y):
        return 4.0 * np.eye(8)[y] + 1.5 * rng.normal(size=(len(y), 8))

    def loss_of_new(calibration):
        return losses_of(calibration(drawn(new)), new).mean()

    known = [drawn(y) for _ in range(20)]
    held = np.mean([loss_of_new(Calibration.fit(scores, y)) for scores in known])
    monkeypatch.setattr(summaries, "_HELD_OF_SEVERAL", 0.01)
    loose = np.mean([loss_of_new(Calibration.fit(scores, y)) for scores in known])
    assert held < 0.97 * loose


def test_many_rows_of_several_classes_do():
    rng, y = np.random.default_rng(3), np.repeat(np.arange(3), (1400, 400, 200))
    said = Calibration.fit(rng.normal(size=(2000, 3)), y)(rng.normal(size=(50, 3)))
    np.testing.assert_allclose(said.mean(axis=0), [0.7, 0.2, 0.1], atol=0.02)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("wild", [1e300, -1e300, np.nan])
def test_a_wild_or_missing_cell_leaves_the_rest_where_it_was(table, scale, wild):
    X, _, Q = table
    plain = scaled(scale.fit(X), X)
    X = X.copy()
    X[4, 1000] = wild
    fitted = scale.fit(X)
    assert np.isfinite(scaled(fitted, X)).all()
    if scale is EqualScale:
        np.testing.assert_array_equal(np.delete(scaled(fitted, X), 1000, axis=1), np.delete(plain, 1000, axis=1))
        assert np.abs(scaled(fitted, X)).max() < 10
    Q = Q.copy()
    Q[0, 7] = wild
    assert np.isfinite(scaled(fitted, Q)).all()


def test_constant_columns_are_zero_and_counts_become_shares():
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, size=(20, 40)).astype(float)
    X[:, 3] = 5.0
    assert (scaled(EqualScale.fit(X), X)[:, 3] == 0).all()
    shares = ShareScale.fit(X)
    assert shares.shares
    np.testing.assert_allclose(scaled(shares, X), scaled(shares, 7 * X), atol=1e-9)  # depth of a row plays no part
    assert not ShareScale.fit(X - 1).shares


def test_columns_with_company():
    rng = np.random.default_rng(0)
    sources = rng.normal(size=(120, 3))
    X = rng.normal(size=(120, 400))
    X[:, 10:40] = sources[:, np.arange(30) % 3] + 0.4 * rng.normal(size=(120, 30))
    assert np.flatnonzero(structured_columns(X)).tolist() == list(range(10, 40))
    X[3, 200] = np.nan
    X[:, 300] = 1.0
    assert np.flatnonzero(structured_columns(X)).tolist() == list(range(10, 40))
    assert structured_columns(rng.normal(size=(60, 50))).all()  # nobody has company: everybody stays


def test_very_wide_tables_are_compared_with_a_spread_of_columns(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(80, 300)), 4, axis=1) + 0.3 * rng.normal(size=(80, 1200))
    whole = structured_columns(X)
    monkeypatch.setattr("scff.trials.structure._PARTNERS", 600)
    assert (structured_columns(X) == whole).mean() > 0.95
