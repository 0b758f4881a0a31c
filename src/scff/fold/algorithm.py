"""Algorithm 1: compile the support once, then predict queries alone.

    leaves -> messages -> running mean -> Tail gate -> context -> logits

Support rows never look at query rows inside a feature encoder, so everything up to the context is done at `fold`.
Where and in which blocks leaves are encoded is the engine's business.

Shape legend: ``S`` support rows, ``Q`` query rows, ``E`` representation width, ``K`` classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from scff.backbones.base import IntArray, RowView, TokenView
from scff.fold.caches import CacheStore
from scff.fold.encode import Engine, FoldOptions, LocalEngine, Stratum
from scff.gate import decide as tail_
from scff.plan.plan import FoldPlan
from scff.tables.table import Table
from scff.trials.trial import Rehearsal

__all__ = ["Compiled", "FoldOptions", "Folded", "Native", "fold"]


class Compiled(Protocol):
    """A compiled support."""

    @property
    def gate(self) -> tail_.TailGate | None:
        """What was decided about the Tail; None where nothing was folded."""
        ...

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows."""
        ...


def fold(
    view: RowView,
    plan: FoldPlan,
    y: IntArray,
    store: CacheStore,
    *,
    rule: tail_.TailRule | None = None,
    gate: tail_.TailGate | None = None,
    options: FoldOptions | None = None,
    engine: Engine | None = None,
    rehearsal: Rehearsal | None = None,
) -> Compiled:
    """Compile a support table.

    Parameters
    ----------
    view : RowView
        The backbone's view of the support.
    plan : FoldPlan
        Which columns go where.
    y : ndarray of int
        Class codes of the support.
    store : CacheStore
        Where leaf caches go.
    rule : TailRule, optional
        What lets the Tail in; None leaves it out (the paper's Bounded Core).
    gate : TailGate, optional
        A decision taken earlier on the same support, to be reused.
    options : FoldOptions, optional
    engine : Engine, optional
        Where leaves are encoded; in this process by default.
    rehearsal : Rehearsal, optional
        How to try the Tail on held-back support rows, where the rule asks for it.

    Returns
    -------
    Compiled
    """
    options = FoldOptions() if options is None else options
    if len(plan.leaves) == 1 and len(plan.core) == len(view.columns):
        return Native(view, view.columns)  # one leaf holds everything: there is nothing to fold
    engine = LocalEngine(store, options) if engine is None else engine
    core = engine.encode(view, plan.core_leaves, "Core leaves")
    if gate is None:
        gate, tail_side = _decide(view, plan, y, core.mean_SE, engine, rule, options, rehearsal)
    else:
        tail_side = engine.encode(view, plan.tail_leaves, "Tail leaves") if gate.accepted else None
    h_SE = core.mean_SE
    if gate.support_update is not None:
        h_SE = h_SE + torch.from_numpy(gate.support_update).to(h_SE)
    return Folded(view, engine, options, core, tail_side, gate, view.build_context(h_SE))


class Native:
    """The backbone's own inference on some columns at once: all of them, or the Core (the paper's Raw Core)."""

    gate: tail_.TailGate | None = None

    def __init__(self, view: RowView | TokenView, columns: IntArray) -> None:
        self.view = view
        self._compiled = view.compile_native(columns)

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows, in one native call."""
        return self.view.native(self._compiled, rows)


@dataclass
class Folded:
    """A folded support, ready for queries."""

    view: RowView
    engine: Engine
    options: FoldOptions
    core: Stratum
    tail: Stratum | None
    gate: tail_.TailGate
    context: Any

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows; one call of context encoder and head per pass."""
        step = self.options.pass_rows
        parts = [self._predict_pass(rows.rows(i, i + step)) for i in range(0, rows.n_rows, step)]
        return torch.cat(parts)

    def core_alone(self) -> Folded:
        """The same support without its Tail, for comparison: a context of its own, the Core's messages shared."""
        return replace(self, tail=None, context=self.view.build_context(self.core.mean_SE))

    def _predict_pass(self, rows: Table) -> torch.Tensor:
        queries = self.engine.queries(self.view, rows)
        h_QE = self.core.query(queries)
        if self.tail is not None:
            t_QE = self.tail.query(queries)
            update = self.gate.update(h_QE.cpu().numpy(), t_QE.cpu().numpy())
            h_QE = h_QE + torch.from_numpy(update).to(h_QE)
        return self.view.predict(self.context, h_QE)


def _decide(
    view: RowView,
    plan: FoldPlan,
    y: IntArray,
    c_SE: torch.Tensor,
    engine: Engine,
    rule: tail_.TailRule | None,
    options: FoldOptions,
    rehearsal: Rehearsal | None,
) -> tuple[tail_.TailGate, Stratum | None]:
    """Run the Tail gate; the Tail's leaves are kept only if it lets them in."""
    if rule is None:
        return tail_.TailGate(0.0, None, "the Tail is switched off", n_tail_leaves=len(plan.tail_leaves)), None
    # A task the rule turns away whatever the Tail says (multiclass, too few rows) need not encode it at all.
    refusal = tail_.refuse(y, n_tail_leaves=len(plan.tail_leaves), rule=rule)
    if refusal is not None and not (options.encode_unused_tail and plan.tail_leaves):
        return refusal, None
    rehearsed = None
    if refusal is None and rehearsal is not None and _rehearses(rule, view):
        rehearsed = rehearsal.run(plan, rule, engine)
        if not rehearsed.passed:
            refused = tail_.TailGate(
                0.0, None, f"in a rehearsal {rehearsed.reason}", n_tail_leaves=len(plan.tail_leaves)
            )
            return replace(refused, rule=rule, candidates=rehearsed.candidates, rehearsed=rehearsed), None
    side = engine.encode(view, plan.tail_leaves, "Tail leaves")
    decision = tail_.gate(
        c_SE.cpu().numpy(), side.mean_SE.cpu().numpy(), y, n_tail_leaves=len(plan.tail_leaves), rule=rule
    )
    if rehearsed is not None:
        decision = decision.shortened(rehearsed)
    if decision.accepted is not None:
        return decision, side
    side.drop()
    return decision, None


def _rehearses(rule: tail_.TailRule, view: RowView) -> bool:
    return rule.rehearse == "always" or (rule.rehearse == "auto" and getattr(view, "reads_labels", False))
