"""Leaves side by side: same bits, same order, bounded."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController

from conftest import compile_anew, compiled, make_wide, paper
from scff import FoldedClassifier
from scff.fold.encode import FoldOptions
from scff.fold.threads import default_workers, in_order, small_matrices
from scff.tables.table import Table


@pytest.mark.parametrize("first_alone", [True, False])
def test_results_come_in_order_and_few_at_a_time(first_alone):
    lock = threading.Lock()
    alive, most, after_first = set(), [0], []

    def work(i):
        with lock:
            alive.add(i)
            most[0] = max(most[0], len(alive))
            if i and 0 not in finished:
                after_first.append(i)
        time.sleep(0.02 * ((7 * i) % 3))  # later ones often finish first
        finished.add(i)
        return i

    finished, results = set(), []
    with in_order(work, range(20), 3, first_alone=first_alone) as ordered:
        for i in ordered:
            results.append(i)
            with lock:
                alive.discard(i)
    assert results == list(range(20))
    assert most[0] <= 3
    assert not (first_alone and after_first)


def test_an_error_ends_it_and_the_thread_count_is_put_back():
    before = torch.get_num_threads()
    seen = []

    def work(i):
        seen.append((i, torch.get_num_threads()))
        if i == 4:
            raise ValueError("four")
        return i

    with pytest.raises(ValueError, match="four"), in_order(work, range(1000), 2) as ordered:
        list(ordered)
    assert len(seen) < 20  # the rest was never started
    assert {count for _, count in seen} == {max(1, before // 2)}
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("cache", [True, False, "disk"])
def test_side_by_side_is_the_same_to_the_bit(backbone, cache):
    X, y, Q = make_wide()
    clf = paper(backbone, leaf_width=16, tail="raw-residual", cache=cache).fit(X, y)
    alone = compiled(clf)
    options = FoldOptions(workers=3, query_chunk=10)
    folded = compile_anew(clf, options, cache=cache, limit=None)
    torch.testing.assert_close(folded.core.mean_SE, alone.core.mean_SE, rtol=0, atol=0)
    torch.testing.assert_close(folded.tail.mean_SE, alone.tail.mean_SE, rtol=0, atol=0)
    same_chunks = FoldOptions(workers=1, query_chunk=10)
    single = compile_anew(clf, same_chunks, cache=cache, limit=None)
    torch.testing.assert_close(folded.predict(Table(Q)), single.predict(Table(Q)), rtol=0, atol=0)


def test_a_budget_takes_workers_away_first():
    X, y, Q = make_wide()
    clf = paper("nano", leaf_width=16, tail="raw-residual").fit(X, y)
    alone = compiled(clf)
    found = []
    for limit in (1 << 30, 24 << 20, 18 << 20):
        options = FoldOptions(workers=4)
        folded = compile_anew(clf, options, cache=True, limit=limit)
        found.append(folded.engine._options.workers)
        np.testing.assert_allclose(folded.predict(Table(Q)), alone.predict(Table(Q)), atol=1e-5)
    assert found[0] == 4
    assert found[-1] < 4
    assert found == sorted(found, reverse=True)


def test_only_views_that_allow_it_are_called_from_several_threads(monkeypatch):
    X, y, _ = make_wide()
    clf = paper("nano", leaf_width=16).fit(X, y)
    view = clf.fitted_.readings[0].views[0].view
    monkeypatch.setattr(type(view), "thread_safe", False)
    folded = compile_anew(clf, FoldOptions(workers=4), cache=True, limit=None)
    assert folded.engine._options.workers == 1


def test_workers_follow_torchs_threads(monkeypatch):
    for threads, workers in ((1, 1), (2, 2), (64, 4)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert default_workers() == workers
        assert FoldOptions.on(torch.device("cpu"), "auto", "auto", False).workers == workers
        assert FoldOptions.on(torch.device("cuda"), "auto", "auto", False).workers == 1


def test_items_are_made_one_by_one_in_the_calling_thread():
    made, ahead = [], []

    def items():
        for i in range(12):
            made.append(threading.current_thread())
            yield i

    with in_order(lambda i: (i, default_workers()), items(), 3, n=12) as ordered:
        for i, inner in ordered:
            ahead.append(len(made) - i)
            assert inner == 1  # a thread of these starts no others
    assert set(made) == {threading.current_thread()}
    assert max(ahead) <= 4


def test_passes_side_by_side_say_the_same_to_the_bit(monkeypatch):
    X, y, Q = make_wide()
    alone = FoldedClassifier(backbone="nano").fit(X, y)
    answer = alone.predict_proba(Q)
    share = max(1, torch.get_num_threads() // 3)
    workers = []
    monkeypatch.setattr("scff.fold.encode.default_workers", lambda: 3)
    begun = torch.set_num_threads
    monkeypatch.setattr(torch, "set_num_threads", lambda n: (workers.append(n), begun(n)))
    before = torch.get_num_threads()
    several = FoldedClassifier(backbone="nano").fit(X, y)
    assert workers.count(share) >= 3  # threads were begun, and the number was put back
    assert torch.get_num_threads() == before
    if before == 1:  # products of several threads round differently
        assert several.verdicts_ == alone.verdicts_
        np.testing.assert_array_equal(several.predict_proba(Q), answer)
    np.testing.assert_allclose(several.predict_proba(Q), answer, atol=1e-5)


def test_a_model_that_shares_state_is_read_by_one_thread(monkeypatch):
    X, y, _ = make_wide()
    clf = FoldedClassifier(backbone="nano").fit(X, y)
    case, _ = clf.fitted_.compiled()
    monkeypatch.setattr("scff.fold.encode.default_workers", lambda: 3)
    assert case.side_by_side == 3
    monkeypatch.setattr(type(case.first_view), "thread_safe", False)
    assert case.side_by_side == 1


def test_small_matrices_leave_the_threads_as_they_were():
    def threads():
        return [lib.num_threads for lib in ThreadpoolController().select(user_api="blas").lib_controllers]

    before = threads()
    with small_matrices(), small_matrices():
        assert set(threads()) == {1}
    assert threads() == before

    def overlapping(i):
        with small_matrices():
            time.sleep(0.01 * (i % 3))

    with in_order(overlapping, range(20), 4) as ordered:
        list(ordered)
    assert threads() == before


def test_models_with_more_classes_than_the_network_has_predict_side_by_side(checkpoint_dir):
    """TabICL writes the tree of their classes into the network that all models of one file share."""
    rng = np.random.default_rng(0)
    models, Q = [], rng.normal(size=(60, 40))
    for n_classes in (13, 17):
        y = np.arange(120) % n_classes
        X = rng.normal(size=(120, 40)) + (y[:, None] % 5) * (np.arange(40) < 10)
        models.append(paper(checkpoint_dir / "v2.ckpt", cache=False).fit(X, y))
    alone = [model.predict_proba(Q) for model in models]
    with ThreadPoolExecutor(4) as pool:
        together = [pool.submit(models[i % 2].predict_proba, Q) for i in range(60)]
        for i, one in enumerate(together):
            np.testing.assert_allclose(one.result(), alone[i % 2], atol=1e-6)
