"""What is asked of which rows: the alternatives that are worth their price on a table."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scff.trials.case import Case
from scff.trials.episode import Episode
from scff.trials.presentations import Core, LinkedCore, Presentation, Summarised, WithTail
from scff.trials.reading import Choice
from scff.trials.trial import Verdict

__all__ = ["Trials", "agenda", "chosen"]

Trials = Literal["auto", "thorough", 0]


def agenda(
    case: Case, trials: Trials, groups: npt.NDArray[Any] | None = None
) -> tuple[Episode, tuple[Presentation, ...]]:
    """The splits and the alternatives for a case.

    Parameters
    ----------
    case : Case
    trials : {"auto", "thorough", 0}
        0 asks nothing: the paper's Core alone.
    groups : ndarray, optional
        Rows of one group are never parted.
    """
    smallest = int(np.bincount(case.y).min())
    folds = max(2, min(5 if case.support.n_rows <= 128 else 4, smallest))
    if groups is not None:
        folds = min(folds, len(np.unique(groups)))
    episode = Episode(case, folds, groups)
    if trials == 0 or folds < 2 or not episode.splits:
        return episode, (Core(),)
    alternatives: list[Presentation] = [Core(), LinkedCore(), WithTail()]
    if case.backbone.spec.kind == "row":
        alternatives += [Summarised(10, False), Summarised(30, False), Summarised(30, True)]
    return episode, tuple(alternatives)


def chosen(verdict: Verdict, alternatives: tuple[Presentation, ...]) -> tuple[Choice, ...]:
    """What a verdict lets in, heaviest first."""
    by_name = {alternative.name: alternative for alternative in alternatives}
    choices = [Choice(by_name[one.name], one.weight, one.share) for one in verdict.tried if one.weight > 0]
    return tuple(sorted(choices, key=lambda choice: -choice.weight)) or (Choice(alternatives[0]),)
