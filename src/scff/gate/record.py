"""What the Tail gate is told and what it records: the rule, every candidate's numbers, the decision.

Shape legend: ``S`` support rows, ``Q`` query rows, ``E`` representation width.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from scff.errors import DataError

if TYPE_CHECKING:
    from scff.gate.decide import TailMap
    from scff.report.display import GateDisplay

__all__ = ["TAIL_RULES", "Candidate", "CandidateName", "TailGate", "TailRule", "tail_rule"]

FloatArray = npt.NDArray[np.float64]
CandidateName = Literal["raw", "prototype"]


@dataclass(frozen=True)
class TailRule:
    """What a Tail update must be and do to be let in. The defaults are the paper's full method.

    Attributes
    ----------
    project : bool
        Remove the direction of the Tail that is aligned with the Core.
    candidates : tuple of {"raw", "prototype"}
        Updates to try, in order.
    step : {"fisher", "fixed"}
        ``"fisher"`` takes the smaller of the two halves' optimal Fisher steps, ``"fixed"`` always 1.
    check : {"reciprocal", "none"}
        ``"reciprocal"`` requires better Fisher separation and prototype NLL, and no lower accuracy, in both directions.
    single_leaf_fallback : bool
        Accept on Fisher separation alone when the Tail is one leaf.
    binary_only : bool
        Leave multiclass tasks to the Core.
    """

    project: bool = True
    candidates: tuple[CandidateName, ...] = ("raw", "prototype")
    step: Literal["fisher", "fixed"] = "fisher"
    check: Literal["reciprocal", "none"] = "reciprocal"
    single_leaf_fallback: bool = True
    binary_only: bool = True

    def __post_init__(self) -> None:
        known = get_args(CandidateName)
        names = self.candidates
        if not isinstance(names, tuple) or not names or any(name not in known for name in names):
            raise DataError(f"candidates of a TailRule must be a tuple of {' and '.join(map(repr, known))}.")
        if self.step not in ("fisher", "fixed") or self.check not in ("reciprocal", "none"):
            raise DataError('The step of a TailRule is "fisher" or "fixed", and its check "reciprocal" or "none".')
        if not all(isinstance(one, bool) for one in (self.project, self.single_leaf_fallback, self.binary_only)):
            raise DataError("project, single_leaf_fallback and binary_only of a TailRule are True or False.")


_PAPER = TailRule()
_OPEN = replace(_PAPER, single_leaf_fallback=False, binary_only=False)

TAIL_RULES: dict[str, TailRule] = {
    "paper": _PAPER,
    "centred": replace(_PAPER, project=False),
    # The paper's five-step construction of the update: residual, prototype map, Fisher step, acceptance, fallback;
    # the binary restriction is the last step, so none of the five has it.
    "raw-residual": replace(_OPEN, candidates=("raw",), step="fixed", check="none"),
    "fixed-prototype": replace(_OPEN, candidates=("prototype",), step="fixed", check="none"),
    "fisher": replace(_OPEN, candidates=("prototype",), check="none"),
    "no-single-leaf-fallback": _OPEN,
    "no-binary-restriction": replace(_OPEN, single_leaf_fallback=True),
}
"""Named rules: the paper's gate and its component controls (random routing is a choice of the plan)."""


def tail_rule(tail: str | TailRule) -> TailRule | None:
    """The rule behind a name; None for ``"off"``, which leaves the Tail out.

    Raises
    ------
    DataError
        If there is no rule of that name.
    """
    if isinstance(tail, TailRule) or tail == "off":
        return tail if isinstance(tail, TailRule) else None
    if tail not in TAIL_RULES:
        raise DataError(f"tail must be a TailRule or one of {', '.join(['off', *TAIL_RULES])}, not {tail!r}.")
    return TAIL_RULES[tail]


@dataclass(frozen=True)
class Candidate:
    """Every number behind one candidate's acceptance; pairs are (without the update, with it).

    Attributes
    ----------
    name : {"raw", "prototype"}
    alpha_a, alpha_b, alpha : float
        Fisher steps of the halves, and the step used.
    fisher_a, fisher_b : tuple of float
        Fisher ratio on each half.
    nll_ab, nll_ba : tuple of float
        Nearest-prototype NLL: fitted on A and scored on B, and the other way round.
    accuracy_ab, accuracy_ba : tuple of float
        The same for accuracy.
    passed : bool
    """

    name: CandidateName
    alpha_a: float
    alpha_b: float
    alpha: float
    fisher_a: tuple[float, float]
    fisher_b: tuple[float, float]
    nll_ab: tuple[float, float]
    nll_ba: tuple[float, float]
    accuracy_ab: tuple[float, float]
    accuracy_ba: tuple[float, float]
    passed: bool = False

    @property
    def fisher_improves(self) -> bool:
        """Fisher separation is better on both halves."""
        return self.fisher_a[1] > self.fisher_a[0] and self.fisher_b[1] > self.fisher_b[0]

    @property
    def nll_gain(self) -> float:
        """Prototype-NLL gain in the worse of the two directions."""
        return min(self.nll_ab[0] - self.nll_ab[1], self.nll_ba[0] - self.nll_ba[1])

    @property
    def accuracy_holds(self) -> bool:
        """Prototype accuracy is not lower in either direction."""
        return self.accuracy_ab[1] >= self.accuracy_ab[0] and self.accuracy_ba[1] >= self.accuracy_ba[0]


@dataclass(frozen=True)
class TailGate:
    """The decision on the Tail, and the update it lets in.

    Attributes
    ----------
    alpha : float
        Weight of the update; 0 when nothing was accepted.
    accepted : {"raw", "prototype"} or None
    reason : str
        One sentence: why it was accepted or not.
    rho : float
        Projection coefficient of the Tail on the Core.
    candidates : tuple of Candidate
        Every candidate that was tried, with its numbers.
    n_tail_leaves : int
    rule : TailRule
    support_update : ndarray of shape (S, E) or None
        ``alpha * v`` for the support rows.
    """

    alpha: float
    accepted: CandidateName | None
    reason: str
    rho: float = 0.0
    candidates: tuple[Candidate, ...] = ()
    n_tail_leaves: int = 0
    rule: TailRule = field(default_factory=TailRule)
    support_update: FloatArray | None = field(default=None, repr=False, compare=False)
    _map: TailMap | None = field(default=None, repr=False, compare=False)

    def update(self, c: Any, t: Any) -> FloatArray:
        """``alpha * v`` for query rows, from their Core and Tail messages and what the support taught.

        Parameters
        ----------
        c, t : array-like of shape (Q, E)
            Averaged Core and Tail messages of the query rows.

        Returns
        -------
        ndarray of shape (Q, E)
        """
        if self.accepted is None or self._map is None:
            return np.zeros(np.shape(c))
        return (self.alpha * self._map.norm) * self._map(c, t, self.accepted)

    def at(self, share: float) -> TailGate:
        """The same decision at a share of its step; nothing is let in at 0."""
        if share == 0.0 or self.support_update is None:
            return replace(self, alpha=0.0, accepted=None, support_update=None, _map=None)
        return replace(self, alpha=share * self.alpha, support_update=share * self.support_update)

    def __repr__(self) -> str:
        if self.accepted is None:
            return f"TailGate(Core only: {self.reason})"
        return f"TailGate({self.accepted} update accepted, alpha={self.alpha:.3f})"

    def plot(self, ax: Any = None, **kwargs: Any) -> GateDisplay:
        """Draw by how much each candidate passed or failed each check.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Passed to matplotlib's ``barh``.

        Returns
        -------
        GateDisplay
            With the axes in ``ax_`` and the figure in ``figure_``.
        """
        from scff.report.display import GateDisplay

        return GateDisplay(self).plot(ax, **kwargs)

    def _repr_html_(self) -> str:
        from scff.report.display import gate_html

        return gate_html(self)
