"""What a record keeps of a fitted model: its plan, its decision on the Tail, the verdict of held-back rows."""

from __future__ import annotations

from typing import Any

from scff.estimators.fitted import Fitted
from scff.plan.plan import FoldPlan

__all__ = ["gate_facts", "plan_facts", "verdict_facts"]


def plan_facts(plan: FoldPlan | None) -> dict[str, Any]:
    """Hash and widths of a plan; empty where nothing is planned."""
    if plan is None:
        return {}
    return {
        "hash": plan.hash,
        "core": len(plan.core),
        "core_leaves": len(plan.core_leaves),
        "tail_leaves": len(plan.tail_leaves),
    }


def gate_facts(fitted: Fitted | None) -> dict[str, Any]:
    """The decision on the Tail of the first view that took one; empty where none did."""
    gates = [] if fitted is None else [view for views in fitted.gates for view in views if view is not None]
    if not gates:
        return {}
    return {"accepted": gates[0].accepted, "alpha": float(gates[0].alpha), "reason": gates[0].reason}


def verdict_facts(fitted: Fitted | None) -> dict[str, Any]:
    """What is read with which weight, and what held-back rows said of what was tried; empty where nothing was asked."""
    if fitted is None or not fitted.verdicts:
        return {}
    verdict = fitted.verdicts[0]
    return {
        "approved": verdict.approved,
        "reason": verdict.reason,
        "rows": verdict.n_rows,
        "splits": verdict.n_splits,
        "gain": verdict.gain,
        "error": verdict.error,
        "temperature": fitted.temperature,
        "read": [
            {"name": choice.presentation.name, "weight": choice.weight, "share": choice.share}
            for choice in fitted.choices
        ],
        "tried": [{"name": one.name, "share": one.share, "loss": one.loss} for one in verdict.tried],
    }
