"""What a single column is worth to the model: the loss of held-back rows when its values are shuffled among them.

Each half of the labelled rows is read as at fit and asked about the other half, as it is and with one column shuffled.
All columns are asked in a few passes, for query rows never look at each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.gate.class_evidence import alternate_halves
from scff.progress import Steps
from scff.tables.table import Table
from scff.trials.average import mixed
from scff.trials.case import Case
from scff.trials.mixture import losses_of
from scff.trials.presentations import Answering
from scff.trials.reading import Choice, answers, read_all

if TYPE_CHECKING:
    from scff.estimators.fitted import Fitted

__all__ = ["Shuffled", "affordable", "rows_to_predict", "shuffle_columns"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_FEWEST = 4  # rows of a class: two in each half
_BYTES = 64 * 2**20  # of query rows that are asked together
_PREDICTIONS = 10  # of as many rows as were labelled: what all columns may cost
_LEAST = 8  # rows of a half that are asked, whatever they cost: fewer would say nothing
_MOST = 50  # columns


@dataclass(frozen=True)
class Shuffled:
    """Rise of the held-back loss when a column is shuffled, for some columns.

    Attributes
    ----------
    columns : ndarray of int
    change : ndarray of float
        Positive: the model predicts worse without what the column says. For numbers in units of the target's variance.
    noise : ndarray of float
        Standard error of ``change`` over the held-back rows.
    """

    columns: IntArray
    change: FloatArray
    noise: FloatArray


#: What was measured of a fit, for as long as it lives: its report and its frame ask for the same.
_KNOWN: WeakKeyDictionary[Fitted, dict[bytes, Shuffled | None]] = WeakKeyDictionary()


def affordable(n_rows: int) -> int:
    """How many columns the time of ten predictions pays for: 50, and fewer where few rows are labelled.

    Examples
    --------
    >>> affordable(500), affordable(62), affordable(30)
    (50, 49, 24)
    """
    return max(1, min(_MOST, 4 * n_rows // 5))


def rows_to_predict(n_rows: int, n_columns: int) -> int:
    """Rows that shuffling so many columns predicts: for every column both halves, or a fair sample of each."""
    return 2 * n_columns * min(n_rows // 2, max(_LEAST, _PREDICTIONS * n_rows // (2 * max(n_columns, 1))))


def shuffle_columns(fitted: Fitted, columns: IntArray, steps: Steps | None = None) -> Shuffled | None:
    """Shuffle columns one by one among held-back rows; None where there are too few rows to hold any back."""
    known = _KNOWN.setdefault(fitted, {})
    key = columns.tobytes()
    if key not in known:
        known[key] = _shuffle(fitted, columns, steps or Steps("", shown=False))
    return known[key]


def _shuffle(fitted: Fitted, columns: IntArray, steps: Steps) -> Shuffled | None:
    case = fitted.compiled()[0]
    halves = _halves(case, fitted.classes is not None)
    if halves is None or len(columns) == 0:
        return None
    # Rows that are predicted are counted.
    most = max(_LEAST, _PREDICTIONS * case.support.n_rows // (2 * len(columns)))
    rng = np.random.default_rng(0)
    changes = []
    for learn, ask in (halves, halves[::-1]):
        some = ask if len(ask) <= most else _sample(case.y[ask], ask, most, rng)
        predict, codes = _reader(fitted, case, learn, some)
        loss = _loss(case, codes, some, predict, fitted.classes is not None)
        rows = case.support.take(some)
        before = loss(rows)
        after = []
        for part in _parts(rows, columns, rng):
            after.append(loss(part).reshape(-1, len(some)))
            steps.done(part.n_rows)
        changes.append(np.concatenate(after) - before)
    change = np.concatenate(changes, axis=1)
    return Shuffled(columns, change.mean(axis=1), change.std(axis=1, ddof=1) / np.sqrt(change.shape[1]))


def _halves(case: Case, classified: bool) -> tuple[IntArray, IntArray] | None:
    rows = case.landmarks
    if not classified:
        order = rows[np.argsort(case.y[rows], kind="stable")]
        return (np.sort(order[::2]), np.sort(order[1::2])) if len(order) >= 2 * _FEWEST else None
    counts = np.bincount(case.y[rows], minlength=int(case.y.max()) + 1)
    keep = rows[counts[case.y[rows]] >= _FEWEST]
    codes = np.unique(case.y[keep], return_inverse=True)[1]
    if len(keep) == 0 or codes.max() < 1:
        return None
    first, second = alternate_halves(codes)
    return keep[first], keep[second]


def _sample(y: npt.NDArray[Any], rows: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Some rows, drawn at random from every class, or from every part of the range, in its proportion."""
    order = rng.permutation(len(rows))
    order = order[np.argsort(y[order], kind="stable")]
    return np.sort(rows[order[((np.arange(count) + rng.random()) * len(rows) / count).astype(np.int64)]])


def _reader(
    fitted: Fitted, case: Case, learn: IntArray, ask: IntArray
) -> tuple[Callable[[Table], FloatArray], IntArray]:
    """What the model answers when it has seen one half, and the classes in that half."""
    part = case.part(learn, ask)
    choices = [choice for choice in fitted.choices if _has_something(part, choice)]
    readings = read_all(part, choices)
    weights = np.array([choice.weight for choice in choices])
    mixture = mixed(tuple(weights / weights.sum()), fitted.temperature, fitted.classes is not None)

    def predict(rows: Table) -> FloatArray:
        return mixture(np.stack(answers(part, readings, rows)))

    return predict, np.unique(case.y[learn])


def _has_something(part: Case, choice: Choice) -> bool:
    """Whether a half has anything to show in this way; the paper's reading always does."""
    return isinstance(choice.presentation, Answering) or choice.presentation.show(part) is not None


def _loss(
    case: Case, codes: IntArray, ask: IntArray, predict: Callable[[Table], FloatArray], classified: bool
) -> Callable[[Table], FloatArray]:
    """Loss of every row of a table that holds the asked rows one or several times over."""
    if classified:
        own = np.searchsorted(codes, case.y[ask])
        return lambda rows: losses_of(predict(rows), np.tile(own, rows.n_rows // len(ask)))
    spread = float(np.var(case.y)) or 1.0
    return lambda rows: (predict(rows)[:, 0] - np.tile(case.y[ask], rows.n_rows // len(ask))) ** 2 / spread


def _parts(rows: Table, columns: IntArray, rng: np.random.Generator) -> Iterator[Table]:
    """The rows once for every column, that column shuffled; as many columns together as memory allows."""
    n = rows.n_rows
    together = max(1, _BYTES // (8 * n * rows.n_columns))
    frame = rows.values if isinstance(rows.values, pd.DataFrame) else None
    values = None if frame is not None else np.asarray(rows.values)
    for start in range(0, len(columns), together):
        some = columns[start : start + together]
        orders = [rng.permutation(n) for _ in some]
        if frame is not None:
            parts = [frame.copy() for _ in some]
            for part, j, order in zip(parts, some, orders, strict=True):
                part.isetitem(j, frame.iloc[:, j].take(order).set_axis(frame.index))
            yield Table(pd.concat(parts, ignore_index=True), rows.names)
        else:
            assert values is not None
            block = np.tile(values, (len(some), 1))
            for i, (j, order) in enumerate(zip(some, orders, strict=True)):
                block[i * n : (i + 1) * n, j] = values[order, j]
            yield Table(block, rows.names)
