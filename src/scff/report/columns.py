"""What each column brought, in one frame: its evidence, which way it goes, where it was folded, what it is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from scff.errors import DataError, shown
from scff.names import is_whole
from scff.report.directions import directions
from scff.report.leaf_out import LeafOut, leave_leaves_out
from scff.report.shuffling import Shuffled, affordable, shuffle_columns
from scff.report.subject import Subject

if TYPE_CHECKING:
    from scff.estimators.base import FoldedEstimator
    from scff.evaluate.evaluation import Evaluation
    from scff.tables.table import Table

__all__ = ["EFFECT", "check_words", "column_evidence", "evidence_frame", "strongest"]

EFFECT = "leaf_out_nll_change"
"""Name of the leave-leaf-out column; see `column_evidence` for what it is and what it is not."""


def column_evidence(
    model: FoldedEstimator, *, evaluation: Evaluation | None = None, shuffled: int | Literal["auto"] = "auto"
) -> pd.DataFrame:
    """Evidence behind every column of a fitted model, strongest first.

    Everything here is measured on the support: no query row and no test label takes part.

    Parameters
    ----------
    model : FoldedClassifier or FoldedRegressor
        A fitted model.
    evaluation : Evaluation, optional
        Of the same table: adds how steadily each column was chosen.
    shuffled : int or "auto", default="auto"
        How many of the strongest columns are shuffled; 0 for none. ``"auto"`` takes 50, and fewer below about 60
        labelled rows.

    Returns
    -------
    DataFrame
        One row per column of the table, indexed by its name:

        - ``position``: where the column stands in the table, from 0;
        - ``block``: the table it came from, where there were several;
        - ``F``, ``p``, ``q``: one-way ANOVA of the column alone, for numbers the F test of a linear regression; ``q``
          is ``p`` adjusted after Benjamini and Hochberg;
        - ``effect``, ``high_in``, ``mean_<class>``: which way it goes. The effect is in units of the spread within the
          classes; of two classes the second less the first, of more the one it is high in less the others. For numbers
          ``effect`` is the correlation with the target and ``goes`` is "up" or "down";
        - ``stratum``: ``"core"``, ``"tail"``, ``"unused"`` (dropped by the backbone's own preprocessing), or
          ``"native"`` where nothing was folded;
        - ``leaf``: number of its leaf, Core leaves first, from 0; -1 for none. Where the answer mixes several readings,
          strata and leaves are those of the heaviest one that folds columns;
        - ``used``: whether it reaches the model, in a leaf or in a summary of all columns;
        - ``shuffle_loss_change``, ``shuffle_noise``: what the column is worth to this model. Each half of the labelled
          rows is predicted from the other, as it is and with the values of this column shuffled; the change of the loss
          (negative log-likelihood, or squared error over the target's variance), and its standard error. A column
          whose neighbours say the same costs little to lose. NaN for columns that were not shuffled;
        - ``leaf_out_nll_change``: how much the negative log-likelihood of a nearest-prototype classifier on the
          row representation rises when the message of the *whole leaf* is left out. Positive: the leaf helps. It is a
          property of the leaf, shared by its columns. Each half of the support is scored as new rows, whose labels the
          feature encoder has not seen; still it is neither a causal effect nor the model's own loss on test rows.
          The only Core leaf is compared with knowing nothing. Exactly 0 for a Tail that was not let in; NaN where
          messages are not averaged (``method="native"``, ``"mass-huber"``, token backbones, summaries), for numbers, or
          where classes have fewer than four rows;
        - ``core_share``, ``rank``, ``rank_low``, ``rank_high``: from the evaluation, if there was one: the share of its
          folds whose Core the column was in, and median, 10th and 90th percentile of its rank.
    """
    asked: Any = shuffled
    if not (is_whole(asked) and asked >= 0) and not (isinstance(asked, str) and asked == "auto"):
        raise DataError(f'shuffled must be a number of columns or "auto", not {shown(shuffled)}.')
    check_words(None, evaluation)
    subject = Subject.of(model.fitted_)
    count = affordable(subject.fitted.support.n_rows) if shuffled == "auto" else shuffled
    worth = shuffle_columns(subject.fitted, strongest(subject, count)) if count > 0 else None
    return evidence_frame(subject, leave_leaves_out(subject), worth, evaluation)


def check_words(title: Any, evaluation: Any) -> None:
    """Refuse a title that is no text, and what is no evaluation.

    Raises
    ------
    DataError
        Naming what it is.
    """
    if title is not None and not isinstance(title, str):
        raise DataError(f"The title of a report must be text, not {shown(title)}.")
    if evaluation is not None and not (hasattr(evaluation, "columns") and hasattr(evaluation, "scores")):
        raise DataError(f"evaluation must be what `scff.evaluate.evaluate` gave, not {shown(evaluation)}.")


def strongest(subject: Subject, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The strongest columns that reach the model."""
    used = np.flatnonzero(subject.used())
    return used[np.argsort(-subject.plan.f[used], kind="stable")][:count]


def evidence_frame(
    subject: Subject, measured: LeafOut, worth: Shuffled | None = None, evaluation: Evaluation | None = None
) -> pd.DataFrame:
    """The frame of `column_evidence` from what was measured."""
    plan = subject.plan
    leaf_of = np.full(plan.n_columns, -1, dtype=np.int64)
    for number, leaf in enumerate(plan.leaves):
        leaf_of[leaf] = number
    stratum = np.full(plan.n_columns, "unused", dtype=object)
    stratum[plan.tail] = "tail"
    stratum[plan.core] = "native" if subject.native else "core"
    # -1 is no leaf: nothing to lose, if there are leaves at all.
    effects = np.append(measured.effects, np.nan if subject.reading is None else 0.0)
    change, noise = np.full((2, plan.n_columns), np.nan)
    if worth is not None:
        change[worth.columns], noise[worth.columns] = worth.change, worth.noise
    goes = directions(subject.fitted)
    fields: dict[str, Any] = {
        "position": np.arange(plan.n_columns),
        **_blocks(subject.fitted.support),
        "F": plan.f,
        "p": plan.p,
        "q": plan.q,
        **{str(name): goes[name].to_numpy() for name in goes},
        "stratum": stratum,
        "leaf": leaf_of,
        "used": subject.used(),
        "shuffle_loss_change": change,
        "shuffle_noise": noise,
        EFFECT: effects[leaf_of],
    }
    frame = pd.DataFrame(
        fields,
        index=pd.Index([plan.name(j) for j in range(plan.n_columns)], name="column"),
    )
    if evaluation is not None and evaluation.columns is not None:
        if len(evaluation.columns) != plan.n_columns:
            raise DataError(
                f"The evaluation is of {len(evaluation.columns)} columns and the model of {plan.n_columns}; evaluate "
                "the "
                "table that the model was fitted on."
            )
        steady = evaluation.columns.set_index("position").sort_index()
        for name in ("core_share", "rank", "rank_low", "rank_high"):
            frame[name] = steady[name].to_numpy()
    return frame.iloc[np.argsort(-plan.f, kind="stable")]


def _blocks(support: Table) -> dict[str, Any]:
    """The block of every column, where there are several."""
    names = [block.name for block in support.blocks for _ in range(block.start, block.stop)]
    return {"block": names} if names else {}
