"""The Tail gate: does the rest of the table say something the Core does not? Section A of the paper, in its order.

Pure algebra on row representations. Shape legend: ``S`` support rows, ``Q`` query rows, ``E`` representation width,
``K`` classes. ``c`` is the averaged Core message, ``t`` the averaged Tail message; ``b`` and ``u`` are both centred on
the support.

Where the paper is silent, this module chooses as follows. The nearest-prototype check scales squared distances, for
each representation it scores, by the median positive squared distance between the class centroids of the half it was
fitted on: the same definition as the paper's prototype map, and one that a mere stretching of the representation
cannot satisfy. Candidates are tried in the order raw, prototype, and a tie in the worst-direction gain goes to the
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.errors import DataError
from scff.gate.class_evidence import (
    Prototypes,
    alternate_halves,
    as_float,
    class_means,
    median_distance,
    square_distances,
)
from scff.gate.record import Candidate, CandidateName, TailGate, TailRule

__all__ = ["FisherForm", "TailMap", "decide", "refuse", "relearn"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def decide(c_S: Any, t_S: Any, y: Any, *, n_tail_leaves: int, rule: TailRule | None = None) -> TailGate:
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
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(80) % 2
    >>> core = rng.normal(size=(80, 4))
    >>> decide(core, 2 * core, y, n_tail_leaves=3)
    TailGate(Core only: the Tail repeats the Core)
    >>> decide(core, rng.normal(size=(80, 4)) + 3 * y[:, None], y, n_tail_leaves=3)
    TailGate(prototype update accepted, alpha=1.000)
    """
    rule = TailRule() if rule is None else rule
    c_S, t_S, y = as_float(c_S), as_float(t_S), _codes(y)
    if not (len(c_S) == len(t_S) == len(y)) or c_S.shape != t_S.shape:
        raise DataError(f"Core {c_S.shape}, Tail {t_S.shape} and y ({len(y)},) must describe the same rows.")
    refusal = refuse(y, n_tail_leaves=n_tail_leaves, rule=rule)
    if refusal is not None:
        return refusal
    b, r, learned = TailMap.residual_of(c_S, t_S, rule)
    nothing = TailGate(0.0, None, "the Tail repeats the Core", learned.rho, n_tail_leaves=n_tail_leaves, rule=rule)
    if np.vdot(r, r) <= _rounding(r, t_S):
        return nothing

    tried: list[tuple[Candidate, FloatArray, TailMap]] = []
    for name in rule.candidates:
        found = _propose(name, r, b, y, learned)
        if found is not None:
            v, fitted = found
            tried.append((_judge(name, b, v, y, rule, n_tail_leaves), v, fitted))
    records = tuple(candidate for candidate, _, _ in tried)
    passing = [entry for entry in tried if entry[0].passed]
    if not passing:
        return replace(nothing, reason="no candidate passed the support checks", candidates=records)
    # "Select the accepted update with the largest worst-direction NLL gain" (Algorithm 1).
    best, v, fitted = max(passing, key=lambda entry: entry[0].nll_gain)
    return replace(
        nothing,
        alpha=best.alpha,
        accepted=best.name,
        reason=f"the {best.name} update passed the support checks",
        candidates=records,
        support_update=best.alpha * v,
        _map=fitted,
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


def relearn(gate: TailGate, c_S: Any, t_S: Any, y: Any) -> TailGate:
    """The same decision, candidate and alpha, with all else learned from other support messages.

    For questions of the kind "what if this leaf were not there".
    """
    if gate.accepted is None:
        return gate
    b, r, learned = TailMap.residual_of(as_float(c_S), as_float(t_S), gate.rule)
    found = _propose(gate.accepted, r, b, _codes(y), learned)
    if found is None:
        reason = "nothing is left of the update"
        return replace(gate, alpha=0.0, accepted=None, reason=reason, support_update=None, _map=None)
    return replace(gate, rho=learned.rho, support_update=gate.alpha * found[0], _map=found[1])


@dataclass(frozen=True)
class TailMap:
    """What turns messages into an update: learned on the support, applied to queries."""

    core_mean_E: FloatArray
    tail_mean_E: FloatArray
    rho: float
    norm: float = 1.0
    centroids_KE: FloatArray | None = None
    frequencies_K: FloatArray | None = None
    scale: float = 0.0

    @classmethod
    def residual_of(cls, c_S: FloatArray, t_S: FloatArray, rule: TailRule) -> tuple[FloatArray, FloatArray, TailMap]:
        """The centred Core ``b``, the residual ``r`` of the Tail, and the map that is known so far."""
        core_mean, tail_mean = c_S.mean(axis=0), t_S.mean(axis=0)
        b, u = c_S - core_mean, t_S - tail_mean
        energy = float(np.vdot(b, b))
        # Eq. tail-residual; "if the denominator is degenerate", the coefficient is zero.
        rho = float(np.vdot(u, b)) / energy if rule.project and energy > _rounding(b, c_S) else 0.0
        return b, u - rho * b, cls(core_mean, tail_mean, rho)

    def __call__(self, c: Any, t: Any, name: CandidateName) -> FloatArray:
        """The candidate for query rows, before it is brought to the Core's size."""
        # Eq. tail-residual, with the support's means and coefficient.
        r = (as_float(t) - self.tail_mean_E) - self.rho * (as_float(c) - self.core_mean_E)
        return r if name == "raw" else self.prototype(r)

    def prototype(self, r: FloatArray, own: tuple[FloatArray, IntArray] | None = None) -> FloatArray:
        """The residual drawn towards the class prototypes; ``own`` replaces support rows' distances to their class."""
        assert self.centroids_KE is not None
        assert self.frequencies_K is not None
        distance = square_distances(r, self.centroids_KE)
        if own is not None:
            distance[np.arange(len(r)), own[1]] = own[0]
        logits = -distance / self.scale
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights = weights / weights.sum(axis=1, keepdims=True)
        # Eq. prototype-map.
        out: FloatArray = weights @ (self.centroids_KE - self.frequencies_K @ self.centroids_KE)
        return out


def _propose(
    name: CandidateName, r: FloatArray, b: FloatArray, y: IntArray, learned: TailMap
) -> tuple[FloatArray, TailMap] | None:
    """One candidate for the support rows, at the support RMS of the Core; None where it is degenerate."""
    v = r
    if name == "prototype":
        counts = np.bincount(y).astype(np.float64)
        mu = class_means(r, y)
        learned = replace(learned, centroids_KE=mu, frequencies_K=counts / counts.sum(), scale=median_distance(mu))
        if learned.scale == 0 or counts.min() < 2:
            return None
        # Leaving row i out moves its own centroid away from it: r_i - mu_(-i) = (r_i - mu) * n / (n - 1).
        n_own = counts[y]
        own = ((r - mu[y]) ** 2).sum(axis=1) * (n_own / (n_own - 1)) ** 2
        v = learned.prototype(r, (own, y))
    size, wanted = float(np.vdot(v, v)), float(np.vdot(b, b))
    if size <= _rounding(v, r) or wanted == 0:
        return None
    norm = (wanted / size) ** 0.5
    return norm * v, replace(learned, norm=norm)


@dataclass(frozen=True)
class FisherForm:
    """The Fisher ratio of ``b + alpha * v`` as a ratio of two quadratics in alpha."""

    between: Sequence[Any]
    within: Sequence[Any]

    @classmethod
    def of(cls, b: FloatArray, v: FloatArray, y: IntArray) -> FisherForm:
        """Between- and within-class scatter of both, and between them."""
        counts = np.bincount(y)[:, None]
        b, v = b - b.mean(axis=0), v - v.mean(axis=0)
        b_means, v_means = class_means(b, y), class_means(v, y)
        b_rest, v_rest = b - b_means[y], v - v_means[y]
        between = (counts * b_means**2).sum(), (counts * b_means * v_means).sum(), (counts * v_means**2).sum()
        within = np.vdot(b_rest, b_rest), np.vdot(b_rest, v_rest), np.vdot(v_rest, v_rest)
        return cls(between, within)

    def __call__(self, alpha: float) -> float:
        """The Fisher ratio at one step."""
        # Eq. fisher-quadratic.
        above = self.between[0] + 2 * alpha * self.between[1] + alpha**2 * self.between[2]
        below = self.within[0] + 2 * alpha * self.within[1] + alpha**2 * self.within[2]
        return above / below if below > 0 else (np.inf if above > 0 else 0.0)

    def best_step(self) -> float:
        """The exact maximiser in [0, 1]: the end points and the real roots of the derivative's numerator."""
        (b0, b1, b2), (w0, w1, w2) = self.between, self.within
        roots = _roots(b2 * w1 - b1 * w2, b2 * w0 - b0 * w2, b1 * w0 - b0 * w1)
        return max([0.0, 1.0, *(x for x in roots if 0 < x < 1)], key=self)


def _judge(
    name: CandidateName, b: FloatArray, v: FloatArray, y: IntArray, rule: TailRule, n_tail_leaves: int
) -> Candidate:
    half_a, half_b = alternate_halves(y)
    forms = [FisherForm.of(b[half], v[half], y[half]) for half in (half_a, half_b)]
    steps = [form.best_step() if rule.step == "fisher" else 1.0 for form in forms]
    alpha = min(steps)  # Eq. tail-gate
    fisher = [(form(0.0), form(alpha)) for form in forms]  # Eq. reciprocal-fisher compares each pair
    checks = []
    for fitted, scored in ((half_a, half_b), (half_b, half_a)):
        before = Prototypes.of(b[fitted], y[fitted])
        after = Prototypes.of(b[fitted] + alpha * v[fitted], y[fitted])
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


def _roots(a: float, b: float, c: float) -> tuple[float, ...]:
    """Real roots of ``a x^2 + b x + c`` without cancellation."""
    if a == 0:
        return () if b == 0 else (-c / b,)
    discriminant = b * b - 4 * a * c
    if discriminant < 0:
        return ()
    q = -0.5 * (b + np.copysign(np.sqrt(discriminant), b))
    return (float(q / a), float(c / q)) if q != 0 else (0.0,)


def _rounding(z: FloatArray, reference: FloatArray) -> float:
    """Energy that float32 messages of this size carry as rounding error."""
    return float(z.size * (np.abs(reference).max() * np.finfo(np.float32).eps) ** 2)


def _codes(y: Any) -> IntArray:
    out: IntArray = np.unique(np.asarray(y), return_inverse=True)[1].reshape(-1)
    return out
