"""The fold plan and the scores behind it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.feature_selection import f_classif, f_regression

from scff import FoldPlan, compile_plan
from scff.errors import DataError
from scff.plan.column_scores import anova, count_discoveries, linear


def table(n=80, d=40, k=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = rng.normal(size=(n, d))
    X[:, : d // 4] += y[:, None] * rng.uniform(0.2, 1.5, d // 4)
    return X, y


def test_anova_equals_scipy_and_scikit_learn_where_those_are_right():
    X, y = table()
    f, p = anova(X, y)
    expected_f, expected_p = f_classif(X, y)
    np.testing.assert_allclose(f, expected_f, rtol=1e-10)
    np.testing.assert_allclose(p, expected_p, rtol=1e-8)
    one = stats.f_oneway(*(X[y == k, 3] for k in range(3)))
    assert f[3] == pytest.approx(one.statistic)


@pytest.mark.parametrize("mean", [1e3, 1e4, 1e6])
def test_a_column_with_a_large_mean_is_ranked_rightly_in_float32(mean):
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X = rng.normal(size=(400, 3))
    X[:, 1] += 0.5 * y
    X[:, 2] += 1.0 * y
    offset = X.copy()
    offset[:, 1] += mean
    single = offset.astype(np.float32)
    truth = f_classif(single.astype(np.float64) - single.astype(np.float64).mean(0), y)[0]
    f, _ = anova(single, y)
    np.testing.assert_allclose(f, truth, rtol=1e-9)
    assert compile_plan(single, y, fdr=0.5).core.tolist()[:2] == [2, 1]
    wrong = f_classif(single, y)[0]  # the reason for this module: off by far more than rounding
    assert abs(wrong[1] / truth[1] - 1) > 0.01


def test_constant_columns_come_last_and_perfect_separation_first():
    X, y = table(k=2)
    X[:, 0] = 0.1
    X[:, 1] = 1 / 3
    X[:, 2] = np.nan
    X[:, 39] = y * 2.0 + 0.1
    X[:, 38] = 5 - y / 3
    plan = compile_plan(X, y)
    assert plan.f[[0, 1, 2]].tolist() == [0, 0, 0]
    assert plan.p[[0, 1, 2]].tolist() == [1, 1, 1]
    assert np.isinf(plan.f[[38, 39]]).all()
    assert plan.p[[38, 39]].tolist() == [0, 0]
    ranked = [*plan.core, *plan.tail]
    assert ranked[:2] == [38, 39]
    assert ranked[-3:] == [0, 1, 2]


def test_ties_go_to_the_lower_index():
    X, y = table(d=10)
    X = np.tile(X, (1, 5))
    plan = compile_plan(X, y)
    ranked = np.concatenate([plan.core, plan.tail])
    for copies in ranked.reshape(-1, 5):
        assert len(set(copies % 10)) == 1
        assert (np.diff(copies) > 0).all()


def test_missing_values_are_filled_with_the_support_median():
    X, y = table()
    X[::7, 4] = np.nan
    filled = X.copy()
    filled[::7, 4] = np.nanmedian(X[:, 4])
    np.testing.assert_allclose(anova(X, y)[0], f_classif(filled, y)[0], rtol=1e-10)


def test_linear_scores_equal_scikit_learn():
    X, _ = table()
    y = X[:, 0] + np.random.default_rng(0).normal(size=len(X))
    f, p = linear(X, y)
    expected = f_regression(X, y)
    np.testing.assert_allclose(f, expected[0], rtol=1e-9)
    np.testing.assert_allclose(p, expected[1], rtol=1e-7)
    assert np.isinf(linear(np.c_[y * 3 - 1, X], y)[0][0])


def test_as_many_classes_as_rows_gives_a_core_of_one_column():
    X = np.random.default_rng(0).normal(size=(5, 30))
    plan = compile_plan(X, np.arange(5))
    assert (plan.discoveries, plan.core.tolist()) == (0, [0])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(0.001, 0.5))
def test_discoveries_are_benjamini_hochbergs(p, fdr):
    p = np.array(p)
    k = count_discoveries(p, fdr)
    ordered = np.sort(p)
    # Straight from the definition: the largest k with p_(k) <= k * fdr / m.
    assert k == max([i for i in range(1, len(p) + 1) if ordered[i - 1] <= i * fdr / len(p)], default=0)


def test_constant_columns_count_as_tests():
    X, y = table(k=2)
    alone = compile_plan(X, y)
    padded = compile_plan(np.c_[X, np.zeros((len(X), 4000))], y)
    assert padded.discoveries < alone.discoveries


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 90), st.integers(1, 40), st.integers(2, 5), st.integers(0, 10**6))
def test_leaves_partition_the_columns(d, width, k, seed):
    X, y = table(n=40, d=d, k=k, seed=seed)
    plan = compile_plan(X, y, leaf_width=width)
    assert sorted(np.concatenate(plan.leaves)) == list(range(d))
    assert len(plan.core) == max(1, plan.discoveries)
    for columns, leaves in ((plan.core, plan.core_leaves), (plan.tail, plan.tail_leaves)):
        assert len(leaves) == -(-len(columns) // width)  # the fewest
        widths = [len(leaf) for leaf in leaves]
        assert not widths or max(widths) - min(widths) <= 1
        assert all((np.diff(leaf) > 0).all() for leaf in leaves)
        assert sorted(columns) == sorted(np.concatenate(leaves)) if leaves else len(columns) == 0
        # Round-robin: the g-th leaf holds every G-th of the ranked columns.
        for g, leaf in enumerate(leaves):
            assert set(leaf) == set(columns[g :: len(leaves)])


def test_json_round_trip_keeps_the_hash():
    X, y = table(k=2)
    X[:, 7] = y
    frame = pd.DataFrame(X, columns=[f"gene {j}" for j in range(40)])
    plan = compile_plan(frame, y, leaf_width=6)
    again = FoldPlan.from_json(plan.to_json())
    assert again == plan
    assert again.hash == plan.hash
    assert again.name(7) == "gene 7"
    assert np.isinf(again.f[7])
    assert plan != compile_plan(frame, y, leaf_width=7)
    with pytest.raises(DataError, match="not a fold plan"):
        FoldPlan.from_json('{"format": "other"}')


def test_plans_cannot_be_changed():
    X, y = table()
    plan = compile_plan(X, y)
    with pytest.raises(ValueError, match="read-only"):
        plan.core[0] = 3
    with pytest.raises(AttributeError):
        plan.leaf_width = 3


def test_random_routing_keeps_the_sizes_and_follows_its_seed():
    X, y = table(d=200)
    plan = compile_plan(X, y, leaf_width=16)
    control = compile_plan(X, y, leaf_width=16, routing="random", random_state=1)
    assert [len(leaf) for leaf in control.leaves] == [len(leaf) for leaf in plan.leaves]
    assert sorted(np.concatenate(control.leaves)) == list(range(200))
    assert set(control.core) != set(plan.core)
    assert control == compile_plan(X, y, leaf_width=16, routing="random", random_state=1)
    assert control != compile_plan(X, y, leaf_width=16, routing="random", random_state=2)


def test_frames_of_pandas_and_polars_give_the_same_plan():
    polars = pytest.importorskip("polars", reason="polars is in the test extra")
    X, y = table(k=2)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(40)])
    frame["kind"] = np.where(y + np.random.default_rng(0).integers(0, 2, len(y)) > 1, "b", "a")
    plan = compile_plan(frame, y)
    assert plan == compile_plan(polars.from_pandas(frame), y)
    assert plan.f[40] == pytest.approx(f_classif((frame["kind"] == "b").to_numpy()[:, None], y)[0][0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leaf_width": 0}, "leaf_width"),
        ({"fdr": 1.5}, "fdr"),
        ({"routing": "shap"}, "routing"),
        ({"y": np.zeros(3)}, "one label per row"),
        ({"X": np.empty((0, 3)), "y": np.empty(0)}, "empty"),
        ({"y": np.r_[[np.nan], np.ones(79)]}, "1 of 80 target values are missing"),
    ],
)
def test_bad_input_is_one_sentence(change, message):
    X, y = table()
    with pytest.raises(DataError, match=message):
        compile_plan(**({"X": X, "y": y} | change))


def test_one_wild_cell_does_not_make_noise_the_strongest_column():
    rng = np.random.default_rng(1)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 40))
    X[:, 7] += 2 * y
    for wild in (1e160, -1.7e308):
        X[3, 20] = wild
        plan = compile_plan(X, y)
        assert np.isfinite(plan.f).all()
        assert plan.core[0] == 7
        assert plan.f[20] < 3
    f, _ = linear(np.delete(X, 20, axis=1) * 1e155, y.astype(float))
    plain, _ = linear(np.delete(X, 20, axis=1), y.astype(float))
    np.testing.assert_allclose(f, plain, rtol=1e-9)
