"""The fold plan: which columns are Core, which are Tail, and which leaf holds each.

`scff.plan.compile` compiles it from the labelled support.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from scff.errors import DataError
from scff.plan.reading import FORMAT, plan_fields

if TYPE_CHECKING:
    from scff.report.display import PlanDisplay

__all__ = ["FoldPlan", "Routing"]

Routing = Literal["anova", "linked", "linear", "random"]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FoldPlan:
    """How the columns of one support table are folded.

    Indices always refer to the columns of the user's table. Two plans are equal when their content hashes are.

    Attributes
    ----------
    n_rows, n_columns : int
        Shape of the support table the plan was compiled on.
    leaf_width : int
        Capacity of a leaf.
    fdr : float
        Level of the Benjamini-Hochberg count.
    routing : {"anova", "linked", "linear", "random"}
        How columns were ranked.
    discoveries : int
        The Benjamini-Hochberg count ``K``. The Core has ``max(1, K)`` columns and those linked to them.
    f, p : ndarray of shape (n_columns,)
        Statistic and p-value of every column; 0 and 1 for a constant one. ``f`` is infinite for a column that
        separates the classes perfectly.
    core, tail : ndarray of int
        Columns of each stratum, strongest first.
    core_leaves, tail_leaves : tuple of ndarray of int
        The leaves, each in original column order.
    names : tuple of str or None
        Column names of the table, if it had any.
    aside : tuple of (str, str)
        Columns of the input that are not in the table, such as row names, each with the reason; no part of the hash.

    Examples
    --------
    >>> import numpy as np
    >>> from scff import compile_plan
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 30)
    >>> X = rng.normal(size=(60, 300))
    >>> X[:, 7] += 3 * y
    >>> plan = compile_plan(X, y)
    >>> plan
    FoldPlan(300 columns: Core 1 in 1 leaf, Tail 299 in 3 leaves of at most 100)
    >>> plan.core
    array([7])
    """

    n_rows: int
    n_columns: int
    leaf_width: int
    fdr: float
    routing: Routing
    discoveries: int
    f: FloatArray = field(repr=False)
    p: FloatArray = field(repr=False)
    core: IntArray = field(repr=False)
    tail: IntArray = field(repr=False)
    core_leaves: tuple[IntArray, ...] = field(repr=False)
    tail_leaves: tuple[IntArray, ...] = field(repr=False)
    names: tuple[str, ...] | None = field(default=None, repr=False)
    aside: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for array in (self.f, self.p, self.core, self.tail, *self.core_leaves, *self.tail_leaves):
            array.flags.writeable = False

    @property
    def leaves(self) -> tuple[IntArray, ...]:
        """All leaves, Core first."""
        return self.core_leaves + self.tail_leaves

    @property
    def cut(self) -> int:
        """How many columns of the Core are there by their rank; the others are linked to them."""
        return min(max(1, self.discoveries), len(self.core)) if self.routing == "linked" else len(self.core)

    @property
    def linked(self) -> IntArray:
        """Columns of the Core that are there for their correlation with it, nearest first (``routing="linked"``)."""
        return self.core[self.cut :]

    @property
    def dropped(self) -> IntArray:
        """Columns of the table in no leaf: those the backbone's own preprocessing drops."""
        used = np.zeros(self.n_columns, dtype=bool)
        used[self.core] = used[self.tail] = True
        return np.flatnonzero(~used)

    @property
    def unused(self) -> dict[str, str]:
        """Every column that the input had and no leaf has, by name, with the reason."""
        said = dict(self.aside)
        for j in self.dropped:
            constant = self.f[j] == 0 and self.p[j] == 1
            said[self.name(j)] = "one value on the labelled rows" if constant else "left out by the backbone"
        return said

    @cached_property
    def q(self) -> FloatArray:
        """Benjamini-Hochberg adjusted p-value of every column."""
        q: FloatArray = stats.false_discovery_control(self.p)
        return q

    @cached_property
    def hash(self) -> str:
        """SHA-256 over everything the plan says, the same on every platform."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def name(self, column: int) -> str:
        """Name of a column, or ``x<index>`` where the table had no names."""
        return self.names[column] if self.names is not None else f"x{column}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FoldPlan) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        def stratum(label: str, columns: IntArray, leaves: tuple[IntArray, ...]) -> str:
            if not leaves:
                return f"no {label}"
            widest = max(map(len, leaves))
            count = f"{len(leaves)} leaves of at most {widest}" if len(leaves) > 1 else "1 leaf"
            return f"{label} {len(columns)} in {count}"

        return (
            f"FoldPlan({self.n_columns} columns: {stratum('Core', self.core, self.core_leaves)}, "
            f"{stratum('Tail', self.tail, self.tail_leaves)})"
        )

    def plot(self, ax: Any = None, **kwargs: Any) -> PlanDisplay:
        """Draw the ranked evidence of the columns and the Core cut.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Passed to matplotlib's ``plot``.

        Returns
        -------
        PlanDisplay
            With the axes in ``ax_`` and the figure in ``figure_``.
        """
        from scff.report.display import PlanDisplay

        return PlanDisplay(self).plot(ax, **kwargs)

    def _repr_html_(self) -> str:
        from scff.report.display import plan_html

        return plan_html(self)

    def to_json(self) -> str:
        """Serialise; `from_json` gives back an equal plan."""
        data = {
            "format": FORMAT,
            "n_rows": self.n_rows,
            "n_columns": self.n_columns,
            "leaf_width": self.leaf_width,
            "fdr": self.fdr,
            "routing": self.routing,
            "discoveries": self.discoveries,
            # JSON has no infinity; null stands for the F of a perfect separation.
            "f": [None if np.isinf(v) else float(v) for v in self.f],
            "p": self.p.tolist(),
            "core": self.core.tolist(),
            "tail": self.tail.tolist(),
            "core_leaves": [leaf.tolist() for leaf in self.core_leaves],
            "tail_leaves": [leaf.tolist() for leaf in self.tail_leaves],
            "names": None if self.names is None else list(self.names),
        }
        return json.dumps(data, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> FoldPlan:
        """Read a plan written by `to_json`.

        Raises
        ------
        DataError
            If it is anything else, or says what no plan can: a column in two leaves, one that is not there, ...
        """
        try:
            return cls(**plan_fields(text))
        except ValueError as error:
            raise DataError(f"This is not a fold plan written by this version ({error}).") from error
