"""What commands print: a plan in a line, its facts as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scff.report.marks import leaf_name
from scff.report.readings import mixed, sureness

if TYPE_CHECKING:
    from scff.estimators.classifier import FoldedClassifier
    from scff.plan.plan import FoldPlan

__all__ = ["describe", "fit_facts", "plain", "plan_facts", "print_json", "read_lines", "top_columns"]


def print_json(facts: dict[str, Any]) -> None:
    """Write facts to standard output, on one line."""
    sys.stdout.write(json.dumps(facts, default=plain) + "\n")


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    return value.item() if hasattr(value, "item") else str(value) if not isinstance(value, str | int | float) else value


def describe(plan: FoldPlan) -> str:
    """A plan in one line."""
    return repr(plan).removeprefix("FoldPlan(").removesuffix(")")


def read_lines(model: FoldedClassifier) -> list[str]:
    """What a model reads, with which weight and why, in a few lines."""
    if not model.verdicts_:
        return [] if model.gate_ is None else [f"Tail      {model.gate_.reason}"]
    verdict, *others = model.verdicts_
    shares = mixed(model.fitted_)
    lines = [f"{'read' if i == 0 else '':<10}{weight:>4.0%}  {words}" for i, (weight, words) in enumerate(shares)]
    changed = sureness(model.fitted_.temperature).split(":")[0].lower()
    why = f"why       {verdict.reason}" + (f"; {changed}" if changed else "")
    return [*lines, why, *(f"{'':10}{other.reason}" for other in others)]


def fit_facts(model: FoldedClassifier) -> dict[str, Any]:
    """What a fit made and decided."""
    fitted = model.fitted_
    gate = model.gate_
    return {
        "rows": fitted.support.n_rows,
        "columns": fitted.support.n_columns,
        "classes": [plain(c) for c in model.classes_],
        "backbone": model.backbone_,
        "checkpoint_sha256": model.checkpoint_.sha256,
        "plan": None if model.plan_ is None else plan_facts(model.plan_),
        "gate": None if gate is None else {"accepted": gate.accepted, "alpha": gate.alpha},
        "read": [{"weight": weight, "words": words} for weight, words in mixed(fitted)],
        "verdicts": [asdict(verdict) for verdict in model.verdicts_],
        "temperature": fitted.temperature,
        "seconds": fitted.seconds,
    }


def plan_facts(plan: FoldPlan) -> dict[str, Any]:
    """What a plan decided, without its columns."""
    return {
        "columns": plan.n_columns,
        "discoveries": plan.discoveries,
        "core": len(plan.core),
        "linked": len(plan.linked),
        "tail": len(plan.tail),
        "unused": len(plan.unused),
        "core_leaves": [len(leaf) for leaf in plan.core_leaves],
        "tail_leaves": [len(leaf) for leaf in plan.tail_leaves],
        "hash": plan.hash,
    }


def top_columns(plan: FoldPlan, count: int) -> list[dict[str, Any]]:
    """The strongest columns and where they went."""
    where = {int(c): leaf_name(plan, i) for i, leaf in enumerate(plan.leaves) for c in leaf}
    ranked = [*plan.core[:count], *plan.tail[: max(0, count - len(plan.core))]]
    return [
        {"column": plan.name(c), "f": float(plan.f[c]), "q": float(plan.q[c]), "leaf": where[int(c)]} for c in ranked
    ]
