"""The page of results says what the records of the repository say, study by study."""

import re
from pathlib import Path

import pytest

from scff.bench.folds import get_protocol
from scff.bench.layout import to_rst
from scff.bench.records import Record
from scff.bench.rendering import study_tables
from scff.bench.results import Results
from scff.bench.studies import get_study

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "results.rst").read_text(encoding="utf-8")
STUDIES = [
    name for name in re.findall(r"^\.\. results:(\S+):begin$", PAGE, re.MULTILINE) if name not in ("state", "hdlss")
]


@pytest.fixture(scope="module")
def results():
    lines = (ROOT / "benchmarks" / "results" / "studies.jsonl").read_text(encoding="utf-8").splitlines()
    records = [record for record in map(Record.from_json, lines) if record.key.protocol == "paper"]
    assert len({record.key for record in records}) == len(records)
    return Results(records, get_protocol("paper"), "tabpfn-v1")


def test_twelve_studies():
    assert len(STUDIES) == 12


@pytest.mark.parametrize("name", STUDIES)
def test_the_page_is_the_records(name, results):
    part = PAGE.split(f".. results:{name}:begin\n")[1].split(f".. results:{name}:end")[0].strip()
    if "list-table" in part:
        assert part.startswith(to_rst(study_tables(get_study(name), [results])).strip())
    else:
        assert part.startswith(("Not run yet.", "No table here"))


def test_auc_and_groups_in_every_record(results):
    for record in results.records:
        assert not record.ok or {"auc", "accuracy", "nll"} <= set(record.metrics)
        assert record.n_groups == 0  # none of these tables has groups
