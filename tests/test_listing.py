"""What `scff backbones` and the documentation say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scff.backbones import get_spec, listing, specs
from scff.backbones.spec import Weights
from scff.backbones.weights import checkpoints
from scff.cli.backbones import app
from scff.errors import BackboneNotAvailable, CheckpointError, CheckpointMissing

PAGE = Path(__file__).parents[1] / "docs" / "backbones.rst"


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without any file of weights but those in the package."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("SCFF_CHECKPOINT_DIR", raising=False)
    return tmp_path


def test_the_documentation_shows_the_registry():
    assert listing.docs_table() in PAGE.read_text(), (
        'run: python -c "from pathlib import Path; from scff.backbones import listing; '
        "listing.update_docs(Path('docs/backbones.rst'))\""
    )


def test_updating_needs_the_markers_and_is_idempotent(tmp_path):
    file = tmp_path / "page.rst"
    file.write_text("no markers")
    with pytest.raises(CheckpointError, match="markers"):
        listing.update_docs(file)
    file.write_text("above\n.. backbones:begin\nstale\n.. backbones:end\nbelow\n")
    assert listing.update_docs(file)
    assert not listing.update_docs(file)
    text = file.read_text()
    assert "stale" not in text
    assert text.startswith("above\n")
    assert text.endswith("below\n")


def test_every_backbone_has_a_row(bare):
    rows = {row.name: row for row in listing.listing()}
    assert list(rows) == list(specs())
    assert rows["nano"].where == "embedded"
    assert rows["tabicl"].where == "by path"
    v1 = rows["tabpfn-v1"]
    assert (v1.where, v1.path, v1.command) == ("missing", None, "scff backbones fetch tabpfn-v1")
    assert (v1.leaf_width, v1.classes, v1.rows) == (100, 10, 1024)
    assert rows["tabpfn-v2.5"].aliases == ("tabpfn-2.5", "tabpfnv2.5")


def test_the_documented_search_order(bare, monkeypatch):
    weights = get_spec("tabpfn-v1").weights
    cached, local = bare / "cache" / "scff" / weights.filename, bare / "local" / weights.filename
    for file in (cached, local):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x")
    assert listing.path("tabpfn-v1") == cached
    monkeypatch.setenv("SCFF_CHECKPOINT_DIR", str(local.parent))
    assert listing.path("tabpfn-v1") == local
    row = next(row for row in listing.listing() if row.name == "tabpfn-v1")
    assert row.where == "local"


def test_verify_tells_good_from_bad_and_unknown(bare, monkeypatch):
    monkeypatch.setenv("SCFF_CHECKPOINT_DIR", str(bare))
    (bare / get_spec("tabpfn-v1").weights.filename).write_bytes(b"x")
    (bare / get_spec("tabicl-v1.1").weights.filename).write_bytes(b"x")
    verified = {v.name: v for v in listing.verify()}
    assert verified["tabpfn-v1"].ok is False
    assert verified["tabicl-v1.1"].ok is None
    assert listing.verify("tabpfn-v1") == [verified["tabpfn-v1"]]


def test_the_pinned_table():
    pinned = {name: spec.weights.sha256 for name, spec in specs().items() if spec.weights is not None}
    assert pinned["tabpfn-v1"] == "3c9aadaeddbf51462af8c0ee4b3ca3c697890f77e92318abbb0821b75261c392"
    assert pinned["tabicl-v2"] == "bdc7dbd5e4ff21f8f0456fcf90c6b7cdf72dbea960f2d05b19bec19f9b3d4ed0"
    assert pinned["tabpfn-v3"] == "d0d865d54dfbc524f5703104be90620182dca7e5fb2c16de72e9959ea18f3988"
    assert pinned["tabicl-v1"].startswith("04c5c1d261c1")


def test_a_package_that_is_not_there_is_the_first_thing_to_get(bare, monkeypatch):
    monkeypatch.setattr(listing, "find_spec", lambda name: None)
    row = next(row for row in listing.listing() if row.name == "tabpfn-v3")
    assert (row.installed, row.command) == (False, "pip install 'tabpfn>=9.2,<10'")


def test_missing_weights_and_unknown_names(bare):
    with pytest.raises(CheckpointMissing, match="scff backbones fetch tabpfn-v1"):
        listing.path("tabpfn-v1")
    with pytest.raises(BackboneNotAvailable, match="no backbone 'tabpfn-9'"):
        listing.path("tabpfn-9")


def test_a_model_that_is_not_here_has_its_reason_wherever_one_asks():
    with pytest.raises(BackboneNotAvailable, match="no row representation"):
        get_spec("EXAONE-Tabular")
    assert "not here: all of its twelve layers" in listing.docs_table()
    said = " ".join(CliRunner().invoke(app, []).output.split())
    assert "exaone-tabular" in said
    assert "no row representation" in said


def test_weights_inside_an_upstream_package_are_found_without_importing_it(bare, tmp_path, monkeypatch):
    package = tmp_path / "bringsweights"
    (package / "files").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    weights = Weights("w.pt", package="bringsweights/files")
    assert checkpoints.find(weights) is None
    (package / "files" / "w.pt").write_bytes(b"x")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert checkpoints.find(weights) == (package / "files" / "w.pt", "package")
    missing = replace(get_spec("geneicl"), weights=Weights("w.pt", package="nosuchpackage/files"))
    with pytest.raises(CheckpointMissing, match="pip install nosuchpackage"):
        checkpoints.fetch(missing)
