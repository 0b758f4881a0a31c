"""Votes of trees as an answer: what no weighted sum of columns and no nearness can say.

One forest is grown on all labelled rows. Each of them is judged by the trees that did not see it (out of bag), as a new
row is by all, so nothing need be grown again for held-back rows. Where groups must not be parted a tree may have seen
the rest of a row's group: there a forest is grown for every split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.summaries import calibrated

__all__ = ["FOREST_COLUMNS", "Forest", "Grown"]

FloatArray = npt.NDArray[np.float64]

#: Most columns the trees choose from, spread over the table without looking at labels: memory stays bounded.
FOREST_COLUMNS = 4096

#: Rows that a vote counts for beside one row of the class frequencies: no vote is certain.
_VOTES = 30.0

#: Share of the columns that a split of a tree of numbers chooses from.
_SHARE = 1 / 3


@dataclass(frozen=True, eq=False)
class Grown:
    """A forest, and what it says.

    Attributes
    ----------
    votes_SK : ndarray
        Of the landmarks, by the trees that did not see them; numbers in one column.
    votes : callable
        Of any other rows.
    """

    votes_SK: FloatArray
    votes: Callable[[Table], FloatArray]


@dataclass(frozen=True)
class Forest:
    """A random forest over the columns as they are: no pass of the model.

    Attributes
    ----------
    trees : int
    out_of_bag : bool
        Whether held-back rows are judged by the trees of all labelled rows that did not see them.
    """

    trees: int = 100
    out_of_bag: bool = True
    name: str = "forest"
    prior: float = 1.0

    def answer(self, case: Case) -> tuple[FloatArray | None, Callable[[Table], FloatArray]]:
        """Probabilities (or numbers) of the held-back rows, and of any others."""
        one = np.zeros(1, dtype=np.int64)  # column, of numbers
        if case.origin is None or not self.out_of_bag:
            grown, y = self.grown(case), case.y[case.landmarks]
            seen = np.arange(int(y.max()) + 1) if case.classified else one
            known_SK, held_NK = grown.votes_SK, None if case.held_back is None else grown.votes(case.held_back)
        else:
            whole, fitted, new = case.origin
            grown, y, seen = self.grown(whole), case.y, np.unique(whole.y[fitted]) if case.classified else one
            rows = {row: place for place, row in enumerate(whole.landmarks.tolist())}
            known_SK, held_NK = (grown.votes_SK[[rows[i] for i in part.tolist()]][:, seen] for part in (fitted, new))
        known = np.bincount(case.y) / len(case.y) if case.classified else case.y.mean(keepdims=True)

        def scores(votes_TK: FloatArray) -> FloatArray:
            if not case.classified:
                return votes_TK - known
            log_TK = np.log((_VOTES * votes_TK + known) / (_VOTES + 1))
            return log_TK if len(known) > 2 else log_TK[:, 1:] - log_TK[:, :1]

        calibration = calibrated(scores(known_SK), y, forwards=True)
        held = None if held_NK is None else calibration(scores(held_NK))
        return held, lambda rows: calibration(scores(grown.votes(rows)[:, seen]))

    def grown(self, case: Case) -> Grown:
        """The forest of a case's labelled rows, grown once."""
        found: Grown = case.of_labels(self, lambda: self._grow(case))
        return found

    def _grow(self, case: Case) -> Grown:
        columns, y = self.columns(case), case.y[case.landmarks]

        def read(rows: Table) -> npt.NDArray[np.float32]:
            values = case.codes.transform(rows).columns(columns)
            most = np.finfo(np.float32).max
            out: npt.NDArray[np.float32] = np.clip(values, -most, most).astype(np.float32)
            return out

        options = {"oob_score": True, "random_state": case.settings.random_state}
        if not case.classified:
            numbers = RandomForestRegressor(self.trees, max_features=_SHARE, **options)
            numbers.fit(read(case.support.take(case.landmarks)), y)
            return Grown(numbers.oob_prediction_[:, None], lambda rows: numbers.predict(read(rows))[:, None])
        forest = RandomForestClassifier(self.trees, **options)
        forest.fit(read(case.support.take(case.landmarks)), y)
        votes_SK = np.nan_to_num(forest.oob_decision_function_, nan=0.0)  # a row that every tree saw has no votes
        votes_SK = np.where(votes_SK.sum(axis=1, keepdims=True) > 0, votes_SK, np.bincount(y) / len(y))
        return Grown(votes_SK, lambda rows: np.asarray(forest.predict_proba(read(rows))))

    def columns(self, case: Case) -> npt.NDArray[np.int64]:
        """Which columns the trees choose from, in original order."""
        n = case.support.n_columns
        return np.unique(np.linspace(0, n - 1, min(n, FOREST_COLUMNS)).round().astype(np.int64))

    def words(self, case: Case) -> str:
        """What is read."""
        n, of = len(self.columns(case)), case.support.n_columns
        return f"no model: votes of {self.trees} trees over {f'{n:,} of ' if n < of else 'all '}{of:,} columns"
