"""What a report is about: the public record of a fit, and the reading whose plan and gate it describes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scff.fold.mass_huber import MassHuber
from scff.fold.tokens import FoldedTokens
from scff.plan.compile import compile_plan
from scff.trials.beside import Beside, reader_of
from scff.trials.boosted import Boosted
from scff.trials.forest import Forest
from scff.trials.narrow import Company, Frequencies
from scff.trials.sources import NearSources, Sources

if TYPE_CHECKING:
    from scff.estimators.fitted import Fitted
    from scff.fold.native import Compiled
    from scff.gate.record import TailGate
    from scff.plan.plan import FoldPlan, Routing
    from scff.trials.reading import Reading

__all__ = ["Subject", "tail_is_in"]


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model as a report sees it.

    Attributes
    ----------
    fitted : Fitted
        The record of the fit.
    reading : Reading or None
        The heaviest reading that folds columns; None where none does.
    plan : FoldPlan
        The plan that reading really runs: the Raw Core has one leaf, and native inference one of all columns. Where
        nothing is folded by choice it is the paper's plan without leaves.
    """

    fitted: Fitted
    reading: Reading | None
    plan: FoldPlan

    @classmethod
    def of(cls, fitted: Fitted) -> Subject:
        """The subject of a record."""
        reading = next((reading for reading in fitted.readings if reading.plan is not None), None)
        if reading is not None:
            plan = reading.plan
            assert plan is not None
            if reading.choice.presentation.name == "raw-core":
                plan = replace(plan, core_leaves=(np.sort(plan.core),), tail_leaves=())
        elif fitted.plan is not None:
            plan = replace(fitted.plan, core_leaves=(), tail_leaves=())
        else:
            routing: Routing = "linear" if fitted.classes is None else "anova"
            plan = compile_plan(fitted.support, fitted.y, leaf_width=fitted.support.n_columns, routing=routing)
            every = np.arange(plan.n_columns)
            ranked = every[np.argsort(-plan.f, kind="stable")]
            plan = replace(plan, core=ranked, tail=every[:0], core_leaves=(every,), tail_leaves=())
        return cls(fitted, reading, plan)

    @property
    def native(self) -> bool:
        """Whether the backbone read every column at once."""
        return self.fitted.plan is None

    @property
    def method(self) -> str:
        """``"auto"``, or the method of the paper that was asked for."""
        return "auto" if self.fitted.verdicts else self.fitted.choices[0].presentation.name

    @property
    def first_view(self) -> Compiled | None:
        """The first view of the reading that folds columns."""
        return None if self.reading is None else self.reading.views[0]

    @property
    def folds_tokens(self) -> bool:
        """Whether the backbone keeps a token per column: then the Tail is folded into slots and meets no gate."""
        return isinstance(self.first_view, FoldedTokens)

    @property
    def gate(self) -> TailGate | None:
        """What the reading that folds columns decided about the Tail; None where there was nothing to decide."""
        view = self.first_view
        return None if view is None or self.folds_tokens else view.gate

    def native_bytes(self, n_rows: int) -> int | None:
        """What native inference on so many rows would add, by the backbone's own memory model; None where it ran."""
        if self.native:
            return None
        view = self.fitted.compiled()[0].first_view
        return int(view.native_bytes(len(view.columns), n_rows))

    def used(self) -> npt.NDArray[np.bool_]:
        """Whether a column reaches the model: in a leaf of some reading, or in a summary of all columns."""
        used = np.zeros(self.plan.n_columns, dtype=bool)
        case, readings = self.fitted.compiled()
        for reading in readings:
            presentation = reading.choice.presentation
            reader = reader_of(case, presentation)
            if isinstance(presentation, Beside):
                presentation = presentation.presentation
            if isinstance(presentation, Company | Forest | Boosted | Sources | NearSources):
                used[presentation.columns(reader)] = True
            elif reading.plan is None:
                used |= not isinstance(presentation, Frequencies)
            else:
                used[reading.plan.core] = True
                used[reading.plan.tail] |= tail_is_in(reading)
        used[self.plan.dropped] = False
        return used


def tail_is_in(reading: Reading) -> bool:
    """Whether a reading's Tail reaches the model."""
    return any(
        isinstance(view, FoldedTokens | MassHuber) or (view.gate is not None and view.gate.accepted is not None)
        for view in reading.views
    )
