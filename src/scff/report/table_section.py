"""What the report says of the table itself: the blocks it was put together from, and what its rows are called."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from scff.report.marks import counted

if TYPE_CHECKING:
    from scff.estimators.fitted import Fitted
    from scff.plan.plan import FoldPlan

__all__ = ["said_of_blocks", "said_of_rows"]

#: Row names that are listed.
_MOST_ROWS = 500


def said_of_blocks(fitted: Fitted, plan: FoldPlan) -> str:
    """How much of the Core came from each of several tables; empty where there was one."""
    said = []
    for block in fitted.support.blocks:
        inside = int(np.count_nonzero((plan.core >= block.start) & (plan.core < block.stop)))
        said.append(f"<b>{escape(block.name)}</b> {inside:,} of {counted(block.stop - block.start, 'column')}")
    return f"<p>Core columns by table: {', '.join(said)}.</p>" if said else ""


def said_of_rows(fitted: Fitted) -> str:
    """The names of the labelled rows, by class; empty where they have none."""
    names = fitted.support.row_names
    if names is None:
        return ""
    groups = [("", np.arange(len(names)))]
    if fitted.classes is not None:
        groups = [(str(label), np.flatnonzero(fitted.y == k)) for k, label in enumerate(fitted.classes)]
    left, listed = _MOST_ROWS, []
    for label, rows in groups:
        shown = ", ".join(escape(str(names[i])) for i in rows[:left])
        more = f" and {len(rows) - left:,} more" if len(rows) > left else ""
        head = f"<b>{escape(label)}</b> ({len(rows):,}): " if label else ""
        listed.append(f"<li>{head}{shown}{more}</li>")
        left = max(0, left - len(rows))
    return f"<details><summary>The {counted(len(names), 'labelled row')}</summary><ul>{''.join(listed)}</ul></details>"
