"""The statistics reproduce what the paper prints, from the per-dataset effects it prints."""

import numpy as np
import pytest

from scff.bench import stats
from scff.bench.paper import printed
from scff.errors import DataError

BACKBONES = ("tabpfn-v3", "tabicl-v1", "tabicl-v2", "refineicl-24l")
METRICS = (("accuracy", True, 3), ("nll", False, 5))  # name, larger is better, printed decimals


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize(("metric", "larger", "decimals"), METRICS)
def test_printed_aggregates(backbone, metric, larger, decimals):
    effects = printed("effects", backbone, metric)
    assert len(effects) == 18
    # Every input is rounded by up to half a unit of its last place, so a mean can be off by as much; and the printed
    # aggregate is rounded once more.
    unit = 10.0**-decimals
    assert stats.macro_mean(effects) == pytest.approx(printed("locked", backbone, metric), abs=unit)
    assert np.median(list(effects.values())) == pytest.approx(printed("typical", backbone, metric), abs=unit)
    assert str(stats.win_tie_loss(effects, larger)) == printed("typical", backbone, f"{metric}_wtl")
    worst, without = stats.leave_one_out_worst(effects, larger)
    assert worst == pytest.approx(printed("influence", backbone, metric), abs=unit)
    assert without == printed("influence", backbone, f"{metric}_without")


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize(("metric", "larger", "decimals"), METRICS)
def test_printed_bootstrap_intervals(backbone, metric, larger, decimals):
    effects = printed("effects", backbone, metric)
    interval = stats.dataset_bootstrap(effects)
    # Rounding shifts an end point by up to one unit. The stream of random numbers is not the paper's, and an end point
    # of 100,000 draws has a sampling error of its own, which the spread over seeds measures; two of them differ here.
    seeds = [stats.dataset_bootstrap(effects, seed=seed) for seed in range(16)]
    for end, expected in zip(("low", "high"), printed("locked", backbone, f"{metric}_interval"), strict=True):
        noise = 3 * np.sqrt(2) * np.std([getattr(other, end) for other in seeds]) + 10.0**-decimals
        assert getattr(interval, end) == pytest.approx(expected, abs=noise)
        assert noise < 0.02 * abs(interval.high - interval.low)  # so that the comparison says something


def test_equal_memory_aggregates():
    core = printed("equal-memory-effects", "tabicl-v2", "median_core")
    for metric, decimals in (("accuracy", 2), ("nll_reduction", 4)):
        effects = printed("equal-memory-effects", "tabicl-v2", metric)
        wide = {name: value for name, value in effects.items() if core[name] > 128}
        for scope, chosen in (("all", effects), ("core-above-leaf", wide)):
            expected = printed("equal-memory", "tabicl-v2", scope)
            assert len(chosen) == expected["datasets"]
            interval = stats.dataset_bootstrap(chosen)
            assert interval.estimate == pytest.approx(expected[metric], abs=10.0**-decimals)
            width = interval.high - interval.low
            assert interval.low == pytest.approx(expected[f"{metric}_interval"][0], abs=0.02 * width)
            assert interval.high == pytest.approx(expected[f"{metric}_interval"][1], abs=0.02 * width)


def test_generated_feature_counts():
    for metric, larger in (("accuracy", True), ("nll", False)):
        effects = printed("generated-features-effects", "tabicl-v2", metric)
        expected = printed("generated-features", "tabicl-v2", "c-b")
        assert stats.macro_mean(effects) == pytest.approx(expected[metric], abs=0.006 if larger else 6e-5)
        assert str(stats.win_tie_loss(effects, larger)) == expected[f"{metric}_wtl"]


def test_bootstrap_is_deterministic_and_an_honest_percentile():
    rng = np.random.default_rng(0)
    effects = rng.normal(1, 1, 400)
    first = stats.dataset_bootstrap(effects, 5_000, seed=1)
    assert first == stats.dataset_bootstrap(effects, 5_000, seed=1)
    assert first != stats.dataset_bootstrap(effects, 5_000, seed=2)
    normal = 1.96 * effects.std() / 20
    assert first.low == pytest.approx(effects.mean() - normal, abs=0.01)
    assert first.high == pytest.approx(effects.mean() + normal, abs=0.01)
    assert first.excludes_zero


def test_two_resource_ratios_are_two_functions():
    native, folded = [10.0, 20.0, 900.0], [5.0, 10.0, 100.0]
    assert stats.median_of_paired_ratios(native, folded) == 2.0
    assert stats.ratio_of_separate_maxima(native, folded) == 9.0
    assert stats.ratio_of_separate_maxima([900.0, 1.0], [1.0, 300.0]) == 3.0  # maxima of different pairs


def test_relative_reduction_is_a_ratio_of_macro_means():
    assert stats.relative_reduction([0.1, 0.9], [0.05, 0.9]) == pytest.approx(0.05)  # a mean of ratios would say 0.25
    assert stats.relative_reduction([0.0, 0.0], [0.0, 0.0]) == 0.0
    assert stats.relative_reduction([0.0, 0.0], [0.0, 0.1]) == -np.inf


@pytest.mark.parametrize("bad", [[], [1.0, float("nan")], [[1.0], [2.0]]])
def test_incomplete_effects_are_refused(bad):
    with pytest.raises(DataError):
        stats.macro_mean(bad)


def test_a_difference_that_is_only_rounding_is_a_tie():
    # Float32 arithmetic in another order moves a mean log-loss by some 1e-8; one row of 5,120 moves accuracy by 2e-4.
    assert str(stats.win_tie_loss({"a": 3e-8, "b": -3e-8, "c": 2e-4, "d": -2e-4}, True)) == "1/2/1"
