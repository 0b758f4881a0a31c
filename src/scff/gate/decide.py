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
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.errors import DataError
from scff.gate.class_evidence import (
    FisherForm,
    Prototypes,
    alternate_halves,
    as_float,
    bandwidth_of,
    class_means,
    rounding_energy,
)
from scff.gate.record import TAIL_RULES, Candidate, CandidateName, TailGate, TailRule, UpdateMap

__all__ = ["TAIL_RULES", "Candidate", "TailGate", "TailRule", "gate", "refuse", "relearn"]

FloatArray = npt.NDArray[np.float64]


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

    tried: list[tuple[Candidate, FloatArray, UpdateMap]] = []
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


def relearn(gate: TailGate, c_S: Any, t_S: Any, y: Any) -> TailGate:
    """The same decision, candidate and alpha, with all else learned from other support messages.

    For questions of the kind "what if this leaf were not there".
    """
    c_S, t_S = as_float(c_S), as_float(t_S)
    if gate.accepted is None:
        return gate
    b, r, rho = _residual(c_S, t_S, gate.rule)
    y = np.unique(np.asarray(y), return_inverse=True)[1].reshape(-1)
    found = _propose(gate.accepted, r, b, c_S.mean(axis=0), t_S.mean(axis=0), rho, y)
    if found is None:
        reason = "nothing is left of the update"
        return replace(gate, alpha=0.0, accepted=None, reason=reason, support_update=None, _map=None)
    return replace(gate, rho=rho, support_update=gate.alpha * found[0], _map=found[1])


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
) -> tuple[FloatArray, UpdateMap] | None:
    """One candidate for the support rows, at the support RMS of the Core; None where it is degenerate."""
    counts = np.bincount(y).astype(np.float64)
    centroids = class_means(r, y)
    bandwidth = bandwidth_of(centroids)
    learned = UpdateMap(core_mean, tail_mean, rho, 1.0, centroids, counts / counts.sum(), bandwidth)
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
