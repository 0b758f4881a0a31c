"""Every Python block of the documentation runs, page by page and in order."""

from __future__ import annotations

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
