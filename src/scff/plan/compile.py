"""Compiling a fold plan from a labelled support table.

Every column is scored with a one-way ANOVA on a median-filled copy, Benjamini-Hochberg discoveries are counted, and
each stratum is dealt round-robin into the fewest leaves of at most ``leaf_width`` columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.errors import DataError
from scff.plan.column_scores import anova, count_discoveries, linear
from scff.plan.plan import FoldPlan, Routing
from scff.plan.reading import check_columns

__all__ = ["compile_plan", "deal"]

IntArray = npt.NDArray[np.int64]

# "linked" comes from held-back rows (`scff.trials.links`), never from here.
_COMPILED = ("anova", "linear", "random")


def compile_plan(
    X: Any,
    y: Any,
    leaf_width: int = 128,
    fdr: float = 0.05,
    routing: Routing = "anova",
    *,
    columns: Sequence[int] | IntArray | None = None,
    names: Sequence[str] | None = None,
    random_state: int = 0,
) -> FoldPlan:
    """Compile the fold plan of a labelled support table.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_columns)
        Numeric support table; missing values may be NaN. Strings and categories of a DataFrame are ranked by
        their ordinal codes.
    y : array-like of shape (n_rows,)
        Labels, or numbers with ``routing="linear"``.
    leaf_width : int, default=128
        Most columns a leaf may hold.
    fdr : float, default=0.05
        Level of the Benjamini-Hochberg count that sizes the Core. Every column of the table counts as a test,
        constant ones with p = 1: the literal reading of the paper's ``D``.
    routing : {"anova", "linear", "random"}, default="anova"
        ``"anova"`` ranks by the one-way F statistic, ``"linear"`` by the F test of a linear regression. ``"random"`` is
        the paper's control: the Core keeps its ANOVA size, its columns are drawn at random.
    columns : sequence of int, optional
        The columns a backbone's preprocessing keeps; all of them by default.
    names : sequence of str, optional
        Column names; taken from a DataFrame by default.
    random_state : int, default=0
        Seed of ``routing="random"``.

    Returns
    -------
    FoldPlan
    """
    from scff.tables.table import as_table  # here, so that the plan itself stays free of pandas
    from scff.tables.targets import class_labels, number_target

    leaf_width, fdr = _number(leaf_width, Integral, "leaf_width"), _number(fdr, Real, "fdr")
    if leaf_width < 1:
        raise DataError(f"leaf_width must be at least 1, not {leaf_width}.")
    if not 0 < fdr < 1:
        raise DataError(f"fdr must lie strictly between 0 and 1, not {fdr}.")
    if routing not in _COMPILED:
        raise DataError(f"routing must be one of {', '.join(_COMPILED)}, not {routing!r}.")
    table = as_table(X)
    if table.n_rows == 0 or table.n_columns == 0:
        raise DataError(f"The table is empty ({table.n_rows} rows, {table.n_columns} columns).")
    numeric = table.numeric()
    if routing == "linear":
        f, p = linear(numeric, number_target(y, table.n_rows))
    else:
        f, p = anova(numeric, class_labels(y, table.n_rows)[0])
    discoveries = count_discoveries(p, fdr)
    kept = np.arange(table.n_columns) if columns is None else _kept(columns, table.n_columns)
    if routing == "random":
        ranked = _generator(random_state).permutation(kept)
    else:  # a stable sort over ascending indices: ties go to the lower one
        ranked = kept[np.argsort(-f[kept], kind="stable")]
    size = min(max(1, discoveries), len(ranked))
    core, tail = ranked[:size], ranked[size:]
    return FoldPlan(
        n_rows=table.n_rows,
        n_columns=table.n_columns,
        leaf_width=leaf_width,
        fdr=fdr,
        routing=routing,
        discoveries=discoveries,
        f=f,
        p=p,
        core=core,
        tail=tail,
        core_leaves=tuple(deal(core, leaf_width)),
        tail_leaves=tuple(deal(tail, leaf_width)),
        names=table.names if names is None else _named(names, table.n_columns),
        aside=table.aside,
    )


def _number(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DataError(f"{name} must be a {'whole ' if kind is Integral else ''}number, not {value!r}.")
    number: Any = value
    return int(number) if kind is Integral else float(number)


def _kept(columns: Any, n_columns: int) -> IntArray:
    """The columns to deal, in original order."""
    try:
        kept = np.asarray(columns)
        if kept.dtype.kind not in "iu" or kept.ndim != 1:
            raise ValueError("they are not a list of whole numbers")
        check_columns(kept, n_columns)
    except (TypeError, ValueError) as error:
        raise DataError(f"columns must be column numbers of the table, each once ({error}).") from error
    return np.sort(kept.astype(np.int64))


def _named(names: Any, n_columns: int) -> tuple[str, ...]:
    """Names for all columns, each its own."""
    given = tuple(names) if isinstance(names, Sequence | np.ndarray) and not isinstance(names, str | bytes) else ()
    if len(given) != n_columns or not all(isinstance(name, str) for name in given) or len(set(given)) < n_columns:
        raise DataError(f"names must be one text for each of the {n_columns} columns, all different.")
    return tuple(map(str, given))


def _generator(seed: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise DataError(f"random_state must be a whole number of at least 0, not {seed!r}.") from error


def deal(ranked: IntArray, leaf_width: int) -> Iterator[IntArray]:
    """Deal ranked columns round-robin into the fewest leaves, each in original order.

    Round-robin gives every leaf its share of strong columns and keeps widths within one of each other.
    """
    n_leaves = -(-len(ranked) // leaf_width)
    for first in range(n_leaves):
        yield np.sort(ranked[first::n_leaves])
