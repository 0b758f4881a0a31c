"""Algorithm 1 of the paper: compile the support once, then predict queries alone.

    leaves -> messages -> c = their mean -> gate -> h = c + alpha v -> one context -> one head

Support rows never look at query rows inside a feature encoder, so everything up to the context is done by `fold`. Where
and in which blocks leaves are encoded is the engine's business (:mod:`scff.fold.encode`).

Shape legend: ``S`` support rows, ``Q`` query rows, ``E`` representation width, ``K`` classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from scff.backbones.base import IntArray, RowView
from scff.fold.encode import Engine, Stratum
from scff.gate.decide import decide, refuse
from scff.gate.record import TailGate, TailRule
from scff.plan.plan import FoldPlan
from scff.tables.table import Table

__all__ = ["Folded", "Messages", "fold"]


def fold(
    view: RowView,
    plan: FoldPlan,
    y: IntArray,
    engine: Engine,
    *,
    rule: TailRule | None = None,
    gate: TailGate | None = None,
) -> Folded:
    """Compile a support table.

    Parameters
    ----------
    view : RowView
        The backbone's view of the support.
    plan : FoldPlan
        Which columns go where.
    y : ndarray of int
        Class codes of the support.
    engine : Engine
        Where leaves are encoded.
    rule : TailRule, optional
        What lets the Tail in; None leaves it out (the paper's Bounded Core).
    gate : TailGate, optional
        A decision taken earlier on the same support, to be reused.

    Returns
    -------
    Folded
    """
    core = engine.encode(view, plan.core_leaves, "Core leaves")  # Eq. leaf-message, and c = mean of m_g
    tail = None
    if gate is None:
        gate, tail = _gate(view, plan, y, core, engine, rule)
    elif gate.accepted is not None:
        tail = engine.encode(view, plan.tail_leaves, "Tail leaves")
    return Folded(view, engine, core, tail, gate, view.build_context(_support(core, gate)))


@dataclass(frozen=True)
class Messages:
    """Averaged messages of query rows: Core, and Tail where it was let in."""

    c_QE: torch.Tensor
    t_QE: torch.Tensor | None = None


@dataclass(frozen=True)
class Folded:
    """A folded support, ready for queries."""

    view: RowView
    engine: Engine
    core: Stratum
    tail: Stratum | None
    gate: TailGate
    context: Any

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows; one call of context encoder and head per pass."""
        return torch.cat([self.predict_from(self.messages(part)) for part in rows.chunks(self.engine.pass_rows)])

    def messages(self, rows: Table) -> Messages:
        """Encode query rows: the mean over the leaves of each stratum."""
        queries = self.engine.queries(self.view, rows)
        return Messages(self.core.query(queries), None if self.tail is None else self.tail.query(queries))

    def predict_from(self, messages: Messages) -> torch.Tensor:
        """Logits_QK from messages."""
        h_QE = messages.c_QE
        if messages.t_QE is not None and self.gate.accepted is not None:
            update = self.gate.update(h_QE.cpu().numpy(), messages.t_QE.cpu().numpy())
            h_QE = h_QE + torch.from_numpy(update).to(h_QE)  # Eq. predict-once: h = c + alpha v
        return self.view.predict(self.context, h_QE)  # Eq. predict-once: one context, one head

    def at(self, share: float) -> Folded:
        """The same support at a share of the Tail's step, 0 being the Core alone; all messages are shared."""
        gate = self.gate.at(share)
        tail = self.tail if gate.accepted is not None else None
        return replace(self, tail=tail, gate=gate, context=self.view.build_context(_support(self.core, gate)))


def _gate(
    view: RowView, plan: FoldPlan, y: IntArray, core: Stratum, engine: Engine, rule: TailRule | None
) -> tuple[TailGate, Stratum | None]:
    """Run the Tail gate; the Tail's leaves are kept only if it lets them in."""
    n_tail_leaves = len(plan.tail_leaves)
    if rule is None:
        return TailGate(0.0, None, "the Tail is switched off", n_tail_leaves=n_tail_leaves), None
    # A task the rule turns away whatever the Tail says (multiclass, too few rows) need not encode it at all.
    refusal = refuse(y, n_tail_leaves=n_tail_leaves, rule=rule)
    if refusal is not None and not (engine.audits and n_tail_leaves):
        return refusal, None
    tail = engine.encode(view, plan.tail_leaves, "Tail leaves")
    c_SE, t_SE = core.mean_SE.cpu().numpy(), tail.mean_SE.cpu().numpy()
    gate = decide(c_SE, t_SE, y, n_tail_leaves=n_tail_leaves, rule=rule)
    if gate.accepted is not None:
        return gate, tail
    tail.drop()
    return gate, None


def _support(core: Stratum, gate: TailGate) -> torch.Tensor:
    """The merged support: Eq. predict-once, h = c + alpha v."""
    h_SE = core.mean_SE
    return h_SE if gate.support_update is None else h_SE + torch.from_numpy(gate.support_update).to(h_SE)
