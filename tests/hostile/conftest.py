"""What hostile tests share: the choice between the quick part and the whole, and the count of what was tried.

A test counts its cases with the fixture ``tally``; ``pytest tests/hostile --hostile`` runs everything and ends with a
table of them, which ``--figures`` also writes as CSV (`docs/reliability.rst` shows that file).
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

OUTCOMES = ("refused", "served", "unharmed")
"""How a case may end: with one sentence, with a right answer, or with everything as it was before the fault."""


@pytest.fixture(scope="session")
def whole(request):
    """Whether everything is asked for, and not the quick part alone."""
    return request.config.getoption("--hostile")


@pytest.fixture
def tally(record_property):
    """Count a case that ended well: ``tally("plan files", "refused")``; cases that did not are failed tests."""

    def count(kind: str, outcome: str, cases: int = 1) -> None:
        assert outcome in OUTCOMES, outcome
        record_property("hostile", [kind, outcome, cases])

    return count


def pytest_collection_modifyitems(config, items):
    if config.getoption("--hostile"):
        return
    here = Path(__file__).parent
    long = [item for item in items if here in item.path.parents and item.get_closest_marker("hostile")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in set(long)]


def pytest_terminal_summary(terminalreporter, config):
    if not config.getoption("--hostile"):
        return
    rows = _figures(terminalreporter)
    terminalreporter.section("hostile cases")
    for row in rows:
        terminalreporter.write_line(f"{row[0]:<34}" + "".join(f"{cell!s:>10}" for cell in row[1:]))
    if path := config.getoption("--figures"):
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


def _figures(terminalreporter):
    """A head, a row for every kind of case, and their sum; a failed test is one broken case of its file."""
    counts: dict[str, Counter[str]] = {}
    for report in (r for name in ("passed", "failed", "error") for r in terminalreporter.stats.get(name, [])):
        for name, value in report.user_properties:
            if name == "hostile" and report.when == "call":
                kind, outcome, cases = value
                counts.setdefault(kind, Counter())[outcome] += cases
        if report.failed:
            counts.setdefault(Path(report.fspath).stem, Counter())["broken"] += 1
    total = sum(counts.values(), Counter())
    rows = [(kind, count) for kind, count in sorted(counts.items())] + [("together", total)]
    columns = (*OUTCOMES, "broken")
    return [("kind", "cases", *columns)] + [(k, c.total(), *(c[o] for o in columns)) for k, c in rows]
