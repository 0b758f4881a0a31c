"""The Tail gate's checks as rows a person can read: before, after, the margin, and whether it counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scff.gate.record import Candidate, TailGate
from scff.report.marks import signed

__all__ = ["Check", "checks", "verdict"]


@dataclass(frozen=True)
class Check:
    """One check of one candidate.

    Attributes
    ----------
    name : str
        What is compared.
    where : str
        On which half of the support, or fitted on which and scored on which.
    before, after : float
        Without the update, and with it.
    margin : float
        Improvement in the good direction; negative is worse.
    counts : bool
        Whether the rule asks for this check at all.
    passed : bool
        Whether the margin is enough: above zero, or at least zero for accuracy.
    """

    name: str
    where: str
    before: float
    after: float
    margin: float
    counts: bool
    passed: bool

    @property
    def relative(self) -> float:
        """Margin as a share of the value without the update; 0 where that is zero."""
        return self.margin / abs(self.before) if self.before else 0.0


def checks(candidate: Candidate, gate: TailGate) -> list[Check]:
    """Every check of a candidate, in the order the paper names them.

    Parameters
    ----------
    candidate : Candidate
        One of ``gate.candidates``.
    gate : TailGate
        The decision it belongs to: its rule says which checks count.

    Returns
    -------
    list of Check
    """
    reciprocal = gate.rule.check == "reciprocal"
    fisher_alone = gate.n_tail_leaves == 1 and gate.rule.single_leaf_fallback
    return list(_rows(candidate, fisher=reciprocal, prototypes=reciprocal and not fisher_alone))


def _rows(candidate: Candidate, *, fisher: bool, prototypes: bool) -> Iterator[Check]:
    for where, pair in (("half A", candidate.fisher_a), ("half B", candidate.fisher_b)):
        margin = pair[1] - pair[0]
        yield Check("Fisher separation", where, *pair, margin, fisher, pair[1] > pair[0])
    for where, pair in (("fitted on A, scored on B", candidate.nll_ab), ("fitted on B, scored on A", candidate.nll_ba)):
        yield Check("Prototype NLL", where, *pair, pair[0] - pair[1], prototypes, pair[1] < pair[0])
    accuracies = (
        ("fitted on A, scored on B", candidate.accuracy_ab),
        ("fitted on B, scored on A", candidate.accuracy_ba),
    )
    for where, pair in accuracies:
        yield Check("Prototype accuracy", where, *pair, pair[1] - pair[0], prototypes, pair[1] >= pair[0])


def verdict(candidate: Candidate, gate: TailGate) -> str:
    """One sentence: what the candidate passed by, or what it failed on."""
    needed = [check for check in checks(candidate, gate) if check.counts]
    failed = [check for check in needed if not check.passed]
    if candidate.alpha == 0:
        return "Failed: neither more nor less of it separates the classes better on both halves, so its step is 0."
    if failed:
        worst = ", ".join(f"{check.name} ({check.where}) by {signed(check.margin)}" for check in failed)
        return f"Failed on {len(failed)} of {len(needed)} checks: {worst}."
    if not needed:
        return "Let in without checks, as its rule says."
    closest = min((check for check in needed if check.name != "Prototype accuracy"), key=lambda check: check.relative)
    chosen = "" if gate.accepted in (None, candidate.name) else " The other candidate passed by more and was taken."
    return (
        f"Passed all {len(needed)} checks; the closest was {closest.name} ({closest.where}), "
        f"by {signed(closest.margin)} ({closest.relative:.0%}).{chosen}"
    )
