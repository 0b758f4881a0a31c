"""What commands print: a plan in a line, its facts as JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scff.plan.plan import FoldPlan

__all__ = ["describe", "plain", "plan_facts", "print_json", "top_columns"]


def print_json(facts: dict[str, Any]) -> None:
    """Write facts to standard output, on one line."""
    sys.stdout.write(json.dumps(facts, default=plain) + "\n")


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    return value.item() if hasattr(value, "item") else str(value) if not isinstance(value, str | int | float) else value


def describe(plan: FoldPlan) -> str:
    """A plan in one line."""
    return repr(plan).removeprefix("FoldPlan(").removesuffix(")")


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
    where = {int(c): f"Core {i + 1}" for i, leaf in enumerate(plan.core_leaves) for c in leaf}
    where |= {int(c): f"Tail {i + 1}" for i, leaf in enumerate(plan.tail_leaves) for c in leaf}
    ranked = [*plan.core[:count], *plan.tail[: max(0, count - len(plan.core))]]
    return [
        {"column": plan.name(c), "f": float(plan.f[c]), "q": float(plan.q[c]), "leaf": where[int(c)]} for c in ranked
    ]
