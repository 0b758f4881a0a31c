"""The report's pictures of a plan: ranked evidence with the Core cut, and the leaves as blocks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from scff.gate.record import TailGate
from scff.plan.plan import FoldPlan
from scff.report import svg
from scff.report.marks import counted, leaf_name, signed
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


def evidence_curve(plan: FoldPlan, width: int = 920) -> str:
    """Ranked F statistics on logarithmic axes, with the Core cut; `width` is that of the page it stands in."""
    ranked, top = ranked_evidence(plan)
    left, right, above, below = 64.0, width - 20.0, 34.0, 250.0
    narrow = width < 600
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
        core_label, tail_label = f"Core: the strongest {count_core(plan)}", f"Tail: the other {len(plan.tail):,}"
        if narrow:
            core_x, core_anchor, rest_x, rest_anchor = right, "end", right, "end"
            core_label = f"Core: {len(plan.core):,}"
            tail_label = f"Tail: {len(plan.tail):,}"
        crowded = core_anchor == rest_anchor
        body.append(
            svg.text(core_x, above - 12, core_label, core_anchor, f'fill="{COLOURS["core"]}" font-weight="600"')
        )
        level = above + 6 if crowded else above - 12
        body.append(svg.text(rest_x, level, tail_label, rest_anchor, f'fill="{COLOURS["tail"]}" font-weight="600"'))
    whole = [(tick, f"{tick:,.0f}") for tick in x.ticks() if float(tick).is_integer()]
    body.append(svg.axis_x(x, below, "columns, strongest first" + (" (logarithmic)" if log else ""), whole))
    title = f"Evidence of {plan.n_columns} columns, strongest first; {len(plan.core)} of them are the Core"
    return svg.figure("evidence", width, 300, title, "".join(body))


def leaf_blocks(plan: FoldPlan, gate: TailGate | None, effects: Sequence[float] | None = None) -> str:
    """Leaves as blocks, Core in front and Tail behind; the bars inside are the evidence of their columns."""
    _, top = ranked_evidence(plan)
    body: list[str] = []
    for stratum, leaves, offset in (
        ("core", plan.core_leaves, 0),
        ("tail", plan.tail_leaves, len(plan.core_leaves)),
    ):
        if not leaves:
            continue
        columns = counted(sum(map(len, leaves)), "column")
        label = f"{stratum.capitalize()}: {columns} in {counted(len(leaves), 'leaf', 'leaves')}"
        faded = False
        if stratum == "tail" and gate is not None:
            faded = gate.accepted is None
            label += ", kept out" if faded else f", let in with step {gate.alpha:.3g}"
        shown = leaves[:_MOST_BLOCKS]
        blocks = "".join(
            _block(plan, leaf, stratum, offset + i, effects[offset + i] if effects is not None else None, top, faded)
            for i, leaf in enumerate(shown)
        )
        more = len(leaves) - len(shown)
        rest = f"<div>and {counted(more, 'more leaf', 'more leaves')} like these</div>" if more else ""
        body.append(
            f'<div style="color:{COLOURS[stratum]};font-weight:600;font-size:.88em;margin:.7em 0 .3em">{label}</div>'
            f'<div style="display:flex;flex-wrap:wrap;gap:6px 8px">{blocks}</div>{rest}'
        )
    title = f"Core leaves ({len(plan.core_leaves)}) and Tail leaves ({len(plan.tail_leaves)}) as blocks"
    return f'<div data-figure="leaves" role="img" aria-label="{title}">{"".join(body)}</div>'


def _block(
    plan: FoldPlan, leaf: IntArray, stratum: str, number: int, effect: float | None, top: float, faded: bool
) -> str:
    x, y = 1.0, 1.0
    colour = COLOURS[stratum]
    strongest = int(leaf[np.argmax(plan.f[leaf])])
    tip = (
        f"{leaf_name(plan, number)}: {counted(len(leaf), 'column')}, strongest {plan.name(strongest)} "
        f"(F = {svg.significant(float(plan.f[strongest]))})"
    )
    if effect is not None and np.isfinite(effect):
        tip += f"; prototype NLL changes by {signed(effect)} without it"
    height = Scale(_FLOOR, max(top, 1.0), 0, 30, log=True)
    groups = np.array_split(plan.f[leaf], min(_BARS, len(leaf)))
    step = 81 / len(groups)
    bars = "".join(
        f"M{x + 5 + step * i:.1f} "
        f"{y + 37:.1f}v-{height(min(float(group.max()), top)) + 1:.1f}h{step * 0.72:.1f}V{y + 37:.1f}z"
        for i, group in enumerate(groups)
    )
    edge = "none" if faded else colour  # what was kept out is there, without a frame
    return (
        '<svg viewBox="0 0 93 58" width="93" height="58" fill="currentColor" font-family="inherit" '
        'xmlns="http://www.w3.org/2000/svg">'
        f'<g opacity="{0.68 if faded else 1}"><title>{escape(tip)}</title>'
        + svg.rect(x, y, 91, 42, colour, f'rx="5" fill-opacity=".13" stroke="{edge}"')
        + f'<path d="{bars}" fill="{colour}"/>'
        + svg.text(x + 45.5, y + 54, f"{leaf_name(plan, number)} · {len(leaf):,}", "middle", 'font-size="11"')
        + "</g></svg>"
    )
