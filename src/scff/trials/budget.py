"""What asking may cost, in the backbone's own arithmetic: the same question is asked on every machine.

Where a table is small, asking is free; where it is large, asking costs at most what the answer does. What does not fit
is asked in fewer folds, then with fewer alternatives, then of fewer rows, and then not at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from scff.errors import MemoryBudgetError
from scff.memory.budget import format_bytes
from scff.names import Trials
from scff.trials.case import LANDMARKS, Case
from scff.trials.forest import FOREST_COLUMNS

__all__ = ["Question", "afford", "keep_whole_within"]

#: Multiplications that may always be spent on asking: a few seconds of one core.
FREE = 2e11

#: Rows below which held-back rows say too little to be worth asking.
FEWEST_ROWS = 40


def keep_whole_within(case: Case) -> None:
    """Hold what the whole table's summaries take against the user's memory limit.

    Raises
    ------
    MemoryBudgetError
        If it is more; the message says what would do.
    """
    limit = case.settings.limit
    if limit is None:
        return
    n = len(case.landmarks)
    # Two products and four kernels with their directions; partners of columns; a block of columns in a few copies; the
    # columns that trees choose from, in a few copies as well.
    wide = min(case.support.n_columns, FOREST_COLUMNS)
    needed = 14 * 8 * n * n + 4 * n * wide + 6 * 8 * n * 1024 + 3 * 8 * n * wide + (12 << 20)
    if needed > limit:
        raise MemoryBudgetError(
            f"memory_limit is {format_bytes(limit)}, and summing up the whole table for {n} labelled rows takes about "
            f'{format_bytes(needed)}; raise the limit to that, or pass trials=0 or method="scff", which do without.'
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


def afford(case: Case, widths: list[int], trials: Trials, times: int = 1, spent: float = 0.0) -> Question:
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

    Returns
    -------
    Question
    """
    arithmetic = case.arithmetic
    n = min(case.support.n_rows, LANDMARKS)
    wanted = 8 if n <= 100 else 5 if n <= 300 else 3
    allowed = max(FREE, arithmetic(case.support.n_rows, len(case.plan.core))) - spent

    def cost(rows: int, folds: int) -> float:
        return folds * times * sum(float(arithmetic(rows, width)) for width in widths)

    if trials == "thorough":
        return Question(wanted, n, cost(n, wanted), float("inf"))
    for folds in range(wanted, 1, -1):
        if cost(n, folds) <= allowed:
            return Question(folds, n, cost(n, folds), allowed)
    fewer = int(n * allowed / cost(n, 2))
    if fewer >= FEWEST_ROWS and len(widths) == 1:
        return Question(2, fewer, cost(fewer, 2), allowed)
    return Question(0, 0, 0.0, allowed, "nothing was tried: asking held-back rows would cost more than the answer")
