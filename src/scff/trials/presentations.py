"""Presentations: what one pass of the model reads of a table.

Each shows the model a case in its own way, to be compiled with one of the paper's methods. The paper's Core is one of
them, and the one that all others are measured against. Those that make a narrow table of a wide one are in
:mod:`scff.trials.narrow`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from scff.backbones.base import Views
from scff.fold.methods import Method
from scff.gate.decide import refuse
from scff.gate.record import TailRule
from scff.plan.plan import FoldPlan
from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.links import link

__all__ = ["STEPS", "Answering", "Core", "LinkedCore", "Paper", "Presentation", "Shown", "WithTail"]

FloatArray = npt.NDArray[np.float64]

STEPS = (1.0, 0.5, 0.25)
"""Shares of the gate's step that are tried: labels inside the messages make the Fisher step too long."""


@dataclass(frozen=True, eq=False)
class Shown:
    """What the model is given of a case.

    Attributes
    ----------
    views : Views
        The backbone's views of it.
    method : str
        The paper's method that compiles it.
    plan : FoldPlan or None
        How its columns are folded; None where they are read in one leaf.
    rule : TailRule or None
        What lets the Tail in.
    held_back : Table or None
        The case's held-back rows, shown the same way.
    table : callable
        Shows query rows the same way.
    narrow : bool
        Whether it is a table made here, of one leaf.
    """

    views: Views[Any]
    method: Method
    plan: FoldPlan | None
    rule: TailRule | None
    held_back: Table | None
    table: Callable[[Table], Table]
    narrow: bool = False

    @property
    def spreads(self) -> bool:
        """Whether its leaves are read side by side: such a pass keeps all threads busy by itself."""
        return self.plan is not None and len(self.plan.core_leaves) > 2


class Presentation(Protocol):
    """One way to show a table to the model."""

    @property
    def name(self) -> str:
        """Its name in verdicts."""
        ...

    @property
    def prior(self) -> float:
        """Its weight before anything is known, beside those of the others."""
        ...

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of the Tail's step that it can be taken at; one where there is no Tail in it."""
        ...

    def show(self, case: Case) -> Shown | None:
        """Show a case; None where there is nothing to show that the paper's Core does not."""
        ...

    def words(self, case: Case) -> str:
        """What is read, for people."""
        ...


@runtime_checkable
class Answering(Protocol):
    """An alternative that answers by itself, without a pass of the model."""

    @property
    def name(self) -> str:
        """Its name in verdicts."""
        ...

    @property
    def prior(self) -> float:
        """Its weight before anything is known, beside those of the others."""
        ...

    def answer(self, case: Case) -> tuple[FloatArray | None, Callable[[Table], FloatArray]]:
        """Probabilities of a case's held-back rows, and what gives those of any others."""
        ...

    def words(self, case: Case) -> str:
        """What is read, for people."""
        ...


@dataclass(frozen=True)
class Paper:
    """One of the paper's methods, as it is."""

    method: Method = "scff"
    shares: tuple[float, ...] = (1.0,)
    prior: float = 1.0

    @property
    def name(self) -> str:
        """The method's."""
        return self.method

    def show(self, case: Case) -> Shown | None:
        """All columns, with the paper's plan."""
        plan = None if self.method == "native" else case.plan
        return _whole_table(case, self.method, plan, case.settings.rule if self.method == "scff" else None)

    def words(self, case: Case) -> str:
        """What is read."""
        return f"the paper's method {self.method!r}"


@dataclass(frozen=True)
class Core:
    """The paper's Core, folded; a token backbone folds its Tail into slots as well."""

    name: str = "core"
    shares: tuple[float, ...] = (1.0,)
    prior: float = 1.0

    def show(self, case: Case) -> Shown | None:
        """The columns found one by one."""
        return _whole_table(case, _core_method(case), case.plan)

    def words(self, case: Case) -> str:
        """What is read."""
        n = len(case.plan.core)
        return f"{n:,} column{'s' if n != 1 else ''} found one by one (the paper's Core)"


@dataclass(frozen=True)
class LinkedCore:
    """The Core, and the columns that correlate with it."""

    name: str = "linked"
    shares: tuple[float, ...] = (1.0,)
    prior: float = 1.0

    def show(self, case: Case) -> Shown | None:
        """The Core filled up to a leaf; None where nothing is linked to it."""
        plan = self.plan(case)
        return None if plan is None else _whole_table(case, _core_method(case), plan)

    def plan(self, case: Case) -> FoldPlan | None:
        """The paper's plan with links."""
        if len(case.plan.core) >= case.plan.leaf_width:
            return None  # no room: a table of text and categories need not be made numbers for it
        linked = link(case.plan, case.numbers.values)
        return linked if len(linked.linked) else None

    def words(self, case: Case) -> str:
        """What is read."""
        plan = self.plan(case) or case.plan
        found = f"{plan.cut:,} column{'s' if plan.cut != 1 else ''} found one by one"
        return f"{found} and {len(plan.linked):,} that go with {'them' if plan.cut != 1 else 'it'}"


@dataclass(frozen=True)
class WithTail:
    """The Core and what the Tail adds to it.

    Attributes
    ----------
    sample : int
        Leaves of the Tail that a trial looks at. They are dealt round-robin, so each is a fair sample of the Tail; the
        whole of it is encoded only once it is let in.
    """

    sample: int = 2
    name: str = "tail"
    shares: tuple[float, ...] = STEPS
    prior: float = 1.0

    def show(self, case: Case) -> Shown | None:
        """The paper's full method; None where the labels alone turn the Tail away."""
        rule, plan = case.settings.rule, case.plan
        if rule is None or case.backbone.spec.kind == "token":
            return None
        if refuse(case.y, n_tail_leaves=len(plan.tail_leaves), rule=rule) is not None:
            return None
        if case.held_back is not None:
            plan = replace(plan, tail_leaves=plan.tail_leaves[: self.sample])
        return _whole_table(case, "scff", plan, rule)

    def words(self, case: Case) -> str:
        """What is read."""
        return f"the Core and what {len(case.plan.tail):,} weaker columns add to it"


def _core_method(case: Case) -> Method:
    return "scff" if case.backbone.spec.kind == "token" else "bounded-core"


def _whole_table(case: Case, method: Method, plan: FoldPlan | None, rule: TailRule | None = None) -> Shown:
    return Shown(case.views, method, plan, rule, case.held_back, _as_it_is)


def _as_it_is(rows: Table) -> Table:
    return rows
