"""Column scores and the Benjamini-Hochberg count against exact arithmetic: rational numbers, and mpmath for p."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from scff.plan.column_scores import anova, count_discoveries, linear
from scff.tables.sparse import SparseColumns

SCALES = [1e-300, 1e-170, 1e-30, 1.0, 1e30, 1e155, 1e300]
OFFSETS = [0.0, 1.0, -1e3, 1e8, 1e12]
PLACES = [(scale, offset) for scale in SCALES for offset in OFFSETS if scale * offset <= 1e308]
BILLIONTH = Fraction(1, 10**9)
NOTHING = Fraction(1, 10**12)  # an F this small is no evidence, and its digits are rounding


def exact_anova(x, y):
    values = [Fraction(float(v)) for v in x]
    groups = [[v for v, code in zip(values, y, strict=True) if code == k] for k in np.unique(y)]
    mean = sum(values) / len(values)
    means = [sum(group) / len(group) for group in groups]
    between = sum(len(g) * (m - mean) ** 2 for g, m in zip(groups, means, strict=True)) / (len(groups) - 1)
    within = sum((v - m) ** 2 for g, m in zip(groups, means, strict=True) for v in g) / (len(values) - len(groups))
    return between / within if within else None if between else Fraction(0)


def exact_linear(x, y):
    x, y = [[Fraction(float(v)) for v in values] for values in (x, y)]
    n = len(x)
    x, y = ([v - sum(values) / n for v in values] for values in (x, y))
    xx, yy, xy = (sum(a * b for a, b in zip(*pair, strict=True)) for pair in ((x, x), (y, y), (x, y)))
    explained = xy**2 / xx if xx else Fraction(0)
    left = (yy - explained) / (n - 2)
    return explained / left if left else None if explained else Fraction(0)


def agree(f, exact):
    """Whether a float is a rational number to a billionth; None is infinity."""
    return np.isinf(f) if exact is None else abs(Fraction(float(f)) - exact) <= BILLIONTH * exact + NOTHING


def table(seed, n=24, columns=6, classes=3):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % classes)
    return rng.normal(size=(n, columns)) + rng.normal(size=columns) * y[:, None], y


@pytest.mark.parametrize(("scale", "offset"), PLACES)
def test_f_statistics_are_right_to_a_billionth_at_any_scale_and_offset(scale, offset, tally):
    X, y = table(0)
    X = (X + offset) * scale
    f, _ = anova(X, y)
    assert all(agree(f[j], exact_anova(X[:, j], y)) for j in range(X.shape[1]))
    numbers = table(1)[0][:, 0]
    for target in (numbers, numbers * scale, (numbers + offset) * scale):
        f, _ = linear(X, target)
        assert all(agree(f[j], exact_linear(X[:, j], target)) for j in range(X.shape[1]))
    tally("column scores", "served", 4 * X.shape[1])


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
@pytest.mark.parametrize("form", ["sparse", "blocks", "on disk"])
def test_sparse_and_divided_tables_score_as_exact_arithmetic_says(form, scale, tmp_path, monkeypatch, tally):
    X, y = table(6)
    X = np.where(np.abs(X) > 0.5, (X + (0 if form == "sparse" else 1e6)) * scale, 0)
    values = {"sparse": lambda: SparseColumns(sparse.csc_array(X)), "blocks": lambda: X, "on disk": lambda: on_disk(X)}
    if form == "blocks":
        monkeypatch.setattr("scff.plan.column_scores._BLOCK_BYTES", 8 * len(X) * 2)  # two columns at a time

    def on_disk(array):
        np.save(tmp_path / "table.npy", array)
        return np.load(tmp_path / "table.npy", mmap_mode="r")

    held = values[form]()
    f, _ = anova(held, y)
    assert all(agree(f[j], exact_anova(X[:, j], y)) for j in range(X.shape[1]))
    numbers = table(7)[0][:, 0] * scale
    f, _ = linear(held, numbers)
    assert all(agree(f[j], exact_linear(X[:, j], numbers)) for j in range(X.shape[1]))
    tally("column scores", "served", 2 * X.shape[1])


@pytest.mark.parametrize("noise", [1e-1, 1e-4, 1e-6])
def test_a_regression_that_is_nearly_perfect_keeps_its_digits(noise, tally):
    X, _ = table(2)
    y = X[:, 0] * 3 + noise * table(3)[0][:, 0]
    f, _ = linear(X, y)
    assert agree(f[0], exact_linear(X[:, 0], y))
    tally("column scores", "served")


@pytest.mark.parametrize("value", [1e160, -1.7e308, 5e-324, 1e-308])
def test_one_absurd_cell_scores_as_exact_arithmetic_says(value, tally):
    X, y = table(4)
    X[3, 2] = value
    f, _ = anova(X, y)
    assert all(agree(f[j], exact_anova(X[:, j], y)) for j in range(X.shape[1]))
    numbers = X[:, 0].copy()
    f, _ = linear(X, numbers)
    assert all(agree(f[j], exact_linear(X[:, j], numbers)) for j in range(1, X.shape[1]))
    tally("column scores", "served", 2 * X.shape[1])


cells = st.floats(allow_nan=False, allow_infinity=False, width=32)


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(st.lists(st.tuples(cells, st.integers(0, 2)), min_size=6, max_size=14))
def test_any_column_of_single_precision_scores_as_exact_arithmetic_says(rows):
    x = np.array([v for v, _ in rows])[:, None]
    y = np.unique([code for _, code in rows], return_inverse=True)[1]
    if len(np.unique(y)) in (1, len(y)):
        return
    f, p = anova(x, y)
    exact = exact_anova(x[:, 0], y)
    # A residual smaller than the rounding of the values themselves counts as none.
    if exact is None or exact > 10**20:
        assert f[0] > 1e18
    else:
        assert agree(f[0], exact)
    assert 0 <= p[0] <= 1


@pytest.mark.parametrize(("between", "within"), [(1, 10), (2, 57), (9, 300), (1, 5000)])
def test_p_values_are_those_of_the_beta_function(between, within, tally):
    X, y = table(5, n=between + 1 + within, columns=12, classes=between + 1)
    f, p = anova(X, y)
    for f_j, p_j in zip(f, p, strict=True):
        with mpmath.workdps(40):
            exact = mpmath.betainc(within / 2, between / 2, 0, within / (within + between * mpmath.mpf(f_j)), True)
            assert abs(mpmath.mpf(p_j) - exact) <= mpmath.mpf("1e-9") * exact + mpmath.mpf("1e-300")
    tally("column scores", "served", len(f))


probabilities = st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.05, 0.025, 1e-300])), min_size=1)


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(probabilities, st.floats(1e-6, 0.999))
def test_the_count_of_discoveries_is_the_step_up_rule_in_rational_numbers(p, fdr):
    m = len(p)
    slack = Fraction(1, 2**50)  # two roundings of the threshold

    def count(level):
        below = [k for k, v in enumerate(sorted(p), 1) if Fraction(v) <= level * k / m]
        return below[-1] if below else 0

    level = Fraction(fdr)
    assert count(level * (1 - slack)) <= count_discoveries(np.array(p), fdr) <= count(level * (1 + slack))
