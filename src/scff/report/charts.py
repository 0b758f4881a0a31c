"""Pictures of predictions: calibration, ROC curves, confusion, numbers against numbers, models side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from scff.report import svg
from scff.report.marks import counted
from scff.report.svg import COLOURS, Scale

__all__ = ["Bin", "Curve", "Spot", "bins_of", "calibration", "confusion", "groups_of", "roc", "scatter", "side_by_side"]

FloatArray = npt.NDArray[np.float64]
_AXES = Scale(0, 1, 56, 300), Scale(0, 1, 250, 16)
_BINS = 10
_FEWEST_IN_BIN = 12
_FEW_CLASSES, _LONG_NAME = 4, 12
_MOST_CLASSES = 50
_MOST_CURVES = 6
_HUES = ("core", "tail", "good", "bad", "soft", "core")
_DASHES = ("", "", "", "", "", "6 3")


@dataclass(frozen=True)
class Bin:
    """Predictions of similar probability: the one given, the share that came true, and how many rows."""

    given: float
    observed: float
    rows: int


@dataclass(frozen=True)
class Curve:
    """One ROC curve: what it is about, false and true positive rates, and its area."""

    label: str
    false: FloatArray
    true: FloatArray
    area: float


@dataclass(frozen=True)
class Spot:
    """A value with its interval, for one model."""

    label: str
    value: float
    low: float
    high: float
    own: bool = False


def bins_of(given: FloatArray, came_true: FloatArray, rows: FloatArray | None = None) -> tuple[Bin, ...]:
    """Bins of about equal numbers of rows: every point then carries the same weight of evidence.

    A point of two or three rows says nothing: few rows make few points.
    """
    order = np.argsort(given, kind="stable")
    n = len(order) if rows is None else int(rows.sum())
    parts = np.array_split(order, min(_BINS, max(1, n // _FEWEST_IN_BIN)))
    share = np.ones(len(order)) if rows is None else rows
    return tuple(
        Bin(float(given[part].mean()), float(came_true[part].mean()), round(float(share[part].sum()))) for part in parts
    )


def groups_of(bins: Sequence[Bin]) -> str:
    """How many rows stand behind each point, in a sentence."""
    rows = [b.rows for b in bins]
    if len(rows) == 1:
        return f"One point of {counted(rows[0], 'row')}: too few for more."
    each = f"{min(rows)}" if min(rows) == max(rows) else f"{min(rows)} to {max(rows)}"
    return f"There are {len(rows)} points of {each} rows each."


def calibration(bins: Sequence[Bin]) -> str:
    """Probabilities given against what came true; each point carries its number of rows."""
    x, y = _AXES
    points = "".join(
        f'<circle cx="{x(b.given):.1f}" cy="{y(b.observed):.1f}" r="5" fill="{COLOURS["core"]}"><title>given '
        f"{b.given:.2f}, came true {b.observed:.2f}, {counted(b.rows, 'row')}</title></circle>"
        for b in bins
    )
    labels, taken = "", list[tuple[float, float]]()
    for b in bins:
        # Below the line, which mostly rises, and inside the frame: on the floor above the point, at the right under it.
        beside = b.given < 0.9 and b.observed > 0.08
        left = x(b.given) + (8 if beside else 0)
        level = y(b.observed) + (15 if beside else 20 if b.observed > 0.08 else -10)
        if all(
            abs(left - other) > 18 or abs(level - its) > 11 for other, its in taken
        ):  # one number is not over another
            taken.append((left, level))
            labels += svg.text(left, level, f"{b.rows}", "start" if beside else "middle", 'class="tick" data-rows')
    line = svg.path(
        [(x(b.given), y(b.observed)) for b in bins], f'fill="none" stroke="{COLOURS["core"]}" stroke-width="1.8"'
    )
    title = "Calibration: probability given against observed frequency, with the number of rows at each point"
    return _square("calibration", title, "probability given", "observed frequency", line + points + labels)


def roc(curves: Sequence[Curve]) -> str:
    """ROC curves, one for each class; the first few where there are many."""
    x, y = _AXES
    shown = curves[:_MOST_CURVES]
    body = []
    names = svg.shortened([curve.label for curve in shown], 18)
    for i, curve in enumerate(shown):
        points = [(x(float(a)), y(float(b))) for a, b in zip(curve.false, curve.true, strict=True)]
        colour = COLOURS[_HUES[i % len(_HUES)]]
        dash = f' stroke-dasharray="{_DASHES[i]}"' if _DASHES[i] else ""
        if len(curves) == 1:
            body.append(svg.path([*points, (300, 250)], f'fill="{colour}" opacity=".12"'))
        body.append(svg.path(points, f'fill="none" stroke="{colour}" stroke-width="2.2"{dash}'))
        label = f"AUC {curve.area:.3f}" if len(curves) == 1 else f"{names[i]} {curve.area:.3f}"
        level = 240 - 16 * (len(shown) - 1 - i)
        body.append(svg.text(292, level, label, "end", f'class="key" font-weight="600" fill="{colour}"'))
    areas = ", ".join(f"{curve.label} {curve.area:.3f}" for curve in curves)
    return _square("roc", f"ROC: {areas}", "false positive rate", "true positive rate", "".join(body))


def confusion(matrix: npt.NDArray[np.floating] | npt.NDArray[np.integer], classes: Sequence[str]) -> str:
    """Rows are true classes, columns predicted ones."""
    names = [escape(name) for name in classes[:_MOST_CLASSES]]
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-12)
    rows = []
    for k, name in enumerate(names):
        cells = []
        for j in range(len(names)):
            colour = "--scff-good" if j == k else "--scff-bad"
            tint = f"color-mix(in srgb,var({colour}) calc({shares[k, j]:.2f}*var(--tint)),transparent)"
            value = matrix[k, j]
            text = f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"
            cells.append(f'<td style="background:{tint}" title="{shares[k, j]:.1%} of class {name}">{text}</td>')
        rows.append(f'<tr><th scope="row"><span title="{name}">{name}</span></th>{"".join(cells)}</tr>')
    head = "".join(f'<th scope="col"><span title="{name}">{name}</span></th>' for name in names)
    kind = " few" if len(classes) == 2 else ""
    if len(names) <= _FEW_CLASSES and max(map(len, classes)) > _LONG_NAME:
        kind += " roomy"  # a line of its own, where names can be read
    cut = "" if len(classes) <= _MOST_CLASSES else f" The first {_MOST_CLASSES} of {len(classes)} classes."
    return (
        f'<figure><h3>Confusion matrix</h3><div class="confusion{kind}" '
        'tabindex="0"><table data-figure="confusion"><thead>'
        f'<tr><th scope="col">true \\ predicted</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        f"<figcaption>Rows are the true classes, columns the predicted ones; green is right.{cut}</figcaption></figure>"
    )


def scatter(true: FloatArray, said: FloatArray) -> str:
    """Predicted numbers against true ones, with the diagonal."""
    low, high = float(min(true.min(), said.min())), float(max(true.max(), said.max()))
    room = 0.03 * (high - low) or 1.0
    x, y = Scale(low - room, high + room, 66, 310), Scale(low - room, high + room, 250, 16)
    points = "".join(
        f'<circle cx="{x(float(a)):.1f}" cy="{y(float(b)):.1f}" r="3.2" fill="{COLOURS["core"]}" opacity=".6">'
        f"<title>true {svg.significant(float(a))}, predicted {svg.significant(float(b))}</title></circle>"
        for a, b in zip(true, said, strict=True)
    )
    diagonal = 'fill="none" stroke="currentColor" stroke-dasharray="4 4" opacity=".5"'
    body = svg.axis_y(y, x.start, "predicted", x.end) + svg.path([(x.start, y.start), (x.end, y.end)], diagonal)
    return svg.figure(
        "scatter", 330, 300, "Predicted numbers against true ones", body + points + svg.axis_x(x, y.start, "true")
    )


def side_by_side(spots: Sequence[Spot], label: str, width: int = 720) -> str:
    """Values of several models with their intervals, one below the other."""
    ends = [value for spot in spots for value in (spot.value, spot.low, spot.high) if np.isfinite(value)]
    low, high = min(ends), max(ends)
    room = 0.05 * (high - low) or 0.05
    left = 150.0
    x = Scale(low - room, high + room, left, width - 70.0)
    bottom = 16.0 + 30 * len(spots)
    body = []
    names = svg.shortened([spot.label for spot in spots], 22)
    for i, spot in enumerate(spots):
        y = 24.0 + 30 * i
        colour = COLOURS["core" if spot.own else "soft"]
        body.append(svg.text(left - 12, y + 4, names[i], "end", 'font-weight="600"' if spot.own else ""))
        if np.isfinite(spot.low):
            between = f'stroke="{colour}" stroke-width="3" stroke-linecap="round" opacity=".55"'
            body.append(svg.path([(x(spot.low), y), (x(spot.high), y)], between))
        body.append(f'<circle cx="{x(spot.value):.1f}" cy="{y:.1f}" r="5.5" fill="{colour}"/>')
        body.append(svg.text(width - 8, y + 4, f"{spot.value:.3f}", "end", 'class="tick"'))
    body.append(svg.axis_x(x, bottom, label))
    words = ", ".join(f"{spot.label} {spot.value:.3f}" for spot in spots)
    return svg.figure("models", width, int(bottom) + 48, f"{label}: {words}", "".join(body))


def _square(name: str, title: str, x_label: str, y_label: str, body: str) -> str:
    """A plot of shares against shares, with its diagonal."""
    x, y = _AXES
    diagonal = 'fill="none" stroke="currentColor" stroke-dasharray="4 4" opacity=".5"'
    frame = svg.axis_y(y, x.start, y_label, x.end) + svg.path([(x.start, y.start), (x.end, y.end)], diagonal)
    return svg.figure(name, 320, 300, title, frame + body + svg.axis_x(x, y.start, x_label))
