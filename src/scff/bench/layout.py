"""A table of numbers that knows which records each cell comes from, and how to write itself down."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from scff.bench.results import Exclusion
from scff.bench.stats import Interval, Spread

__all__ = ["Cell", "ReportTable", "to_html", "to_latex", "to_markdown", "to_rst", "to_trace"]


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes
    ----------
    text : str
        What is shown.
    value : object
        The unrounded number, or numbers.
    sources : tuple of str
        Paths of the records it is computed from, below the results folder; empty for labels and the paper's numbers.
    """

    text: str
    value: Any = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportTable:
    """A titled table with notes."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def label(text: str) -> Cell:
    """A cell of words."""
    return Cell(text, text)


def points(value: float, sources: Sequence[str] = ()) -> Cell:
    """A difference of accuracies, in percentage points."""
    return Cell(f"{100 * value:+.3f}", 100 * value, tuple(sources))


def nats(value: float, sources: Sequence[str] = ()) -> Cell:
    """A difference of NLLs."""
    return Cell(f"{value:+.5f}", value, tuple(sources))


def percent(value: float, sources: Sequence[str] = ()) -> Cell:
    """A share; a dash where it has no finite value."""
    if not math.isfinite(value):
        return Cell("–", None, tuple(sources))
    return Cell(f"{100 * value:+.1f}%", value, tuple(sources))


def times(value: float, sources: Sequence[str] = ()) -> Cell:
    """A ratio."""
    return Cell(f"{value:.2f}×", value, tuple(sources))


def spread(value: Spread, sources: Sequence[str] = ()) -> Cell:
    """Median and percentiles of ratios."""
    text = f"{value.median:.2f}× [{value.p10:.2f}, {value.p90:.2f}]"
    return Cell(text, [value.median, value.p10, value.p90], tuple(sources))


def interval(value: Interval, metric: str, sources: Sequence[str] = ()) -> Cell:
    """An effect with its interval, in the metric's unit."""
    scale, digits = (100, 3) if metric == "accuracy" else (1, 5)
    numbers = [scale * value.estimate, scale * value.low, scale * value.high]
    shown = [f"{number:+.{digits}f}" for number in numbers]
    return Cell(f"{shown[0]} [{shown[1]}, {shown[2]}]", numbers, tuple(sources))


def count(value: float, sources: Sequence[str] = (), digits: int = 0) -> Cell:
    """A plain number."""
    return Cell(f"{value:,.{digits}f}", value, tuple(sources))


def paper_cell(text: str | None) -> Cell:
    """What the paper prints; it has no records here."""
    return Cell(text or "–", None)


def exclusion_notes(excluded: Sequence[Exclusion], shown: Collection[str] = ()) -> tuple[str, ...]:
    """One sentence for every reason why pairs were left out; of tables that are ``shown``, which folds.

    Examples
    --------
    >>> exclusion_notes([Exclusion("a", 1, "why"), Exclusion("a", 3, "why"), Exclusion("b", 1, "why")], shown=["a"])
    ('Left out: a (fold 1, 3), b (why).',)
    """
    reasons: dict[str, dict[str, list[int]]] = {}
    for item in excluded:
        folds = reasons.setdefault(item.reason, {}).setdefault(item.dataset, [])
        if item.fold not in folds:
            folds.append(item.fold)
    notes = []
    for reason, tables in reasons.items():
        names = [f"{d} (fold {', '.join(map(str, folds))})" if d in shown else d for d, folds in tables.items()]
        notes.append(f"Left out: {', '.join(names)} ({reason}).")
    return tuple(notes)


def to_markdown(tables: Sequence[ReportTable]) -> str:
    """Tables as GitHub Markdown."""
    parts = []
    for table in tables:
        lines = [f"### {table.title}", "", "| " + " | ".join(map(_md, table.columns)) + " |"]
        lines.append("|" + "|".join("---" if i == 0 else "---:" for i in range(len(table.columns))) + "|")
        lines += ["| " + " | ".join(_md(cell.text) for cell in row) + " |" for row in table.rows]
        lines += [f"\n{note}" for note in table.notes]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def to_rst(tables: Sequence[ReportTable], underline: str = "~") -> str:
    """Tables as reStructuredText, each under its title."""
    parts = []
    for table in tables:
        lines = [table.title, underline * len(table.title), "", ".. list-table::", "    :header-rows: 1", ""]
        for row in (table.columns, *([cell.text for cell in row] for row in table.rows)):
            lines += [f"    {'* -' if i == 0 else '  -'} {_rst(text)}".rstrip() for i, text in enumerate(row)]
        lines += [f"\n{_rst(note)}" for note in table.notes]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def to_latex(tables: Sequence[ReportTable]) -> str:
    """Tables as LaTeX with booktabs."""
    parts = []
    for table in tables:
        end = " \\\\"
        lines = [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{_tex(table.title)}}}",
            f"\\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            "\\toprule",
            " & ".join(map(_tex, table.columns)) + end,
            "\\midrule",
            *(" & ".join(_tex(cell.text) for cell in row) + end for row in table.rows),
            "\\bottomrule",
            "\\end{tabular}",
            *(f"\\par\\smallskip\\footnotesize {_tex(note)}" for note in table.notes),
            "\\end{table}",
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def to_html(tables: Sequence[ReportTable], title: str) -> str:
    """Tables as one page; a cell's records appear on hovering."""
    style = (
        "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}"
        "table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .8em;text-align:right}"
        "td:first-child,th:first-child{text-align:left}thead{border-bottom:1px solid}tr:hover{background:#8881}"
        "td[title]{cursor:help}.note{font-size:.9em;opacity:.8}"
    )
    head = f"<meta charset=utf-8><title>{html.escape(title)}</title><style>{style}</style>"
    parts = [f"<!doctype html><html lang=en><head>{head}</head><body><h1>{html.escape(title)}</h1>"]
    for table in tables:
        parts.append(f"<h2>{html.escape(table.title)}</h2><table><thead><tr>")
        parts += [f"<th>{html.escape(column)}</th>" for column in table.columns]
        parts.append("</tr></thead><tbody>")
        for row in table.rows:
            parts.append("<tr>" + "".join(map(_html_cell, row)) + "</tr>")
        parts.append("</tbody></table>")
        parts += [f"<p class=note>{html.escape(note)}</p>" for note in table.notes]
    parts.append("</body></html>\n")
    return "\n".join(parts)


def to_trace(tables: Sequence[ReportTable]) -> str:
    """For every cell its unrounded value and its records, as JSON."""
    body = [
        {
            "title": table.title,
            "columns": table.columns,
            "rows": [
                [{"text": c.text, "value": c.value, "records": list(c.sources)} for c in row] for row in table.rows
            ],
            "notes": table.notes,
        }
        for table in tables
    ]
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def _md(text: str) -> str:
    return text.replace("|", "\\|")


def _rst(text: str) -> str:
    # A sign at the beginning would open a list, and what ends in an underscore would be a link.
    text = re.sub(r"([*`|\\]|_(?=\W|$))", r"\\\1", text)
    return f"\\{text}" if text[:1] in ("+", "-", "–", "−") else text


def _tex(text: str) -> str:
    for old, new in (("&", "\\&"), ("%", "\\%"), ("_", "\\_"), ("#", "\\#")):
        text = text.replace(old, new)
    for old, new in (("×", "$\\times$"), ("Δ", "$\\Delta$"), ("−", "$-$"), ("≤", "$\\leq$"), (">", "$>$"), ("–", "--")):
        text = text.replace(old, new)
    return text


def _html_cell(cell: Cell) -> str:
    title = f' title="{html.escape(chr(10).join(cell.sources))}"' if cell.sources else ""
    return f"<td{title}>{html.escape(cell.text)}</td>"
