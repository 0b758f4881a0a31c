"""What is asked of which rows: the alternatives that are worth their price on a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.backbones.loaded import CheckpointRef
from scff.names import Trials
from scff.trials.beside import Beside
from scff.trials.boosted import BOOSTED_ROWS, Boosted
from scff.trials.budget import Question, afford, keep_whole_within
from scff.trials.case import Case
from scff.trials.coded import WORDS, Coded
from scff.trials.episode import Episode
from scff.trials.forest import Forest
from scff.trials.narrow import Company, Digest, Direct, Frequencies, Summarised
from scff.trials.presentations import Answering, Core, LinkedCore, Presentation, WithTail
from scff.trials.reading import Choice
from scff.trials.sources import NearSources, Sources, has_sources
from scff.trials.tallies import Tallies, can_be_tallied
from scff.trials.trial import Verdict

__all__ = ["agenda", "chosen"]

#: Where a row has so many columns a weighted sum of them tells any classes apart, and one that counts all columns does
#: so best: such sums weigh this much more before anything is known.
_COLUMNS_A_ROW, _SUMS = 25, 3.0


def agenda(
    case: Case, trials: Trials, groups: npt.NDArray[Any] | None = None, spent: float = 0.0
) -> tuple[Episode, tuple[Presentation | Answering, ...]]:
    """The splits and the alternatives for a case.

    Parameters
    ----------
    case : Case
    trials : {"auto", "thorough", 0}
        0 asks nothing: the paper's Core alone.
    groups : ndarray, optional
        Rows of one group are never parted.
    spent : float
        Multiplications of the budget that are gone already.
    """
    # What the others are measured against is drawn to less weight beside them: most of what it says they say as well.
    first: Presentation | Answering = Core(prior=0.25)
    narrow: list[Presentation] = [Digest(), Company()]
    by_sources = trials != 0 and has_sources(case)
    if by_sources:
        narrow.append(Sources())
    leaves: list[Presentation | Answering] = list(narrow)
    if trials == "thorough":
        leaves += [LinkedCore(), WithTail()] if case.classified else [LinkedCore()]
        summaries: list[Presentation] = [Summarised(10, False), Summarised(30, False), Summarised(30, True)]
        narrow, leaves = [*narrow, *summaries], [*leaves, *summaries]
    known, times = case.backbone.spec.limits.classes, 1
    if case.classified and known is not None and int(case.y.max()) + 1 > known:
        coded = [Coded(one, known) for one in (first, *leaves) if not isinstance(one, WithTail | Answering)]
        first, leaves, times = coded[0], list(coded[1:]), WORDS
    passes, question = [first], Question(0, 0, 0.0, 0.0, "nothing was tried: trials=0")
    if trials != 0:
        passes, question = _affordable(
            case, first, leaves, partial(afford, case, trials=trials, times=times, spent=spent)
        )
    if groups is not None:
        question = replace(question, folds=min(question.folds, len(np.unique(groups))))
    lent, cost = _lent(case, narrow, question)
    question = replace(question, cost=question.cost + cost)
    episode = Episode(case, question, groups)
    if question.folds < 2 or len(episode.splits) < 2:  # a mixture is judged by rows its weights have not seen
        dealt = "nothing was tried: the labelled rows cannot be dealt into two parts that know the classes"
        return replace(episode, question=replace(question, why_not=question.why_not or dealt)), (first,)
    keep_whole_within(case)
    sums = _SUMS if case.support.n_columns >= _COLUMNS_A_ROW * case.support.n_rows else 1.0
    direct: list[Answering] = [
        Direct(scale, radial, prior=1.0 if radial else sums)
        for scale in ("equal", "shares")
        for radial in (False, True)
    ]
    if by_sources:
        direct.append(NearSources())
    if case.classified and can_be_tallied(case):
        direct.append(Tallies())
    if case.classified and case.support.n_rows >= BOOSTED_ROWS:
        direct.append(Boosted())
    return episode, (*passes, *lent, *direct, Forest(out_of_bag=groups is None), Frequencies())


def _affordable(
    case: Case, first: Presentation | Answering, leaves: list[Presentation | Answering], price: Callable[..., Question]
) -> tuple[list[Presentation | Answering], Question]:
    """The passes that are worth asking within the budget, and how they are asked.

    What shows the model one leaf tells more for less than a wide Core does: the Core is asked too where that leaves as
    many folds to the others, and alone where none of them fits.
    """
    core, leaf = len(case.plan.core), min(case.leaf_width, case.support.n_columns)
    for n in range(len(leaves), 0, -1):
        question = price(widths=[leaf] * n)
        if question.folds >= 2:
            both = price(widths=[core] + [leaf] * n, folds=question.folds)
            return ([first, *leaves[:n]], both) if both.folds else (leaves[:n], question)
    return [first], price(widths=[core])


def _lent(case: Case, narrow: list[Presentation], question: Question) -> tuple[list[Presentation | Answering], float]:
    """What the model beside the backbone is asked to read of the same rows, and what that costs.

    As many of them, the first ones, as what the budget has left pays for.
    """
    if case.beside is None or question.folds < 2:
        return [], 0.0
    arithmetic, leaf = case.lent.arithmetic, min(case.lent.leaf_width, case.support.n_columns)
    each = question.folds * arithmetic(question.rows, leaf)
    n = next((n for n in range(len(narrow), 0, -1) if question.cost + n * each <= question.allowed), 0)
    reader = CheckpointRef.of(case.beside)
    return [Beside(one, reader) for one in narrow[:n]], n * each


def chosen(verdict: Verdict, alternatives: tuple[Presentation | Answering, ...]) -> tuple[Choice, ...]:
    """What a verdict lets in, heaviest first."""
    by_name = {alternative.name: alternative for alternative in alternatives}
    choices = [Choice(by_name[one.name], one.weight, one.share) for one in verdict.tried if one.weight > 0]
    return tuple(sorted(choices, key=lambda choice: -choice.weight)) or (Choice(alternatives[0]),)
