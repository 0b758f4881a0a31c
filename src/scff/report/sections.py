"""The answers of the report, each as HTML; that on the Tail has a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from scff.gate.record import Rehearsed, TailGate
from scff.memory.budget import format_bytes
from scff.plan.plan import FoldPlan
from scff.report.figures import evidence_curve, leaf_blocks
from scff.report.quality import Quality, calibration_figure, roc_figure
from scff.report.svg import significant

__all__ = ["cost", "folded", "good", "tile", "used"]

_STRONGEST = 12
_MOST_CLASSES = 50


def tile(what: str, value: str, note: str = "", key: str = "") -> str:
    """One headline number."""
    extra = f'<span class="note">{note}</span>' if note else ""
    return f'<div class="tile"><span class="what">{what}</span><b data-value="{key}">{value}</b>{extra}</div>'


def good(quality: Quality | None, classes: Sequence[str]) -> str:
    """How good is it?"""
    if quality is None:
        return (
            '<p class="say">No test table was given, so this report says nothing about quality: scores on the rows the '
            "model was fitted on would flatter it. Make the report again with labelled rows that were held back: "
            "<code>clf.report(X_test, y_test)</code> or <code>scff report model.scff --test test.csv --target "
            "y</code>.</p>"
        )
    low, high = quality.accuracy_interval
    tiles = [
        tile("Accuracy", f"{quality.accuracy:.4f}", f"95% interval {low:.3f} to {high:.3f}", "accuracy"),
        tile("Log-loss", f"{quality.log_loss:.4f}", "lower is better", "log_loss"),
    ]
    if quality.auc is not None:
        tiles.append(tile("ROC AUC", f"{quality.auc:.4f}", f"positive class {escape(classes[1])}", "auc"))
    tiles.append(tile("Test rows", f"{quality.n_rows:,}", "as given to this report", "test_rows"))
    about = "the predicted class" if quality.calibrated_class is None else f"class {escape(quality.calibrated_class)}"
    charts = [
        f"<figure><h3>Calibration</h3>{calibration_figure(quality)}<figcaption>On the dashed line, a probability of "
        f"0.8 for {about} comes true 8 times in 10. Ten groups of about equal size.</figcaption></figure>"
    ]
    if quality.roc is not None:
        charts.append(
            f"<figure><h3>ROC curve</h3>{roc_figure(quality)}<figcaption>How many of the positive rows are found as "
            f"more "
            "false alarms are allowed.</figcaption></figure>"
        )
    charts.append(_confusion(quality.confusion, classes))
    return (
        f'<p class="say">On the {quality.n_rows:,} test rows the model is right '
        f"<b>{quality.accuracy:.1%}</b> of the time. Always saying the most frequent class would be right "
        f"{quality.prior_accuracy:.1%} of the time, with a log-loss of {quality.prior_log_loss:.4f} from class "
        f"frequencies "
        f'alone.</p><div class="tiles">{"".join(tiles)}</div><div class="charts">{"".join(charts)}</div>'
    )


def _confusion(confusion: npt.NDArray[np.int64], classes: Sequence[str]) -> str:
    names = [escape(name) for name in classes[:_MOST_CLASSES]]
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    rows = []
    for k, name in enumerate(names):
        cells = []
        for j in range(len(names)):
            colour = "--scff-good" if j == k else "--scff-bad"
            tint = f"color-mix(in srgb,var({colour}) {75 * shares[k, j]:.0f}%,transparent)"
            cells.append(
                f'<td style="background:{tint}" title="{shares[k, j]:.1%} of class {name}">{confusion[k, j]}</td>'
            )
        rows.append(f'<tr><th scope="row">{name}</th>{"".join(cells)}</tr>')
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    cut = "" if len(classes) <= _MOST_CLASSES else f" The first {_MOST_CLASSES} of {len(classes)} classes."
    return (
        '<figure><h3>Confusion matrix</h3><div class="confusion" tabindex="0"><table data-figure="confusion"><thead>'
        "<tr>"
        f'<th scope="col">true \\ said</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div><figcaption>'
        f"Rows are the true classes, columns what the model said; green is right.{cut}</figcaption></figure>"
    )


def used(plan: FoldPlan, ranked: Sequence[int], native: bool) -> str:
    """What was used?"""
    f = plan.f[list(ranked)]
    finite = f[np.isfinite(f)]
    top = float(finite.max()) if len(finite) and finite.max() > 0 else 1.0
    core = set(plan.core.tolist())
    bars = "".join(
        f'<li><span class="name" title="{escape(plan.name(j))}">{escape(plan.name(j))}</span>'
        f'<i class="{"core-bar" if j in core else "tail-bar"}" '
        f'style="width:{100 * min(float(plan.f[j]) / top, 1):.1f}%"></i>'
        f'<span class="value">F {significant(float(plan.f[j]))}</span></li>'
        for j in ranked[:_STRONGEST]
    )
    n = plan.n_columns
    if native:
        say = (
            "Nothing was folded: the backbone read every column at once. The evidence of single columns is still shown."
        )
    else:
        say = (
            f'<b class="core">{plan.cut:,} of {n:,} columns are the Core</b>: each separates the classes on '
            f"its own by "
            f"more than chance, with at most {plan.fdr:.0%} false discoveries expected among them. "
            if plan.discoveries
            else f"No column separates the classes by more than chance at the {plan.fdr:.0%} level, so the <b "
            f'class="core">'
            "Core is the single strongest one</b>. "
        ) + "The strongest columns:"
    chips = "".join(
        f'<label class="chip"><input type="checkbox" checked data-stratum="{name}"> {label}</label>'
        for name, label, there in (
            ("core", "Core", not native),
            ("native", "all", native),
            ("tail", "Tail", bool(len(plan.tail))),
            ("unused", "unused", bool(len(plan.unused))),
        )
        if there
    )
    heads = "".join(
        f'<th scope="col" data-key="{key}" class="{css}" aria-sort="none"><button type="button" title="{tip}">'
        f"{label}</button></th>"
        for key, label, css, tip in (
            ("rank", "Rank", "", "Rank by F"),
            ("name", "Column", "left", "Name of the column"),
            ("F", "F", "", "One-way ANOVA of the column alone: spread between classes over spread within them"),
            ("q", "q", "", "p-value adjusted for the number of columns (Benjamini-Hochberg)"),
            ("stratum", "Stratum", "", "Core, Tail, or dropped by the backbone's preprocessing"),
            ("leaf", "Leaf", "", "Number of the leaf that holds it"),
            (
                "effect",
                "Leaf-out ΔNLL",
                "",
                "Rise of the prototype NLL of the labelled rows when the whole leaf is left out",
            ),
        )
    )
    return (
        f'<p class="say">{say}</p><ol class="bars">{bars}</ol><h3>All {n:,} columns</h3><div class="tools">'
        '<input type="search" id="search" placeholder="Search columns by name" aria-label="Search columns by name" '
        f'aria-controls="grid">{chips}<span id="count" class="muted small" role="status" aria-live="polite"></span>'
        f"</div>"
        '<div id="grid" tabindex="0" role="region" aria-label="Table of columns"><table><colgroup><col class="rank">'
        "<col>"
        '<col class="num"><col class="num"><col class="mid"><col class="mid"><col class="eff"></colgroup>'
        f"<thead><tr>{heads}</tr></thead><tbody></tbody></table></div>"
        "<noscript><p>The table of all columns needs JavaScript; the strongest are listed above.</p></noscript>"
        '<p class="print-only small">The first 60 rows are printed; open the page to search all of them.</p>'
        "<details><summary>What do these numbers mean?</summary><p><b>F</b> looks at one column alone: how far apart "
        "the "
        "classes are, against how spread out each class is. <b>q</b> is its p-value after correction for looking at "
        f"{n:,} columns. <b>Leaf-out ΔNLL</b> belongs to a whole leaf and is shared by its columns: how much worse a "
        "nearest-prototype classifier on the row representation gets when that leaf is left out. It is measured on "
        "the labelled rows alone: each half comes in as new rows whose labels the encoder has not seen. It is "
        "neither a "
        "causal effect nor a test score. Positive means that the leaf helps; 0 that its message does not reach the "
        "model.</p></details>"
    )


def folded(
    plan: FoldPlan, gate: TailGate | None, effects: Sequence[float], native: bool, links: Rehearsed | None = None
) -> str:
    """How were the columns folded?"""
    if native:
        say = "They were not: this model runs its backbone natively, every column interacting with every other."
        return f'<p class="say">{say}</p><div class="wide">{evidence_curve(plan)}</div>'
    widest = max(map(len, plan.leaves))
    leaves = f"{len(plan.leaves)} leaves" if len(plan.leaves) > 1 else "one leaf"
    dropped = f" {len(plan.unused):,} constant columns were left out by the backbone." if len(plan.unused) else ""
    drawn = " The Core was drawn at random, as a control." if plan.routing == "random" else ""
    return (
        f'<p class="say">The columns were ranked on {plan.n_rows:,} labelled rows, cut into Core and Tail, and dealt '
        f"like "
        f"cards into {leaves} of at most {widest} columns, so that every leaf has its share of strong ones. Columns "
        f"interact inside a leaf; the leaves meet in the row representation.{_linked(plan, links)}{dropped}{drawn}</p>"
        f'<figure><div class="wide">{evidence_curve(plan)}</div><figcaption>Evidence of every column, strongest '
        f"first. The "
        "dashed line is the Core cut.</figcaption></figure>"
        f'<figure><div class="wide">{leaf_blocks(plan, gate, effects)}</div><figcaption>Each block is a leaf: its '
        f"number, "
        "its columns, and their evidence as bars on the same logarithmic axis.</figcaption></figure>"
    )


def _linked(plan: FoldPlan, links: Rehearsed | None) -> str:
    """Which columns joined the Core for moving with it, and what a rehearsal said about that."""
    losses = [f"{before:.3f} to {after:.3f}" for before, after in links.nll] if links is not None else []
    heard = f" (log-loss from {' and from '.join(losses)}, each half predicting the other)" if losses else ""
    if len(plan.linked):
        trial = f"; with them the model predicted held-back labelled rows better{heard}" if losses else ""
        return (
            f" {len(plan.linked):,} columns of the Core say little alone; they are there because they move with the "
            f"others{trial}."
        )
    if links is None:
        return ""
    assert links.reason is not None
    return f" Columns that move with the Core were tried beside it and left in the Tail: {links.reason}{heard}."


def cost(seconds: dict[str, float], peaks: dict[str, int], rows_predicted: int | None, native_bytes: int | None) -> str:
    """What did it cost?"""
    longest = max([*seconds.values(), 1e-9])
    names = {
        "load": "Load the weights",
        "plan": "Rank and fold the columns",
        "compile": "Encode the support, decide on the Tail, build the context",
        "predict": f"Predict {rows_predicted:,} test rows" if rows_predicted is not None else "Predict",
    }
    rows = "".join(
        f'<tr><td>{names.get(stage, stage)}</td><td data-value="seconds-{stage}">{value:.3f} s</td>'
        f"<td>{format_bytes(peaks[stage]) if stage in peaks else '–'}</td>"
        f'<td class="margin"><div class="gauge"><i style="width:{100 * value / longest:.1f}%"></i></div></td></tr>'
        for stage, value in seconds.items()
    )
    native = ""
    if native_bytes is not None:
        native = (
            f'<p>Reading all columns at once would have added about <b data-value="native-bytes">'
            f"{format_bytes(native_bytes)}</b>, by the backbone's memory model for "
            f"{'these rows' if rows_predicted else 'these labelled rows and one new one'}: an estimate, not a "
            "measurement.</p>"
        )
    note = (
        ""
        if len(peaks) == len(seconds)
        else '<p class="muted small">Ranking is measured together with encoding, in the row below it.</p>'
    )
    return (
        '<div class="wide"><table style="width:100%"><thead><tr><th scope="col">Stage</th><th scope="col">Time</th>'
        '<th scope="col">Memory added at its peak</th><th scope="col" style="width:30%"></th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{native}{note}"
    )
