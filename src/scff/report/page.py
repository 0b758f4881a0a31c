"""One self-contained HTML page about a fitted model."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import scff
from scff.errors import DataError
from scff.progress import Steps
from scff.report import readings, sections
from scff.report.columns import check_words, evidence_frame, strongest
from scff.report.columns_section import payload, uneven, used
from scff.report.leaf_out import leave_leaves_out
from scff.report.marks import counted, tile, took
from scff.report.numbers import NumberQuality, assess_numbers, good_numbers
from scff.report.quality import Quality, assess, known_columns, seen_before, split_target
from scff.report.shell import asset, page
from scff.report.shuffling import affordable, rows_to_predict, shuffle_columns
from scff.report.subject import Subject
from scff.report.tail_section import decision, tail
from scff.tables.atomic import named_file, write_atomically

if TYPE_CHECKING:
    from scff.estimators.base import FoldedEstimator
    from scff.evaluate.evaluation import Evaluation
    from scff.plan.plan import FoldPlan

__all__ = ["Report", "make_report", "write_report"]

_QUESTIONS = {
    "good": ("How good?", "How good is it?"),
    "read": ("What was read?", "What was read?"),
    "used": ("Which columns?", "Which columns tell?"),
    "folded": ("How folded?", "How were the columns folded?"),
    "tail": ("Was the Tail let in?", "Was the Tail let in, and why?"),
    "cost": ("What did it cost?", "What did it cost?"),
}
"""Every section by its id: the words of its link, and its heading."""


@dataclass(frozen=True)
class Report:
    """A report, ready to be shown or saved.

    Attributes
    ----------
    html : str
        The whole page.
    quality : Quality, NumberQuality or None
        Scores on the test table, if there was one.
    columns : DataFrame
        The evidence of every column, as `column_evidence` gives it.
    """

    html: str = field(repr=False)
    quality: Quality | NumberQuality | None = field(repr=False)
    columns: pd.DataFrame = field(repr=False)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, the whole of it or nothing, and return its path."""
        path = named_file(path)
        write_atomically(path, lambda temporary: temporary.write_text(self.html, encoding="utf-8"))
        return path

    def __repr__(self) -> str:
        return f"Report({len(self.columns):,} columns, {len(self.html.encode()) / 1024:.0f} KiB of HTML)"

    def _repr_html_(self) -> str:
        # In a frame: the page's style must not leak into the notebook, nor the notebook's into it.
        return (
            f'<iframe title="scff report" style="width:100%;height:720px;border:1px solid #8884;border-radius:8px" '
            f'srcdoc="{escape(self.html)}"></iframe>'
        )


def write_report(
    model: FoldedEstimator,
    path: str | Path,
    *,
    test: Any = None,
    target: Any = None,
    title: str | None = None,
    evaluation: Evaluation | None = None,
    verbose: int = 0,
) -> Path:
    """Make the report of a fitted model and write it to one HTML file.

    Parameters
    ----------
    model : FoldedClassifier or FoldedRegressor
        A fitted model.
    path : str or Path
        File to write.
    test : DataFrame or array, optional
        Labelled rows the model has not seen; without them the report says nothing about quality.
    target : str or array-like, optional
        Name of the label column in ``test``, or the labels.
    title : str, optional
        Heading of the page.
    evaluation : Evaluation, optional
        Of the same table: shows how steadily each column was chosen.
    verbose : int, default=0
        1 shows a bar with the time to go.

    Returns
    -------
    Path
        Where the page is.
    """
    made = make_report(model, test=test, target=target, title=title, evaluation=evaluation, verbose=verbose)
    return made.save(path)


def make_report(
    model: FoldedEstimator,
    *,
    test: Any = None,
    target: Any = None,
    title: str | None = None,
    evaluation: Evaluation | None = None,
    verbose: int = 0,
) -> Report:
    """Make the report of a fitted model; parameters as for `write_report`."""
    quality: Quality | NumberQuality | None = None
    seen = ""
    check_words(title, evaluation)
    if model.fitted_.classes is None and model.fitted_.y.min() == model.fitted_.y.max():
        raise DataError(
            "All labelled rows have the same number, so no model was needed and there is nothing to report."
        )
    if test is not None:
        X, y = split_target(test, target)
        assess_it = assess if model.fitted_.classes is not None else assess_numbers
        quality = assess_it(model, known_columns(model, X), y)
        seen = seen_before(model.fitted_.support, known_columns(model, X))
    elif target is not None:
        raise DataError("There are labels but no test table; pass both, or neither.")
    subject = Subject.of(model.fitted_)
    plan, fitted = subject.plan, subject.fitted
    n = fitted.support.n_rows
    shuffled = strongest(subject, affordable(n))
    with Steps("asking each column", n + rows_to_predict(n, len(shuffled)), shown=verbose > 0) as steps:
        measured = leave_leaves_out(subject)
        steps.done(n)
        worth = shuffle_columns(fitted, shuffled, steps)
    evidence = evidence_frame(subject, measured, worth, evaluation)
    effects = measured.effects.tolist()
    classes = None if fitted.classes is None else [str(name) for name in fitted.classes]
    seconds, peaks = dict(fitted.seconds), dict(fitted.peak_bytes)
    if quality is not None:
        seconds["predict"], peaks["predict"] = quality.seconds, quality.peak_bytes
    title = title or f"{model.backbone_} on {counted(plan.n_columns, 'column')}"
    ranked = evidence["position"].tolist()
    answers = {
        "good": (f'<p class="flag">{escape(seen)}</p>' if seen else "") + _good(quality, classes),
        "read": readings.read(fitted),
        "used": used(subject, evidence),
        "folded": sections.folded(subject, effects),
        "tail": tail(subject, quality if isinstance(quality, Quality) else None, measured.tail_gain),
        "cost": sections.cost(
            seconds,
            peaks,
            fitted.verdicts,
            quality.n_rows if quality else None,
            subject.native_bytes(quality.n_rows if quality else 1),
        ),
    }
    if subject.reading is None:
        del answers["tail"]  # nothing was folded: there is no Tail to speak of
    columns = payload(evidence, effects, len(plan.core_leaves), classes)
    html = page(
        title=title,
        brand="model report",
        facts=_facts(subject, classes),
        summary=_summary(subject, quality, ranked),
        tiles=_tiles(subject, quality),
        answers={key: (*_QUESTIONS[key], answer) for key, answer in answers.items()},
        footer=_footer(subject),
        scripts=f'<script type="application/json" id="columns">{columns}</script>'
        f"<script>{asset('columns.js')}</script>",
    )
    return Report(html, quality, evidence)


def _good(quality: Quality | NumberQuality | None, classes: list[str] | None) -> str:
    if isinstance(quality, NumberQuality):
        return good_numbers(quality)
    return sections.good(quality, classes)


def _facts(subject: Subject, classes: list[str] | None) -> list[str]:
    fitted, plan = subject.fitted, subject.plan
    views = fitted.settings.n_views
    what = "predicts numbers"
    if classes is not None:
        what = f"{len(classes)} classes ({', '.join(classes[:6])}{', …' if len(classes) > 6 else ''})"
    return [
        f"backbone {fitted.checkpoint.backbone}" + (f" with {fitted.beside.backbone} beside" if fitted.beside else ""),
        f"method {subject.method}",
        counted(plan.n_rows, "labelled row"),
        counted(plan.n_columns, "column"),
        what,
        f"{views} views" if views > 1 else "",
    ]


def _summary(subject: Subject, quality: Quality | NumberQuality | None, ranked: list[int]) -> str:
    """What a person who reads one paragraph should know."""
    plan = subject.plan
    strongest = [f"<b>{escape(plan.name(j))}</b>" for j in ranked[:3] if plan.f[j] > 0]
    sentences = []
    if isinstance(quality, Quality):
        rows = counted(quality.n_rows, "test row")
        sentences.append(f"The model is right on <b>{quality.accuracy:.1%}</b> of {rows}.")
    elif quality is not None:
        rows = counted(quality.n_rows, "test row")
        sentences.append(f"On {rows} the model explains <b>{quality.r2:.1%}</b> of the variance (R²).")
    if subject.native:
        sentences.append(f"It read all {plan.n_columns:,} columns at once.")
    elif plan.discoveries:
        carry = "column carries" if plan.cut == 1 else "columns carry"
        sentences.append(
            f'Of {plan.n_columns:,} columns, <b class="core">{plan.cut:,} {carry} a clear signal</b> alone: '
            f"the Core{_with_linked(plan)}."
        )
    else:
        sentences.append(
            f"None of {plan.n_columns:,} columns carries a clear signal on its own; the strongest is the Core"
            f"{_with_linked(plan)}."
        )
    if strongest and plan.discoveries:
        sentences.append(f"The strongest {'are' if len(strongest) > 1 else 'is'} {', '.join(strongest)}.")
    sentences.append(_tail_in_short(subject, quality if isinstance(quality, Quality) else None))
    sentences.append(uneven(subject.fitted))
    sentences.append(readings.answer(subject.fitted) if subject.fitted.verdicts else "")
    return " ".join(filter(None, sentences))


def _tail_in_short(subject: Subject, quality: Quality | None) -> str:
    decided, others = decision(subject), f"{len(subject.plan.tail):,}"
    if decided is None or not len(subject.plan.tail):
        return ""
    if not decided.let_in:
        return f'The other <b class="tail">{others} are not folded into it</b>: {escape(decided.reason)}.'
    helped = (
        f'The other <b class="tail">{others} helped</b> on both halves of the labelled rows, and were let in with step '
        f"{decided.gate.alpha:.3f}."
    )
    if quality is None or quality.core_log_loss is None:
        return helped
    word = "better" if quality.log_loss < quality.core_log_loss else "worse"
    return f"{helped} On the test rows this made the model <b>{word}</b> than without them."


def _with_linked(plan: FoldPlan) -> str:
    return f", with {len(plan.linked):,} more that move with them" if len(plan.linked) else ""


def _tiles(subject: Subject, quality: Quality | NumberQuality | None) -> str:
    plan, fitted = subject.plan, subject.fitted
    tiles = []
    if isinstance(quality, NumberQuality):
        tiles.append(tile("R² on the test table", f"{quality.r2:.3f}", "always the mean: 0", "headline-r2"))
    elif quality is not None:
        baseline = f"always the most frequent class: {quality.prior_accuracy:.1%}"
        tiles.append(tile("Accuracy on the test table", f"{quality.accuracy:.1%}", baseline, "headline-accuracy"))
    if not subject.native:
        note = f"of {plan.n_columns:,}"
        if plan.core_leaves:
            note += f", in {counted(len(plan.core_leaves), 'leaf', 'leaves')}"
        if len(plan.linked):
            note += f"; {len(plan.linked):,} of them linked to the others"
        tiles.append(tile("Core columns", f"{len(plan.core):,}", note, "core"))
    decided = decision(subject)
    if decided is not None and len(plan.tail):
        outcome = ("let in", f"with step α = {decided.gate.alpha:.3f}")
        if not decided.let_in:
            outcome = ("kept out", escape(decided.reason))
        tiles.append(tile(f"Tail of {counted(len(plan.tail), 'column')}", *outcome, "tail"))
    if len(fitted.choices) > 1:
        tiles.append(tile("Readings mixed", f"{len(fitted.choices)}", "chosen by held-back rows", "readings"))
    tiles.append(tile("Time to fit", took(sum(fitted.seconds.values())), "loading, planning, compiling", "fit"))
    return "".join(tiles)


def _footer(subject: Subject) -> str:
    fitted, plan = subject.fitted, subject.fitted.plan or subject.plan
    used = (fitted.checkpoint, fitted.beside)
    weights = " and ".join(f"{escape(Path(ref.path).name)}, sha256 {ref.sha256[:16]}…" for ref in used if ref)
    return (
        f"Made by scff {scff.__version__}. Weights {weights}. Plan {plan.hash[:16]}…. Everything but the quality "
        "section was measured on the labelled support alone."
    )
