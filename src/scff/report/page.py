"""One self-contained HTML page about a fitted model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import scff
from scff.errors import DataError
from scff.gate.record import TailGate
from scff.plan.plan import FoldPlan
from scff.report import sections
from scff.report.columns import effective_plan, evidence_frame, folds_tokens
from scff.report.leaf_out import leave_leaves_out
from scff.report.quality import Quality, assess, known_columns, split_target
from scff.report.tail_section import tail

if TYPE_CHECKING:
    from scff.estimators.classifier import FoldedClassifier

__all__ = ["Report", "make_report", "write_report"]

_STRATA = ("core", "tail", "unused", "native")


@dataclass(frozen=True)
class Report:
    """A report, ready to be shown or saved.

    Attributes
    ----------
    html : str
        The whole page.
    quality : Quality or None
        Scores on the test table, if there was one.
    columns : DataFrame
        The evidence of every column, as `column_evidence` gives it.
    """

    html: str = field(repr=False)
    quality: Quality | None = field(repr=False)
    columns: pd.DataFrame = field(repr=False)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file and return its path."""
        path = Path(path)
        try:
            path.write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise DataError(
                f"The report cannot be written to {path} ({error.strerror}); choose another place."
            ) from error
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
    model: FoldedClassifier, path: str | Path, *, test: Any = None, target: Any = None, title: str | None = None
) -> Path:
    """Make the report of a fitted model and write it to one HTML file.

    Parameters
    ----------
    model : FoldedClassifier
        A fitted model.
    path : str or Path
        File to write.
    test : DataFrame or array, optional
        Labelled rows the model has not seen; without them the report says nothing about quality.
    target : str or array-like, optional
        Name of the label column in ``test``, or the labels.
    title : str, optional
        Heading of the page.

    Returns
    -------
    Path
        Where the page is.
    """
    return make_report(model, test=test, target=target, title=title).save(path)


def make_report(model: FoldedClassifier, *, test: Any = None, target: Any = None, title: str | None = None) -> Report:
    """Make the report of a fitted model; parameters as for `write_report`."""
    quality = None
    if test is not None:
        X, y = split_target(test, target)
        quality = assess(model, known_columns(model, X), y)
    elif target is not None:
        raise DataError("There are labels but no test table; pass both, or neither.")
    plan = effective_plan(model)
    measured = leave_leaves_out(model, plan)
    evidence = evidence_frame(model, plan, measured)
    tokens = folds_tokens(model)
    gate = None if tokens else model.gate_
    native = model.plan_ is None
    effects = measured.effects.tolist()
    classes = [str(name) for name in model.classes_]
    seconds = dict(model.seconds_)
    peaks = dict(getattr(model, "peak_bytes_", {}))
    if quality is not None:
        seconds["predict"], peaks["predict"] = quality.seconds, quality.peak_bytes
    title = title or f"{model.backbone_} on {plan.n_columns:,} columns"
    ranked = evidence["position"].tolist()
    assets = files("scff.report") / "assets"
    html = Template((assets / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        css=(assets / "page.css").read_text(encoding="utf-8"),
        js=(assets / "page.js").read_text(encoding="utf-8"),
        facts=_facts(model, plan, classes),
        summary=_summary(plan, gate, quality, ranked, native),
        tiles=_tiles(plan, gate, quality, model),
        good=sections.good(quality, classes),
        used=sections.used(plan, ranked, native),
        folded=sections.folded(plan, gate, effects, native, model.links_),
        tail=tail(gate, "tokens" if tokens else model.method, quality, measured.tail_gain),
        cost=sections.cost(seconds, peaks, quality.n_rows if quality else None, _native_bytes(model, quality)),
        footer=_footer(model, plan),
        columns=_payload(evidence, effects),
    )
    return Report(html, quality, evidence)


def _native_bytes(model: FoldedClassifier, quality: Quality | None) -> int | None:
    """What native inference on the same rows would add, by the backbone's own memory model; None where it ran."""
    view = getattr(model._members()[0], "view", None)
    if model.plan_ is None or view is None:
        return None
    return int(view.native_bytes(len(view.columns), quality.n_rows if quality else 1))


def _facts(model: FoldedClassifier, plan: FoldPlan, classes: list[str]) -> str:
    views = f"{model.n_estimators} views" if model.n_estimators > 1 else ""
    names = ", ".join(classes[:6]) + (", …" if len(classes) > 6 else "")
    parts = [
        f"backbone {model.backbone_}",
        f"method {model.method}",
        f"{plan.n_rows:,} labelled rows",
        f"{plan.n_columns:,} columns",
        f"{len(classes)} classes ({names})",
        views,
    ]
    return "".join(f"<span>{escape(part)}</span>" for part in parts if part)


def _summary(plan: FoldPlan, gate: TailGate | None, quality: Quality | None, ranked: list[int], native: bool) -> str:
    """What a person who reads one paragraph should know."""
    strongest = [f"<b>{escape(plan.name(j))}</b>" for j in ranked[:3] if plan.f[j] > 0]
    sentences = []
    if quality is not None:
        sentences.append(f"The model is right on <b>{quality.accuracy:.1%}</b> of {quality.n_rows:,} test rows.")
    if native:
        sentences.append(f"It read all {plan.n_columns:,} columns at once.")
    elif plan.discoveries:
        sentences.append(
            f'Of {plan.n_columns:,} columns, <b class="core">{plan.cut:,} carry a clear signal</b> on their own '
            f"and form the Core{_with_linked(plan)}."
        )
    else:
        sentences.append(
            f"None of {plan.n_columns:,} columns carries a clear signal on its own; the strongest is the Core"
            f"{_with_linked(plan)}."
        )
    if strongest and plan.discoveries:
        sentences.append(f"The strongest {'are' if len(strongest) > 1 else 'is'} {', '.join(strongest)}.")
    if len(plan.tail) and gate is not None:
        if gate.accepted is not None:
            sentences.append(
                f'The other <b class="tail">{len(plan.tail):,} helped</b> on both halves of the labelled rows, and '
                f"were let "
                f"in with weight {gate.alpha:.2f}."
            )
            if quality is not None and quality.core_log_loss is not None:
                word = "better" if quality.log_loss < quality.core_log_loss else "worse"
                sentences.append(f"On the test rows this made the model <b>{word}</b> than the Core alone.")
        elif gate.candidates or gate.rehearsed is not None:
            sentences.append(
                f'The other <b class="tail">{len(plan.tail):,} did not help</b> reliably on both halves of the '
                f"labelled "
                "rows, and were kept out."
            )
        else:
            sentences.append(f'The other <b class="tail">{len(plan.tail):,} were not used</b>: {escape(gate.reason)}.')
    return " ".join(sentences)


def _with_linked(plan: FoldPlan) -> str:
    return f", with {len(plan.linked):,} more that move with them" if len(plan.linked) else ""


def _tiles(plan: FoldPlan, gate: TailGate | None, quality: Quality | None, model: FoldedClassifier) -> str:
    tiles = []
    if quality is not None:
        baseline = f"always the most frequent class: {quality.prior_accuracy:.3f}"
        tiles.append(
            sections.tile("Accuracy on the test table", f"{quality.accuracy:.4f}", baseline, "headline-accuracy")
        )
    if model.plan_ is not None:
        share = f"{len(plan.core_leaves)} leaf" if len(plan.core_leaves) == 1 else f"{len(plan.core_leaves)} leaves"
        tiles.append(sections.tile("Core columns", f"{len(plan.core):,}", f"of {plan.n_columns:,}, in {share}", "core"))
    if gate is not None and len(plan.tail):
        said = ("let in", f"with weight α = {gate.alpha:.3f}") if gate.accepted else ("kept out", escape(gate.reason))
        tiles.append(sections.tile(f"Tail of {len(plan.tail):,} columns", *said, "tail"))
    tiles.append(
        sections.tile("Time to fit", f"{sum(model.seconds_.values()):.1f} s", "loading, planning, compiling", "fit")
    )
    return "".join(tiles)


def _footer(model: FoldedClassifier, plan: FoldPlan) -> str:
    ref = model.checkpoint_
    return (
        f"Made by scff {scff.__version__}. Weights {escape(Path(ref.path).name)}, sha256 {ref.sha256[:16]}…. "
        f"Plan {plan.hash[:16]}…. Everything but the quality section was measured on the labelled support alone."
    )


def _payload(evidence: pd.DataFrame, effects: list[float]) -> str:
    """The columns for the page's table: parallel lists, seven digits, and no `<` that could end the script."""

    def numbers(values: Any) -> list[float | None]:
        return [float(f"{v:.7g}") if np.isfinite(v) else None for v in values]

    data = {
        "name": evidence.index.tolist(),
        "position": evidence["position"].tolist(),
        "F": numbers(evidence["F"]),
        "q": numbers(evidence["q"]),
        "stratum": [_STRATA.index(name) for name in evidence["stratum"]],
        "leaf": evidence["leaf"].tolist(),
        "effect": numbers(effects),
    }
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
