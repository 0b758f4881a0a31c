"""Which rows are learned from and which are asked: chosen by the number of rows and groups, and said in a sentence."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from scff.errors import DataError, shown
from scff.names import is_whole

__all__ = ["Folds", "Splits", "choose_splits", "inner_splits"]

IntArray = npt.NDArray[np.int64]
Pair = tuple[IntArray, IntArray]
Folds = int | Literal["leave-one-out"] | Sequence[tuple[Any, Any]] | None
"""What ``folds`` may be: a number, every row or group on its own, pairs of train and test rows, or None to choose."""

#: Up to so many rows or groups each is left out alone: five parts of fewer would be learned from too little.
_FEW = 24
#: From so many rows on, one round of folds is enough; below, the luck of the deal is averaged over three.
_MANY = 500
#: Most rounds: more would only ask for days.
_ROUNDS = 1000


@dataclass(frozen=True, eq=False)
class Splits:
    """Train and test rows of every fold.

    Attributes
    ----------
    pairs : tuple of (ndarray, ndarray)
        Train and test rows.
    repeats : tuple of int
        Which round each fold belongs to; in a round no row is asked twice.
    words : str
        What was done, as one sentence.
    alone : bool
        Whether every row or group is asked on its own.
    """

    pairs: tuple[Pair, ...] = field(repr=False)
    repeats: tuple[int, ...] = field(repr=False)
    words: str
    alone: bool = False

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def n_repeats(self) -> int:
        """Number of rounds."""
        return max(self.repeats) + 1


def choose_splits(
    y: npt.NDArray[Any],
    groups: npt.NDArray[Any] | None,
    folds: Folds,
    repeats: int | None,
    seed: int,
    *,
    classes: Sequence[Any] | None,
) -> Splits:
    """Deal rows into folds.

    Parameters
    ----------
    y : ndarray
        Class codes, or numbers.
    groups : ndarray or None
        Rows of one group are never parted.
    folds : int, "leave-one-out", pairs of row numbers, or None
        None is leave-one-out on few rows or groups, otherwise five.
    repeats : int or None
        None is three below 500 rows, otherwise one.
    seed : int
    classes : sequence or None
        The labels behind the codes; None for numbers.

    Returns
    -------
    Splits

    Examples
    --------
    >>> choose_splits(np.arange(60) % 2, None, None, None, 0, classes=["a", "b"]).words
    '5 folds of 60 rows, classes dealt evenly, 3 times over'
    """
    units = len(y) if groups is None else len(np.unique(groups))
    what = "rows" if groups is None else "groups"
    if folds is not None and not isinstance(folds, bool | str) and not is_whole(folds):
        return _given(cast(Any, folds), len(y), groups)
    rarest = _rarest(y, groups, classes) if classes is not None else units
    if units < 2:
        raise DataError(f"There is one of the {what} only, so nothing can be both learned and asked; give more.")
    if folds is None:
        alone = units <= _FEW or rarest < 3
        folds = "leave-one-out" if alone else min(5, rarest)
    if isinstance(folds, str):
        if folds != "leave-one-out":
            raise DataError(f'folds must be a number, "leave-one-out" or pairs of row numbers, not {folds!r}.')
        splitter = LeaveOneOut() if groups is None else LeaveOneGroupOut()
        each = "row" if groups is None else "group"
        pairs = [(a, b) for a, b in splitter.split(y, y, groups)]
        return Splits(
            tuple(pairs), (0,) * len(pairs), f"each of {units} {what} left out alone ({each} by {each})", True
        )
    folds = cast(int, folds)
    if not 2 <= folds <= units:
        raise DataError(f"folds must lie between 2 and the number of {what}, {units}; it is {folds}.")
    folds = int(folds)
    if classes is not None and folds > np.bincount(y).max():
        raise DataError(f"folds is {folds}, and no class has as many rows; {np.bincount(y).max()} folds can be dealt.")
    repeats = (3 if len(y) < _MANY else 1) if repeats is None else repeats
    if not is_whole(repeats) or not 1 <= repeats <= _ROUNDS:
        raise DataError(f"repeats must be a number from 1 to {_ROUNDS:,}, not {shown(repeats)}.")
    dealt: list[Pair] = []
    for r in range(repeats):
        dealt += _deal(y, groups, folds, seed + r, classes is not None)
    times = "once" if repeats == 1 else f"{repeats} times over"
    evenly = ", classes dealt evenly" if classes is not None else ""
    whole = f" in {units} groups that are never parted" if groups is not None else ""
    words = f"{folds} folds of {len(y)} rows{whole}{evenly}, {times}"
    return Splits(tuple(dealt), tuple(np.repeat(np.arange(repeats), folds).tolist()), words)


def inner_splits(
    y: npt.NDArray[Any], groups: npt.NDArray[Any] | None, *, classified: bool, most: int = 3
) -> list[Pair]:
    """Folds inside a training part, to choose a penalty with; every class stands in every part it can."""
    units = len(y) if groups is None else len(np.unique(groups))
    folds = min(most, units)
    if classified:
        folds = max(2, min(folds, _per_class(y, groups).min()))
    return _deal(y, groups, folds, 0, classified)


def _deal(y: npt.NDArray[Any], groups: npt.NDArray[Any] | None, folds: int, seed: int, classified: bool) -> list[Pair]:
    if classified:
        deal = StratifiedKFold if groups is None else StratifiedGroupKFold
    else:
        deal = KFold if groups is None else GroupKFold
    with warnings.catch_warnings():
        # That a class has fewer rows than there are folds: then some are asked about it nothing, which is no harm.
        warnings.simplefilter("ignore", UserWarning)
        return list(deal(folds, shuffle=True, random_state=seed).split(y, y, groups))


def _per_class(y: npt.NDArray[Any], groups: npt.NDArray[Any] | None) -> IntArray:
    """In how many rows, or groups, each class is."""
    if groups is None:
        return np.bincount(y)
    return np.array([len(np.unique(groups[y == k])) for k in range(int(y.max()) + 1)])


def _rarest(y: npt.NDArray[Any], groups: npt.NDArray[Any] | None, classes: Sequence[Any]) -> int:
    """In how many rows, or groups, the rarest class is; refuses one that cannot be learned and asked."""
    counts = _per_class(y, groups)
    rarest = int(counts.argmin())
    if counts[rarest] < 2:
        unit = "row" if groups is None else "group"
        raise DataError(
            f"Class {str(classes[rarest])!r} is in one {unit} only, so it cannot be both learned and asked; leave its "
            f"rows out, or label another {unit} of it."
        )
    return int(counts[rarest])


def _rows(chosen: Any, n: int) -> IntArray:
    """Numbers of rows, each once; a mask is as good."""
    rows: IntArray = np.arange(n)[np.asarray(chosen)]
    if rows.ndim != 1 or len(np.unique(rows)) < len(rows):
        raise ValueError("a row stands there twice, or the rows are no plain list")
    return rows


def _given(folds: Iterable[tuple[Any, Any]], n: int, groups: npt.NDArray[Any] | None) -> Splits:
    """Pairs of the user's own, put into rounds in which no row is asked twice."""
    pairs: list[Pair] = []
    rounds: list[int] = []
    asked: list[npt.NDArray[np.bool_]] = []
    try:
        for train, test in folds:
            pairs.append((_rows(train, n), _rows(test, n)))
    except (TypeError, ValueError, IndexError) as error:
        raise DataError(f"folds must be pairs of train and test rows below {n} ({error}).") from error
    for train, test in pairs:
        if len(np.intersect1d(train, test)) or len(train) == 0 or len(test) == 0:
            raise DataError(
                "In one of the folds train or test is empty, or a row is in both; give rows to one of them."
            )
        if groups is not None and len(np.intersect1d(groups[train], groups[test])):
            raise DataError("One of the folds parts a group: rows of it are in train and in test.")
        free = next((r for r, rows in enumerate(asked) if not rows[test].any()), len(asked))
        if free == len(asked):
            asked.append(np.zeros(n, dtype=bool))
        asked[free][test] = True
        rounds.append(free)
    if not pairs:
        raise DataError("There are no folds; give at least one pair of train and test rows.")
    return Splits(tuple(pairs), tuple(rounds), f"{len(pairs)} folds as given", all(len(test) == 1 for _, test in pairs))
