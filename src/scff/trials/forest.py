"""Votes of trees as an answer: what no weighted sum of columns and no nearness can say.

A labelled row is judged by the trees that did not see it (out of bag), and those votes set how sure the answer is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier

from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.summaries import Calibration

__all__ = ["FOREST_COLUMNS", "Forest"]

FloatArray = npt.NDArray[np.float64]

#: Most columns the trees choose from, spread over the table without looking at labels: memory stays bounded.
FOREST_COLUMNS = 4096

#: Rows that a vote counts for beside one row of the class frequencies: no vote is certain.
_VOTES = 30.0


@dataclass(frozen=True)
class Forest:
    """A random forest over the columns as they are: no pass of the model.

    Attributes
    ----------
    trees : int
    """

    trees: int = 100
    name: str = "forest"
    prior: float = 1.0

    def answer(self, case: Case) -> tuple[FloatArray | None, Callable[[Table], FloatArray]]:
        """Probabilities of the held-back rows, and of any others."""
        columns, y = self.columns(case), case.y[case.landmarks]
        share_K = np.bincount(y) / len(y)

        def read(rows: Table) -> npt.NDArray[np.float32]:
            values = case.codes.transform(rows).columns(columns)
            most = np.finfo(np.float32).max
            out: npt.NDArray[np.float32] = np.clip(values, -most, most).astype(np.float32)
            return out

        def scores(votes_TK: FloatArray) -> FloatArray:
            log_TK = np.log((_VOTES * votes_TK + share_K) / (_VOTES + 1))
            return log_TK if len(share_K) > 2 else log_TK[:, 1:] - log_TK[:, :1]

        forest = RandomForestClassifier(self.trees, oob_score=True, random_state=case.settings.random_state)
        forest.fit(read(case.support.take(case.landmarks)), y)
        votes_SK = np.nan_to_num(forest.oob_decision_function_, nan=0.0)  # a row that every tree saw has no votes
        votes_SK = np.where(votes_SK.sum(axis=1, keepdims=True) > 0, votes_SK, share_K)
        calibration = Calibration.fit(scores(votes_SK), y)

        def answer(rows: Table) -> FloatArray:
            return calibration(scores(forest.predict_proba(read(rows))))

        return None if case.held_back is None else answer(case.held_back), answer

    def columns(self, case: Case) -> npt.NDArray[np.int64]:
        """Which columns the trees choose from, in original order."""
        n = case.support.n_columns
        return np.unique(np.linspace(0, n - 1, min(n, FOREST_COLUMNS)).round().astype(np.int64))

    def words(self, case: Case) -> str:
        """What is read."""
        n, of = len(self.columns(case)), case.support.n_columns
        return f"no model: votes of {self.trees} trees over {f'{n:,} of ' if n < of else 'all '}{of:,} columns"
