"""Leaves and passes side by side on a CPU: several threads, each with a whole one, instead of several in every product.

A leaf's matrix products are small. Splitting each of them makes threads wait for each other thousands of times a leaf,
and on a busy machine that waiting costs far more than the work. Leaves are independent and never wait.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController

from scff.errors import ForkError

__all__ = ["default_workers", "in_order", "refuse_after_fork", "small_matrices", "small_trees"]

T = TypeVar("T")
R = TypeVar("R")

# Every worker holds one leaf's working memory; further cores go into the products of these.
_MOST = 4


# Numbers of threads are the process's: who comes first notes them, who leaves last restores them.
_lock = threading.Lock()
_small = 0
_limited: Any = None
_sharing = 0
_whole = 1
_used_by: int | None = None
_mine = threading.local()


def default_workers() -> int:
    """Leaves to encode side by side: as many as torch may use threads, within reason; one inside such a thread."""
    if getattr(_mine, "share", 0):
        return 1
    return min(_MOST, _whole if _sharing else torch.get_num_threads())


def refuse_after_fork() -> None:
    """Tell a forked process that torch's threads stayed behind, before it waits for them for ever.

    Raises
    ------
    ForkError
        If this process was forked from one that has computed with several threads, and would do so itself.
    """
    global _used_by
    if torch.get_num_threads() == 1:
        return
    if _used_by is None:
        _used_by = os.getpid()
    elif _used_by != os.getpid():
        raise ForkError(
            "This process was forked from one in which torch had several threads, and they stayed behind: computing "
            'would hang. Start workers with multiprocessing\'s "spawn" or "forkserver" (joblib does), or call '
            "torch.set_num_threads(1) first."
        )


@contextmanager
def in_order(
    work: Callable[[T], R], items: Iterable[T], workers: int, *, n: int | None = None, first_alone: bool = False
) -> Iterator[Iterable[R]]:
    """Results of ``work`` in the order of the items, whoever finishes first; at most ``workers`` exist at a time.

    Parameters
    ----------
    work : callable
        Called in several threads at once, each with its share of torch's threads.
    items : iterable
        Made in the calling thread, each when there is room for it.
    workers : int
        One or less works in the calling thread.
    n : int, optional
        How many items there are, where they cannot be counted beforehand; about is enough.
    first_alone : bool
        Finish the first item before the others begin: it fills tables that a model shares among its calls.

    Yields
    ------
    iterable
        The results; leaving the block gives the threads back.
    """
    n = n if n is not None else len(items) if isinstance(items, Sized) else 0
    if workers <= 1 or n < (3 if first_alone else 2):
        yield map(work, items)
        return
    with closing(_in_threads(work, items, workers, first_alone)) as results:
        yield results


@contextmanager
def small_matrices() -> Iterator[None]:
    """One thread for NumPy's and SciPy's linear algebra: those that wait for each other cost more than they help.

    For decompositions and searches over matrices of labelled rows by labelled rows; torch's threads are its own.
    """
    global _small, _limited
    with _lock:
        if _small == 0:
            _limited = _libraries().limit(limits=1, user_api="blas")
        _small += 1
    try:
        yield
    finally:
        with _lock:
            _small -= 1
            if _small == 0:
                _limited.restore_original_limits()


@contextmanager
def small_trees() -> Iterator[None]:
    """One thread for scikit-learn's boosted trees: of a few hundred rows they are done before a second one is awake."""
    with _libraries().limit(limits=1, user_api="openmp"):  # OpenMP's limit is the calling thread's own
        yield


@cache
def _libraries() -> ThreadpoolController:
    # A library is found only once it is there: SciPy's own, and that of the trees.
    import scipy.linalg  # noqa: F401
    import sklearn.ensemble  # noqa: F401

    return ThreadpoolController()


def _begin(share: int) -> None:
    """A worker's first deed: take its share of torch's threads."""
    _mine.share = share
    torch.set_num_threads(share)


def _in_threads(
    work: Callable[[T], R], items: Iterable[T], workers: int, first_alone: bool
) -> Generator[R, None, None]:
    global _sharing, _whole
    with _lock:
        if _sharing == 0:
            _whole = torch.get_num_threads()
        _sharing += 1
        share = max(1, _whole // workers)
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers, "scff-leaf", _begin, (share,)) as pool:
        try:
            for i, item in enumerate(items):
                if len(waiting) == workers or (first_alone and i == 1):
                    yield waiting.popleft().result()
                waiting.append(pool.submit(work, item))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            with _lock:
                _sharing -= 1
                if _sharing == 0:
                    torch.set_num_threads(_whole)
