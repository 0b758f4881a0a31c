"""The tables of the paired comparisons: main results, intervals, influence, typical effects, resources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scff.bench import layout as t
from scff.bench import stats
from scff.bench.layout import Cell, ReportTable
from scff.bench.metrics import METRICS
from scff.bench.results import Exclusion, Pairs, Results, seconds_of

__all__ = ["MAKERS", "make", "report"]

Maker = Callable[..., list[ReportTable]]
FEWEST_TABLES = 3
MAKERS: dict[str, Maker] = {}
"""Every kind of report a study can declare."""


def report(kind: str) -> Callable[[Maker], Maker]:
    """Register the maker of a kind of report."""

    def add(maker: Maker) -> Maker:
        MAKERS[kind] = maker
        return maker

    return add


def make(kind: str, results: Sequence[Results], **parameters: Any) -> list[ReportTable]:
    """The tables of one report; none where no pair is complete."""
    return [table for table in MAKERS[kind](results, **parameters) if table.rows]


def with_paper(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    paper: Sequence[str | None],
    notes: Sequence[str] = (),
) -> ReportTable:
    """A table with a last column for what the paper prints, where it prints anything for these rows."""
    if any(paper):
        rows = [(*row, t.paper_cell(text)) for row, text in zip(rows, paper, strict=True)]
        columns = (*columns, "Paper")
    return ReportTable(title, tuple(columns), tuple(tuple(row) for row in rows), tuple(notes))


def paper_effect(r: Results, *keys: str) -> str | None:
    """The paper's accuracy and NLL effect for a row, as one text."""
    found = r.printed(*keys)
    if not isinstance(found, dict) or "accuracy" not in found:
        return None
    reduction = "nll" not in found
    nll = -found["nll_reduction"] if reduction else found["nll"]
    return f"{found['accuracy']:+.3f} / {nll:+.5f}"


def notes_of(excluded: Sequence[Exclusion]) -> tuple[str, ...]:
    """Notes on what was left out."""
    return t.exclusion_notes(excluded)


@report("main")
def _main(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper, excluded = [], [], list[Exclusion]()
    for r in results:
        pairs = r.pairs("scff", "native")
        excluded += pairs.excluded
        if not pairs.complete:
            continue
        src = pairs.sources
        error = [{d: 1 - v for d, v in pairs.levels("accuracy", side).items()} for side in ("b", "a")]
        nll = [pairs.levels("nll", side) for side in ("b", "a")]
        rows.append(
            (
                t.label(r.backbone),
                t.count(len(pairs.datasets), src),
                t.count(len(pairs.complete), src),
                t.points(stats.macro_mean(pairs.effects("accuracy")), src),
                t.percent(stats.relative_reduction(*error), src),
                t.nats(stats.macro_mean(pairs.effects("nll")), src),
                t.percent(stats.relative_reduction(*nll), src),
                t.times(stats.median_of_paired_ratios(pairs.seconds("b"), pairs.seconds("a")), src),
                t.times(stats.median_of_paired_ratios(pairs.peaks("b"), pairs.peaks("a")), src),
                t.times(stats.ratio_of_separate_maxima(pairs.peaks("b"), pairs.peaks("a")), src),
            )
        )
        found = r.printed("main", r.backbone)
        paper.append(found and f"{found['accuracy']:+.3f} pp, {found['nll']:+.5f}")
    columns = (
        "Backbone", "Tables", "Folds", "ΔAcc. pp", "Error reduction", "ΔNLL", "NLL reduction", "Median speed",
        "Median memory", "Memory, ratio of maxima",
    )  # fmt: skip
    notes = (
        "SCFF minus native over all folds. Quality is macro over tables; speed and memory are native / SCFF, medians "
        "over paired folds; the ratio of maxima divides the largest native peak by the largest SCFF peak.",
    )
    return [with_paper("Main results", columns, rows, paper, notes + notes_of(excluded))]


@report("intervals")
def _intervals(
    results: Sequence[Results],
    title: str,
    folds: str,
    contrasts: Sequence[tuple[str, str]],
    paper: str = "",
) -> list[ReportTable]:
    rows, printed_rows, excluded = [], [], list[Exclusion]()
    for r in results:
        for a, b in contrasts:
            pairs = r.pairs(a, b, folds)
            excluded += pairs.excluded
            if pairs.complete:
                cells = [interval_cell(pairs, metric) for metric in ("accuracy", "nll")]
                head = (t.label(r.backbone), t.label(f"{a} − {b}"), t.count(len(pairs.datasets), pairs.sources))
                rows.append((*head, *cells))
                keys = [paper, r.backbone]
                if paper == "core":
                    keys.append("selection" if a == "raw-core" else "bounded")
                printed_rows.append(paper_effect(r, *keys) if paper else None)
    columns = ("Backbone", "Contrast", "Tables", "ΔAcc. pp [95% CI]", "ΔNLL [95% CI]")
    which = {"all": "All folds", "locked": "Locked folds", "development": "Development fold"}[folds]
    notes = (f"{which}; folds averaged within a table, then 100,000 paired bootstrap resamples of tables.",)
    return [with_paper(title, columns, rows, printed_rows, notes + notes_of(excluded))]


def effect_cells(pairs: Pairs) -> tuple[Cell, Cell]:
    """Effects on accuracy and NLL, as they are: of a single table, say, which has no interval."""
    return (
        t.points(stats.macro_mean(pairs.effects("accuracy")), pairs.sources),
        t.nats(stats.macro_mean(pairs.effects("nll")), pairs.sources),
    )


def interval_cell(pairs: Pairs, metric: str) -> Cell:
    """An effect with its interval; without one where resampling so few tables would say nothing."""
    effects = pairs.effects(metric)
    if len(effects) < FEWEST_TABLES:
        cell = (t.points if metric == "accuracy" else t.nats)(stats.macro_mean(effects), pairs.sources)
        tables = "one table" if len(effects) == 1 else f"{len(effects)} tables"
        return replace(cell, text=f"{cell.text} (no interval from {tables})")
    return t.interval(stats.dataset_bootstrap(effects), metric, pairs.sources)


@report("influence")
def _influence(results: Sequence[Results], folds: str) -> list[ReportTable]:
    rows, paper = [], []
    for r in results:
        pairs = r.pairs("scff", "native", folds)
        if len(pairs.datasets) < 2:
            continue
        src, cells = pairs.sources, []
        for metric, cell in (("accuracy", t.points), ("nll", t.nats)):
            effects = pairs.effects(metric)
            worst, without = stats.leave_one_out_worst(effects, METRICS[metric])
            shown = cell(worst, src)
            cells += [cell(stats.macro_mean(effects), src), Cell(f"{shown.text} ({without})", shown.value, src)]
        rows.append((t.label(r.backbone), *cells))
        found = r.printed("influence", r.backbone)
        paper.append(
            found
            and f"{found['accuracy']:+.3f} ({found['accuracy_without']}), {found['nll']:+.5f} ({found['nll_without']})"
        )
    columns = ("Backbone", "ΔAcc. pp", "Worst without one table", "ΔNLL", "Worst without one table")
    notes = ("The least favourable macro effect when one table is removed; in brackets the table removed.",)
    return [with_paper("Leave one table out", columns, rows, paper, notes)]


@report("typical")
def _typical(results: Sequence[Results], folds: str) -> list[ReportTable]:
    rows, paper = [], []
    for r in results:
        pairs = r.pairs("scff", "native", folds)
        if not pairs.complete:
            continue
        src, cells = pairs.sources, []
        for metric, cell in (("accuracy", t.points), ("nll", t.nats)):
            effects = pairs.effects(metric)
            counts = stats.win_tie_loss(effects, METRICS[metric])
            cells += [cell(float(np.median(list(effects.values()))), src), Cell(str(counts), str(counts), src)]
        rows.append((t.label(r.backbone), *cells))
        found = r.printed("typical", r.backbone)
        paper.append(
            found and f"{found['accuracy']:+.3f}, {found['accuracy_wtl']}; {found['nll']:+.5f}, {found['nll_wtl']}"
        )
    columns = ("Backbone", "Median ΔAcc. pp", "Acc. W/T/L", "Median ΔNLL", "NLL W/T/L")
    return [with_paper("Typical effects", columns, rows, paper, ("Medians and counts of tables, locked folds.",))]


@report("dataset-effects")
def _dataset_effects(results: Sequence[Results], folds: str) -> list[ReportTable]:
    out = []
    for r in results:
        pairs = r.pairs("scff", "native", folds)
        accuracy, nll = (pairs.effects(metric) for metric in ("accuracy", "nll"))
        levels = {side: pairs.levels("accuracy", side) for side in "ab"}
        rows, paper = [], []
        for dataset in sorted(pairs.datasets):
            one = pairs.where(lambda pair, d=dataset: pair.dataset == d)  # type: ignore[misc]
            src = one.sources
            rows.append(
                (
                    t.label(dataset),
                    t.count(one.complete[0].a.n_columns, src),
                    Cell(f"{100 * levels['b'][dataset]:.2f}", 100 * levels["b"][dataset], src),
                    Cell(f"{100 * levels['a'][dataset]:.2f}", 100 * levels["a"][dataset], src),
                    t.points(accuracy[dataset], src),
                    t.nats(nll[dataset], src),
                    t.times(stats.median_of_paired_ratios(one.peaks("b"), one.peaks("a")), src),
                )
            )
            values = [r.printed("effects", r.backbone, metric, dataset) for metric in ("accuracy", "nll")]
            paper.append(f"{values[0]:+.3f} / {values[1]:+.5f}" if values[0] is not None else None)
        columns = ("Table", "Columns", "Native acc. %", "SCFF acc. %", "ΔAcc. pp", "ΔNLL", "Memory")
        out.append(with_paper(f"Effects per table, {r.backbone}", columns, rows, paper))
    return out


@report("resources")
def _resources(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper = [], []
    for r in results:
        pairs = r.pairs("scff", "native")
        if not pairs.complete:
            continue
        src = pairs.sources
        memory = stats.paired_ratio_spread(pairs.peaks("b"), pairs.peaks("a"))
        speed = stats.paired_ratio_spread(pairs.seconds("b"), pairs.seconds("a"))
        meter = ", ".join(sorted({pair.a.memory["meter"] for pair in pairs.complete}))
        head = (t.label(r.backbone), t.count(len(pairs.complete), src))
        rows.append((*head, t.spread(memory, src), t.spread(speed, src), t.label(meter)))
        found = r.printed("resources", r.backbone)
        paper.append(found and f"{found['memory'][0]:.2f}× / {found['speed'][0]:.2f}×")
    columns = ("Backbone", "Pairs", "Memory, median [P10, P90]", "Speed, median [P10, P90]", "Meter")
    notes = ("Native / SCFF on the same fold; time includes compiling the support.",)
    return [with_paper("Paired resources", columns, rows, paper, notes)]


@report("maxima")
def _maxima(results: Sequence[Results], contrasts: Sequence[tuple[str, str]]) -> list[ReportTable]:
    rows, paper = [], []
    for r in results:
        for top, bottom in contrasts:
            pairs = r.pairs(top, bottom)
            if pairs.complete:
                src = pairs.sources
                ratio = stats.ratio_of_separate_maxima(pairs.peaks("a"), pairs.peaks("b"))
                median = stats.median_of_paired_ratios(pairs.peaks("a"), pairs.peaks("b"))
                head = (t.label(r.backbone), t.label(f"{top} / {bottom}"))
                rows.append((*head, t.times(ratio, src), t.times(median, src)))
                found = r.printed("core", r.backbone, "maxima_ratio")
                paper.append(found and f"{found:.1f}×")
    columns = ("Backbone", "Peaks", "Ratio of separate maxima", "Median of paired ratios")
    return [with_paper("Core memory", columns, rows, paper)]


@report("arms")
def _arms(results: Sequence[Results]) -> list[ReportTable]:
    """Every arm on the folds that all arms completed."""
    out = []
    for r in results:
        names = sorted({record.key.arm for record in r.records if record.key.variant == "plain"})
        names = [name for name in names if not name.startswith(("prefix-", "scff-leaf", "bounded-core-leaf"))]
        folds = [(d, f) for d in r.datasets for f in r.folds("all")]
        complete = [(d, f) for d, f in folds if set(names) <= set(r.arms(d, f))]
        rows = []
        for name in names:
            records = [r.arms(d, f)[name] for d, f in complete]
            if not records:
                continue
            src = tuple(str(record.key.path) for record in records)
            cells = []
            for metric, scale, digits in (("accuracy", 100, 2), ("nll", 1, 4)):
                folded: dict[str, list[float]] = {}
                for record in records:
                    folded.setdefault(record.key.dataset, []).append(scale * float(record.metrics[metric] or 0.0))
                cells.append(t.count(stats.macro_mean(stats.dataset_means(folded)), src, digits))
            seconds = float(np.median([seconds_of(record) for record in records]))
            rows.append((t.label(name), *cells, t.count(seconds, src, 2)))
        rows.sort(key=lambda row: row[2].value)
        columns = ("Arm", "Accuracy %", "NLL", "Median seconds")
        tables = len({d for d, _ in complete})
        notes = (f"Macro over {tables} tables and {len(complete)} folds that every arm completed; best NLL first.",)
        out.append(ReportTable(f"All arms, {r.backbone}", columns, tuple(rows), notes))
    return out
