"""The pages of results say what the records of the repository say, study by study."""

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
#: Page: backbone and protocol.
PAGES = {"results.rst": ("tabpfn-v1", "paper"), "results_nano.rst": ("nano", "rows-512")}
TEXT = {page: (ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES}
STUDIES = [
    (page, name)
    for page, text in TEXT.items()
    for name in re.findall(r"^\.\. results:(\S+):begin$", text, re.MULTILINE)
    if name not in ("state", "hdlss")
]


@pytest.fixture(scope="module")
def results():
    lines = (ROOT / "benchmarks" / "results" / "studies.jsonl").read_text(encoding="utf-8").splitlines()
    records = [Record.from_json(line) for line in lines]
    assert len({record.key for record in records}) == len(records)
    return {
        page: Results([r for r in records if (r.key.backbone, r.key.protocol) == of], get_protocol(of[1]), of[0])
        for page, of in PAGES.items()
    }


def test_twelve_studies():
    assert len([name for page, name in STUDIES if page == "results.rst"]) == 12


@pytest.mark.parametrize(("page", "name"), STUDIES)
def test_the_page_is_the_records(page, name, results):
    part = TEXT[page].split(f".. results:{name}:begin\n")[1].split(f".. results:{name}:end")[0].strip()
    if "list-table" in part:
        assert part.startswith(to_rst(study_tables(get_study(name), [results[page]])).strip())
    else:
        assert part.startswith(("Not run yet.", "No table here"))


@pytest.mark.parametrize("page", PAGES)
def test_auc_and_groups_in_every_record(page, results):
    assert results[page].records
    for record in results[page].records:
        assert not record.ok or {"auc", "accuracy", "nll"} <= set(record.metrics)
        assert record.n_groups == 0  # none of these tables has groups
