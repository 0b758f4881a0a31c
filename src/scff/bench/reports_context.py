"""The tables of studies of context: how many support rows, and what saved memory buys of them."""

from __future__ import annotations

from collections.abc import Sequence

from scff.bench import layout as t
from scff.bench import stats
from scff.bench.layout import Cell, ReportTable
from scff.bench.records import Record
from scff.bench.reports import effect_cells, interval_cell, paper_effect, report, with_paper
from scff.bench.results import Pair, Pairs, Results, peak_of

__all__: list[str] = []

_EFFECTS = ("ΔAcc. pp [95% CI]", "ΔNLL [95% CI]")
_FOLDED = "mass-huber"


@report("context")
def _context(results: Sequence[Results]) -> list[ReportTable]:
    rows, paper = [], []
    for r in results:
        for context in _contexts(r):
            pairs = r.pairs("scff", "native", "development", f"context-{context}")
            groups = [(pair.dataset, Pairs((pair,))) for pair in pairs.complete]
            for name, some in [*groups, (f"all {len(groups)}", pairs)] if len(groups) > 1 else groups:
                src, single = some.sources, some is not pairs
                memory = stats.median_of_paired_ratios(some.peaks("a"), some.peaks("b"))
                time = stats.median_of_paired_ratios(some.seconds("a"), some.seconds("b"))
                widths, sizes = ([getattr(pair.a, k) for pair in some.complete] for k in ("n_columns", "n_support"))
                effects = effect_cells(some) if single else [interval_cell(some, m) for m in ("accuracy", "nll")]
                head = (t.label(r.backbone), t.label(name), _span(widths, src), _span(sizes, src))
                rows.append((*head, *effects, t.times(memory, src), t.times(time, src)))
                paper.append(paper_effect(r, "context", r.backbone, name, str(context)))
    columns = ("Backbone", "Table", "Columns", "Context", *_EFFECTS, "Peak / native", "Time / native")
    notes = (
        "One table per band of raw width; support rows are nested prefixes, query rows are fixed. A table alone has no "
        "interval; ratios of several are medians.",
    )
    return [with_paper("Context and width", columns, rows, paper, notes)]


def _span(values: list[int], src: Sequence[str]) -> Cell:
    text = f"{min(values):,}–{max(values):,}" if min(values) < max(values) else f"{values[0]:,}"
    return Cell(text, values, tuple(src))


def _contexts(r: Results) -> list[int]:
    names = {record.key.variant for record in r.records}
    return sorted(int(name.removeprefix("context-")) for name in names if name.startswith("context-"))


def _measured(r: Results, context: int) -> dict[str, tuple[Record, list[Record]]]:
    """By table: native inference at ``context`` rows, and the all-feature merge at as many and more."""
    found = {}
    for dataset in r.datasets:
        for fold in r.folds("development"):
            native = r.get(dataset, fold, "native", f"context-{context}")
            larger = [r.get(dataset, fold, _FOLDED, f"context-{n}") for n in _contexts(r) if n >= context]
            folded = [record for record in larger if record is not None and record.ok]
            if native is not None and native.ok and folded:
                found[dataset] = native, folded
    return found


def _columns_of(pairs: Pairs) -> list[Cell]:
    src, several = pairs.sources, len(pairs.complete) > 1
    effects = [interval_cell(pairs, m) for m in ("accuracy", "nll")] if several else effect_cells(pairs)
    return [t.times(stats.median_of_paired_ratios(pairs.peaks("a"), pairs.peaks("b")), src), *effects]


def _sizes(pair: Pair) -> Cell:
    src = Pairs((pair,)).sources
    return Cell(f"{pair.b.n_support:,} / {pair.a.n_support:,}", [pair.b.n_support, pair.a.n_support], src)


@report("reinvestment")
def _reinvestment(results: Sequence[Results], context: int, budget: float) -> list[ReportTable]:
    """The longest context of the all-feature merge within native's memory at ``context`` rows; memory alone chooses."""
    rows: list[tuple[Cell, ...]] = []
    for r in results:
        chosen = []
        for dataset, (native, folded) in _measured(r, context).items():
            fits = [record for record in folded if peak_of(record) <= budget * peak_of(native)]
            head = (t.label(r.backbone), t.label(dataset), t.count(native.n_columns, (str(native.key.path),)))
            if not fits:
                least = min(folded, key=peak_of)
                src = (str(native.key.path), str(least.key.path))
                share = t.times(peak_of(least) / peak_of(native), src)
                dash = (t.label("–"), t.label("–"))
                rows.append((*head, Cell(f"{native.n_support:,} / none fits", None, src), share, *dash))
                continue
            pair = Pair(dataset, native.key.fold, max(fits, key=lambda record: record.n_support), native)
            chosen.append(pair)
            rows.append((*head, _sizes(pair), *_columns_of(Pairs((pair,)))))
        if len(chosen) > 1:
            every = (t.label(r.backbone), t.label(f"all {len(chosen)}"), t.label(""), t.label(""))
            rows.append((*every, *_columns_of(Pairs(tuple(chosen)))))
    columns = ("Backbone", "Table", "Columns", "Context native / folded", "Peak / native", *_EFFECTS)
    notes = (
        f"The longest context of the all-feature merge within {budget:.0%} of native inference's peak at {context:,} "
        "rows, minus that; where none fits, the least peak. A table alone has no interval.",
    )
    return [ReportTable("Context bought with memory", columns, tuple(rows), notes)]


@report("reinvestment-contexts")
def _every_context(results: Sequence[Results], context: int) -> list[ReportTable]:
    """Every measured context, whether it fits the budget or not."""
    rows = []
    for r in results:
        for dataset, (native, folded) in _measured(r, context).items():
            for record in sorted(folded, key=lambda record: record.n_support):
                pair = Pair(dataset, native.key.fold, record, native)
                head = (t.label(r.backbone), t.label(dataset), t.count(native.n_columns), _sizes(pair))
                rows.append((*head, *_columns_of(Pairs((pair,)))))
    columns = ("Backbone", "Table", "Columns", "Context native / folded", "Peak / native", "ΔAcc. pp", "ΔNLL")
    notes = (f"The all-feature merge at every context minus native inference at {context:,} rows, one fold.",)
    return [ReportTable("Every context, within the budget or not", columns, tuple(rows), notes)]
