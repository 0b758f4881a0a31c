"""Small pieces of the page: headline numbers, badges, bars and names."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scff.plan.plan import FoldPlan

__all__ = ["badge", "both_ends", "counted", "gauge", "leaf_name", "meter", "signed", "tile", "took"]

_END = 6  # characters, in the page's script too


def tile(what: str, value: str, note: str = "", key: str = "") -> str:
    """One headline number."""
    extra = f'<span class="note">{note}</span>' if note else ""
    return f'<div class="tile"><span class="what">{what}</span><b data-value="{key}">{value}</b>{extra}</div>'


def badge(text: str, good: bool) -> str:
    """A word in a frame, green or red."""
    return f'<span class="badge {"yes" if good else "no"}">{text}</span>'


def meter(share: float) -> str:
    """A bar to the right for better, to the left for worse; full at 1."""
    width = 100 * min(max(abs(share), 0.03), 1.0) if share else 0.0  # what is there can be seen
    return f'<div class="meter"><i class="{"plus" if share >= 0 else "minus"}" style="width:{width:.1f}%"></i></div>'


def gauge(share: float) -> str:
    """A bar of a share between 0 and 1."""
    return f'<div class="gauge"><i style="width:{100 * share:.1f}%"></i></div>'


def both_ends(name: str) -> str:
    """A name that keeps its end where there is no room for all of it: identifiers differ there.

    Examples
    --------
    >>> both_ends("TP53")
    'TP53'
    >>> both_ends("ENSG00000141510.18")
    '<span class="ends"><span>ENSG00000141</span><span>510.18</span></span>'
    """
    if len(name) <= 2 * _END:
        return escape(name)
    return f'<span class="ends"><span>{escape(name[:-_END])}</span><span>{escape(name[-_END:])}</span></span>'


def took(seconds: float) -> str:
    """A time for eyes.

    Examples
    --------
    >>> took(0.0274), took(0.8991), took(21.924), took(157.4)
    ('0.03 s', '0.90 s', '21.9 s', '157 s')
    """
    return f"{seconds:.{2 if seconds < 10 else 1 if seconds < 100 else 0}f} s"


def counted(n: int, one: str, many: str | None = None) -> str:
    """A number and its noun.

    Examples
    --------
    >>> counted(1, "leaf", "leaves"), counted(1200, "column")
    ('1 leaf', '1,200 columns')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def leaf_name(plan: FoldPlan, number: int) -> str:
    """A leaf as people count it: ``Core 1``, ``Tail 3``."""
    core = len(plan.core_leaves)
    return f"Core {number + 1}" if number < core else f"Tail {number - core + 1}"


def signed(value: float) -> str:
    """A difference for eyes: three digits that count, at most four of them behind the point.

    Examples
    --------
    >>> signed(1.6712), signed(-0.01546), signed(0.000534), signed(0.00002), signed(0)
    ('+1.67', '−0.0155', '+0.0005', '0', '0')
    """
    if abs(value) < 0.5e-4:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{'−' if value < 0 else '+'}{abs(value):.{min(max(digits, 0), 4)}f}"
