"""A reading: one presentation of a support, compiled, with its weight in the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scff.fold.algorithm import Folded
from scff.fold.methods import compile_view
from scff.fold.native import Compiled
from scff.gate.record import TailGate
from scff.plan.plan import FoldPlan
from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.presentations import Presentation

__all__ = ["Choice", "Reading", "read"]


@dataclass(frozen=True)
class Choice:
    """What was decided about one presentation.

    Attributes
    ----------
    presentation : Presentation
    weight : float
        In the mixture.
    share : float
        Of the Tail's step.
    """

    presentation: Presentation
    weight: float = 1.0
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class Reading:
    """A compiled presentation.

    Attributes
    ----------
    choice : Choice
    plan : FoldPlan or None
        How its columns are folded; None where they are read in one leaf.
    views : tuple of Compiled
        The backbone's views.
    table : callable
        Shows query rows the way the support was shown.
    """

    choice: Choice
    plan: FoldPlan | None
    views: tuple[Compiled, ...]
    table: Callable[[Table], Table]

    @property
    def gates(self) -> tuple[TailGate | None, ...]:
        """What each view decided about the Tail."""
        return tuple(view.gate for view in self.views)

    def predict(self, rows: Table) -> list[npt.NDArray[np.float32]]:
        """Outputs of every view for query rows."""
        shown = self.table(rows)
        return [view.predict(shown).float().cpu().numpy() for view in self.views]

    def without_tail(self) -> Reading:
        """The same without what the Tail adds; all messages are shared."""
        views = tuple(view.at(0.0) if isinstance(view, Folded) else view for view in self.views)
        return Reading(self.choice, self.plan, views, self.table)


def read(case: Case, choice: Choice, gates: Sequence[TailGate | None] | None = None) -> Reading:
    """Compile every view of a presentation.

    Parameters
    ----------
    case : Case
    choice : Choice
    gates : sequence of TailGate, optional
        Decisions taken earlier on the same support, one for each view.

    Returns
    -------
    Reading
    """
    shown = choice.presentation.show(case)
    assert shown is not None, "only what has something to show is chosen"
    runtime = case.runtime(shown.views.view(0), shown.plan, shown.method)
    views = []
    for i in range(len(shown.views)):
        gate = None if gates is None else gates[i]
        view = compile_view(shown.views.view(i), shown.plan, case.y, runtime, rule=shown.rule, gate=gate)
        if choice.share != 1.0 and gate is None and isinstance(view, Folded):  # a known gate has its step already
            view = view.at(choice.share)
        views.append(view)
    return Reading(choice, shown.plan, tuple(views), shown.table)
