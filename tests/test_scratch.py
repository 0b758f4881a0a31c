"""Caches on disk and half-written files belong to a process; what a killed one left is removed by the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import compiled, make_wide, paper
from scff.backbones.base import LeafCache
from scff.fold.caches import CacheStore
from scff.memory import scratch
from scff.memory.scratch import Scratch, remove_leftovers, temporary_files_in
from scff.tables.atomic import write_atomically


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A place for temporary folders, as a run that has not looked there finds it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_seen", set())
    return tmp_path


def in_child(work):
    """Run a function in a forked child that ends as Python ends; its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            import weakref

            weakref.finalize._exitfunc()  # what `sys.exit` would run
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_leaves_its_parents_caches_alone(folder):
    store = CacheStore("disk")
    caches = [LeafCache({"a": torch.randn(50)}) for _ in range(2)]
    keys = [store.put(cache) for cache in caches]

    def work():
        assert torch.equal(store.get(keys[0], lambda: None).tensors["a"], caches[0].tensors["a"])
        own = store.put(LeafCache({"a": torch.zeros(3)}))  # into a folder of its own
        assert store.get(own, lambda: None).tensors["a"].sum() == 0
        store.drop(keys[1])
        store._scratch[-1].__exit__()

    assert in_child(work) == 0
    for key, cache in zip(keys, caches, strict=True):
        assert torch.equal(store.get(key, lambda: None).tensors["a"], cache.tensors["a"])
    assert len(list(folder.iterdir())) == 1


def test_a_model_predicts_after_a_child_came_and_went(folder, checkpoint_dir):
    X, y, Q = make_wide(n_columns=40)
    clf = paper(checkpoint_dir / "v2.ckpt", leaf_width=16, cache="disk").fit(X, y)
    expected = clf.predict_proba(Q)
    assert in_child(lambda: clf.predict_proba(Q)) == 0
    assert np.array_equal(clf.predict_proba(Q), expected)


@pytest.mark.parametrize("method", ["bounded-core", "mass-huber"])
@pytest.mark.parametrize("loss", ["unlink", "cut"])
def test_a_cache_that_is_gone_is_compiled_again(method, loss, folder, checkpoint_dir):
    X, y, Q = make_wide(n_columns=40)
    clf = paper(checkpoint_dir / "v2.ckpt", leaf_width=16, fdr=0.99, method=method, cache="disk").fit(X, y)
    expected = clf.predict_proba(Q)
    lost = [path for path in folder.rglob("*") if path.name.isdigit()]
    assert len(lost) >= 2
    for path in lost:
        if loss == "unlink":
            path.unlink()
        else:
            os.truncate(path, 5)
    assert np.array_equal(clf.predict_proba(Q), expected)
    assert all(path.stat().st_size > 5 for path in lost)  # and they are back
    assert compiled(clf) is not None


RUN = """
    import sys, tempfile, time
    from pathlib import Path
    tempfile.tempdir = sys.argv[1]
    from scff.memory.scratch import PartialFile, Scratch
    folder = Scratch()
    (folder.path / "0").write_text("cache")
    part = PartialFile(Path(sys.argv[1]) / "model.scff", 0o600)
    part.path.write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def run_in(folder):
    code = textwrap.dedent(RUN)
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def test_what_a_killed_run_left_goes_with_the_next_and_a_living_one_keeps_its_own(folder):
    living, dead = run_in(folder), run_in(folder)
    try:
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        # The second of them has seen the first alive: two folders and two files.
        assert len(list(folder.iterdir())) == 4
        write_atomically(folder / "other.txt", lambda path: path.write_text("whole"))
        assert len([path for path in folder.iterdir() if path.name.endswith(".tmp")]) == 1
        assert len([path for path in folder.iterdir() if path.is_dir()]) == 1
        assert (folder / "other.txt").read_text() == "whole"
    finally:
        living.kill()
        living.wait()
    scratch._seen.clear()
    mine = Scratch()
    assert sorted(path.name for path in folder.iterdir()) == sorted(["other.txt", mine.path.name])


def test_without_a_lock_a_day_decides(folder):
    names = ("scff-abcdefgh", ".model.scff.scff-0123456789abcdef0123456789abcdef.tmp")
    for age, stays in ((3600, True), (2 * 86400, False)):
        (folder / names[0]).mkdir()
        (folder / names[0] / "7").write_text("cache")
        (folder / names[1]).write_text("half")
        when = time.time() - age
        for name in names:
            os.utime(folder / name, (when, when))
        scratch._seen.clear()
        remove_leftovers(folder)
        assert (folder / names[0]).exists() == stays
        if stays:
            (folder / names[0] / "7").unlink()
            (folder / names[0]).rmdir()
    assert not (folder / names[1]).exists()  # a file is its own lock, and nobody held it


def test_what_is_not_ours_is_left_alone(folder):
    (folder / "scff-abcdefgh").mkdir()
    (folder / "scff-abcdefgh" / "thesis.tex").write_text("years of work")
    (folder / "scff-notes").mkdir()
    (folder / ".mine.tmp").write_text("work")
    (folder / ".mine.d41d8cd98f00b204e9800998ecf8427e.tmp").write_text("another program's")
    (folder / "target").mkdir()
    (folder / "target" / "0").write_text("work")
    (folder / "scff-zzzzzzzz").symlink_to(folder / "target")
    when = time.time() - 3 * 86400
    for path in folder.iterdir():
        os.utime(path, (when, when))
    remove_leftovers(folder)
    assert (folder / "scff-abcdefgh" / "thesis.tex").exists()
    assert (folder / "scff-notes").exists()
    assert (folder / ".mine.tmp").exists()
    assert (folder / ".mine.d41d8cd98f00b204e9800998ecf8427e.tmp").exists()
    assert (folder / "target" / "0").exists()
    assert (folder / "scff-zzzzzzzz").is_symlink()


def test_a_file_that_is_taken_for_a_leftover_while_it_is_made_is_made_again(folder, monkeypatch):
    claim, seen = scratch._claim, []

    def robbed(path, mode=0o600):
        found = claim(path, mode)
        if not seen:
            seen.append(path)
            os.close(found)
            path.unlink()
            return None
        return found

    monkeypatch.setattr(scratch, "_claim", robbed)
    write_atomically(folder / "x", lambda path: path.write_text("whole"))
    assert seen
    assert [path.name for path in folder.iterdir()] == ["x"]


def test_temporary_files_of_others_lie_where_they_are_told_to(tmp_path):
    before = tempfile.gettempdir()
    with temporary_files_in(tmp_path), tempfile.NamedTemporaryFile() as file:
        assert Path(file.name).parent == tmp_path
    assert tempfile.gettempdir() == before
