"""The report's pictures of a plan: ranked evidence with the Core cut, and the leaves as blocks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from scff.gate.record import TailGate
from scff.plan.plan import FoldPlan
from scff.report import svg
from scff.report.svg import COLOURS, Scale

__all__ = ["count_core", "evidence_curve", "leaf_blocks", "ranked_evidence"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_FLOOR = 0.01  # an F below this says nothing; the axis stops here
_MOST_POINTS = 400
_MOST_BLOCKS = 54
_BARS = 28


def ranked_evidence(plan: FoldPlan) -> tuple[FloatArray, float]:
    """F of every column, strongest first, and the value that stands for an infinite one when drawn."""
    ranked = np.sort(plan.f)[::-1]
    finite = ranked[np.isfinite(ranked)]
    top = max(float(finite.max()) if len(finite) else 1.0, 1.0)
    # A perfect separation has no F to draw: a little above the highest one that can be drawn.
    return ranked, top * 1.6 if len(finite) < len(ranked) else top


def count_core(plan: FoldPlan) -> str:
    """The size of the Core in figures, its linked columns apart."""
    return f"{plan.cut:,}" + (f" and {len(plan.linked):,} linked to them" if len(plan.linked) else "")


def evidence_curve(plan: FoldPlan) -> str:
    """Ranked F statistics on logarithmic axes, with the Core cut."""
    ranked, top = ranked_evidence(plan)
    left, right, above, below = 64.0, 900.0, 34.0, 250.0
    cut = plan.cut
    log = cut < len(ranked) / 5  # a small Core would vanish on a linear axis, a small Tail on a logarithmic one
    x = Scale(1, max(len(ranked), 2), left, right, log=log)
    y = Scale(_FLOOR, max(top * 1.3, 10.0), below, above, log=True)
    spaced = np.geomspace if log else np.linspace
    ranks = np.unique(np.round(spaced(1, len(ranked), _MOST_POINTS)).astype(np.int64))
    ranks = np.union1d(ranks, [cut, min(cut + 1, len(ranked))])
    points = [(x(rank), y(min(ranked[rank - 1], top))) for rank in ranks]
    ordered = plan.routing != "random" and cut < len(ranked)
    body = [svg.axis_y(y, left, "F statistic", right)]
    edge = x(cut + 0.5) if ordered else right
    level = [p[1] for p in points if p[0] <= edge][-1]  # both sides reach the cut, so that no gap looks like a fall
    core_side = [p for p in points if p[0] <= edge] + [(edge, level)]
    tail_side = [(edge, points[len(core_side) - 1][1])] if ordered else []
    tail_side += [p for p in points if p[0] > edge]
    for colour, inside in (("core", core_side), ("tail", tail_side)):
        if len(inside) > 1:
            area = [(inside[0][0], below), *inside, (inside[-1][0], below)]
            body.append(svg.path(area, f'fill="{COLOURS[colour]}" opacity=".22"'))
            body.append(svg.path(inside, f'fill="none" stroke="{COLOURS[colour]}" stroke-width="2.2"'))
    if cut <= 3:  # too short for an area: show the few columns of the Core as points
        body += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{COLOURS["core"]}"/>' for px, py in points[:cut]]
    if ordered:
        body.append(f'<path d="M{edge:.1f} {above - 8}V{below}" stroke="currentColor" stroke-dasharray="4 4"/>')
        # Each label on its own side of the cut, unless that side is too narrow for it.
        core_x, core_anchor = (edge - 8, "end") if edge - left > 170 else (edge + 8, "start")
        rest_x, rest_anchor = (edge + 8, "start") if right - edge > 160 else (edge - 8, "end")
        crowded = core_anchor == rest_anchor
        core_label, tail_label = f"Core: the strongest {count_core(plan)}", f"Tail: the other {len(plan.tail):,}"
        body.append(
            svg.text(core_x, above - 12, core_label, core_anchor, f'fill="{COLOURS["core"]}" font-weight="600"')
        )
        level = above + 6 if crowded else above - 12
        body.append(svg.text(rest_x, level, tail_label, rest_anchor, f'fill="{COLOURS["tail"]}" font-weight="600"'))
    body.append(svg.axis_x(x, below, "columns, strongest first" + (" (logarithmic)" if log else "")))
    title = f"Evidence of {plan.n_columns} columns, strongest first; {len(plan.core)} of them are the Core"
    return svg.figure("evidence", 920, 300, title, "".join(body))


def leaf_blocks(plan: FoldPlan, gate: TailGate | None, effects: Sequence[float] | None = None) -> str:
    """Leaves as blocks, Core in front and Tail behind; the bars inside are the evidence of their columns."""
    _, top = ranked_evidence(plan)
    body: list[str] = []
    y = 8.0
    for stratum, leaves, offset in (
        ("core", plan.core_leaves, 0),
        ("tail", plan.tail_leaves, len(plan.core_leaves)),
    ):
        if not leaves:
            continue
        columns = sum(map(len, leaves))
        many = f"{len(leaves)} leaves" if len(leaves) > 1 else "1 leaf"
        label = f"{stratum.capitalize()}: {columns:,} columns in {many}"
        faded = False
        if stratum == "tail" and gate is not None:
            faded = gate.accepted is None
            label += ", kept out" if faded else f", let in with weight {gate.alpha:.3g}"
        body.append(svg.text(8, y + 13, label, extra=f'fill="{COLOURS[stratum]}" font-weight="600"'))
        y += 26
        shown = list(leaves[:_MOST_BLOCKS])
        for i, leaf in enumerate(shown):
            column, row = i % 9, i // 9
            effect = effects[offset + i] if effects is not None else float("nan")
            body.append(_block(plan, leaf, 8 + 101 * column, y + 62 * row, stratum, offset + i, effect, top, faded))
        y += 62 * (-(-len(shown) // 9)) + 4
        if len(leaves) > len(shown):
            body.append(
                svg.text(8, y + 12, f"and {len(leaves) - len(shown):,} more leaves like these", extra='class="tick"')
            )
            y += 22
        y += 8
    title = f"{len(plan.core_leaves)} Core leaves and {len(plan.tail_leaves)} Tail leaves as blocks"
    return svg.figure("leaves", 920, int(y), title, "".join(body))


def _block(
    plan: FoldPlan,
    leaf: IntArray,
    x: float,
    y: float,
    stratum: str,
    number: int,
    effect: float,
    top: float,
    faded: bool,
) -> str:
    colour = COLOURS[stratum]
    strongest = int(leaf[np.argmax(plan.f[leaf])])
    tip = (
        f"Leaf {number}: {len(leaf)} columns, strongest {plan.name(strongest)} "
        f"(F = {svg.significant(float(plan.f[strongest]))})"
    )
    if np.isfinite(effect):
        tip += f"; prototype NLL changes by {effect:+.4g} without it"
    height = Scale(_FLOOR, max(top, 1.0), 0, 30, log=True)
    groups = np.array_split(plan.f[leaf], min(_BARS, len(leaf)))
    step = 81 / len(groups)
    bars = "".join(
        f"M{x + 5 + step * i:.1f} "
        f"{y + 37:.1f}v-{height(min(float(group.max()), top)) + 1:.1f}h{step * 0.72:.1f}V{y + 37:.1f}z"
        for i, group in enumerate(groups)
    )
    dash = ' stroke-dasharray="3 3"' if faded else ""
    card = ""
    if stratum == "tail":  # a second card shows behind: the Tail stands behind the Core
        card = svg.rect(x + 3.5, y - 3.5, 91, 42, "none", f'rx="5" stroke="{colour}" opacity=".35"')
    return (
        f'<g opacity="{0.6 if faded else 1}"><title>{escape(tip)}</title>{card}'
        + svg.rect(x, y, 91, 42, colour, f'rx="5" fill-opacity=".13" stroke="{colour}"{dash}')
        + f'<path d="{bars}" fill="{colour}"/>'
        + svg.text(x + 45.5, y + 54, f"{number} · {len(leaf)} cols", "middle", 'font-size="11" class="tick"')
        + "</g>"
    )
