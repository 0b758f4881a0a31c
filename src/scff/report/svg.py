"""A little SVG: scales, ticks and marks, enough for the report's figures and small enough to read.

Colours are CSS variables with a fallback that holds on white and on black, and lines take the text colour of the
page: the same figure serves a light report, a dark one and a notebook.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["COLOURS", "Scale", "axis_x", "axis_y", "figure", "path", "rect", "shortened", "significant", "text"]

COLOURS = {
    "core": "var(--scff-core, #3f83b5)",
    "tail": "var(--scff-tail, #c08a3e)",
    "good": "var(--scff-good, #3d9a7f)",
    "bad": "var(--scff-bad, #c4635a)",
    "soft": "var(--scff-soft, #8a94a0)",
}


@dataclass(frozen=True)
class Scale:
    """A map from values to coordinates, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Coordinate of a value; values outside are held at the ends."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low) if self.high > self.low else 0.0
        else:
            share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """A handful of round values inside the range."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            step = max(1, (last - first + 1) // 6)
            return [10.0**e for e in range(first, last + 1, step)]
        rough = (self.high - self.low) / 5 or 1.0
        power = 10.0 ** math.floor(math.log10(rough))
        step_ = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * 0.999)
        first = math.ceil(self.low / step_ - 1e-9)
        return [k * step_ for k in range(first, math.floor(self.high / step_ + 1e-9) + 1)]


def significant(value: float | None, digits: int = 4) -> str:
    """A number for eyes; the page's script writes the same.

    Examples
    --------
    >>> [significant(v) for v in (0, 12, 0.00012345, 123456, 1234.5678, float("inf"), None)]
    ['0', '12.00', '1.23e-4', '1.23e+5', '1235', '∞', '–']
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e5 or size < 1e-3:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{mantissa}e{int(exponent):+d}"
    if size >= 1000:
        return f"{value:.0f}"
    return f"{value:#.{digits}g}".rstrip(".")


def shortened(labels: Sequence[str], most: int) -> list[str]:
    """Labels of at most so many characters each; those that begin alike keep their ends, so that they stay apart.

    Examples
    --------
    >>> shortened(["adenocarcinoma", "normal"], 8)
    ['adenoca…', 'normal']
    >>> shortened(["carcinoma of the lung", "carcinoma of the colon"], 11)
    ['carci… lung', 'carci…colon']
    """
    heads = [label if len(label) <= most else label[: most - 1].rstrip() + "…" for label in labels]
    end = (most - 1) // 2
    return [
        head if heads.count(head) == 1 or len(label) <= most else f"{label[: most - 1 - end]}…{label[-end:]}"
        for label, head in zip(labels, heads, strict=True)
    ]


def _at(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, label: str, anchor: str = "start", extra: str = "") -> str:
    """A label."""
    return (
        f'<text x="{_at(x)}" y="{_at(y)}" text-anchor="{anchor}"{" " + extra if extra else ""}>{escape(label)}</text>'
    )


def rect(x: float, y: float, width: float, height: float, fill: str, extra: str = "") -> str:
    """A box."""
    more = " " + extra if extra else ""
    return f'<rect x="{_at(x)}" y="{_at(y)}" width="{_at(width)}" height="{_at(height)}" fill="{fill}"{more}/>'


def path(points: Iterable[tuple[float, float]], extra: str) -> str:
    """A polyline."""
    steps = "L".join(f"{_at(x)} {_at(y)}" for x, y in points)
    return f'<path d="M{steps}" {extra}/>'


def axis_x(scale: Scale, y: float, label: str, ticks: Sequence[tuple[float, str]] | None = None) -> str:
    """A horizontal axis with its label."""
    marks = [(v, _short(v)) for v in scale.ticks()] if ticks is None else ticks
    parts = [f'<path d="M{_at(scale.start)} {_at(y)}H{_at(scale.end)}" stroke="currentColor" opacity=".45"/>']
    for value, name in marks:
        x = scale(value)
        parts.append(f'<path d="M{_at(x)} {_at(y)}v5" stroke="currentColor" opacity=".45"/>')
        parts.append(text(x, y + 18, name, "middle", 'class="tick"'))
    parts.append(text((scale.start + scale.end) / 2, y + 38, label, "middle"))
    return "".join(parts)


def axis_y(scale: Scale, x: float, label: str, right: float) -> str:
    """A vertical axis with its label and hair lines across the plot."""
    parts = []
    for value in scale.ticks():
        y = scale(value)
        parts.append(f'<path d="M{_at(x)} {_at(y)}H{_at(right)}" stroke="currentColor" opacity=".12"/>')
        parts.append(text(x - 8, y + 4, _short(value), "end", 'class="tick"'))
    middle = (scale.start + scale.end) / 2
    turned = f'transform="rotate(-90 {_at(x - 44)} {_at(middle)})"'
    parts.append(text(x - 44, middle, label, "middle", turned))
    return "".join(parts)


def figure(name: str, width: int, height: int, title: str, body: str) -> str:
    """A complete figure, with a title that screen readers read out."""
    return (
        f'<svg class="scff-figure" data-figure="{escape(name)}" role="img" viewBox="0 0 {width} {height}" '
        f'xmlns="http://www.w3.org/2000/svg" font-size="13" font-family="inherit" fill="currentColor" '
        f'aria-label="{escape(title)}">{body}</svg>'
    )


def _short(value: float) -> str:
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:,.10g}"
    return f"1e{round(math.log10(abs(value)))}"
