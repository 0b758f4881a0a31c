"""Which columns tell, and which way: the strongest as bars, and the table of all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scff.report.marks import both_ends, counted
from scff.report.svg import significant

if TYPE_CHECKING:
    from scff.estimators.fitted import Fitted
    from scff.report.subject import Subject
from scff.report.table_section import said_of_blocks, said_of_rows

__all__ = ["payload", "uneven", "used"]

_STRATA = ("core", "tail", "unused", "native")
_STRONGEST = 12
_MOST_UNUSED = 100
_HEADS = (
    ("rank", "Rank", "", "Rank by F"),
    ("name", "Column", "left", "Name of the column"),
    ("F", "F", "", "The column alone: what it explains over what it leaves unexplained"),
    ("q", "q", "", "p-value adjusted for the number of columns (Benjamini-Hochberg)"),
    ("way", "", "", ""),
    (
        "worth",
        "Loss if shuffled",
        "",
        "Rise of the held-back loss when the values of this column are shuffled, and its noise",
    ),
    ("leaf", "Leaf", "", "The leaf that holds it: Core or Tail, and its number"),
    ("effect", "Leaf-out ΔNLL", "", "Rise of the prototype NLL when the whole leaf is left out; shared by its columns"),
)


def used(subject: Subject, evidence: pd.DataFrame) -> str:
    """Which columns tell?"""
    n = subject.plan.n_columns
    numbers = subject.fitted.classes is None
    way = ("Correlation", "Correlation with the target") if numbers else ("High in", _way_words(subject.fitted))
    heads = "".join(
        f'<th scope="col" data-key="{key}" class="{css}" aria-sort="none"><button type="button" title="{tip}">'
        f"{label}</button></th>"
        for key, label, css, tip in [("way", way[0], "", way[1]) if head[0] == "way" else head for head in _HEADS]
    )
    return (
        f'{_flags(subject.fitted)}{said_of_blocks(subject.fitted, subject.plan)}<p class="say">{_say(subject)}</p><ol '
        f'class="bars">{_bars(subject, evidence)}</ol><h3>All {n:,} columns</h3>'
        '<div class="tools"><input type="search" id="search" placeholder="Search columns by name" '
        f'aria-label="Search columns by name" aria-controls="grid">{_chips(subject)}<span id="count" class="muted '
        'small" '
        'role="status" aria-live="polite"></span></div><div id="grid" tabindex="0" role="region" '
        'aria-label="Table of columns"><table><colgroup><col class="rank"><col><col class="num"><col class="num">'
        '<col class="way"><col class="worth"><col class="mid"><col class="eff">'
        f"</colgroup><thead><tr>{heads}</tr></thead><tbody></tbody></table></div>"
        "<noscript><p>The table of all columns needs JavaScript; the strongest are listed above.</p></noscript>"
        '<p class="print-only small">The first 60 rows are printed; open the page to search all of them.</p>'
        f"{_explained(n, numbers)}{_unused(subject)}{said_of_rows(subject.fitted)}"
    )


def uneven(fitted: Fitted) -> str:
    """A sentence where one class has most of the rows; empty where none has."""
    if fitted.classes is None:
        return ""
    counts = np.bincount(fitted.y, minlength=len(fitted.classes))
    share = counts.max() / counts.sum()
    if share < max(0.7, 1.5 / len(counts)):
        return ""
    name = escape(str(fitted.classes[counts.argmax()]))
    done = (
        "<code>class_weight</code> makes up for it"
        if fitted.settings.class_weights is not None
        else '<code>class_weight="balanced"</code> would find more of the others, with more false alarms'
    )
    return f"The classes are uneven: {share:.0%} of the labelled rows are {name}; {done}."


def payload(evidence: pd.DataFrame, effects: Sequence[float], n_core_leaves: int, classes: Sequence[str] | None) -> str:
    """The columns for the page's table: parallel lists, seven digits, and no `<` that could end the script."""
    place = {name: k for k, name in enumerate(classes or ())}
    data = {
        "name": evidence.index.tolist(),
        "position": evidence["position"].tolist(),
        "F": _numbers(evidence["F"]),
        "q": _numbers(evidence["q"]),
        "way": _numbers(evidence["effect"]),
        "high": [place.get(name, -1) for name in evidence["high_in"]] if classes else None,
        "classes": list(classes or ()),
        "worth": _numbers(evidence["shuffle_loss_change"]),
        "noise": _numbers(evidence["shuffle_noise"]),
        "stratum": [_STRATA.index(name) for name in evidence["stratum"]],
        "leaf": evidence["leaf"].tolist(),
        "effect": _numbers(effects),
        "coreLeaves": n_core_leaves,
    }
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _numbers(values: Any) -> list[float | None]:
    return [float(f"{v:.7g}") if np.isfinite(v) else None for v in values]


def _say(subject: Subject) -> str:
    plan = subject.plan
    if subject.native:
        return (
            "Nothing was folded: the backbone read every column at once. The evidence of single columns is still shown."
        )
    does = "goes with the target" if subject.fitted.classes is None else "separates the classes"
    if not plan.discoveries:
        return (
            f"No column {does} by more than chance at the {plan.fdr:.0%} level, so the "
            '<b class="core">Core is the single strongest one</b>. The strongest columns:'
        )
    one = plan.cut == 1
    return (
        f'<b class="core">{counted(plan.cut, "column")} of {plan.n_columns:,} {"is" if one else "are"} the Core</b>: '
        f"{'it' if one else 'each'} {does} on its own by more than chance, with at most {plan.fdr:.0%} false "
        "discoveries "
        "expected. The strongest columns:"
    )


def _bars(subject: Subject, evidence: pd.DataFrame) -> str:
    plan = subject.plan
    shown = evidence.head(_STRONGEST)
    finite = evidence["F"][np.isfinite(evidence["F"])]
    top = float(finite.max()) if len(finite) and finite.max() > 0 else 1.0
    core = set(plan.core.tolist())
    out = []
    for name, row in shown.iterrows():
        way = ""
        if subject.fitted.classes is None and np.isfinite(row["effect"]):
            way = f"{'rises' if row['effect'] > 0 else 'falls'} with the target ({row['effect']:+.2f})"
        elif subject.fitted.classes is not None and row["high_in"]:
            way = f"high in {row['high_in']}"
        out.append(
            f'<li><span class="name" title="{escape(str(name))}">{both_ends(str(name))}</span><span class="bar">'
            f'<i class="{"core-bar" if row["position"] in core else "tail-bar"}" '
            f'style="width:{100 * min(float(row["F"]) / top, 1):.1f}%"></i></span>'
            f'<span class="way" title="{escape(way)}">{escape(way)}</span>'
            f'<span class="value">F {significant(float(row["F"]), 3)}</span></li>'
        )
    return "".join(out)


def _flags(fitted: Fitted) -> str:
    """Columns to look at before the model is believed."""
    return "".join(f'<p class="flag"><b>Look at this:</b> {escape(flag.sentence)}.</p>' for flag in fitted.flags)


def _unused(subject: Subject) -> str:
    """Columns of the input that no leaf has, each with its reason."""
    unused = subject.plan.unused
    if not unused:
        return ""
    shown = "".join(
        f"<li><b>{escape(name)}</b>: {escape(reason)}</li>" for name, reason in list(unused.items())[:_MOST_UNUSED]
    )
    more = len(unused) - _MOST_UNUSED
    rest = f"<li>and {more:,} more</li>" if more > 0 else ""
    heading = f"{counted(len(unused), 'column')} not used, and why"
    return f"<details><summary>{heading}</summary><ul>{shown}{rest}</ul></details>"


def _chips(subject: Subject) -> str:
    plan, native = subject.plan, subject.native
    return "".join(
        f'<label class="chip"><input type="checkbox" checked data-stratum="{name}"> {label}</label>'
        for name, label, there in (
            ("core", "Core", not native),
            ("native", "all", native),
            ("tail", "Tail", bool(len(plan.tail))),
            ("unused", "unused", bool(len(plan.dropped))),
        )
        if there
    )


def _way_words(fitted: Fitted) -> str:
    assert fitted.classes is not None
    if len(fitted.classes) == 2:
        return "Where it is higher, and the difference of the means in units of the spread within the classes"
    return "The class with the highest mean, and how far it lies above the other rows, in units of the spread inside"


def _explained(n: int, numbers: bool) -> str:
    alone = (
        "<b>F</b> looks at one column alone: how much of the target it explains on a line, against what is left."
        if numbers
        else "<b>F</b> looks at one column alone: how far apart the classes are, against how spread out each class is."
    )
    way = (
        "<b>Correlation</b> says which way it goes."
        if numbers
        else "<b>High in</b> names the class with the highest mean and how far above it lies, in units of the spread "
        "within the classes."
    )
    return (
        f"<details><summary>What do these numbers mean?</summary><p>{alone} <b>q</b> is its p-value after correction "
        "for "
        f"looking at {n:,} columns. {way} <b>Loss if shuffled</b> is what the model itself loses: each half of the "
        "labelled "
        "rows is predicted from the other half, once as it is and once with this column's values shuffled; ± is the "
        "noise of "
        "the change, and a change within twice its noise is nothing. It is measured for the strongest columns, 50 at "
        "most. A column "
        "whose neighbours say the same costs little to lose. <b>Leaf-out ΔNLL</b> belongs to a whole leaf and is "
        "shared by "
        "its columns: how much worse a nearest-prototype classifier on the row representation gets without that leaf; "
        "0 "
        "means that it does not reach the model. All of it is measured on the labelled rows alone, and none of it is "
        "a causal "
        "effect or a test score.</p></details>"
    )
