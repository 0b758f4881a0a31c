"""Plans and gates for notebooks: `_repr_html_` fragments, and matplotlib displays in the style of scikit-learn."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from scff.errors import DataError, MissingDependency
from scff.plan.plan import FoldPlan
from scff.report import svg
from scff.report.checks import checks, verdict
from scff.report.figures import count_core, evidence_curve, leaf_blocks, ranked_evidence
from scff.report.marks import signed

if TYPE_CHECKING:
    from scff.evaluate.evaluation import Evaluation
    from scff.gate.record import TailGate

__all__ = ["EvaluationDisplay", "GateDisplay", "PlanDisplay", "gate_html", "plan_html"]

_CORE, _TAIL, _GOOD, _BAD = "#2f6690", "#a66a18", "#3a7d6b", "#a3473f"
_BOX = "font-family:system-ui,sans-serif;font-size:14px;line-height:1.45;max-width:60em"


class PlanDisplay:
    """Ranked evidence of a plan, with its Core cut.

    Parameters
    ----------
    plan : FoldPlan
        The plan to show.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The evidence curve.

    Examples
    --------
    >>> import numpy as np
    >>> from scff import compile_plan
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> plan = compile_plan(rng.normal(size=(60, 300)) + (np.arange(300) < 20) * y[:, None], y)
    >>> plan.plot().ax_.get_ylabel()
    'F statistic'
    """

    def __init__(self, plan: FoldPlan) -> None:
        self.plan = plan

    def plot(self, ax: Any = None, **kwargs: Any) -> PlanDisplay:
        """Draw; parameters as for `FoldPlan.plot`."""
        ax = _axes(ax)
        plan = self.plan
        ranked, top = ranked_evidence(plan)
        f = np.clip(ranked, 1e-2, top)
        rank = np.arange(1, len(f) + 1)
        cut = plan.cut
        (self.line_,) = ax.plot(rank, f, **{"color": "0.35", "linewidth": 1.5} | kwargs)
        if plan.routing == "random":
            ax.set_title(f"{plan.n_columns:,} columns; a Core of {cut:,} was drawn at random")
        else:
            ax.fill_between(rank[:cut], f[:cut], 1e-2, color=_CORE, alpha=0.35, label=f"Core: {count_core(plan)}")
            if cut < len(f):
                ax.fill_between(
                    rank[cut - 1 :], f[cut - 1 :], 1e-2, color=_TAIL, alpha=0.25, label=f"Tail: {len(plan.tail):,}"
                )
                ax.axvline(cut + 0.5, color="0.3", linestyle="--", linewidth=1)
            ax.legend(loc="lower left")
        # A small Core would vanish on a linear axis, a small Tail on a logarithmic one.
        scale = "log" if cut < len(f) / 5 else "linear"
        ax.set(xscale=scale, yscale="log", xlabel="columns, strongest first", ylabel="F statistic")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class GateDisplay:
    """The Tail gate's checks: by how much each was passed or failed.

    Parameters
    ----------
    gate : TailGate
        The decision to show.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : list of matplotlib BarContainer
        One per candidate; empty where the Tail was turned away before any candidate was tried.
    """

    def __init__(self, gate: TailGate) -> None:
        self.gate = gate

    def plot(self, ax: Any = None, **kwargs: Any) -> GateDisplay:
        """Draw; parameters as for `TailGate.plot`."""
        ax = _axes(ax, (9, 4.4))
        gate = self.gate
        self.bars_ = []
        ax.set_title(repr(gate).removeprefix("TailGate(").removesuffix(")"), wrap=True)
        labels: list[str] = []
        for candidate in gate.candidates:
            rows = checks(candidate, gate)
            at = -np.arange(len(labels), len(labels) + len(rows))
            colours = [(_GOOD if row.passed else _BAD) if row.counts else "0.7" for row in rows]
            bars = ax.barh(at, [100 * row.relative for row in rows], **{"color": colours, "height": 0.7} | kwargs)
            ax.bar_label(bars, [f"{row.margin:+.3g}" for row in rows], padding=3, fontsize="small")
            self.bars_.append(bars)
            labels += [f"{candidate.name}: {row.name}, {row.where}" for row in rows]
        if labels:
            ax.set_yticks(-np.arange(len(labels)), labels, fontsize="small")
            ax.axvline(0, color="0.3", linewidth=1)
            shown = [0.0, *(100 * row.relative for candidate in gate.candidates for row in checks(candidate, gate))]
            span = max(shown) - min(shown) or 1.0
            ax.set_xlim(min(shown) - 0.3 * span, max(shown) + 0.25 * span)  # room for the labels on both sides
            ax.set_xlabel("improvement with the Tail, %\n(labels: absolute margin)")
        else:
            ax.text(0.5, 0.5, gate.reason, ha="center", va="center", transform=ax.transAxes, wrap=True)
            ax.set_axis_off()
        self.ax_, self.figure_ = ax, ax.figure
        return self


class EvaluationDisplay:
    """One figure of all models of an evaluation, with its intervals.

    Parameters
    ----------
    evaluation : Evaluation

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation

    def plot(self, metric: str | None = None, ax: Any = None) -> EvaluationDisplay:
        """Draw; parameters as for `Evaluation.plot`."""
        found = self.evaluation
        metric = metric or found.metric
        if metric not in found.scores["scff"]:
            raise DataError(f"There is no figure {metric!r}; choose from {', '.join(found.scores['scff'])}.")
        ax = _axes(ax)
        names = list(found.models)
        for at, name in enumerate(names):
            one = found.scores[name][metric]
            colour = _CORE if name == "scff" else "0.5"
            ax.plot([one.low, one.high], [-at, -at], color=colour, linewidth=3, alpha=0.5, solid_capstyle="round")
            ax.plot(one.value, -at, "o", color=colour)
        ax.set_yticks(-np.arange(len(names)), [found.models[name] for name in names])
        ax.set_xlabel(f"{metric.replace('_', ' ')}, 95 % intervals")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def plan_html(plan: FoldPlan) -> str:
    """A plan for a notebook: one sentence and the evidence curve."""
    strongest = ", ".join(escape(plan.name(int(j))) for j in plan.core[:5])
    more = ", …" if len(plan.core) > 5 else ""
    return (
        f'<div style="{_BOX}"><div>{escape(repr(plan))}</div>{evidence_curve(plan)}'
        f"{leaf_blocks(plan, None) if len(plan.leaves) <= 36 else ''}"
        f"<div>Strongest columns: {strongest}{more}</div></div>"
    )


def gate_html(gate: TailGate) -> str:
    """A gate for a notebook: the decision, and each candidate's checks."""
    parts = [f'<div style="{_BOX}"><div>{escape(repr(gate))}</div>']
    for candidate in gate.candidates:
        rows = "".join(
            f"<tr><td>{row.name}</td><td>{row.where}</td><td>{svg.significant(row.before)}</td>"
            f"<td>{svg.significant(row.after)}</td><td>{signed(row.margin)}</td>"
            f"<td>{('passed' if row.passed else 'failed') if row.counts else 'not asked'}</td></tr>"
            for row in checks(candidate, gate)
        )
        parts.append(
            f"<table><caption>{candidate.name} candidate, α = min({candidate.alpha_a:.3g}, {candidate.alpha_b:.3g}). "
            f"{escape(verdict(candidate, gate))}</caption><thead><tr><th>check</th><th>on</th><th>without</th><th>"
            f"with</th>"
            f"<th>margin</th><th></th></tr></thead><tbody>{rows}</tbody></table>"
        )
    return "".join(parts) + "</div>"


def _axes(ax: Any, size: tuple[float, float] = (7, 4)) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependency("Plots need matplotlib; install it with `pip install matplotlib`.") from error
    return plt.subplots(figsize=size, layout="constrained")[1]
