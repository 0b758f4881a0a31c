"""Every Python block of the documentation runs, page by page and in order."""

from __future__ import annotations

import importlib.util
import re
import textwrap
import tomllib
from pathlib import Path

import matplotlib as mpl
import pytest

from scff.bench.pages import known_digests, stale_digests

mpl.use("Agg")
DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.rst"))
BLOCK = re.compile(r"^\.\. code-block:: (\w+)\n\n((?:(?: {4}.*)?\n)+)", re.M)


def blocks(page):
    text = page.read_text(encoding="utf-8") + "\n"
    return [(m[1], textwrap.dedent(m[2]), text.count("\n", 0, m.start(2)) + 1) for m in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__docs__"}
    for language, code, line in blocks(page):
        if language == "python":
            # Blank lines put the block where it stands in the page, so that a traceback names the right line.
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
        elif language == "toml":
            tomllib.loads(code)
        else:
            assert language == "console"
            assert all(row.startswith("$ ") for row in code.strip().splitlines())


#: Pages with figures, and whose weights these were measured with.
MEASURED = {
    "README.md": ("tabpfn-v1", "nano"),
    "docs/index.rst": ("tabpfn-v1", "nano"),
    "docs/beyond.rst": ("tabpfn-v1", "nano"),
    "docs/quality.rst": ("tabpfn-v1", "nano"),
    "docs/performance.rst": ("nano",),
    "docs/results.rst": ("tabpfn-v1", "nano"),
    "docs/results_nano.rst": ("nano",),
}


@pytest.mark.parametrize("page", MEASURED)
def test_a_page_with_figures_names_the_weights_behind_them(page):
    text = (DOCS.parent / page).read_text(encoding="utf-8")
    assert not [name for name in MEASURED[page] if known_digests()[name][:12] not in text]


def test_every_benchmark_with_a_figure_is_a_step_or_says_why_not():
    spec = importlib.util.spec_from_file_location("results", DOCS.parent / "benchmarks" / "results.py")
    results = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(results)
    run = {command[0] for commands in results.steps("", "").values() for command in commands}
    pages = [DOCS.parent / "README.md", DOCS.parent / "benchmarks" / "README.md", *PAGES]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    named = {f"benchmarks/{name}" for name in re.findall(r"(?:benchmarks/|`)(\w+\.py)\b", text)}
    index = re.findall(r"`(\w+\.py)\b", pages[1].read_text(encoding="utf-8"))
    assert not [name for name in index if not (pages[1].parent / name).is_file()]
    named = {path for path in named if (DOCS.parent / path).is_file()} | set(re.findall(r"docs/figures/\w+\.py", text))
    parts = {"benchmarks/results.py", "benchmarks/rivals_arms.py", "benchmarks/rivals_table.py"}
    assert named - run - parts == set(results.NOT_MADE) & named
    assert all((DOCS.parent / path).is_file() for path in {*run, *results.NOT_MADE} - {"-m"})


def test_every_checkpoint_on_a_page_is_the_packages():
    pages = [DOCS.parent / "README.md", *PAGES, *DOCS.glob("*.md")]
    stale = {page.name: stale_digests(page.read_text(encoding="utf-8")) for page in pages}
    assert not {name: found for name, found in stale.items() if found}
    nano = known_digests()["nano"]
    assert stale_digests(f"`{nano[:12]}` and {nano}") == []
    assert stale_digests(f"`{nano[1:13]}`") == [nano[1:13]]


def test_no_block_escapes_the_test():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert text.count("code-block::") == len(blocks(page)), page
        assert "::\n\n    " not in re.sub(r"\.\. [\w-]+::[^\n]*\n(?:    :[^\n]*\n)*\n", "", text), (
            f"{page}: a literal block"
        )
    assert sum(len(blocks(page)) for page in PAGES) > 20
