"""What an evaluation found: figures with intervals, the comparison in a sentence, and which columns were steady."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.evaluate.scores import LARGER, Asked, Estimate
from scff.evaluate.splits import Splits

if TYPE_CHECKING:
    from scff.report.display import EvaluationDisplay

__all__ = ["Evaluation"]

METRICS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "auc": "AUC",
    "log_loss": "log-loss",
    "brier": "Brier score",
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "MAE",
}
"""Every figure as people call it."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An honest estimate of a model on new rows, beside plain models on the same folds.

    Attributes
    ----------
    splits : Splits
        Train and test rows of every fold, and how they were dealt, in a sentence.
    classes : tuple or None
        The classes, in the order of the probabilities; None for numbers.
    n_columns : int
    n_groups : int or None
        Groups that were never parted.
    estimator : str
        What was evaluated.
    models : dict of str to str
        Name of every model, ``"scff"`` first, and what people call it.
    scores : dict of str to dict of str to Estimate
        For every model and figure its value and 95 % interval.
    differences : dict of str to dict of str to Estimate
        For every baseline and figure: the estimator's value less the baseline's on the same rows, with its interval.
    absent : dict of str to str
        Baselines that could not take part, and why.
    columns : DataFrame or None
        How often each column was in the Core, and how far its rank moved; None where nothing was ranked.
    seconds : dict of str to float
        Time of all fits and predictions of a model.
    seed : int
    asked : Asked
        The target, and the fold in which each row was asked.
    answers : dict of str to ndarray of shape (n_repeats, n_rows, n_classes)
        What every model said about rows it was not fitted on: probabilities, or numbers; NaN where it was not asked.
    """

    splits: Splits
    classes: tuple[Any, ...] | None
    n_columns: int
    n_groups: int | None
    estimator: str
    models: Mapping[str, str]
    scores: Mapping[str, Mapping[str, Estimate]] = field(repr=False)
    differences: Mapping[str, Mapping[str, Estimate]] = field(repr=False)
    absent: Mapping[str, str] = field(repr=False)
    columns: pd.DataFrame | None = field(repr=False)
    seconds: Mapping[str, float] = field(repr=False)
    seed: int = field(repr=False)
    asked: Asked = field(repr=False)
    answers: Mapping[str, npt.NDArray[np.float64]] = field(repr=False)

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What is predicted."""
        return "regression" if self.classes is None else "classification"

    @property
    def n_rows(self) -> int:
        """Rows that were asked."""
        return len(self.asked.rows)

    @property
    def metric(self) -> str:
        """The figure that models are compared by.

        The area under the ROC curve asks for no threshold and is not moved by uneven classes. Leaving rows out one by
        one, it would compare probabilities of different models, so there it is the log-loss. For numbers it is R².
        """
        if self.classes is None:
            return "r2"
        return "log_loss" if self.splits.alone else "auc"

    @property
    def best_baseline(self) -> str | None:
        """Name of the strongest baseline by `metric`; None where there is none."""
        sign = 1 if LARGER[self.metric] else -1
        known = {name: sign * self.scores[name][self.metric].value for name in self.differences}
        known = {name: value for name, value in known.items() if np.isfinite(value)}
        return max(known, key=known.__getitem__) if known else None

    @property
    def verdict(self) -> Literal["better", "worse", "undecided", "alone"]:
        """How the estimator stands against the best baseline: decided where the interval leaves zero out."""
        if self.best_baseline is None:
            return "alone"
        found = self.differences[self.best_baseline][self.metric]
        low, high = (found.low, found.high) if LARGER[self.metric] else (-found.high, -found.low)
        return "better" if low > 0 else "worse" if high < 0 else "undecided"

    @property
    def sentence(self) -> str:
        """The comparison in one plain sentence."""
        own, metric, name = self.scores["scff"][self.metric], self.metric, METRICS[self.metric]
        title = self.models["scff"]
        if self.best_baseline is None:
            return f"{title} has {_of(name, own)}; there was no baseline to compare it with."
        other = self.models[self.best_baseline]
        theirs = self.scores[self.best_baseline][metric].value
        found = self.differences[self.best_baseline][metric]
        between = f"95 % interval of the difference {_signed(found.low)} to {_signed(found.high)}"
        pair = f"{name} {own.value:.3f} against {theirs:.3f}"
        if self.verdict == "better":
            return f"Better than {other}, the best baseline, by {abs(found.value):.3f}: {pair} ({between})."
        if self.verdict == "worse":
            return f"Not better than {other} but worse, by {abs(found.value):.3f}: {pair} ({between})."
        unit = "rows" if self.n_groups is None else "groups"
        return (
            f"Not shown to be better than {other}, the best baseline: {pair}, a difference that these "
            f"{self.n_rows if self.n_groups is None else self.n_groups} {unit} cannot tell from zero ({between})."
        )

    def frame(self) -> pd.DataFrame:
        """All figures: one row for each model, and for each figure its value and the ends of its interval."""
        rows = {
            self.models[model]: {
                (metric, part): getattr(found, part) for metric, found in scores.items() for part in _PARTS
            }
            for model, scores in self.scores.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index")

    def to_json(self) -> str:
        """All figures, the folds and the steadiness of the columns as JSON; not the single answers."""
        facts = {
            "task": self.task,
            "rows": self.n_rows,
            "columns": self.n_columns,
            "groups": self.n_groups,
            "classes": None if self.classes is None else list(self.classes),
            "estimator": self.estimator,
            "folds": self.splits.words,
            "metric": self.metric,
            "best_baseline": self.best_baseline,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "scores": {
                model: {name: asdict(one) for name, one in found.items()} for model, found in self.scores.items()
            },
            "differences": {
                model: {name: asdict(one) for name, one in found.items()} for model, found in self.differences.items()
            },
            "absent": dict(self.absent),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "seed": self.seed,
            "selection": None if self.columns is None else _selected(self.columns),
        }
        return json.dumps(_finite(facts), default=str, allow_nan=False)

    def save_html(self, path: str | Path, *, title: str | None = None) -> Path:
        """Write one self-contained page, the whole of it or nothing, and return its path."""
        from scff.report.evaluation_page import save_evaluation

        return save_evaluation(self, Path(path), title=title)

    def plot(self, metric: str | None = None, ax: Any = None) -> EvaluationDisplay:
        """Draw one figure of all models with its intervals; `metric` is that of the comparison by default."""
        from scff.report.display import EvaluationDisplay

        return EvaluationDisplay(self).plot(metric, ax)

    def __repr__(self) -> str:
        return f"Evaluation({self.splits.words}: {self.sentence})"


_PARTS = ("value", "low", "high")
_MOST = 200  # columns in the JSON: the steadiest


def _of(name: str, found: Estimate) -> str:
    return f"{name} {found.value:.3f} (95 % interval {found.low:.3f} to {found.high:.3f})"


def _signed(value: float) -> str:
    return f"{value:+.3f}"


def _selected(columns: pd.DataFrame) -> list[dict[str, Any]]:
    some = columns[columns["core_share"] > 0].head(_MOST)
    return [{"column": str(name)} | dict(row) for name, row in some.iterrows()]


def _finite(value: Any) -> Any:
    """JSON has neither NaN nor infinity: null."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
