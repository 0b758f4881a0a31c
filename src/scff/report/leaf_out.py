"""What a leaf is worth: class evidence in the row representation with its message and without it.

Support messages may know their own labels (`scff.trials.trial`). So each half of the support comes in as if it were
new: the other half is the encoder's support, and these rows are its queries, without labels. On their merged
messages a nearest-prototype classifier is scored, each row against its own class without itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.base import LeafCache, RowView
from scff.fold.algorithm import Folded
from scff.fold.caches import CacheStore
from scff.fold.native import Native
from scff.gate.class_evidence import alternate_halves, as_float, class_means, square_distances
from scff.gate.decide import relearn
from scff.gate.record import TailGate
from scff.report.subject import Subject

if TYPE_CHECKING:
    from scff.plan.plan import FoldPlan
    from scff.trials.case import Case

__all__ = ["LeafOut", "leave_leaves_out", "prototype_nll"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_FEWEST = 4  # rows of a class: two in each half, so that a row can be left out of its own prototype


@dataclass(frozen=True)
class LeafOut:
    """What leaves are worth.

    Attributes
    ----------
    effects : ndarray of shape (n_leaves,)
        Rise of the prototype NLL when the message of a leaf is left out. The decision on the Tail stays as it is; what
        depends on the messages is learned anew. The only Core leaf is compared with knowing nothing, a Tail that was
        kept out has 0, and NaN stands where leaves are not averaged or fewer than two classes have four rows.
    tail_gain : float or None
        Fall of the prototype NLL that the whole Tail brings, where it was let in.
    """

    effects: FloatArray
    tail_gain: float | None = None


def leave_leaves_out(subject: Subject) -> LeafOut:
    """Leave every leaf of a subject's plan out in turn, and the whole Tail."""
    plan, compiled = subject.plan, subject.first_view
    effects = np.full(len(plan.leaves), np.nan)
    if not isinstance(compiled, Folded | Native) or not isinstance(compiled.view, RowView):
        return LeafOut(effects)
    if subject.fitted.classes is None:  # prototypes are of classes
        return LeafOut(effects)
    case = subject.fitted.compiled()[0]
    keep = np.flatnonzero(np.bincount(case.y)[case.y] >= _FEWEST)
    classes, codes = np.unique(case.y[keep], return_inverse=True)
    if len(classes) < 2:
        return LeafOut(effects)
    gate = compiled.gate
    n_core = len(plan.core_leaves)
    tail_in = gate is not None and gate.accepted is not None
    tail_leaves = plan.tail_leaves if tail_in else ()
    halves = alternate_halves(codes)
    changes, gains = [], []
    for fitted, new in (halves, halves[::-1]):
        view, rows = _as_new(case.part(keep[fitted], keep[new]), plan)
        half = _Half(view, rows, codes[fitted], codes[new], plan.core_leaves, tail_leaves, gate)
        full = half.nll()
        changes.append([half.nll(without=g) - full for g in range(n_core + len(tail_leaves))])
        gains.append(half.core_nll() - full)
    effects[n_core:] = 0.0
    effects[: n_core + len(tail_leaves)] = np.mean(changes, axis=0)
    return LeafOut(effects, float(np.mean(gains)) if tail_in else None)


def _as_new(half: Case, plan: FoldPlan) -> tuple[RowView, Any]:
    """A view of one half, within the user's budget, and the other half as its query rows."""
    view = half.first_view
    assert isinstance(view, RowView)
    assert half.held_back is not None
    blocks = half.runtime(view, plan, "scff").leaf_bytes
    if blocks is not None:
        view.shrink_blocks(blocks)
    return view, view.prepare(half.held_back)


def prototype_nll(z: FloatArray, y: IntArray) -> float:
    """Mean NLL of nearest prototypes, the own class without the row itself, at the scale that suits the rows best.

    The Tail gate scales distances by those between the prototypes. Where the classes hardly differ that is far too
    confident, and the NLL measures the scale instead of the evidence. The best scale leaves at most log K: knowing
    nothing. At least two rows of each class are needed.
    """
    distance = square_distances(z, class_means(z, y))
    own = np.arange(len(y)), y
    n = np.bincount(y)[y]
    distance[own] *= (n / (n - 1)) ** 2  # leaving a row out moves its centroid away from it by n / (n - 1)
    distance -= distance.min(axis=1, keepdims=True)

    def evaluate(beta: float) -> tuple[float, float]:
        weights = np.exp(-beta * distance)
        total = weights.sum(axis=1)
        nll = np.log(total) + beta * distance[own]
        slope = distance[own] - (weights * distance).sum(axis=1) / total
        return float(nll.mean()), float(slope.mean())

    # Convex in beta: follow the sign of the slope.
    low, high = 0.0, 1.0 / max(float(distance.mean()), 1e-300)
    if evaluate(0.0)[1] >= 0:
        return evaluate(0.0)[0]
    for _ in range(60):
        if evaluate(high)[1] >= 0:
            break
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if evaluate(middle)[1] < 0 else (low, middle)
    return evaluate((low + high) / 2)[0]


class _Half:
    """Messages of every leaf for one half of the support as the encoder's support and the other as new rows."""

    def __init__(
        self,
        view: RowView,
        rows: Any,
        y_S: IntArray,
        y_Q: IntArray,
        core: Sequence[IntArray],
        tail: Sequence[IntArray],
        gate: TailGate | None,
    ) -> None:
        self._y_S, self._y_Q, self._gate = y_S, y_Q, gate
        self._n_core, self._n_tail = len(core), len(tail)
        self._store = CacheStore()  # beyond a limit the messages go to a temporary file
        self._keys = []
        sums: dict[str, list[FloatArray]] = {"core": [], "tail": []}
        leaves = [*core, *tail]
        self._messages: Callable[[int], tuple[torch.Tensor, torch.Tensor]] = lambda i: _messages(
            view, rows, leaves[i], len(y_S), len(y_Q)
        )
        for i in range(len(leaves)):
            m_S, m_Q = self._messages(i)
            self._keys.append(self._store.put(LeafCache({"S": m_S, "Q": m_Q})))
            total = sums["core" if i < len(core) else "tail"]
            if total:
                total[0] += as_float(m_S)
                total[1] += as_float(m_Q)
            else:
                total += [as_float(m_S), as_float(m_Q)]
        self._sums = sums

    def core_nll(self) -> float:
        """Prototype NLL of the new rows by their Core messages alone."""
        return prototype_nll(self._sums["core"][1] / self._n_core, self._y_Q)

    def nll(self, without: int | None = None) -> float:
        """Prototype NLL of the new rows, with all leaves or all but one."""
        core, tail = self._n_core, self._n_tail
        c, t = self._sums["core"], self._sums["tail"]
        if without is not None:
            key, again = self._keys[without], self._messages
            message = self._store.get(key, lambda: LeafCache(dict(zip("SQ", again(without), strict=True)))).tensors
            left = [as_float(message["S"]), as_float(message["Q"])]
            if without < core:
                c, core = [total - part for total, part in zip(c, left, strict=True)], core - 1
            else:
                t, tail = [total - part for total, part in zip(t, left, strict=True)], tail - 1
        if core == 0:  # without a Core there is nothing an update could be added to
            return float(np.log(self._y_Q.max() + 1))
        c_S, c_Q = (total / core for total in c)
        if tail == 0 or self._gate is None:
            return prototype_nll(c_Q, self._y_Q)
        t_S, t_Q = (total / tail for total in t)
        update = relearn(self._gate, c_S, t_S, self._y_S).update(c_Q, t_Q)
        return prototype_nll(c_Q + update, self._y_Q)


def _messages(view: RowView, rows: Any, leaf: IntArray, n_S: int, n_Q: int) -> tuple[torch.Tensor, torch.Tensor]:
    known = leaf[np.isin(leaf, view.columns)]  # a column may be constant on one half
    if len(known) == 0:
        some = view.columns[:1]
        width = view.encode_support([some])[0].shape[-1]
        return torch.zeros(n_S, width), torch.zeros(n_Q, width)
    m_GSE, cache = view.encode_support([known])
    return m_GSE[0].cpu(), view.encode_query([known], cache, rows)[0].cpu()
