"""The tables of the mechanism studies: Core, Tail, components, leaf width, nuisance, generated features, same K."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scff.bench import layout as t
from scff.bench import stats
from scff.bench.layout import Cell, ReportTable
from scff.bench.metrics import METRICS
from scff.bench.reports import effect_cells, interval_cell, notes_of, paper_effect, report, with_paper
from scff.bench.results import Exclusion, Pairs, Results

__all__ = ["nuisance_doses"]

_EFFECTS = ("ΔAcc. pp [95% CI]", "ΔNLL [95% CI]")
_COMPONENTS = (
    ("random-routing", "Random Core/Tail assignment"),
    ("centred", "Centred Tail (no Core projection)"),
    ("raw-residual", "Raw residual only"),
    ("fixed-prototype", "Fixed prototype update"),
    ("fisher", "Fisher-selected update"),
    ("no-single-leaf-fallback", "Validated update, no single-leaf fallback"),
    ("no-binary-restriction", "Validated update, no binary-task restriction"),
)


def _interval_cells(pairs: Pairs) -> tuple[Cell, Cell]:
    return interval_cell(pairs, "accuracy"), interval_cell(pairs, "nll")


def _width_bins_of(leaf: int) -> tuple[tuple[str, str, int, int], ...]:
    """One leaf, two leaves, more: name, the paper's key, narrowest and widest Core."""
    return (
        (f"K ≤ {leaf}", "to-128", 0, leaf),
        (f"{leaf + 1}–{2 * leaf}", "129-256", leaf + 1, 2 * leaf),
        (f"K > {2 * leaf}", "above-256", 2 * leaf + 1, 10**9),
    )


@report("width-bins")
def _width_bins(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper = [], []
    for r in results:
        pairs = r.pairs("bounded-core", "raw-core")
        for name, key, low, high in _width_bins_of(r.leaf_width):
            inside = pairs.where(lambda p, low=low, high=high: low <= p.a.plan["core"] <= high)  # type: ignore[misc]
            if inside.complete:
                src = inside.sources
                counts = (t.count(len(inside.datasets), src), t.count(len(inside.complete), src))
                ratio = stats.median_of_paired_ratios(inside.peaks("b"), inside.peaks("a"))
                rows.append(
                    (t.label(r.backbone), t.label(name), *counts, *_interval_cells(inside), t.times(ratio, src))
                )
                paper.append(paper_effect(r, "core-width", r.backbone, key))
    columns = ("Backbone", "Core K", "Tables", "Folds", *_EFFECTS, "Raw / bounded memory")
    notes = (
        "Bounded minus raw Core, by Cores of one leaf, of two and of more; a table may contribute folds to "
        "neighbouring bins.",
    )
    return [with_paper("Same Core by selected width", columns, rows, paper, notes)]


@report("tail-selection")
def _tail_selection(results: Sequence[Results], variants: Sequence[tuple[str, str]]) -> list[ReportTable]:
    rows = []
    for arm, name in variants:
        effects, src, passing = [], list[str](), 0
        for r in results:
            pairs = r.pairs(arm, "bounded-core", "development")
            if pairs.complete:
                both = [stats.macro_mean(pairs.effects(metric)) for metric in ("accuracy", "nll")]
                effects.append(both)
                passing += both[0] > 0 and both[1] < 0
                src += pairs.sources
        if effects:
            accuracy, nll = np.mean(effects, axis=0)
            share = Cell(f"{passing}/{len(effects)}", [passing, len(effects)], tuple(src))
            rows.append((t.label(name), share, t.points(accuracy, src), t.nats(nll, src)))
    columns = ("Tail update", "Passing backbones", "Mean ΔAcc. pp", "Mean ΔNLL")
    notes = ("Development fold, each update minus Tail off. A backbone passes when both metrics improve.",)
    return [ReportTable("Choosing the Tail update", columns, tuple(rows), notes)]


@report("components")
def _components(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper, excluded = [], [], list[Exclusion]()
    for r in results:
        for arm, name in _COMPONENTS:
            pairs = r.pairs("scff", arm)
            excluded += pairs.excluded
            if pairs.complete:
                interval = [interval_cell(pairs, metric) for metric in ("accuracy", "nll")]
                rows.append(
                    (t.label(r.backbone), t.label(name), t.count(len(pairs.datasets), pairs.sources), *interval)
                )
                paper.append(paper_effect(r, "components", r.backbone, arm))
    columns = ("Backbone", "Control", "Tables", "ΔAcc. pp [95% CI]", "ΔNLL [95% CI]")
    notes = (
        "The paper's method (arm scff) minus the same method with one part changed; positive accuracy and negative NLL "
        "favour the paper's method. The library's default (arm auto) takes no part here.",
    )
    return [with_paper("Component controls", columns, rows, paper, notes + notes_of(excluded))]


@report("leaf-width")
def _leaf_width(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper, names, narrow = [], [], list[str](), list[str]()
    for r in results:
        for width in (32, 64, 128):
            pairs = r.pairs(f"scff-leaf-{width}", "native")
            if pairs.complete:
                src = pairs.sources
                plans = [pair.a.plan for pair in pairs.complete]
                leaves = float(np.median([plan["core_leaves"] + plan["tail_leaves"] for plan in plans]))
                seconds = float(np.median(pairs.seconds("a")))
                peak = max(pairs.peaks("a")) / 2**30
                head = (t.label(r.backbone), t.count(min(width, r.leaf_width)), t.count(leaves, src, 1))
                rows.append((*head, *_interval_cells(pairs), t.count(seconds, src, 3), t.count(peak, src, 3)))
                if width > r.leaf_width:
                    narrow.append(f"{r.backbone} takes at most {r.leaf_width} columns a leaf: its {width} are these.")
                paper.append(paper_effect(r, "leaf-width", r.backbone, str(width)))
                names = list(dict.fromkeys(names + list(pairs.datasets)))
    columns = ("Backbone", "M", "Median leaves", *_EFFECTS, "Median seconds", "Largest peak GiB")
    notes = (f"SCFF minus native on {', '.join(names)}.", *narrow)
    return [with_paper("Leaf width", columns, rows, paper, notes)]


@report("nuisance")
def _nuisance(results: Sequence[Results]) -> list[ReportTable]:
    out = []
    for r in results:
        rows = []
        for dose, pairs in nuisance_doses(r).items():
            src = pairs.sources
            levels = [
                t.count(scale * stats.macro_mean(pairs.levels(metric, side)), src, digits)
                for metric, scale, digits in (("accuracy", 100, 3), ("nll", 1, 5))
                for side in ("b", "a")
            ]
            memory = stats.median_of_paired_ratios(pairs.peaks("b"), pairs.peaks("a"))
            rows.append((t.count(dose), *levels, *_interval_cells(pairs), t.times(memory, src)))
        columns = (
            "Added columns",
            "Native acc. %",
            "SCFF acc. %",
            "Native NLL",
            "SCFF NLL",
            *_EFFECTS,
            "Memory",
        )
        names = nuisance_doses(r)[0].datasets if rows else ()
        notes = [f"Seeds averaged within a table and dose, then macro over {', '.join(names)}."]
        found = r.printed("nuisance", r.backbone)
        if found:
            notes.append(f"The paper at 512: {found['accuracy']:+.3f} pp / {found['nll']:+.5f}.")
        out.append(ReportTable(f"Nuisance columns, {r.backbone}", columns, tuple(rows), tuple(notes)))
    return out


def nuisance_doses(r: Results) -> dict[int, Pairs]:
    """Pairs by dose. Dose 0 is the plain table, of those tables that have a dosed record."""
    dosed: dict[int, list[Pairs]] = {}
    for variant in sorted({record.key.variant for record in r.records}):
        if variant.startswith("nuisance-"):
            dose = int(variant.split("-")[1])
            dosed.setdefault(dose, []).append(r.pairs("scff", "native", "development", variant))
    merged = {dose: Pairs(tuple(p for part in parts for p in part.complete)) for dose, parts in sorted(dosed.items())}
    if not merged:
        return {}
    names = {name for pairs in merged.values() for name in pairs.datasets}
    plain = r.pairs("scff", "native", "development").where(lambda pair: pair.dataset in names)
    return {0: plain, **merged}


@report("generated")
def _generated(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper = [], []
    for r in results:
        contrasts = (
            ("B − A: generated features", "b-a", r.pairs("native", "native", "development", "generated", "plain")),
            ("C − A: generated, folded", "c-a", r.pairs("scff", "native", "development", "generated", "plain")),
            ("C − B: folding the generated table", "c-b", r.pairs("scff", "native", "development", "generated")),
        )
        for name, key, pairs in contrasts:
            if pairs.complete:
                counts = [
                    Cell(str(stats.win_tie_loss(pairs.effects(m), METRICS[m])), None, pairs.sources)
                    for m in ("accuracy", "nll")
                ]
                auc = t.nats(stats.macro_mean(pairs.effects("auc")), pairs.sources)
                rows.append((t.label(r.backbone), t.label(name), *_interval_cells(pairs), auc, *counts))
                paper.append(paper_effect(r, "generated-features", r.backbone, key))
    columns = ("Backbone", "Comparison", *_EFFECTS, "ΔAUC", "Acc. W/T/L", "NLL W/T/L")
    return [with_paper("Generated features", columns, rows, paper)]


@report("same-k")
def _same_k(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper = [], []
    for r in results:
        pairs = r.pairs("bounded-core-leaf-64", "raw-core", "locked").where(lambda p: p.a.plan["core_leaves"] > 1)
        groups = [(d, pairs.where(lambda p, d=d: p.dataset == d)) for d in pairs.datasets]  # type: ignore[misc]
        for name, some in [*groups, ("All units", pairs)]:
            if some.complete:
                src = some.sources
                speed = stats.median_of_paired_ratios(some.seconds("b", "predict"), some.seconds("a", "predict"))
                memory = stats.median_of_paired_ratios(some.peaks("a"), some.peaks("b"))
                widths = [pair.a.plan["core"] for pair in some.complete]
                span = f"{min(widths)}–{max(widths)}" if min(widths) < max(widths) else str(widths[0])
                cells = (t.count(len(some.complete), src), Cell(span, widths, src), t.times(speed, src))
                effects = _interval_cells(some) if name == "All units" else effect_cells(some)
                rows.append((t.label(r.backbone), t.label(name), *cells, t.times(memory, src), *effects))
                found = r.printed("same-k", r.backbone) if name == "All units" else None
                paper.append(found and f"{found['speed']:.3f}× / {found['memory']:.3f}×")
    columns = ("Backbone", "Table", "Units", "Core K", "Speed", "Memory", *_EFFECTS)
    notes = (
        "The same Core in one leaf and in leaves of 64. Speed is one leaf / many; memory is many / one. A table alone "
        "has no interval.",
    )
    return [with_paper("The same columns, one leaf or many", columns, rows, paper, notes)]
