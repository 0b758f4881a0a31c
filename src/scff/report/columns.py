"""What each column brought, in one frame: its own evidence, where it was folded, and what its leaf is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.evidence import Prototypes, alternate_halves, as_float
from scff.folding import Folded, Native
from scff.plan import FoldPlan, compile_plan
from scff.tail import TailGate

if TYPE_CHECKING:
    from scff.estimators import FoldedClassifier

__all__ = ["EFFECT", "column_evidence", "effective_plan", "support_prototype_nll"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

EFFECT = "leaf_out_nll_change"
"""Name of the leave-leaf-out column; see `column_evidence` for what it is and what it is not."""


def column_evidence(model: FoldedClassifier) -> pd.DataFrame:
    """Evidence behind every column of a fitted model, strongest first.

    Everything here is measured on the support: no query row and no test label takes part.

    Parameters
    ----------
    model : FoldedClassifier
        A fitted model.

    Returns
    -------
    DataFrame
        One row per column of the table, indexed by its name:

        - ``position``: where the column stands in the table, from 0;
        - ``F``, ``p``, ``q``: one-way ANOVA of the column alone, and its Benjamini-Hochberg adjusted p-value;
        - ``stratum``: ``"core"``, ``"tail"``, ``"unused"`` (dropped by the backbone's own preprocessing), or
          ``"native"`` where nothing was folded;
        - ``leaf``: number of its leaf, Core leaves first, from 0; -1 for none;
        - ``used``: whether its leaf reaches the model's context;
        - ``leaf_out_nll_change``: how much the negative log-likelihood of a nearest-prototype classifier on the
          support representation rises when the message of the *whole leaf* is left out. It is a property of the leaf,
          shared by its columns; it is measured on support rows by halves that score each other, and it is neither a
          causal effect nor a change of the model's own test loss. Positive: the leaf helps. The only Core leaf is
          compared with knowing nothing. A feature encoder that reads support labels (TabICLv2, nano) writes them
          into the messages, and the figure flatters every leaf. Exactly 0 for a Tail that was not let in, NaN where
          messages are not averaged (``method="native"`` and ``"mass-huber"``) or a class has too few rows.
    """
    plan = effective_plan(model)
    leaf_of = np.full(plan.n_columns, -1, dtype=np.int64)
    for number, leaf in enumerate(plan.leaves):
        leaf_of[leaf] = number
    native = model.plan_ is None
    stratum = np.full(plan.n_columns, "unused", dtype=object)
    stratum[plan.tail] = "tail"
    stratum[plan.core] = "native" if native else "core"
    tail_in = _tail_is_used(model)
    used = np.isin(stratum, ["core", "native", "tail"] if tail_in else ["core", "native"])
    effects = np.append(_leaf_effects(model, plan), 0.0 if not native else np.nan)  # -1 is no leaf: nothing to lose
    frame = pd.DataFrame(
        {
            "position": np.arange(plan.n_columns),
            "F": plan.f,
            "p": plan.p,
            "q": plan.q,
            "stratum": stratum,
            "leaf": leaf_of,
            "used": used,
            EFFECT: effects[leaf_of],
        },
        index=pd.Index([plan.name(j) for j in range(plan.n_columns)], name="column"),
    )
    return frame.iloc[np.argsort(-plan.f, kind="stable")]


def effective_plan(model: FoldedClassifier) -> FoldPlan:
    """The plan the model really runs: the Raw Core has one leaf, and native inference one of all columns."""
    if model.plan_ is None:
        plan = compile_plan(model._support, model._codes, leaf_width=model._support.n_columns)
        every = np.arange(plan.n_columns)
        none = np.empty(0, dtype=np.int64)
        ranked = every[np.argsort(-plan.f, kind="stable")]
        return replace(plan, core=ranked, tail=none, core_leaves=(every,), tail_leaves=())
    if model.method == "raw-core":
        return replace(model.plan_, core_leaves=(np.sort(model.plan_.core),), tail_leaves=())
    return model.plan_


def support_prototype_nll(h_SE: FloatArray, y: IntArray) -> float:
    """Mean NLL of nearest prototypes fitted on one half of the support and scored on the other, both ways.

    The halves are those of the Tail gate. Classes of one row cannot be in both halves and are left out; NaN where
    fewer than two classes remain.
    """
    keep = np.bincount(y)[y] >= 2
    codes = np.unique(y[keep], return_inverse=True)[1].reshape(-1)
    if len(codes) == 0 or codes.max() < 1:
        return float("nan")
    z = h_SE[keep]
    a, b = alternate_halves(codes)
    return float(
        np.mean([Prototypes.of(z[fit], codes[fit]).score(z[to], codes[to])[0] for fit, to in ((a, b), (b, a))])
    )


@dataclass(frozen=True)
class _Merge:
    """How messages become the support representation, with the gate's decision held fixed."""

    gate: TailGate | None
    y: IntArray

    def __call__(self, c: FloatArray, t: FloatArray | None) -> FloatArray:
        if t is None or self.gate is None or self.gate.accepted is None:
            return c
        return c + self.gate.refit(c, t, self.y)


def _leaf_effects(model: FoldedClassifier, plan: FoldPlan) -> FloatArray:
    effects = np.full(len(plan.leaves), np.nan)
    member = model._members()[0]
    y = model._codes
    nothing = float(np.log(len(model.classes_)))
    if isinstance(member, Native):
        if model.plan_ is not None and hasattr(member.view, "encode_support"):  # folding found a single leaf
            effects[0] = nothing - support_prototype_nll(_message(member.view, plan.core_leaves[0]), y)
        return effects
    if not isinstance(member, Folded):
        return effects
    merge = _Merge(member.gate, y)
    c = as_float(member.core.mean_SE.cpu())
    t = as_float(member.tail.mean_SE.cpu()) if member.tail is not None else None
    full = support_prototype_nll(merge(c, t), y)
    n_core, n_tail = len(plan.core_leaves), len(plan.tail_leaves)
    for i, leaf in enumerate(plan.core_leaves):
        if n_core == 1:
            without = nothing
        else:
            without = support_prototype_nll(merge(_leave_out(c, _message(member.view, leaf), n_core), t), y)
        effects[i] = without - full
    effects[n_core:] = 0.0
    if t is not None:
        core_alone = support_prototype_nll(c, y)
        for i, leaf in enumerate(plan.tail_leaves, start=n_core):
            if n_tail == 1:
                without = core_alone
            else:
                without = support_prototype_nll(merge(c, _leave_out(t, _message(member.view, leaf), n_tail)), y)
            effects[i] = without - full
    return effects


def _leave_out(mean: FloatArray, message: FloatArray, n: int) -> FloatArray:
    return (n * mean - message) / (n - 1)


def _message(view: Any, leaf: IntArray) -> FloatArray:
    """One leaf's support message, encoded again: keeping one per leaf would cost more memory than folding saves."""
    return as_float(view.encode_support([leaf])[0][0].cpu())


def _tail_is_used(model: FoldedClassifier) -> bool:
    if model.method == "mass-huber":
        return True
    return model.gate_ is not None and model.gate_.accepted is not None
