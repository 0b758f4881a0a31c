"""One model in several hands: rows that change after `fit`, threads that fit and predict, forked processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pandas as pd
import pytest
import torch

from conftest import make_wide, paper
from scff import FoldedClassifier
from scff.errors import SCFFError
from scff.fold.threads import default_workers, in_order


@pytest.mark.parametrize("kind", ["array", "view", "single", "frame", "mixed frame", "tensor"])
def test_changing_the_table_after_fit_changes_nothing(kind, tmp_path):
    X, y, Q = make_wide(n_columns=12)
    X = X.astype(np.float32) if kind == "single" else X
    labels = np.where(X[:, 0] > 0, "warm", "cold")
    table = {
        "array": X,
        "single": X,
        "view": np.asfortranarray(np.hstack([X, X]))[:, :12],
        "frame": pd.DataFrame(X, columns=list("abcdefghijkl")),
        "mixed frame": pd.DataFrame(X, columns=list("abcdefghijkl")).assign(text=labels),
        "tensor": torch.from_numpy(X),
    }[kind]
    rows = table[:7] if kind == "mixed frame" else Q.astype(X.dtype)
    rows = pd.DataFrame(rows, columns=table.columns) if kind == "frame" else rows
    rows = rows.copy()
    # Without a cache the support is read at every prediction.
    clf = paper("nano", method="raw-core", cache=False).fit(table, y)
    before, saved = clf.predict_proba(rows), pickle.dumps(clf)
    if isinstance(table, pd.DataFrame):
        table.iloc[:, :12] = 0.0
        table.loc[3, "a"] = 1e6
    else:
        table[:] = 0.0
    assert np.array_equal(clf.predict_proba(rows), before)
    assert np.array_equal(pickle.loads(saved).predict_proba(rows), before)
    clf.save(tmp_path / "model.scff")
    assert float(np.abs(clf.fitted_.support.numeric()).max()) > 0


@pytest.mark.parametrize(
    "why",
    [{"memory_limit": "1MiB"}, {"backbone": "/nowhere/at.ckpt"}, {"leaf_width": 0}],
    ids=lambda why: next(iter(why)),
)
def test_a_refused_refit_leaves_the_model_as_it_was(why, checkpoint_dir):
    X, y, Q = make_wide(n_columns=40)
    clf = paper(str(checkpoint_dir / "v2.ckpt")).fit(X, np.where(y, "ill", "well"))
    before, attributes = clf.predict_proba(Q), sorted(vars(clf))
    kept = clf.get_params()
    with pytest.raises(SCFFError):
        clf.set_params(**why).fit(X[:, :20], np.array(["a", "b", "c"])[np.arange(len(y)) % 3])
    clf.set_params(**kept)
    assert clf.classes_.tolist() == ["ill", "well"]
    assert clf.n_features_in_ == 40
    assert sorted(vars(clf)) == attributes
    assert np.array_equal(clf.predict_proba(Q), before)
    assert set(clf.predict(Q)) <= {"ill", "well"}


def test_under_a_limit_the_table_is_not_copied_and_says_no_to_changes():
    X, y, _ = make_wide(n_columns=12)
    clf = paper("nano", method="raw-core", memory_limit="1GiB").fit(X, y)
    assert np.shares_memory(clf.fitted_.support.values, X)
    with pytest.raises(ValueError, match="read-only"):
        X[0, 0] = 3.0


def test_a_file_is_left_where_it_is(tmp_path):
    X, y, _ = make_wide(n_columns=12)
    np.save(tmp_path / "x.npy", X)
    clf = paper("nano", method="raw-core").fit(tmp_path / "x.npy", y)
    assert isinstance(clf.fitted_.support.values.base, np.memmap)


def test_a_prediction_beside_a_fit_is_of_the_old_model_or_the_new(checkpoint_dir):
    X, y, Q = make_wide(n_columns=20)
    weights = checkpoint_dir / "v2.ckpt"
    names = np.array(["no", "yes"])
    expected = {
        "int": paper(weights, method="raw-core").fit(X, y).predict(Q),
        "str": paper(weights, method="raw-core").fit(X + y[:, None], names[1 - y]).predict(Q),
    }
    clf = paper(weights, method="raw-core").fit(X, y)
    wrong, stop, answers = [], threading.Event(), 0

    def ask():
        nonlocal answers
        while not stop.is_set():
            try:
                found = clf.predict(Q)
                proba = clf.predict_proba(Q)
                kind = "str" if found.dtype.kind in "UO" else "int"
                assert np.array_equal(found, expected[kind])
                assert proba.shape == (len(Q), 2)
                answers += 1
            except Exception as error:
                wrong.append(error)
                return

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(6):
        clf.fit(X + y[:, None] * (i % 2), names[1 - y] if i % 2 else y)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert answers > 0


def test_threads_that_use_a_read_model_first_compile_it_once(checkpoint_dir, monkeypatch):
    from scff.estimators import fitted

    X, y, Q = make_wide(n_columns=20)
    clf = pickle.loads(pickle.dumps(paper(checkpoint_dir / "v2.ckpt", method="raw-core").fit(X, y)))
    compiled, read_all = [], fitted.read_all
    monkeypatch.setattr(fitted, "read_all", lambda *args: compiled.append(1) or read_all(*args))
    found = []
    threads = [threading.Thread(target=lambda: found.append(clf.predict_proba(Q))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == 1
    assert all(np.array_equal(found[0], one) for one in found)


def test_leaves_side_by_side_in_two_threads_give_torch_its_threads_back():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        meet, leave = threading.Barrier(2), threading.Event()

        def first():
            with in_order(lambda x: x, range(5), 2) as results:
                list(results)
                meet.wait(10)
                leave.wait(10)

        def work(x):
            return x

        thread = threading.Thread(target=first)
        thread.start()
        with in_order(work, range(5), 2) as results:
            next(iter(results))
            assert default_workers() == 4
            meet.wait(10)
            leave.set()
            thread.join()
            list(results)
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


FORKED = """
    import os, signal, sys
    import numpy as np, torch
    from scff import FoldedClassifier
    from scff.errors import ForkError
    torch.set_num_threads(2)
    X, y = np.random.default_rng(0).normal(size=(30, 8)), np.arange(30) % 2
    clf = FoldedClassifier("nano", method="raw-core").fit(X, y)
    torch.randn(900, 900) @ torch.randn(900, 900)
    expected = clf.predict_proba(X[:3])
    if os.fork() == 0:
        signal.alarm(60)
        try:
            clf.predict_proba(X[:3])
        except ForkError as error:
            assert "spawn" in str(error) and "set_num_threads(1)" in str(error)
        else:
            os._exit(3)
        try:
            clf.fit(X, y)
        except ForkError:
            torch.set_num_threads(1)
            os._exit(0 if np.allclose(clf.predict_proba(X[:3]), expected, atol=1e-5) else 4)
        os._exit(5)
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_after_a_fork_several_threads_are_refused_and_one_works():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(FORKED)], timeout=300)
    assert done.returncode == 0


def test_a_fork_with_one_thread_needs_no_word():
    assert torch.get_num_threads() == 1
    X, y, Q = make_wide(n_columns=6)
    clf = FoldedClassifier("nano", method="raw-core").fit(X, y)
    expected = clf.predict_proba(Q)
    import os

    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(clf.predict_proba(Q), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
