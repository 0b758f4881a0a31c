"""The answers of the report, each as HTML; that on the Tail has a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from scff.memory.budget import format_bytes
from scff.report import charts
from scff.report.figures import evidence_curve, leaf_blocks
from scff.report.marks import counted, gauge, tile, took
from scff.report.quality import Quality
from scff.report.subject import Subject

if TYPE_CHECKING:
    from scff.plan.plan import FoldPlan
    from scff.trials.trial import Verdict

__all__ = ["cost", "folded", "good"]


def good(quality: Quality | None, classes: Sequence[str] | None) -> str:
    """How good is it?"""
    if quality is None or classes is None:
        return (
            '<p class="say">No test table was given, so this report says nothing about quality: scores on the rows the '
            "model was fitted on would flatter it. Make the report again with labelled rows that were held back: "
            "<code>clf.report(X_test, y_test)</code> or <code>scff report model.scff --test test.csv --target "
            "y</code>.</p>"
        )
    low, high = quality.accuracy_interval
    tiles = [
        tile("Accuracy", f"{quality.accuracy:.1%}", f"95% interval {low:.1%} to {high:.1%}", "accuracy"),
        tile("Log-loss", f"{quality.log_loss:.3f}", "lower is better", "log_loss"),
    ]
    if quality.auc is not None:
        note = f"positive class {escape(classes[1])}" if len(classes) == 2 else "mean of each class against the others"
        tiles.append(tile("ROC AUC", f"{quality.auc:.3f}", note, "auc"))
    tiles.append(tile("Test rows", f"{quality.n_rows:,}", "as given to this report", "test_rows"))
    about = "the predicted class" if quality.calibrated_class is None else f"class {escape(quality.calibrated_class)}"
    figures = [
        f"<figure><h3>Calibration</h3>{charts.calibration(quality.calibration)}<figcaption>On the dashed line, a "
        "probability of "
        f"0.8 for {about} comes true 8 times in 10. {charts.groups_of(quality.calibration)}</figcaption></figure>"
    ]
    if quality.roc:
        whose = f"rows of class {escape(quality.roc[0].label)}" if len(quality.roc) == 1 else "rows of each class"
        figures.append(
            f"<figure><h3>ROC {'curve' if len(quality.roc) == 1 else 'curves'}</h3>{charts.roc(quality.roc)}"
            f"<figcaption>How many of the {whose} are found as more false alarms are allowed.</figcaption></figure>"
        )
    figures.append(charts.confusion(quality.confusion, classes))
    return (
        f'<p class="say">On {counted(quality.n_rows, "test row")} the model is right '
        f"<b>{quality.accuracy:.1%}</b> of the time. Always saying the most frequent class would be right "
        f"{quality.prior_accuracy:.1%} of the time, with a log-loss of {quality.prior_log_loss:.3f} from class "
        f'frequencies alone.</p><div class="tiles">{"".join(tiles)}</div><div class="charts">{"".join(figures)}</div>'
    )


def folded(subject: Subject, effects: Sequence[float]) -> str:
    """How were the columns folded?"""
    plan = subject.plan
    if subject.reading is None:
        say = "They were not: this model runs its backbone natively, every column interacting with every other."
        if not subject.native:
            say = (
                "They were not: held-back rows chose readings of the table that fit into one leaf or need no model. "
                "This is the evidence that the paper's plan would rest on:"
            )
        return f'<p class="say">{say}</p>{_curve(plan)}'
    widest = max(map(len, plan.leaves))
    leaves = counted(len(plan.leaves), "leaf", "leaves")
    dropped, drawn = "", ""
    if len(plan.dropped):
        dropped = (
            f" {counted(len(plan.dropped), 'constant column')} {_were(len(plan.dropped))} left out by the backbone."
        )
    if plan.routing == "random":
        drawn = " The Core was drawn at random, as a control."
    return (
        f'<p class="say">{_which(subject)}The columns were ranked on {plan.n_rows:,} labelled rows, cut into Core and '
        f"Tail, and dealt like cards into {leaves} of at most {counted(widest, 'column')}, so that every leaf has its "
        "share of strong ones. Columns interact inside a leaf; the leaves meet in the row representation."
        f"{_linked(subject)}{dropped}{drawn}</p>"
        f"<figure>{_curve(plan)}<figcaption>Evidence of every column, strongest first. The dashed line is the Core "
        "cut.</figcaption></figure>"
        f"<figure>{leaf_blocks(plan, subject.gate, effects)}<figcaption>Each block is a leaf: "
        "its name, its number of columns, and their evidence as bars on the same logarithmic axis.</figcaption>"
        "</figure>"
    )


def _curve(plan: FoldPlan) -> str:
    """The evidence curve, drawn for a desktop and for a phone."""
    return f'<div class="broad">{evidence_curve(plan)}</div><div class="narrow">{evidence_curve(plan, 360)}</div>'


def _which(subject: Subject) -> str:
    """Which part of the answer is described, where there are several."""
    if len(subject.fitted.choices) == 1 or subject.reading is None:
        return ""
    choice = subject.reading.choice
    return (
        f"This is about the heaviest part of the answer that folds columns ({escape(choice.presentation.name)}, "
        f"{choice.weight:.0%}). "
    )


def _linked(subject: Subject) -> str:
    """Which columns joined the Core for moving with it, and what held-back rows said about that."""
    tried = {one.name: one.loss for verdict in subject.fitted.verdicts for one in verdict.tried}
    heard = ""
    if "linked" in tried:
        heard = f" (loss {tried['linked']:.3f} with them, {tried['core']:.3f} without)"
    linked = len(subject.plan.linked)
    if linked:
        return (
            f" {counted(linked, 'column')} of the Core {'says' if linked == 1 else 'say'} little alone; "
            f"{'it is' if linked == 1 else 'they are'} there because {'it moves' if linked == 1 else 'they move'} with "
            f"the others, and held-back rows were predicted better{heard}."
        )
    if not heard:
        return ""
    return f" Columns that move with the Core were tried beside it and left in the Tail{heard}."


def _were(n: int) -> str:
    return "was" if n == 1 else "were"


def cost(
    seconds: dict[str, float],
    peaks: dict[str, int],
    verdicts: Sequence[Verdict],
    rows_predicted: int | None,
    native_bytes: int | None,
) -> str:
    """What did it cost?"""
    longest = max([*seconds.values(), 1e-9])
    names = {
        "load": "Load the weights",
        "plan": "Rank the columns" + (", and ask held-back rows" if any(v.n_rows for v in verdicts) else ""),
        "compile": "Encode the support, decide on the Tail, build the context",
        "predict": f"Predict {counted(rows_predicted or 0, 'test row')}",
    }
    rows = "".join(
        f'<tr><td>{names.get(stage, stage)}</td><td data-value="seconds-{stage}">{took(value)}</td>'
        f"<td>{format_bytes(peaks[stage]) if stage in peaks else '–'}</td>"
        f'<td class="margin">{gauge(value / longest)}</td></tr>'
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
