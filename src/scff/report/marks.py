"""Small pieces of the page: headline numbers, badges, bars and names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scff.plan.plan import FoldPlan

__all__ = ["badge", "counted", "gauge", "leaf_name", "meter", "signed", "tile"]


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
