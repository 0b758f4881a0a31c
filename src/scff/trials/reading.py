"""A reading: one presentation of a support, compiled, with its weight in the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scff.fold.algorithm import Folded
from scff.fold.kept import Kept, restore
from scff.fold.methods import compile_view
from scff.fold.native import Compiled
from scff.gate.record import TailGate
from scff.plan.plan import FoldPlan
from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.presentations import Answering, Presentation, Shown

__all__ = ["Choice", "Reading", "read", "without_tail"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """What was decided about one alternative.

    Attributes
    ----------
    presentation : Presentation or Answering
    weight : float
        In the mixture.
    share : float
        Of the Tail's step.
    """

    presentation: Presentation | Answering
    weight: float = 1.0
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class Reading:
    """A compiled alternative.

    Attributes
    ----------
    choice : Choice
    answer : callable
        Probabilities of query rows, or numbers in one column.
    shown : Shown or None
        What the model is given; None where it is not asked.
    views : tuple of Compiled
        The backbone's views; none where the model is not asked.
    """

    choice: Choice
    answer: Callable[[Table], FloatArray]
    shown: Shown | None = None
    views: tuple[Compiled, ...] = ()

    @property
    def plan(self) -> FoldPlan | None:
        """How its columns are folded; None where they are read in one leaf."""
        return None if self.shown is None else self.shown.plan

    @property
    def gates(self) -> tuple[TailGate | None, ...]:
        """What each view decided about the Tail."""
        return tuple(view.gate for view in self.views)


def read(
    case: Case,
    choice: Choice,
    gates: Sequence[TailGate | None] | None = None,
    kept: Sequence[Kept | None] = (),
) -> Reading:
    """Compile every view of a presentation.

    Parameters
    ----------
    case : Case
    choice : Choice
    gates : sequence of TailGate, optional
        Decisions taken earlier on the same support, one for each view.
    kept : sequence of Kept, optional
        What was learned earlier from the same support, by view.

    Returns
    -------
    Reading
    """
    if isinstance(choice.presentation, Answering):
        return Reading(choice, choice.presentation.answer(case)[1])
    shown = choice.presentation.show(case)
    assert shown is not None, "only what has something to show is chosen"
    first = shown.views.view(0)
    runtime = case.runtime(first, shown.plan, shown.method)
    views: list[Compiled] = []
    for i in range(len(shown.views)):
        gate = gates[i] if gates and i < len(gates) else None
        own = shown.views.view(i) if i else first
        known = kept[i] if i < len(kept) else None
        if known is not None:
            recalled = restore(known, own, shown.plan, runtime, gate, narrow=shown.narrow)
            if recalled is not None:
                views.append(recalled)
                continue
        view = compile_view(own, shown.plan, case.y, runtime, rule=shown.rule, gate=gate, narrow=shown.narrow)
        if choice.share != 1.0 and gate is None and isinstance(view, Folded):  # a known gate has its step already
            view = view.at(choice.share)
        views.append(view)
    return _reading(case, choice, shown, tuple(views))


def without_tail(case: Case, reading: Reading) -> Reading:
    """The same without what the Tail adds; all messages are shared."""
    if not any(isinstance(view, Folded) and view.tail is not None for view in reading.views):
        return reading
    assert reading.shown is not None, "a Tail is read by the model"
    views = tuple(view.at(0.0) if isinstance(view, Folded) else view for view in reading.views)
    return _reading(case, reading.choice, reading.shown, views)


def _reading(case: Case, choice: Choice, shown: Shown, views: tuple[Compiled, ...]) -> Reading:
    def answer(rows: Table) -> FloatArray:
        table = shown.table(rows)
        return case.backbone.combine([view.predict(table).float().cpu().numpy() for view in views])

    return Reading(choice, answer, shown, views)
