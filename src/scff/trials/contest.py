"""Which backbone: the same held-back rows are asked with each that is on this machine, cheapest first.

All of them share one budget, so a costly model is asked only where what the cheaper ones left over pays for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from scff.names import Trials
from scff.progress import Steps
from scff.trials.agenda import agenda, chosen
from scff.trials.asking import ask, size_of
from scff.trials.beside import Beside
from scff.trials.case import Case
from scff.trials.reading import Choice
from scff.trials.trial import Tried, Verdict, judge

__all__ = ["Answered", "contest"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Answered:
    """What held-back rows decided.

    Attributes
    ----------
    case : Case
        With the backbone that is to read it.
    choices : tuple of Choice
        What is read, heaviest first.
    verdicts : tuple of Verdict
        On what is read; then on the backbone, where there was a choice.
    cost : float
        Multiplications that asking took.
    """

    case: Case
    choices: tuple[Choice, ...]
    verdicts: tuple[Verdict, ...]
    cost: float

    @property
    def loss(self) -> float:
        """Mean loss of held-back rows, by what will be read."""
        verdict = self.verdicts[0]
        return verdict.loss if verdict.approved else verdict.tried[0].loss if verdict.tried else float("inf")


def contest(cases: Iterable[Case], trials: Trials, groups: npt.NDArray[Any] | None = None) -> Answered:
    """Let held-back rows choose what is read, and by which backbone.

    Parameters
    ----------
    cases : iterable of Case
        The same rows for each backbone, the one to take in doubt first.
    trials : {"auto", "thorough", 0}
        0 asks nothing.
    groups : ndarray, optional
        Rows of one group are never parted.

    Returns
    -------
    Answered
        By the one with the lowest loss. A backbone that the budget does not let ask the held-back rows of the cheapest
        one is no candidate; nor is one that reads beside another candidate, where its readings stand in that one's
        mixture.
    """
    cases = list(cases)
    answers: list[Answered] = []
    ordered = sorted(cases, key=lambda case: case.cost_of_a_pass) if trials != 0 else []
    ordered = [case for case in ordered if not _stands_beside(case, ordered, trials, groups)]
    with Steps("asking held-back rows", shown=cases[0].settings.progress) as steps:
        for case in ordered:
            episode, alternatives = agenda(case, trials, groups, spent=sum(one.cost for one in answers))
            n_splits = len(episode.splits) if len(alternatives) > 1 else 0
            if not answers:  # the others will be asked the same, at their own price
                work = n_splits * sum(size_of(case, one) for one in alternatives) / (case.cost_of_a_pass or 1.0)
                steps.expect(work * sum(other.cost_of_a_pass for other in ordered))
            if n_splits == (answers[0].verdicts[0].n_splits if answers else n_splits) > 0:
                verdict = judge(ask(episode, alternatives, steps=steps), episode, alternatives)
                episode.forget()
                answers.append(Answered(case, chosen(verdict, alternatives), (verdict,), episode.question.cost))
            else:
                steps.expect(-work * case.cost_of_a_pass)
    if not answers:
        episode, alternatives = agenda(cases[0], trials, groups)
        return Answered(cases[0], (Choice(alternatives[0]),), (Verdict(reason=episode.question.why_not),), 0.0)
    if len(cases) == 1:
        return answers[0]
    order = [case.backbone.spec.name for case in cases]
    best = min(answers, key=lambda one: (one.loss, order.index(one.case.backbone.spec.name)))
    logger.info("backbone %s has the lowest loss on held-back rows", best.case.backbone.spec.name)
    return replace(best, verdicts=(*best.verdicts, _on_backbones(best, answers, cases, ordered)))


def _stands_beside(case: Case, candidates: Iterable[Case], trials: Trials, groups: npt.NDArray[Any] | None) -> bool:
    """Whether this one's backbone reads beside every other candidate that is asked as many parts of held-back rows."""
    others = [other for other in candidates if other is not case]
    if not others or any(other.beside is not case.backbone for other in others):
        return False
    n_splits, spent, stands = len(agenda(case, trials, groups)[0].splits), 0.0, False
    for other in others:
        episode, alternatives = agenda(other, trials, groups, spent)
        if len(episode.splits) != n_splits:
            continue
        if not any(isinstance(one, Beside) for one in alternatives):
            return False
        spent, stands = spent + episode.question.cost, True
    return stands


def _on_backbones(best: Answered, answers: list[Answered], cases: list[Case], asked: list[Case]) -> Verdict:
    name = best.case.backbone.spec.name
    tried = tuple(
        Tried(
            one.case.backbone.spec.name,
            f"the backbone {one.case.backbone.spec.name}",
            1.0,
            one.loss,
            float(one is best),
        )
        for one in answers
    )
    n, dear = len(cases), len(asked) - len(answers)
    reason = f"{name} predicts held-back rows best of {len(answers)} backbones on this machine"
    if dear:
        reason = f"{dear} of {n} backbones on this machine would cost more to ask than the answer"
        reason = f"{name} is read: {reason}" if len(answers) == 1 else f"{name} predicts held-back rows best; {reason}"
    elif len(answers) == 1:
        reason = f"{name} is read"
    if len(asked) < n:
        (beside,) = (case.backbone.spec.name for case in cases if case not in asked)
        reads = any(isinstance(choice.presentation, Beside) for choice in best.choices)
        reason += f"; {beside} reads beside it" if reads else f"; {beside}, asked beside it, adds nothing"
    first = best.verdicts[0]
    return Verdict(tried, first.n_rows, first.n_splits, best.loss, approved=True, reason=reason, about="backbone")
