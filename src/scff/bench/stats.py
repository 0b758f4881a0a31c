"""The paper's statistics: folds are averaged within a dataset, datasets are the unit of everything after that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scff.errors import DataError

__all__ = [
    "Interval",
    "Spread",
    "WinTieLoss",
    "dataset_bootstrap",
    "dataset_means",
    "leave_one_out_worst",
    "macro_mean",
    "median_of_paired_ratios",
    "paired_ratio_spread",
    "ratio_of_separate_maxima",
    "relative_reduction",
    "win_tie_loss",
]

Effects = Mapping[str, float] | Sequence[float] | npt.NDArray[np.float64]
FloatArray = npt.NDArray[np.float64]

BOOTSTRAP_SEED = 20260920
BOOTSTRAP_RESAMPLES = 100_000
_BLOCK = 10_000


@dataclass(frozen=True)
class Interval:
    """A macro effect and its percentile interval over resampled datasets."""

    estimate: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class WinTieLoss:
    """On how many datasets an effect is favourable, zero, unfavourable."""

    wins: int
    ties: int
    losses: int

    def __str__(self) -> str:
        return f"{self.wins}/{self.ties}/{self.losses}"


@dataclass(frozen=True)
class Spread:
    """Median and the 10th and 90th percentiles of paired ratios."""

    median: float
    p10: float
    p90: float


def dataset_means(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Average the folds of each dataset.

    Examples
    --------
    >>> dataset_means({"a": [1.0, 3.0], "b": [5.0]})
    {'a': 2.0, 'b': 5.0}
    """
    return {name: float(np.mean(folds)) for name, folds in values.items()}


def macro_mean(effects: Effects) -> float:
    """Mean over datasets, each counting once."""
    return float(_array(effects).mean())


def dataset_bootstrap(
    effects: Effects,
    n_resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = BOOTSTRAP_SEED,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of the macro effect over datasets drawn with replacement.

    Parameters
    ----------
    effects : mapping or sequence of float
        One paired effect per dataset, folds already averaged.
    n_resamples, seed : int
        The paper's are 100,000 and 20260920.
    level : float, default=0.95

    Returns
    -------
    Interval

    Examples
    --------
    >>> dataset_bootstrap({"a": 1.0, "b": 1.0})
    Interval(estimate=1.0, low=1.0, high=1.0)
    """
    values = _array(effects)
    rng = np.random.default_rng(seed)
    means = np.empty(n_resamples)
    for start in range(0, n_resamples, _BLOCK):  # in blocks: the draws of many datasets need not be alive at once
        stop = min(start + _BLOCK, n_resamples)
        draws = rng.integers(0, len(values), size=(stop - start, len(values)))
        means[start:stop] = values[draws].mean(axis=1)
    outside = (1 - level) / 2
    low, high = np.quantile(means, [outside, 1 - outside])
    return Interval(float(values.mean()), float(low), float(high))


def leave_one_out_worst(effects: Mapping[str, float], larger_is_better: bool) -> tuple[float, str]:
    """The least favourable macro effect after removing one dataset, and which removal gives it.

    Examples
    --------
    >>> leave_one_out_worst({"a": 9.0, "b": 1.0, "c": 2.0}, larger_is_better=True)
    (1.5, 'a')
    """
    if len(effects) < 2:
        raise DataError("Leaving one dataset out needs at least two datasets.")
    names, values = list(effects), _array(effects)
    without = (values.sum() - values) / (len(values) - 1)
    worst = int(without.argmin() if larger_is_better else without.argmax())
    return float(without[worst]), names[worst]


def win_tie_loss(effects: Effects, larger_is_better: bool, tie: float = 1e-6) -> WinTieLoss:
    """Count datasets by the sign of their effect; `tie` absorbs the rounding of means and of a model's arithmetic."""
    values = _array(effects) if larger_is_better else -_array(effects)
    wins, losses = int((values > tie).sum()), int((values < -tie).sum())
    return WinTieLoss(wins, len(values) - wins - losses, losses)


def relative_reduction(baseline: Effects, method: Effects) -> float:
    """How much smaller the method's macro mean is: a ratio of macro means, not a mean of ratios.

    Examples
    --------
    >>> relative_reduction([0.2, 0.6], [0.1, 0.5])
    0.25
    """
    before, after = macro_mean(baseline), macro_mean(method)
    if before == 0:  # nothing is left to reduce
        return 0.0 if after == 0 else float("-inf")
    return round(1 - after / before, 15)


def median_of_paired_ratios(numerator: Effects, denominator: Effects) -> float:
    """Median over pairs of numerator / denominator: what a typical run gains.

    Examples
    --------
    >>> median_of_paired_ratios([2.0, 9.0, 3.0], [1.0, 1.0, 3.0])
    2.0
    """
    return paired_ratio_spread(numerator, denominator).median


def paired_ratio_spread(numerator: Effects, denominator: Effects) -> Spread:
    """Median, 10th and 90th percentile of numerator / denominator over pairs."""
    top, bottom = _array(numerator), _array(denominator)
    if len(top) != len(bottom):
        raise DataError(f"Paired ratios need as many numerators as denominators, not {len(top)} and {len(bottom)}.")
    p10, median, p90 = np.quantile(top / bottom, [0.1, 0.5, 0.9])
    return Spread(float(median), float(p10), float(p90))


def ratio_of_separate_maxima(numerator: Effects, denominator: Effects) -> float:
    """Largest numerator over largest denominator; the two need not come from the same pair.

    Examples
    --------
    >>> ratio_of_separate_maxima([2.0, 9.0, 3.0], [1.0, 1.0, 3.0])
    3.0
    """
    return float(_array(numerator).max() / _array(denominator).max())


def _array(effects: Effects) -> FloatArray:
    values = np.array(list(effects.values()) if isinstance(effects, Mapping) else effects, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0:
        raise DataError("A statistic over datasets needs a flat, non-empty list of effects.")
    if not np.isfinite(values).all():
        raise DataError("An effect is missing or infinite; leave incomplete pairs out before aggregating.")
    return values
