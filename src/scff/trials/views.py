"""How many of the backbone's own views are read where the user leaves it open: as many as the budget pays for."""

from __future__ import annotations

from collections.abc import Sequence

from scff.trials.beside import Beside
from scff.trials.budget import FREE
from scff.trials.case import Case
from scff.trials.coded import WORDS, Coded
from scff.trials.presentations import Answering, Core, Paper
from scff.trials.reading import Choice

__all__ = ["MOST_VIEWS", "views_within"]

#: More of them change next to nothing.
MOST_VIEWS = 8


def views_within(case: Case, choices: Sequence[Choice]) -> int:
    """Views that what is read may take: a small table gets eight, a large one stays at one.

    Parameters
    ----------
    case : Case
    choices : sequence of Choice
        What is read; what needs no pass of the model costs nothing here.

    Returns
    -------
    int
        At least 1, and no more than the backbone has.
    """
    cost = sum(_pass(case, choice) for choice in choices)
    affordable = int(FREE // cost) if cost else 1
    return max(1, min(affordable, MOST_VIEWS, case.backbone.spec.limits.views or MOST_VIEWS))


def _pass(case: Case, choice: Choice) -> float:
    presentation, times = choice.presentation, 1
    if isinstance(presentation, Coded):
        presentation, times = presentation.presentation, WORDS
    elif isinstance(presentation, Answering | Beside):  # what is read beside is read through one view
        return 0.0
    width = min(case.leaf_width, case.support.n_columns)
    if isinstance(presentation, Paper) and presentation.method in ("native", "mass-huber"):
        width = case.support.n_columns
    elif isinstance(presentation, Paper | Core):
        width = len(case.plan.core)
    return times * case.arithmetic(case.support.n_rows, width)
