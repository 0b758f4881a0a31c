"""An episode: the labelled rows, dealt so that each part is predicted by the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.backbones.base import IntArray
from scff.trials.budget import Question
from scff.trials.case import Case
from scff.trials.folds import deal_folds, spread

__all__ = ["Episode", "Split"]


@dataclass(frozen=True)
class Split:
    """Rows of the support by their numbers: those that are fitted, and those that are asked."""

    fitted: IntArray
    new: IntArray


@dataclass(frozen=True, eq=False)
class Episode:
    """What a question needs: a case, and the splits it is put to.

    Attributes
    ----------
    case : Case
        All labelled rows.
    question : Question
        Into how many parts the rows are dealt, and how many of them; each part is predicted by the others.
    groups : ndarray, optional
        Rows of one group are never parted.
    """

    case: Case
    question: Question
    groups: npt.NDArray[Any] | None = None

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """Every held-back part, and the rows that predict it."""
        known = self.case.landmarks
        rows = known[spread(self.case.y[known], self.question.rows)]
        groups = None if self.groups is None else self.groups[rows]
        part = deal_folds(self.case.y[rows], self.question.folds, groups)
        splits = []
        for k in range(self.question.folds):
            fitted, new = rows[part != k], rows[part == k]
            if self.case.classified:  # a class that no fitted row has cannot be predicted by any presentation
                new = new[np.isin(self.case.y[new], self.case.y[fitted])]
            if len(new) and len(np.unique(self.case.y[fitted])) > 1:
                splits.append(Split(fitted, new))
        return tuple(splits)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """A case for each split: its plan, views and summaries are made once and shared by all questions."""
        return tuple(self.case.part(split.fitted, split.new) for split in self.splits)

    def forget(self) -> None:
        """Let go of what was made of the parts; until the next collection of garbage they would hold themselves."""
        for case in self.__dict__.pop("cases", ()):
            case.forget()
