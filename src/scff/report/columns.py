"""What each column brought, in one frame: its own evidence, where it was folded, and what its leaf is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from scff.report.leaf_out import LeafOut, leave_leaves_out
from scff.report.subject import Subject

if TYPE_CHECKING:
    from scff.estimators.classifier import FoldedClassifier

__all__ = ["EFFECT", "column_evidence", "evidence_frame"]

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
        - ``leaf``: number of its leaf, Core leaves first, from 0; -1 for none. Where the answer mixes several readings,
          strata and leaves are those of the heaviest one that folds columns;
        - ``used``: whether it reaches the model, in a leaf or in a summary of all columns;
        - ``leaf_out_nll_change``: how much the negative log-likelihood of a nearest-prototype classifier on the
          row representation rises when the message of the *whole leaf* is left out. Positive: the leaf helps. It is a
          property of the leaf, shared by its columns. Each half of the support is scored as new rows, whose labels the
          feature encoder has not seen; still it is neither a causal effect nor the model's own loss on test rows.
          The only Core leaf is compared with knowing nothing. Exactly 0 for a Tail that was not let in; NaN where
          messages are not averaged (``method="native"``, ``"mass-huber"``, token backbones, summaries) or classes have
          fewer than four rows.
    """
    subject = Subject.of(model.fitted_)
    return evidence_frame(subject, leave_leaves_out(subject))


def evidence_frame(subject: Subject, measured: LeafOut) -> pd.DataFrame:
    """The frame of `column_evidence` from what the leaves of its plan were found to be worth."""
    plan = subject.plan
    leaf_of = np.full(plan.n_columns, -1, dtype=np.int64)
    for number, leaf in enumerate(plan.leaves):
        leaf_of[leaf] = number
    stratum = np.full(plan.n_columns, "unused", dtype=object)
    stratum[plan.tail] = "tail"
    stratum[plan.core] = "native" if subject.native else "core"
    # -1 is no leaf: nothing to lose, if there are leaves at all.
    effects = np.append(measured.effects, np.nan if subject.reading is None else 0.0)
    frame = pd.DataFrame(
        {
            "position": np.arange(plan.n_columns),
            "F": plan.f,
            "p": plan.p,
            "q": plan.q,
            "stratum": stratum,
            "leaf": leaf_of,
            "used": subject.used(),
            EFFECT: effects[leaf_of],
        },
        index=pd.Index([plan.name(j) for j in range(plan.n_columns)], name="column"),
    )
    return frame.iloc[np.argsort(-plan.f, kind="stable")]
