"""The Tail gate: does the rest of the table say something the Core does not?

Pure algebra on row representations. Shape legend: ``S`` support rows, ``Q`` query rows, ``E`` representation width,
``K`` classes. ``c`` is the averaged Core message, ``t`` the averaged Tail message.

Where the paper is silent, this module chooses as follows. The nearest-prototype check scales squared distances, for
each representation it scores, by the median positive squared distance between the class centroids of the half it was
fitted on: the same definition as the paper's prototype map, and one that a mere stretching of the representation
cannot satisfy (``scale="core"`` keeps the Core's scale for both sides instead). Candidates are tried in the order raw,
prototype, and a tie in the worst-direction gain goes to the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from scff.errors import DataError
from scff.evidence import (
    FisherForm,
    Prototypes,
    alternate_halves,
    as_float,
    bandwidth_of,
    class_means,
    rounding_energy,
    softmax,
    square_distances,
)

if TYPE_CHECKING:
    from scff.display import GateDisplay

__all__ = ["TAIL_RULES", "Candidate", "TailGate", "TailRule", "gate", "refuse"]

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
    scale : {"own", "core"}
        Distance scale of the nearest-prototype check (see the module's notes).
    """

    project: bool = True
    candidates: tuple[CandidateName, ...] = ("raw", "prototype")
    step: Literal["fisher", "fixed"] = "fisher"
    check: Literal["reciprocal", "none"] = "reciprocal"
    single_leaf_fallback: bool = True
    binary_only: bool = True
    scale: Literal["own", "core"] = "own"


_OPEN = TailRule(single_leaf_fallback=False, binary_only=False)

TAIL_RULES: dict[str, TailRule] = {
    "gated": TailRule(),
    "centred": TailRule(project=False),
    # The paper's five-step construction of the update: residual, prototype map, Fisher step, acceptance, fallback;
    # the binary restriction is the last step, so none of the five has it.
    "raw-residual": replace(_OPEN, candidates=("raw",), step="fixed", check="none"),
    "fixed-prototype": replace(_OPEN, candidates=("prototype",), step="fixed", check="none"),
    "fisher": replace(_OPEN, candidates=("prototype",), check="none"),
    "no-single-leaf-fallback": _OPEN,
    "no-binary-restriction": replace(_OPEN, single_leaf_fallback=True),
}
"""Named rules: the full method and the paper's component controls (random routing is a choice of the plan)."""


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
class _Map:
    """What turns messages into the accepted update: learned on the support, applied to queries."""

    core_mean_E: FloatArray
    tail_mean_E: FloatArray
    rho: float
    norm: float
    centroids_KE: FloatArray
    frequencies_K: FloatArray
    bandwidth: float

    def residual(self, c: FloatArray, t: FloatArray) -> FloatArray:
        return (t - self.tail_mean_E) - self.rho * (c - self.core_mean_E)

    def prototype(self, r: FloatArray, own_distance: tuple[FloatArray, npt.NDArray[np.int64]] | None) -> FloatArray:
        distance = square_distances(r, self.centroids_KE)
        if own_distance is not None:  # support rows: the own class without the row itself
            distance[np.arange(len(r)), own_distance[1]] = own_distance[0]
        weights = softmax(-distance / self.bandwidth)
        return weights @ (self.centroids_KE - self.frequencies_K @ self.centroids_KE)


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
    _map: _Map | None = field(default=None, repr=False, compare=False)

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
        c, t = as_float(c), as_float(t)
        if self.accepted is None or self._map is None:
            return np.zeros_like(c)
        v = self._map.residual(c, t)
        if self.accepted == "prototype":
            v = self._map.prototype(v, None)
        return (self.alpha * self._map.norm) * v

    def refit(self, c_S: Any, t_S: Any, y: Any) -> FloatArray:
        """``alpha * v`` for support rows with other messages: same candidate and alpha, all else learned anew.

        For questions of the kind "what if this leaf were not there"; `update` is what queries get.
        """
        c_S, t_S = as_float(c_S), as_float(t_S)
        if self.accepted is None:
            return np.zeros_like(c_S)
        b, r, rho = _residual(c_S, t_S, self.rule)
        y = np.unique(np.asarray(y), return_inverse=True)[1].reshape(-1)
        found = _propose(self.accepted, r, b, c_S.mean(axis=0), t_S.mean(axis=0), rho, y)
        return np.zeros_like(c_S) if found is None else self.alpha * found[0]

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
        from scff.display import GateDisplay

        return GateDisplay(self).plot(ax, **kwargs)

    def _repr_html_(self) -> str:
        from scff.display import gate_html

        return gate_html(self)


def gate(c_S: Any, t_S: Any, y: Any, *, n_tail_leaves: int, rule: TailRule | None = None) -> TailGate:
    """Decide on the Tail from support rows alone.

    Parameters
    ----------
    c_S, t_S : array-like of shape (S, E)
        Averaged Core and Tail messages of the support rows.
    y : array-like of int of shape (S,)
        Class codes of the support rows.
    n_tail_leaves : int
        Number of Tail leaves behind ``t_S``.
    rule : TailRule, optional
        The paper's full method by default.

    Returns
    -------
    TailGate

    Examples
    --------
    A Tail that repeats the Core adds nothing; one that separates the classes where the Core does not is let in.

    >>> import numpy as np
    >>> from scff import tail
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(80) % 2
    >>> core = rng.normal(size=(80, 4))
    >>> tail.gate(core, 2 * core, y, n_tail_leaves=3)
    TailGate(Core only: the Tail repeats the Core)
    >>> tail.gate(core, rng.normal(size=(80, 4)) + 3 * y[:, None], y, n_tail_leaves=3)
    TailGate(prototype update accepted, alpha=1.000)
    """
    rule = TailRule() if rule is None else rule
    c_S, t_S = as_float(c_S), as_float(t_S)
    y = np.unique(np.asarray(y), return_inverse=True)[1].reshape(-1)
    if not (len(c_S) == len(t_S) == len(y)) or c_S.shape != t_S.shape:
        raise DataError(f"Core {c_S.shape}, Tail {t_S.shape} and y ({len(y)},) must describe the same rows.")

    refusal = refuse(y, n_tail_leaves=n_tail_leaves, rule=rule)
    if refusal is not None:
        return refusal
    halves = alternate_halves(y)

    def core(reason: str, **found: Any) -> TailGate:
        return TailGate(0.0, None, reason, n_tail_leaves=n_tail_leaves, rule=rule, **found)

    b, r, rho = _residual(c_S, t_S, rule)
    if np.vdot(r, r) <= rounding_energy(r, t_S):
        return core("the Tail repeats the Core", rho=rho)

    tried: list[tuple[Candidate, FloatArray, _Map]] = []
    for name in rule.candidates:
        found = _propose(name, r, b, c_S.mean(axis=0), t_S.mean(axis=0), rho, y)
        if found is not None:
            v, learned = found
            tried.append((_judge(name, b, v, y, halves, rule, n_tail_leaves), v, learned))
    records = tuple(candidate for candidate, _, _ in tried)
    passing = [entry for entry in tried if entry[0].passed]
    if not passing:
        return core("no candidate passed the support checks", rho=rho, candidates=records)
    best, v, learned = max(passing, key=lambda entry: entry[0].nll_gain)
    return TailGate(
        alpha=best.alpha,
        accepted=best.name,
        reason=f"the {best.name} update passed the support checks",
        rho=rho,
        candidates=records,
        n_tail_leaves=n_tail_leaves,
        rule=rule,
        support_update=best.alpha * v,
        _map=learned,
    )


def refuse(y: Any, *, n_tail_leaves: int, rule: TailRule) -> TailGate | None:
    """The refusal that labels alone decide, before any Tail is encoded; None if the Tail must be looked at."""
    counts = np.unique(np.asarray(y), return_counts=True)[1]
    checks_halves = rule.check != "none" or rule.step == "fisher"
    if n_tail_leaves < 1:
        reason = "there is no Tail"
    elif rule.binary_only and len(counts) != 2:
        reason = f"a task of {len(counts)} classes keeps to the Core"
    elif checks_halves and counts.min() < 4:  # dealt alternately, half B gets the smaller share
        reason = "a class has fewer than two rows in a half of the support"
    else:
        return None
    return TailGate(0.0, None, reason, n_tail_leaves=n_tail_leaves, rule=rule)


def _residual(c_S: FloatArray, t_S: FloatArray, rule: TailRule) -> tuple[FloatArray, FloatArray, float]:
    """The centred Core, what of the centred Tail is not aligned with it, and the coefficient of the aligned part."""
    b = c_S - c_S.mean(axis=0)
    u = t_S - t_S.mean(axis=0)
    energy = float(np.vdot(b, b))
    rho = float(np.vdot(u, b)) / energy if rule.project and energy > rounding_energy(b, c_S) else 0.0
    return b, u - rho * b, rho


def _propose(
    name: CandidateName,
    r: FloatArray,
    b: FloatArray,
    core_mean: FloatArray,
    tail_mean: FloatArray,
    rho: float,
    y: npt.NDArray[np.int64],
) -> tuple[FloatArray, _Map] | None:
    """One candidate for the support rows, at the support RMS of the Core; None where it is degenerate."""
    counts = np.bincount(y).astype(np.float64)
    centroids = class_means(r, y)
    bandwidth = bandwidth_of(centroids)
    learned = _Map(core_mean, tail_mean, rho, 1.0, centroids, counts / counts.sum(), bandwidth)
    if name == "raw":
        v = r
    else:
        if bandwidth == 0 or counts.min() < 2:
            return None
        # Leaving row i out moves its own centroid away from it: r_i - mu_(-i) = (r_i - mu) * n / (n - 1).
        n_own = counts[y]
        own = ((r - centroids[y]) ** 2).sum(axis=1) * (n_own / (n_own - 1)) ** 2
        v = learned.prototype(r, (own, y))
    size, wanted = float(np.vdot(v, v)), float(np.vdot(b, b))
    if size <= rounding_energy(v, r) or wanted == 0:
        return None
    norm = (wanted / size) ** 0.5
    return norm * v, replace(learned, norm=norm)


def _judge(
    name: CandidateName,
    b: FloatArray,
    v: FloatArray,
    y: npt.NDArray[np.int64],
    halves: Sequence[npt.NDArray[np.int64]],
    rule: TailRule,
    n_tail_leaves: int,
) -> Candidate:
    forms = [FisherForm.of(b[half], v[half], y[half]) for half in halves]
    steps = [form.best_step() if rule.step == "fisher" else 1.0 for form in forms]
    alpha = min(steps)
    fisher = [(form(0.0), form(alpha)) for form in forms]
    checks = []
    for fitted, scored in ((halves[0], halves[1]), (halves[1], halves[0])):
        before = Prototypes.of(b[fitted], y[fitted])
        after = Prototypes.of(b[fitted] + alpha * v[fitted], y[fitted])
        if rule.scale == "core":
            after = replace(after, bandwidth=before.bandwidth)
        checks.append((before.score(b[scored], y[scored]), after.score((b + alpha * v)[scored], y[scored])))
    candidate = Candidate(
        name=name,
        alpha_a=steps[0],
        alpha_b=steps[1],
        alpha=alpha,
        fisher_a=fisher[0],
        fisher_b=fisher[1],
        nll_ab=(checks[0][0][0], checks[0][1][0]),
        nll_ba=(checks[1][0][0], checks[1][1][0]),
        accuracy_ab=(checks[0][0][1], checks[0][1][1]),
        accuracy_ba=(checks[1][0][1], checks[1][1][1]),
    )
    if rule.check == "none":
        passed = alpha > 0
    elif n_tail_leaves == 1 and rule.single_leaf_fallback:
        passed = candidate.fisher_improves
    else:
        passed = candidate.fisher_improves and candidate.nll_gain > 0 and candidate.accuracy_holds
    return replace(candidate, passed=passed)
