"""The pages of results say what the records of the repository say, study by study."""

import re
from functools import cache
from pathlib import Path

import pytest

from scff.bench.folds import get_protocol
from scff.bench.layout import to_rst
from scff.bench.records import Record
from scff.bench.rendering import page_tables
from scff.bench.results import Results
from scff.bench.studies import get_study

ROOT = Path(__file__).resolve().parent.parent
#: Which backbone and protocol a page is about.
PAGES = {"results.rst": ("tabpfn-v1", "paper"), "results_nano.rst": ("nano", "rows-512")}


def text(page):
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def studies(page):
    found = re.findall(r"^\.\. results:(\S+):begin$", text(page), re.MULTILINE)
    return [name for name in found if name not in ("state", "hdlss")]


@cache
def results(page):
    backbone, protocol = PAGES[page]
    lines = (ROOT / "benchmarks" / "results" / "studies.jsonl").read_text(encoding="utf-8").splitlines()
    records = [record for record in map(Record.from_json, lines) if record.key.protocol == protocol]
    assert len({record.key for record in records}) == len(records)
    assert {record.key.backbone for record in records} == {backbone}
    return Results(records, get_protocol(protocol), backbone)


@pytest.mark.parametrize("page", PAGES)
def test_the_papers_twelve_studies_and_one_of_ours(page):
    assert len(studies(page)) == 13
    assert "context-reinvestment-small" in studies(page)


@pytest.mark.parametrize(("page", "name"), [(page, name) for page in PAGES for name in studies(page)])
def test_the_page_is_the_records(page, name):
    part = text(page).split(f".. results:{name}:begin\n")[1].split(f".. results:{name}:end")[0].strip()
    if "list-table" in part:
        assert part.startswith(to_rst(page_tables(get_study(name), [results(page)])).strip())
    else:
        assert part.startswith(("Not run yet.", "No table here"))


@pytest.mark.parametrize("page", PAGES)
def test_auc_and_groups_in_every_record(page):
    for record in results(page).records:
        assert not record.ok or {"auc", "accuracy", "nll"} <= set(record.metrics)
        assert record.n_groups == 0  # none of these tables has groups
