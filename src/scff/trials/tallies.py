"""Tallies as an answer: what the classes hold of every column, added up over what a row holds.

For tables of counts, of words or cells say, and for columns of noughts and ones: no value is negative and some are
nought. There a class is known by its shares of the columns, and a row by how much likelier it is under one class's
shares than under another's (naive Bayes). Rare columns, each too faint for a rank or a distance, count together.

A tally is of amounts or of mere presence, and a class is taken to hold a few average rows more than were seen. Which,
and how sure the sum is, labelled rows decide that the tally was made without.

Shape legend: ``S`` labelled rows, ``T`` any rows, ``D`` columns, ``K`` classes, ``V`` ways to tally.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.folds import deal_folds
from scff.trials.mixture import losses_of
from scff.trials.scales import ShareScale
from scff.trials.summaries import Calibration

__all__ = ["Tallies", "can_be_tallied"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Ways to tally: amounts or presence, and how many average rows every class is given.
_WAYS = tuple(product((False, True), (0.1, 1.0, 10.0)))

#: Parts that labelled rows are dealt into, each scored by the tally of the others.
_PARTS = 8


#: Share of noughts from which a table is one of counts: intensities without any are no tally of anything.
_NOUGHTS = 0.01


def can_be_tallied(case: Case) -> bool:
    """Whether labelled rows hold no negative value, and noughts among the others."""
    whole = case.whole(ShareScale)
    if not (isinstance(whole.scale, ShareScale) and whole.scale.shares):
        return False
    noughts = sum(int((seen_SD == 0).sum()) for _, seen_SD in whole.scale.amounts(whole.X))
    return bool(noughts >= _NOUGHTS * whole.X.shape[0] * whole.X.shape[1])


@dataclass(frozen=True)
class Tallies:
    """Evidence of all columns added up: no pass of the model."""

    name: str = "tallies"
    prior: float = 1.0

    def answer(self, case: Case) -> tuple[FloatArray | None, Callable[[Table], FloatArray]]:
        """Probabilities of the held-back rows, and of any others."""
        whole, y = case.whole(ShareScale), case.y[case.landmarks]
        assert isinstance(whole.scale, ShareScale)
        rows, held = np.arange(len(y)), None
        if case.origin is not None:
            root, fitted, new = case.origin
            rows, held = (np.searchsorted(root.landmarks, some) for some in (fitted, new))
        tally = _Tally.of(whole.scale, whole.X, rows, y)
        return (
            None if held is None else tally(whole.X, held),
            lambda others: tally(case.codes.transform(others).values),
        )

    def words(self, case: Case) -> str:
        """What is read."""
        return f"no model: what each class holds of all {case.support.n_columns:,} columns, added up over a row"


@dataclass(frozen=True, eq=False)
class _Tally:
    """Logarithms of the classes' shares of the columns, and how sure their sum is."""

    scale: ShareScale
    presence: bool
    log_KD: FloatArray
    calibration: Calibration

    @classmethod
    def of(cls, scale: ShareScale, X: Any, rows: IntArray, y: IntArray) -> _Tally:
        """Tally some rows of a table in every way, and keep the way that scores left-out rows best."""
        class_KS = np.eye(int(y.max()) + 1)[:, y]
        part_S = np.maximum(deal_folds(y, _PARTS), 0)  # the only row of a class is left out as well
        parts = [part_S == part for part in np.unique(part_S)]
        scores_VSK = np.zeros((len(_WAYS), len(y), len(class_KS)))
        sizes_VPK = np.zeros((len(_WAYS), len(parts), len(class_KS)))
        amount_VS = np.zeros((len(_WAYS), len(y)))
        for _, seen_SD in scale.amounts(X):
            for presence in (False, True):
                held_SD = _held(seen_SD[rows], presence)
                mean_D, total_KD = held_SD.mean(axis=0), class_KS @ held_SD
                ways = [way for way, (kind, _) in enumerate(_WAYS) if kind is presence]
                amount_VS[ways] += held_SD.sum(axis=1)
                for number, out in enumerate(parts):
                    # Rounding may leave less than nothing of a column whose rows are all left out.
                    others_KD = np.maximum(total_KD - class_KS[:, out] @ held_SD[out], 0.0)
                    for way in ways:
                        shares_KD = others_KD + _WAYS[way][1] * mean_D
                        sizes_VPK[way, number] += shares_KD.sum(axis=1)
                        scores_VSK[way, out] += held_SD[out] @ _logs(shares_KD, mean_D).T
        for number, out in enumerate(parts):
            sizes_VK = np.maximum(sizes_VPK[:, number], 1e-300)
            scores_VSK[:, out] -= amount_VS[:, out, None] * np.log(sizes_VK)[:, None]
        scores_VSK /= np.where(amount_VS > 0, amount_VS, 1.0)[:, :, None]
        tried = [Calibration.fit(_apart(scores_SK), y) for scores_SK in scores_VSK]
        losses = [losses_of(fit(_apart(s_SK)), y).mean() for fit, s_SK in zip(tried, scores_VSK, strict=True)]
        best = int(np.argmin(losses))
        presence, average_rows = _WAYS[best]
        log_KD = np.zeros((len(class_KS), X.shape[1]))
        size_K = np.zeros(len(class_KS))
        for part, seen_SD in scale.amounts(X):
            held_SD = _held(seen_SD[rows], presence)
            mean_D = held_SD.mean(axis=0)
            shares_KD = class_KS @ held_SD + average_rows * mean_D
            size_K += shares_KD.sum(axis=1)
            log_KD[:, part] = _logs(shares_KD, mean_D)
        return cls(scale, presence, log_KD - np.log(np.maximum(size_K, 1e-300))[:, None], tried[best])

    def __call__(self, X: Any, rows: IntArray | None = None) -> FloatArray:
        """Probabilities_TK of rows of a table, or of some of them."""
        rows = np.arange(X.shape[0]) if rows is None else rows
        score_TK, amount_T = np.zeros((len(rows), len(self.log_KD))), np.zeros(len(rows))
        for part, seen_TD in self.scale.amounts(X):
            held_TD = _held(seen_TD[rows], self.presence)
            score_TK += held_TD @ self.log_KD[:, part].T
            amount_T += held_TD.sum(axis=1)
        return self.calibration(_apart(score_TK / np.where(amount_T > 0, amount_T, 1.0)[:, None]))


def _held(seen_TD: FloatArray, presence: bool) -> FloatArray:
    return (seen_TD > 0).astype(np.float64) if presence else seen_TD


def _logs(shares_KD: FloatArray, mean_D: FloatArray) -> FloatArray:
    """A column that no labelled row holds tells nothing."""
    out: FloatArray = np.log(np.where(mean_D > 0, shares_KD, 1.0))
    return out


def _apart(scores_TK: FloatArray) -> FloatArray:
    """How far the classes are apart: one number for two of them, else each from the mean of all."""
    two = scores_TK.shape[1] == 2
    out: FloatArray = scores_TK[:, 1:] - scores_TK[:, :1] if two else scores_TK - scores_TK.mean(axis=1, keepdims=True)
    return out
