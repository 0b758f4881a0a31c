"""What each column brought, in one frame: its own evidence, where it was folded, and what its leaf is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from scff.fold.tokens import FoldedTokens
from scff.plan.compile import compile_plan
from scff.plan.plan import FoldPlan
from scff.report.leaf_out import LeafOut, leave_leaves_out

if TYPE_CHECKING:
    from scff.estimators.classifier import FoldedClassifier

__all__ = ["EFFECT", "column_evidence", "effective_plan", "evidence_frame", "folds_tokens"]

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
          row representation rises when the message of the *whole leaf* is left out. Positive: the leaf helps. It is a
          property of the leaf, shared by its columns. Each half of the support is scored as new rows, whose labels the
          feature encoder has not seen; still it is neither a causal effect nor the model's own loss on test rows.
          The only Core leaf is compared with knowing nothing. Exactly 0 for a Tail that was not let in; NaN where
          messages are not averaged (``method="native"``, ``"mass-huber"``, token backbones) or classes have fewer than
          four rows.
    """
    plan = effective_plan(model)
    return evidence_frame(model, plan, leave_leaves_out(model, plan))


def evidence_frame(model: FoldedClassifier, plan: FoldPlan, measured: LeafOut) -> pd.DataFrame:
    """The frame of `column_evidence` from a plan and what its leaves were found to be worth."""
    leaf_of = np.full(plan.n_columns, -1, dtype=np.int64)
    for number, leaf in enumerate(plan.leaves):
        leaf_of[leaf] = number
    native = model.plan_ is None
    stratum = np.full(plan.n_columns, "unused", dtype=object)
    stratum[plan.tail] = "tail"
    stratum[plan.core] = "native" if native else "core"
    tail_in = _tail_is_used(model)
    used = np.isin(stratum, ["core", "native", "tail"] if tail_in else ["core", "native"])
    effects = np.append(measured.effects, 0.0 if not native else np.nan)  # -1 is no leaf: nothing to lose
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


def folds_tokens(model: FoldedClassifier) -> bool:
    """Whether the backbone keeps a token per column: then the Tail is folded into slots and meets no gate."""
    return isinstance(model._members()[0], FoldedTokens)


def _tail_is_used(model: FoldedClassifier) -> bool:
    if model.method == "mass-huber" or folds_tokens(model):
        return True
    return model.gate_ is not None and model.gate_.accepted is not None
