"""Files are written whole or not at all, and only where a file belongs."""

from __future__ import annotations

import os
import stat

import pytest

from scff.errors import DataError
from scff.tables.atomic import write_atomically


def text(content):
    return lambda path: path.write_text(content)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "model"
    write_atomically(target, text("old"))

    def fails(path):
        path.write_text("half")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        write_atomically(target, fails)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_links_are_written_through_and_modes_are_kept(tmp_path):
    target, link = tmp_path / "real", tmp_path / "link"
    write_atomically(target, text("one"), private=True)
    assert mode(target) == 0o600
    link.symlink_to(target)
    write_atomically(link, text("two"))
    assert link.is_symlink()
    assert target.read_text() == "two"
    assert mode(target) == 0o600
    target.chmod(0o640)
    write_atomically(target, text("three"), private=True)
    assert mode(target) == 0o640


@pytest.mark.parametrize("kind", ["directory", "pipe", "device"])
def test_what_is_no_file_is_refused_and_stays(tmp_path, kind):
    target = tmp_path / "x"
    if kind == "directory":
        target.mkdir()
    elif kind == "pipe":
        os.mkfifo(target)
    else:
        target = tmp_path / "null"
        target.symlink_to("/dev/null")
    with pytest.raises(DataError, match="not a regular file"):
        write_atomically(target, text("data"))
    assert not target.is_file()


def test_a_full_disk_is_one_sentence(tmp_path):
    def full(path):
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match="No space left on device"):
        write_atomically(tmp_path / "x", full)
    with pytest.raises(DataError, match="There is no directory"):
        write_atomically(tmp_path / "missing" / "x", text("data"))
    assert list(tmp_path.iterdir()) == []


def test_a_saved_model_is_its_owners_alone(tmp_path, wide):
    from conftest import paper

    X, y, _ = wide
    paper("nano").fit(X[:, :6], y).save(tmp_path / "model.scff")
    assert mode(tmp_path / "model.scff") == 0o600
