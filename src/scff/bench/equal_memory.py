"""Equal memory: the folded Core against the widest single leaf that fits its measured peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scff.bench import layout as t
from scff.bench.layout import ReportTable, exclusion_notes
from scff.bench.reports import interval_cell, report, with_paper
from scff.bench.results import PAPER_LEAF, Exclusion, Pair, Pairs, Results, peak_of

__all__ = ["Match", "choose_prefix", "matched_pairs"]


@dataclass(frozen=True)
class Match:
    """The single-leaf width for a budget; ``strict`` unless it stands for a route that is the same anyway."""

    width: int
    strict: bool


def choose_prefix(budget: float, peaks: Mapping[int, float], core: int, leaf: int = PAPER_LEAF) -> Match | None:
    """The widest prefix whose peak is within the budget. Only memory comes in here, no quality.

    Parameters
    ----------
    budget : float
        Peak of the folded Core.
    peaks : mapping of int to float
        Peak of every measured width.
    core : int
        Width of the Core. Where it is at most one leaf the two routes are the same, and a difference of their peaks
        is measurement noise: if nothing fits, the whole Core is taken and marked as not strict.
    leaf : int, default=128
        Columns of the backbone's widest leaf.

    Returns
    -------
    Match or None

    Examples
    --------
    >>> choose_prefix(10.0, {16: 4.0, 32: 9.0, 64: 20.0}, core=200)
    Match(width=32, strict=True)
    """
    fitting = [width for width, peak in peaks.items() if peak <= budget]
    if fitting:
        return Match(max(fitting), True)
    return Match(core, False) if core <= leaf and core in peaks else None


def matched_pairs(r: Results) -> tuple[Pairs, frozenset[tuple[str, int]]]:
    """Folded Core minus its memory-matched prefix on locked folds, and the folds that are strictly within budget."""
    complete, excluded, strict = list[Pair](), list[Exclusion](), set[tuple[str, int]]()
    for dataset in r.datasets:
        for fold in r.folds("locked"):
            arms = r.arms(dataset, fold)
            bounded = arms.get("bounded-core")
            prefixes = {int(a.removeprefix("prefix-")): rec for a, rec in arms.items() if a.startswith("prefix-")}
            if bounded is None or not prefixes:
                continue
            peaks = {width: peak_of(record) for width, record in prefixes.items()}
            match = choose_prefix(peak_of(bounded), peaks, bounded.plan["core"], r.leaf_width)
            if match is None:
                excluded.append(Exclusion(dataset, fold, "no single leaf of the grid fits the folded peak"))
                continue
            complete.append(Pair(dataset, fold, bounded, prefixes[match.width]))
            if match.strict:
                strict.add((dataset, fold))
    return Pairs(tuple(complete), tuple(excluded)), frozenset(strict)


def _width(pair: Pair) -> int:
    return int(pair.b.key.arm.removeprefix("prefix-"))


@report("equal-memory")
def _scopes(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper, excluded, shown = [], [], list[Exclusion](), set[str]()
    for r in results:
        pairs, strict = matched_pairs(r)
        excluded += pairs.excluded
        shown.update(pairs.datasets)
        loose = {pair.dataset for pair in pairs.complete if (pair.dataset, pair.fold) not in strict}
        core = {d: np.median([p.a.plan["core"] for p in pairs.complete if p.dataset == d]) for d in pairs.datasets}
        wide = {dataset for dataset, width in core.items() if width > r.leaf_width}
        scopes = (
            ("All tables", "all", pairs),
            ("Every fold within budget", "strict", pairs.where(lambda p, loose=loose: p.dataset not in loose)),  # type: ignore[misc]
            ("Core wider than a leaf", "core-above-leaf", pairs.where(lambda p, wide=wide: p.dataset in wide)),  # type: ignore[misc]
        )
        for name, key, some in scopes:
            if some.complete:
                src = some.sources
                kept = [
                    t.count(float(np.median([value(p) for p in some.complete])), src)
                    for value in (lambda p: p.a.plan["core"], _width)
                ]
                cells = [interval_cell(some, metric) for metric in ("accuracy", "nll")]
                head = (t.label(r.backbone), t.label(name), t.count(len(some.datasets), src))
                rows.append((*head, t.count(len(some.complete), src), *kept, *cells))
                found = r.printed("equal-memory", r.backbone, key)
                paper.append(found and f"{found['accuracy']:+.2f} / {-found['nll_reduction']:+.4f}")
    columns = (
        "Backbone", "Scope", "Tables", "Folds", "Median K", "Median k", "ΔAcc. pp [95% CI]", "ΔNLL [95% CI]",
    )  # fmt: skip
    notes = ("Bounded Core (K columns) minus the widest single leaf (k columns) within its measured peak.",)
    return [with_paper("Equal memory", columns, rows, paper, notes + exclusion_notes(excluded, shown))]


@report("equal-memory-datasets")
def _datasets(results: Sequence[Results]) -> list[ReportTable]:
    out = []
    for r in results:
        pairs, _ = matched_pairs(r)
        accuracy, nll = (pairs.effects(metric) for metric in ("accuracy", "nll"))
        rows, paper = [], []
        for dataset in sorted(pairs.datasets):
            one = pairs.where(lambda p, d=dataset: p.dataset == d)  # type: ignore[misc]
            src = one.sources
            core = float(np.median([p.a.plan["core"] for p in one.complete]))
            width = float(np.median([_width(p) for p in one.complete]))
            cells = (t.count(core, src), t.count(width, src), t.points(accuracy[dataset], src))
            rows.append((t.label(dataset), *cells, t.nats(nll[dataset], src)))
            found = r.printed("equal-memory-effects", r.backbone, "accuracy", dataset)
            paper.append(None if found is None else f"{found:+.2f}")
        columns = ("Table", "Median K", "Median k", "ΔAcc. pp", "ΔNLL")
        out.append(with_paper(f"Equal memory per table, {r.backbone}", columns, rows, paper))
    return out
