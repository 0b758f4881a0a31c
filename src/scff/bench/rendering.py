"""Tables of a study, from its records to files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

# They register their reports.
from scff.bench import (  # noqa: F401
    equal_memory,
    reports_agreement,
    reports_context,
    reports_decisions,
    reports_mechanism,
    reports_published,
)
from scff.bench.layout import ReportTable, to_html, to_latex, to_markdown, to_trace
from scff.bench.reports import MAKERS, make
from scff.bench.results import Results
from scff.bench.studies import Study
from scff.errors import DataError
from scff.tables.atomic import write_atomically

__all__ = ["failures", "page_tables", "study_tables", "write_tables"]


def study_tables(study: Study, results: Sequence[Results]) -> list[ReportTable]:
    """Every table a study declares, for one or several backbones.

    Raises
    ------
    DataError
        If no pair of the study is complete, or it declares a report that does not exist.
    """
    tables = []
    for declared in study.reports:
        parameters = dict(declared)
        kind = parameters.pop("kind")
        if kind not in MAKERS:
            raise DataError(f"The study {study.name!r} asks for a report {kind!r}; there are {', '.join(MAKERS)}.")
        tables += make(kind, results, **parameters)
    if not tables:
        raise DataError(
            f"No pair of the study {study.name!r} is complete; `scff bench run {study.name}` runs what is missing and "
            "says why cells fail."
        )
    return tables


def page_tables(study: Study, results: Sequence[Results]) -> list[ReportTable]:
    """The tables of a study for a page of many, which says once (`failures`) what failed in all of them."""
    reasons = {record.reason for r in results for record in r.records if not record.ok and record.reason}
    return [
        replace(table, notes=tuple(note for note in table.notes if not any(reason in note for reason in reasons)))
        for table in study_tables(study, results)
    ]


def failures(r: Results) -> list[str]:
    """A sentence for every table on which arms failed: which did not, and why the others did."""
    notes = []
    for dataset in r.datasets:
        mine = [record for record in r.records if record.key.dataset == dataset]
        reasons = dict.fromkeys(record.reason for record in mine if not record.ok)
        whole = ", ".join(sorted({one.key.arm for one in mine} - {one.key.arm for one in mine if not one.ok}))
        if reasons:
            notes.append(f"Left out: {dataset}, all arms but {whole or 'none'} ({'; '.join(reasons)}).")
    return notes


def write_tables(study: Study, results: Sequence[Results], folder: Path) -> list[Path]:
    """Write the tables as Markdown, LaTeX and HTML, and the records behind every cell as JSON."""
    tables = study_tables(study, results)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        ".md": to_markdown(tables),
        ".tex": to_latex(tables),
        ".html": to_html(tables, study.title),
        ".trace.json": to_trace(tables),
    }
    paths = []
    for suffix, text in texts.items():
        path = folder / f"{study.name}{suffix}"
        write_atomically(path, partial(Path.write_text, data=text, encoding="utf-8"))
        paths.append(path)
    return paths
