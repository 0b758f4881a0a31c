"""Columns tied to the Core: silent on their own, but moving with columns that are not.

The paper's Core is what a test of one column at a time discovers. On few labelled rows that is a part of what matters:
where columns come in groups (measured together, or made from the same sources) the rest of a group can be found
without labels, by its correlation with the part that was discovered. In one leaf the backbone then sees the group as a
whole. Beyond the paper; a trial (`scff.trials.trial`) decides whether it is done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import stats

from scff.plan.column_scores import centred_blocks
from scff.plan.compile import deal
from scff.plan.plan import FoldPlan

if TYPE_CHECKING:
    from scff.tables.storage import Columns

__all__ = ["link", "linked_columns"]

IntArray = npt.NDArray[np.int64]

#: A link must explain a quarter of a column's variance ...
_WEAKEST = 0.5

#: ... and be no accident: this is the chance of a single false link in a round, among all pairs looked at.
_CHANCE = 0.05

#: Steps away from a discovery; each reads the table once.
_ROUNDS = 4


def linked_columns(X: npt.NDArray[np.floating] | Columns, core: IntArray, others: IntArray, room: int) -> IntArray:
    """Columns that correlate with the Core, or with a column that joined it.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns), or anything with a shape that gives columns as ``X[:, start:stop]``
        Support rows; missing values count as their column's median.
    core, others : ndarray of int
        Columns of the Core, and those that may join it.
    room : int
        Most columns to return.

    Returns
    -------
    ndarray of int
        Nearest first: in the order of the round they were found in, then of their strongest correlation.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 5))
    >>> X[:, 3] += 2 * X[:, 0]  # one step from column 0
    >>> X[:, 1] += 3 * X[:, 3]  # two steps
    >>> linked_columns(X, np.array([0]), np.array([1, 2, 3, 4]), room=10)
    array([3, 1])
    """
    n_rows, n_columns = X.shape
    found: list[int] = []
    free = np.zeros(n_columns, dtype=bool)
    free[others] = True
    joined = fresh = core
    strength = np.zeros(n_columns)
    for _ in range(_ROUNDS):
        room_left = room - len(found)
        if room_left <= 0 or len(fresh) == 0 or not free.any():
            break
        np.maximum(strength, _strongest(X, fresh), out=strength)
        candidates = np.flatnonzero(free)
        bound = _bound(n_rows, len(joined) * len(candidates))
        ranked = candidates[np.argsort(-strength[candidates], kind="stable")]
        fresh = ranked[strength[ranked] >= bound][:room_left]
        free[fresh] = False
        found += fresh.tolist()
        joined = np.concatenate([joined, fresh])
    return np.array(found, dtype=np.int64)


def link(plan: FoldPlan, X: npt.NDArray[np.floating] | Columns) -> FoldPlan:
    """Fill a Core of less than a leaf with the columns that correlate with it.

    Parameters
    ----------
    plan : FoldPlan
        As the paper routes.
    X : ndarray of shape (n_rows, n_columns), or anything with a shape that gives columns as ``X[:, start:stop]``
        The support rows it was compiled on.

    Returns
    -------
    FoldPlan
        With ``routing="linked"``; `FoldPlan.linked` says which columns joined.
    """
    joined = linked_columns(X, plan.core, plan.tail, plan.leaf_width - len(plan.core))
    core, tail = np.concatenate([plan.core, joined]), plan.tail[~np.isin(plan.tail, joined)]
    return replace(
        plan,
        routing="linked",
        core=core,
        tail=tail,
        core_leaves=tuple(deal(core, plan.leaf_width)),
        tail_leaves=tuple(deal(tail, plan.leaf_width)),
    )


def _strongest(X: npt.NDArray[np.floating] | Columns, fresh: IntArray) -> npt.NDArray[np.float64]:
    """The largest absolute correlation of every column with one of these."""
    out = np.zeros(X.shape[1])
    unit = np.concatenate([_unit(block) for _, block, _ in centred_blocks(np.asarray(X[:, fresh]))], axis=1)
    for columns, block, _ in centred_blocks(X):
        out[columns] = np.abs(unit.T @ _unit(block)).max(axis=0)
    return out


def _unit(block: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Centred columns at length one; constant ones stay zero."""
    length = np.sqrt(np.einsum("ij,ij->j", block, block))
    out: npt.NDArray[np.float64] = np.divide(block, length, out=np.zeros_like(block), where=length > 0)
    return out


def _bound(n_rows: int, n_pairs: int) -> float:
    """The weakest correlation that counts as a link (Student's t, Bonferroni over the pairs)."""
    if n_rows < 3:
        return np.inf
    t = float(stats.t.isf(_CHANCE / (2 * n_pairs), n_rows - 2))
    return max(_WEAKEST, float(t / np.sqrt(n_rows - 2 + t**2)))
