"""What commands print: a plan in a line, its facts as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scff.cli.console import out
from scff.report.marks import leaf_name
from scff.report.readings import mixed, sureness

if TYPE_CHECKING:
    from scff.estimators.base import FoldedEstimator as Model
    from scff.estimators.fitted import Fitted
    from scff.gate.record import TailGate
    from scff.plan.plan import FoldPlan
    from scff.tables.table import Block

__all__ = [
    "block_lines",
    "describe",
    "fit_facts",
    "plain",
    "plan_facts",
    "print_json",
    "print_notes",
    "read_lines",
    "target_in_short",
    "top_columns",
]


_CLASSES = 6  # that are named


def print_json(facts: dict[str, Any]) -> None:
    """Write facts to standard output, on one line; what is not a number or not finite is null, as JSON wants it."""
    out.file.write(json.dumps(_finite(json.loads(json.dumps(facts, default=plain))), allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    return value.item() if hasattr(value, "item") else str(value) if not isinstance(value, str | int | float) else value


def describe(plan: FoldPlan) -> str:
    """A plan in one line."""
    return repr(plan).removeprefix("FoldPlan(").removesuffix(")")


def print_notes(notes: Sequence[str], most: int | None = None) -> None:
    """What reading the table did that nobody asked for in so many words: the first of it, where there are many."""
    more = [f"and {len(notes) - most} more notes"] if most is not None and len(notes) > most else []
    for i, note in enumerate([*notes[:most], *more]):
        out.print(f"{'table' if i == 0 else '':<10}{note}", soft_wrap=True)


def target_in_short(fitted: Fitted) -> str:
    """What is predicted: the classes with their rows, or the range of the numbers."""
    if fitted.classes is None:
        return f"numbers from {fitted.y.min():.4g} to {fitted.y.max():.4g}"
    rows = [int((fitted.y == k).sum()) for k in range(len(fitted.classes))]
    each = [f"{name} {n:,}" for name, n in zip(fitted.classes, rows, strict=True)]
    return f"{len(each)} classes ({', '.join(each[:_CLASSES])}{', ...' if len(each) > _CLASSES else ''})"


def read_lines(model: Model) -> list[str]:
    """What a model reads, with which weight and why, in a few lines."""
    fitted = model.fitted_
    if not fitted.verdicts:
        gate = _gate(model)
        return [] if gate is None else [f"Tail      {gate.reason}"]
    verdict, *others = fitted.verdicts
    shares = mixed(fitted)
    lines = [f"{'read' if i == 0 else '':<10}{weight:>4.0%}  {words}" for i, (weight, words) in enumerate(shares)]
    changed = sureness(fitted.temperature).split(":")[0].lower()
    why = f"why       {verdict.reason}" + (f"; {changed}" if changed else "")
    return [*lines, why, *(f"{'':10}{other.reason}" for other in others)]


def fit_facts(model: Model) -> dict[str, Any]:
    """What a fit made and decided."""
    fitted = model.fitted_
    gate = _gate(model)
    support = fitted.support
    return {
        "rows": support.n_rows,
        "columns": support.n_columns,
        "row_names": support.id_column,
        "aside": dict(support.aside),
        "blocks": {block.name: block.stop - block.start for block in support.blocks},
        "classes": None if fitted.classes is None else [plain(c) for c in fitted.classes],
        "backbone": model.backbone_,
        "checkpoint_sha256": model.checkpoint_.sha256,
        "beside": None if fitted.beside is None else asdict(fitted.beside) | {"path": Path(fitted.beside.path).name},
        "plan": None if model.plan_ is None else plan_facts(model.plan_),
        "gate": None if gate is None else {"accepted": gate.accepted, "alpha": gate.alpha},
        "read": [{"weight": weight, "words": words} for weight, words in mixed(fitted)],
        "verdicts": [asdict(verdict) for verdict in fitted.verdicts],
        "temperature": fitted.temperature,
        "flags": [asdict(flag) for flag in fitted.flags],
        "seconds": fitted.seconds,
    }


def _gate(model: Model) -> TailGate | None:
    """What was decided about the Tail, for the first view of what folds columns."""
    gates = model.fitted_.gates
    folded = next((part for part in gates if any(part)), gates[0] if gates else ())
    return next(iter(folded), None)


def plan_facts(plan: FoldPlan) -> dict[str, Any]:
    """What a plan decided, without its columns."""
    return {
        "columns": plan.n_columns,
        "discoveries": plan.discoveries,
        "core": len(plan.core),
        "linked": len(plan.linked),
        "tail": len(plan.tail),
        "unused": plan.unused,
        "core_leaves": [len(leaf) for leaf in plan.core_leaves],
        "tail_leaves": [len(leaf) for leaf in plan.tail_leaves],
        "hash": plan.hash,
    }


def top_columns(plan: FoldPlan, count: int, blocks: Sequence[Block] = ()) -> list[dict[str, Any]]:
    """The strongest columns, where they went, and the block they are from, where there are several."""
    where = {int(c): leaf_name(plan, i) for i, leaf in enumerate(plan.leaves) for c in leaf}
    ranked = [*plan.core[:count], *plan.tail[: max(0, count - len(plan.core))]]
    from_block = {c: block.name for block in blocks for c in range(block.start, block.stop)}
    return [
        {"column": plan.name(c), "f": float(plan.f[c]), "q": float(plan.q[c]), "leaf": where[int(c)]}
        | ({"block": from_block[int(c)]} if blocks else {})
        for c in ranked
    ]


def block_lines(plan: FoldPlan, blocks: Sequence[Block]) -> list[str]:
    """How much of the Core came from each block; nothing where there is one table."""
    lines = []
    for i, block in enumerate(blocks):
        inside = int(((plan.core >= block.start) & (plan.core < block.stop)).sum())
        words = f"{block.name}: {inside} of its {block.stop - block.start} columns in the Core"
        lines.append(f"{'blocks' if i == 0 else '':<10}{words}")
    return lines
