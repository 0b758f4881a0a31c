"""Dealing labelled rows: into folds, and a spread of them that stands for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["are_codes", "deal_folds", "parts_wanted", "spread"]

IntArray = npt.NDArray[np.int64]


#: Parts of a range of numbers that are dealt evenly where groups must stay whole.
_PARTS = 4


def deal_folds(y: npt.NDArray[Any], folds: int, groups: npt.NDArray[Any] | None = None) -> IntArray:
    """The fold of every row: classes, or large and small numbers, dealt evenly, groups whole.

    The only row of a class has -1.

    Parameters
    ----------
    y : ndarray
        Class codes, or numbers.
    folds : int
    groups : ndarray, optional

    Examples
    --------
    >>> deal_folds(np.array([0, 0, 1, 0, 1, 0, 2]), 2)
    array([ 0,  1,  0,  0,  1,  1, -1])
    >>> deal_folds(np.array([0.5, 7.0, 1.5, 3.0]), 2)
    array([0, 1, 1, 0])
    """
    if not are_codes(y):
        place = np.empty(len(y), dtype=np.int64)
        place[np.argsort(y, kind="stable")] = np.arange(len(y))
        if groups is None:
            return place % folds
        y = place * _PARTS // len(y)
    if groups is None:
        part = np.empty(len(y), dtype=np.int64)
        start = 0
        for k in range(int(y.max()) + 1):
            rows = np.flatnonzero(y == k)
            # Going on where the last class stopped keeps the folds of equal size.
            part[rows] = (start + np.arange(len(rows))) % folds if len(rows) > 1 else -1
            start += len(rows) if len(rows) > 1 else 0
        return part
    names, codes = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(names), int(y.max()) + 1))
    np.add.at(counts, (codes, y), 1.0)
    load = np.zeros((folds, counts.shape[1]))
    fold_of = np.empty(len(names), dtype=np.int64)
    for group in np.argsort(-counts.sum(axis=1), kind="stable"):  # the largest first, each where its classes are rarest
        crowded = ((load + counts[group]) ** 2 / np.maximum(counts.sum(axis=0), 1.0)).sum(axis=1) - (
            load**2 / np.maximum(counts.sum(axis=0), 1.0)
        ).sum(axis=1)
        fold_of[group] = int(np.argmin(crowded))
        load[fold_of[group]] += counts[group]
    out: IntArray = fold_of[codes].astype(np.int64)
    return out


def parts_wanted(n: int) -> int:
    """Into how many parts so many labelled rows are dealt where nothing speaks against it: more where rows are few."""
    return 8 if n <= 100 else 5 if n <= 300 else 3


def are_codes(y: npt.NDArray[Any]) -> bool:
    """Whether a target is class codes; numbers otherwise."""
    return bool(np.issubdtype(y.dtype, np.integer))


def spread(y: npt.NDArray[Any], most: int) -> IntArray:
    """At most so many rows, evenly over the classes or numbers, in their order; at least two of each class."""
    if len(y) <= most:
        return np.arange(len(y))
    by_class = np.argsort(y, kind="stable")
    picked = by_class[np.linspace(0, len(y) - 1, most).round().astype(np.int64)]
    if not are_codes(y):
        return np.unique(picked)
    rare = [np.flatnonzero(y == k)[:2] for k in np.unique(y)]
    return np.unique(np.concatenate([picked, *rare]))
