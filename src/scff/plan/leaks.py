"""Columns that look too good: one that alone tells every label, or whose values follow the order of the rows.

Both may be honest. A gene can part two tissues, a table can be sorted by age. But the first is often the label under
another name, or what was measured because of it, and the second gives the label away where rows are sorted by class.
So they are named, and nothing is done to them. Named too is a strong column in a unit so large that models see no
difference between its rows: they add a millionth to a spread before they divide by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

if TYPE_CHECKING:
    from scff.plan.plan import FoldPlan
    from scff.tables.table import Table

__all__ = ["Flag", "find_leaks"]

#: Columns looked at for labels that they tell: the strongest.
_STRONGEST = 512

#: Most columns looked at together, and how many rows decide which of them deserve a closer look for the order of rows.
_BLOCK, _FIRST = 1024, 16

#: Cells looked at together for labels.
_CELLS = 1 << 18

#: Chance, over all columns, that noise does what is flagged.
_CHANCE = 1e-3

#: Fewer rows than this may be in order by themselves.
_FEWEST = 8

#: Standard deviation below which models begin to take a column for a constant.
_SPREAD = 1e-6


@dataclass(frozen=True)
class Flag:
    """A column to look at before its model is believed.

    Attributes
    ----------
    column : str
    kind : {"label", "order", "unit"}
        Whether it tells every label, follows the order of the rows, or varies too little for a model.
    """

    column: str
    kind: Literal["label", "order", "unit"]

    @property
    def sentence(self) -> str:
        """What is odd about it, and what to do."""
        if self.kind == "label":
            return (
                f"column {self.column!r} alone tells every label: make sure it is known before the label is, and is "
                "not the label under another name"
            )
        if self.kind == "unit":
            return f"column {self.column!r} varies by less than a model can see ({_SPREAD:g}): give it in another unit"
        return (
            f"the values of column {self.column!r} follow the order of the rows: drop it if that order is not part of "
            "what is measured"
        )


def find_leaks(table: Table, y: npt.NDArray[Any], plan: FoldPlan | None, *, classes: bool) -> tuple[Flag, ...]:
    """Name the columns that look too good.

    Parameters
    ----------
    table : Table
        The labelled rows.
    y : ndarray
        Class codes, or numbers.
    plan : FoldPlan or None
        Its strongest columns are looked at for the label; without it none is.
    classes : bool
        Whether ``y`` is of classes.

    Examples
    --------
    >>> from scff import compile_plan
    >>> from scff.tables.table import as_table
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 20)
    >>> X = rng.normal(size=(40, 5))
    >>> X[:, 1], X[:, 3] = y + 0.1 * rng.random(40), np.sort(X[:, 3])
    >>> [(flag.column, flag.kind) for flag in find_leaks(as_table(X), y, compile_plan(X, y), classes=True)]
    [('x1', 'label'), ('x3', 'label'), ('x3', 'order')]
    """
    numbers = table.numeric()

    def name(j: int) -> str:
        return f"x{j}" if table.names is None else table.names[j]

    strongest = [] if plan is None else np.concatenate([plan.core, plan.tail])[:_STRONGEST].tolist()
    told = [
        j
        for j in _candidates(numbers, strongest, y, classes, table.n_columns)
        if _tells(_column(numbers, j), y, classes, table.n_columns)
    ]
    return (
        *(Flag(name(j), "label") for j in told),
        *(Flag(name(j), "order") for j in _in_order(numbers)),
        *(Flag(name(j), "unit") for j in _too_small(numbers, [] if plan is None else plan.core[:_STRONGEST].tolist())),
    )


def _column(numbers: Any, j: int) -> npt.NDArray[np.float64]:
    column: npt.NDArray[np.float64] = np.asarray(numbers[:, np.array([j])], dtype=np.float64)[:, 0]
    return column


def _candidates(numbers: Any, columns: list[int], y: npt.NDArray[Any], classes: bool, n_columns: int) -> Iterator[int]:
    """Those of some columns that could tell every label, from one look at many; `_tells` is sure, and slower."""
    n = len(y)
    counts = np.bincount(y) if classes else np.empty(0)
    few = (gammaln(n + 1) - gammaln(counts + 1).sum() + np.log(_CHANCE) - np.log(n_columns)) if classes else 0.0
    step = _together(n)
    for start in range(0, len(columns), step):
        some = np.array(columns[start : start + step])
        values = np.ascontiguousarray(np.asarray(numbers[:, some], dtype=np.float64).T)
        values[np.isnan(values)] = np.inf  # behind all others, as one value
        order = values.argsort(axis=1)
        steps = np.diff(y[order], axis=1)
        if classes:
            ordered = np.take_along_axis(values, order, axis=1)
            kinds = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
            likely = ((steps != 0).sum(axis=1) == len(counts) - 1) | (kinds * np.log(len(counts)) < few)
        else:
            likely = (steps > 0).all(axis=1) | (steps < 0).all(axis=1)
        yield from some[likely].tolist()


def _tells(values: npt.NDArray[np.float64], y: npt.NDArray[Any], classes: bool, n_columns: int) -> bool:
    """Whether a column tells every label, by cuts or by its few values, and chance would not do that."""
    n = len(y)
    missing = np.isnan(values)
    if missing.all():
        return False
    values = np.where(missing, np.nanmax(values) + 1.0, values)  # what is missing may be what tells
    kinds, codes = np.unique(values, return_inverse=True)
    if not classes:
        if n < _FEWEST or len(kinds) < _FEWEST or missing.any():
            return False
        ordered = y[np.argsort(values, kind="stable")]
        steps = np.diff(ordered)
        return bool(len(kinds) == n and ((steps > 0).all() or (steps < 0).all()))
    # One class for each value; then either the classes follow each other, or the values are few.
    first = np.zeros(len(kinds), dtype=np.int64)
    first[codes] = y
    if (first[codes] != y).any():
        return False
    counts = np.bincount(y)
    changes = int((np.diff(first) != 0).sum())
    ways = gammaln(n + 1) - gammaln(counts + 1).sum()
    if changes == len(counts) - 1:
        return bool(np.log(n_columns) + gammaln(len(counts) + 1) - ways < np.log(_CHANCE))
    return bool(np.log(n_columns) + len(kinds) * np.log(len(counts)) - ways < np.log(_CHANCE))


def _in_order(numbers: Any) -> list[int]:
    """Columns that rise or fall all the way down the table."""
    n, n_columns = numbers.shape
    if n < _FEWEST:
        return []
    found = []
    head = numbers[: min(n, _FIRST)]
    for start in range(0, n_columns, _BLOCK):
        block = np.asarray(head[:, slice(start, min(start + _BLOCK, n_columns))], dtype=np.float64)
        steps = np.diff(block, axis=0)  # NaN is neither
        likely = ((steps >= 0).all(axis=0) | (steps <= 0).all(axis=0)) & ((steps != 0).sum(axis=0) * 4 >= len(steps))
        for j in np.flatnonzero(likely) + start:
            steps = np.diff(_column(numbers, int(j)))
            falls = (steps >= 0).all() or (steps <= 0).all()
            if falls and (steps != 0).sum() >= max(_FEWEST - 1, n // 4):
                found.append(int(j))
    return found


def _too_small(numbers: Any, columns: list[int]) -> list[int]:
    """Columns that differ between rows, by less than a model can see."""
    found: list[int] = []
    step = _together(numbers.shape[0])
    for start in range(0, len(columns), step):
        some = np.array(columns[start : start + step])
        values = np.asarray(numbers[:, some], dtype=np.float64)
        least, most = np.fmin.reduce(values), np.fmax.reduce(values)  # which pass over what is missing
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large to have a spread is not too small
            likely = (least < most) & (most - least < len(values) * _SPREAD)
        near = zip(some[likely].tolist(), values.T[likely], strict=True)
        found += [j for j, column in near if np.nanstd(column) < _SPREAD]
    return found


def _together(n_rows: int) -> int:
    """Columns that are looked at together."""
    return max(1, min(_BLOCK, _CELLS // max(n_rows, 1)))
