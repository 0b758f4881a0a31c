"""A reading: one presentation of a support, compiled, with its weight in the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.fold.algorithm import Folded
from scff.fold.kept import Kept, restore
from scff.fold.methods import compile_view
from scff.fold.native import Compiled
from scff.fold.threads import in_order
from scff.gate.record import TailGate
from scff.plan.plan import FoldPlan
from scff.progress import Steps
from scff.tables.table import Table
from scff.trials.beside import reader_of
from scff.trials.case import Case
from scff.trials.presentations import Answering, Presentation, Shown

__all__ = ["Choice", "Prepared", "Reading", "answers", "prepare", "read", "read_all", "without_tail"]

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


def read_all(
    case: Case,
    choices: Sequence[Choice],
    gates: Sequence[Sequence[TailGate | None]] = (),
    kept: Sequence[Sequence[Kept | None]] = (),
    steps: Steps | None = None,
) -> tuple[Reading, ...]:
    """Compile every view of what was chosen, presentations of one leaf side by side.

    Parameters
    ----------
    case : Case
    choices : sequence of Choice
    gates : sequence of sequence of TailGate, optional
        Decisions taken earlier on the same support: for each choice, one for each view.
    kept : sequence of sequence of Kept, optional
        What was learned earlier from the same support, likewise.
    steps : Steps, optional
        Told of every choice that is done.

    Returns
    -------
    tuple of Reading
    """
    steps = steps or Steps("", shown=False)
    gates, kept = gates or ((),) * len(choices), kept or ((),) * len(choices)
    found: dict[int, Reading] = {}
    waiting: list[int] = []
    for i, choice in enumerate(choices):
        if isinstance(choice.presentation, Answering):
            found[i] = Reading(choice, choice.presentation.answer(case)[1])
            steps.done()
        else:
            waiting.append(i)
    prepared = (prepare(case, choices[i], gates[i], kept[i]) for i in waiting)
    passes = (read(one) if one.shown.spreads else one for one in prepared)
    workers = case.side_by_side if len(waiting) > 1 else 1
    with in_order(read, passes, workers, n=len(waiting), first_alone=True) as results:
        for i, reading in zip(waiting, steps.over(results), strict=True):
            found[i] = reading
    return tuple(found[i] for i in range(len(choices)))


def answers(case: Case, readings: Sequence[Reading], rows: Table) -> list[FloatArray]:
    """What several readings say of query rows, those of one leaf side by side."""
    # What all rows are summed up by is made by the first of these and found by the others.
    found = {i: reading.answer(rows) for i, reading in enumerate(readings) if reading.shown is None}
    found |= {i: one.answer(rows) for i, one in enumerate(readings) if one.shown is not None and one.shown.spreads}
    waiting = [i for i in range(len(readings)) if i not in found]
    workers = case.side_by_side if len(waiting) > 1 else 1
    with in_order(lambda i: readings[i].answer(rows), waiting, workers) as results:
        found |= zip(waiting, results, strict=True)
    return [found[i] for i in range(len(readings))]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A choice whose views the backbone has made: what is left to do is the model's."""

    case: Case
    choice: Choice
    shown: Shown
    views: list[Any]
    gates: Sequence[TailGate | None]
    kept: Sequence[Kept | None]


def prepare(
    case: Case, choice: Choice, gates: Sequence[TailGate | None] = (), kept: Sequence[Kept | None] = ()
) -> Prepared:
    """Let the backbone prepare what it is shown; gates and kept as for `read_all`, of one choice."""
    assert not isinstance(choice.presentation, Answering)
    shown = choice.presentation.show(case)
    assert shown is not None, "only what has something to show is chosen"
    reader = reader_of(case, choice.presentation)
    return Prepared(reader, choice, shown, [shown.views.view(i) for i in range(len(shown.views))], gates, kept)


def read(one: Prepared | Reading) -> Reading:
    """Compile every view of what was prepared; what is compiled already stays."""
    if isinstance(one, Reading):
        return one
    case, choice, shown = one.case, one.choice, one.shown
    runtime = case.runtime(one.views[0], shown.plan, shown.method)
    views: list[Compiled] = []
    for i, own in enumerate(one.views):
        gate = one.gates[i] if i < len(one.gates) else None
        known = one.kept[i] if i < len(one.kept) else None
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
