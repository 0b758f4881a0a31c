"""The shell of every page: one file, style and scripts inside: a heading, numbers, questions with their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

__all__ = ["asset", "page"]


def asset(name: str) -> str:
    """A file that is put into pages."""
    return (files("scff.report") / "assets" / name).read_text(encoding="utf-8")


def page(
    *,
    title: str,
    brand: str,
    facts: Sequence[str],
    summary: str,
    tiles: str,
    answers: Mapping[str, tuple[str, str, str]],
    footer: str,
    scripts: str = "",
) -> str:
    """A whole page.

    Parameters
    ----------
    title : str
        Plain text.
    brand : str
        What kind of page it is.
    facts : sequence of str
        Plain text; empty ones are left out.
    summary, tiles, footer, scripts : str
        HTML.
    answers : mapping of str to (str, str, str)
        By its id each section's short question for the navigation, its heading, and its HTML; one without HTML is left
        out.
    """
    told = {key: answer for key, answer in answers.items() if answer[2]}
    sections = "".join(
        f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{heading}</h2>{body}</section>'
        for key, (_, heading, body) in told.items()
    )
    return Template(asset("page.html")).substitute(
        title=escape(title),
        brand=brand,
        first=next(iter(told)),
        css=asset("page.css"),
        js=asset("page.js"),
        facts="".join(f"<span>{escape(fact)}</span>" for fact in facts if fact),
        summary=summary,
        tiles=tiles,
        links="".join(f'<a href="#{key}">{short}</a>' for key, (short, _, _) in told.items()),
        sections=sections,
        footer=footer,
        scripts=scripts,
    )
