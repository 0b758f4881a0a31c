"""The tables of the mechanism studies: Core, Tail, components, leaf width, context, nuisance, generated features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scff.bench import layout as t
from scff.bench import stats
from scff.bench.layout import Cell, ReportTable
from scff.bench.metrics import METRICS
from scff.bench.paper import printed
from scff.bench.reports import interval_cell, notes_of, paper_effect, report, with_paper
from scff.bench.results import Exclusion, Pairs, Results, peak_of

__all__ = ["WIDTH_BINS"]

WIDTH_BINS = (("K ≤ 128", "to-128", 0, 128), ("129–256", "129-256", 129, 256), ("K > 256", "above-256", 257, 10**9))
_COMPONENTS = (
    ("random-routing", "Random Core/Tail assignment"),
    ("centred", "Centred Tail (no Core projection)"),
    ("raw-residual", "Raw residual only"),
    ("fixed-prototype", "Fixed prototype update"),
    ("fisher", "Fisher-selected update"),
    ("no-single-leaf-fallback", "Validated update, no single-leaf fallback"),
    ("no-binary-restriction", "Validated update, no binary-task restriction"),
)


def _effect_cells(pairs: Pairs) -> tuple[Cell, Cell]:
    return (
        t.points(stats.macro_mean(pairs.effects("accuracy")), pairs.sources),
        t.nats(stats.macro_mean(pairs.effects("nll")), pairs.sources),
    )


@report("width-bins")
def _width_bins(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper = [], []
    for r in results:
        pairs = r.pairs("bounded-core", "raw-core")
        for name, key, low, high in WIDTH_BINS:
            inside = pairs.where(lambda p, low=low, high=high: low <= p.a.plan["core"] <= high)  # type: ignore[misc]
            if inside.complete:
                src = inside.sources
                counts = (t.count(len(inside.datasets), src), t.count(len(inside.complete), src))
                ratio = stats.median_of_paired_ratios(inside.peaks("b"), inside.peaks("a"))
                rows.append((t.label(r.backbone), t.label(name), *counts, *_effect_cells(inside), t.times(ratio, src)))
                paper.append(paper_effect("core-width", r.backbone, key))
    columns = ("Backbone", "Core K", "Tables", "Folds", "ΔAcc. pp", "ΔNLL", "Raw / bounded memory")
    notes = ("Bounded minus raw Core; a table may contribute folds to neighbouring bins.",)
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
                paper.append(paper_effect("components", r.backbone, arm))
    columns = ("Backbone", "Control", "Tables", "ΔAcc. pp [95% CI]", "ΔNLL [95% CI]")
    notes = (
        "The paper's method (arm scff) minus the same method with one part changed; positive accuracy and negative NLL "
        "favour the paper's method. The library's default (arm auto) takes no part here.",
    )
    return [with_paper("Component controls", columns, rows, paper, notes + notes_of(excluded))]


@report("leaf-width")
def _leaf_width(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper, names = [], [], list[str]()
    for r in results:
        for width in (32, 64, 128):
            pairs = r.pairs(f"scff-leaf-{width}", "native")
            if pairs.complete:
                src = pairs.sources
                plans = [pair.a.plan for pair in pairs.complete]
                leaves = float(np.median([plan["core_leaves"] + plan["tail_leaves"] for plan in plans]))
                seconds = float(np.median(pairs.seconds("a")))
                peak = max(pairs.peaks("a")) / 2**30
                head = (t.label(r.backbone), t.count(width), t.count(leaves, src, 1))
                rows.append((*head, *_effect_cells(pairs), t.count(seconds, src, 3), t.count(peak, src, 3)))
                paper.append(paper_effect("leaf-width", r.backbone, str(width)))
                names = list(dict.fromkeys(names + list(pairs.datasets)))
    columns = ("Backbone", "M", "Median leaves", "ΔAcc. pp", "ΔNLL", "Median seconds", "Largest peak GiB")
    notes = (f"SCFF minus native on {', '.join(names)}.",)
    return [with_paper("Leaf width", columns, rows, paper, notes)]


@report("context")
def _context(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper = [], []
    for r in results:
        for context in _contexts(r):
            pairs = r.pairs("scff", "native", "development", f"context-{context}")
            for pair in pairs.complete:
                one = Pairs((pair,))
                src = one.sources
                ratio = [one.peaks("a")[0] / one.peaks("b")[0], one.seconds("a")[0] / one.seconds("b")[0]]
                head = (t.label(r.backbone), t.label(pair.dataset), t.count(pair.a.n_columns, src))
                cells = (t.count(pair.a.n_support, src), *_effect_cells(one))
                rows.append((*head, *cells, t.times(ratio[0], src), t.times(ratio[1], src)))
                paper.append(paper_effect("context", r.backbone, pair.dataset, str(context)))
    columns = ("Backbone", "Table", "Columns", "Context", "ΔAcc. pp", "ΔNLL", "Peak / native", "Time / native")
    notes = ("One table per band of raw width; support rows are nested prefixes, query rows are fixed.",)
    return [with_paper("Context and width", columns, rows, paper, notes)]


def _contexts(r: Results) -> list[int]:
    names = {record.key.variant for record in r.records}
    return sorted(int(name.removeprefix("context-")) for name in names if name.startswith("context-"))


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
            rows.append((t.count(dose), *levels, *_effect_cells(pairs), t.times(memory, src)))
        columns = (
            "Added columns",
            "Native acc. %",
            "SCFF acc. %",
            "Native NLL",
            "SCFF NLL",
            "ΔAcc. pp",
            "ΔNLL",
            "Memory",
        )
        names = nuisance_doses(r)[0].datasets if rows else ()
        notes = [f"Seeds averaged within a table and dose, then macro over {', '.join(names)}."]
        found = printed("nuisance", r.backbone)
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
                rows.append((t.label(r.backbone), t.label(name), *_effect_cells(pairs), auc, *counts))
                paper.append(paper_effect("generated-features", r.backbone, key))
    columns = ("Backbone", "Comparison", "ΔAcc. pp", "ΔNLL", "ΔAUC", "Acc. W/T/L", "NLL W/T/L")
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
                rows.append((t.label(r.backbone), t.label(name), *cells, t.times(memory, src), *_effect_cells(some)))
                found = printed("same-k", r.backbone) if name == "All units" else None
                paper.append(found and f"{found['speed']:.3f}× / {found['memory']:.3f}×")
    columns = ("Backbone", "Table", "Units", "Core K", "Speed", "Memory", "ΔAcc. pp", "ΔNLL")
    notes = ("The same Core in one leaf and in leaves of 64. Speed is one leaf / many; memory is many / one.",)
    return [with_paper("The same columns, one leaf or many", columns, rows, paper, notes)]


@report("reinvestment")
def _reinvestment(results: Sequence[Results], budget: float) -> list[ReportTable]:
    """The longest context of the all-feature merge within native's memory at 2,048 rows; memory alone chooses."""
    rows = []
    for r in results:
        for dataset in r.datasets:
            native = r.get(dataset, 0, "native", "context-2048")
            fits = [
                record
                for context in _contexts(r)
                if (record := r.get(dataset, 0, "mass-huber", f"context-{context}")) is not None and record.ok
            ]
            if native is None or not native.ok:
                continue
            fits = [record for record in fits if peak_of(record) <= budget * peak_of(native)]
            if fits:
                best = max(fits, key=lambda record: record.n_support)
                src = (str(native.key.path), str(best.key.path))
                effect = [float(best.metrics[m] or 0) - float(native.metrics[m] or 0) for m in ("accuracy", "nll")]
                sizes = f"{native.n_support:,} / {best.n_support:,}"
                head = (t.label(r.backbone), t.label(dataset), t.count(best.n_columns, src), Cell(sizes, None, src))
                share = t.times(peak_of(best) / peak_of(native), src)
                rows.append((*head, share, t.points(effect[0], src), t.nats(effect[1], src)))
    columns = ("Backbone", "Table", "Columns", "Context native / folded", "Peak / native", "ΔAcc. pp", "ΔNLL")
    return [ReportTable("Context bought with memory", columns, tuple(rows))]
