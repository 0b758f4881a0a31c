"""What asking may cost, in the backbone's own arithmetic: the same question is asked on every machine.

Where a table is small, asking is free; where it is large, asking costs at most what the answer does: one pass over the
Core, or over one leaf where that is more. What does not fit is asked in fewer folds, then of fewer rows, then not at
all.
"""

from __future__ import annotations

from dataclasses import dataclass

from scff.errors import MemoryBudgetError
from scff.fold.budget import least_bytes
from scff.memory.budget import format_bytes
from scff.names import Trials
from scff.trials.boosted import BOOSTED_MOST, Boosted
from scff.trials.case import LANDMARKS, Case
from scff.trials.folds import parts_wanted

__all__ = ["Question", "afford", "keep_whole_within"]

#: Multiplications that may always be spent on asking: a few seconds of one core.
FREE = 2e11

#: The same for numbers: held-back rows tell more of them than of classes (:doc:`/beyond`), and every backbone that
#: predicts numbers is a large one.
FREE_FOR_NUMBERS = 2e12

#: Trees and the libraries that are loaded for all of it; and what the first pass of a model leaves behind: packed
#: weights, and code that is made for the shapes of its products.
_LIBRARIES, _FIRST_PASS = 16 << 20, 16 << 20

#: Rows below which held-back rows say too little to be worth asking.
FEWEST_ROWS = 40


def keep_whole_within(case: Case) -> None:
    """Hold what the default method takes against the user's memory limit, before anything is asked.

    Summaries of the whole table stay while the model reads. Making them takes more for a while, and so does the pass
    over the widest thing that is shown to the model, or the fold of the paper's plan; these come one after the other.

    Raises
    ------
    MemoryBudgetError
        If it is more; the message says what would do for all of them.
    """
    limit = case.settings.limit
    if limit is None:
        return
    n = len(case.landmarks)
    # A few matrices on the way to a kernel's directions, partners of columns, a block of columns in a few copies.
    made = 4 * 8 * n * n + 4 * n * min(case.support.n_columns, 4096) + 6 * 8 * n * 1024
    if case.classified:  # boosted trees read more rows than the landmarks, in a few copies of their own columns
        grown_on = min(case.support.n_rows, BOOSTED_MOST)
        made = max(made, 4 * 8 * grown_on * min(case.support.n_columns, Boosted.most))
    readers = (case,) if case.beside is None else (case, case.lent)
    shown = [one.first_view.native_bytes(min(one.leaf_width, one.support.n_columns), 1) for one in readers]
    needed = (
        case.summary_bytes
        + _LIBRARIES
        + len(readers) * _FIRST_PASS
        + max(made, *shown, least_bytes(case.first_view, case.plan, case.support.n_rows))
    )
    if needed > limit:
        raise MemoryBudgetError(
            f"memory_limit is {format_bytes(limit)}, and asking {n} labelled rows how to read the whole table takes "
            f"about {format_bytes(needed, up=True)} beside the weights; raise the limit to that, or pass trials=0 or "
            'method="scff", which do without.'
        )


@dataclass(frozen=True)
class Question:
    """How a question is put.

    Attributes
    ----------
    folds : int
        Parts the rows are dealt into; 0 where nothing can be asked.
    rows : int
        Most rows it is put to.
    cost, allowed : float
        Multiplications it takes, and those it might have taken.
    why_not : str
        Why nothing is asked, if nothing is.
    """

    folds: int
    rows: int
    cost: float
    allowed: float
    why_not: str = ""


def afford(
    case: Case, widths: list[int], trials: Trials, times: int = 1, spent: float = 0.0, folds: int | None = None
) -> Question:
    """The folds and rows that a trial of passes of these widths can afford.

    Parameters
    ----------
    case : Case
    widths : list of int
        Columns that each alternative shows to the model. Only a single one may be asked of fewer rows: several are
        better asked one less of all of them.
    trials : {"auto", "thorough", 0}
        ``"thorough"`` pays any price.
    times : int
        How often the model is asked for each.
    spent : float
        Multiplications that other questions took.
    folds : int, optional
        Just so many folds, and all rows; as many as can be afforded by default.

    Returns
    -------
    Question
    """
    arithmetic = case.arithmetic
    n = min(case.support.n_rows, LANDMARKS)
    wanted = parts_wanted(n)
    answer = max(arithmetic(case.support.n_rows, len(case.plan.core)), case.cost_of_a_pass)
    allowed = max(FREE if case.classified else FREE_FOR_NUMBERS, answer) - spent

    def cost(rows: int, folds: int) -> float:
        return folds * times * sum(float(arithmetic(rows, width)) for width in widths)

    if trials == "thorough":
        return Question(wanted, n, cost(n, wanted), float("inf"))
    for parts in range(wanted, 1, -1) if folds is None else (folds,):
        if cost(n, parts) <= allowed:
            return Question(parts, n, cost(n, parts), allowed)
    fewer = int(n * allowed / cost(n, 2))
    if folds is None and fewer >= FEWEST_ROWS and len(widths) == 1:
        return Question(2, fewer, cost(fewer, 2), allowed)
    return Question(0, 0, 0.0, allowed, "nothing was tried: asking held-back rows would cost more than the answer")
