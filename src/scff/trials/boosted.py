"""Boosted trees as an answer: each small tree mends what those before it left.

They see steps, and columns that matter only together, as the votes of a forest do, but follow few telling columns much
more closely. Unlike a forest they cannot judge the rows they were grown on, so they are grown anew for every part of
held-back rows, of the strongest columns by that part's own labels; and at the end of all labelled rows, not only of
those that were asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier

from scff.fold.threads import small_trees
from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.folds import spread

__all__ = ["BOOSTED_MOST", "BOOSTED_ROWS", "Boosted"]

FloatArray = npt.NDArray[np.float64]

#: Labelled rows from which on they are asked: of fewer they say nothing that the other readings do not.
BOOSTED_ROWS = 101

#: Most labelled rows that they are grown on; a spread of these where there are more.
BOOSTED_MOST = 8192

#: Trees of all classes together, for time; at least so many steps are taken all the same.
_TREES, _STEPS = 1000, 20

#: What a tree may be: some splits, each among a third of the columns, cut at no more than so many places.
_SHAPE = {"max_leaf_nodes": 15, "learning_rate": 0.1, "l2_regularization": 1.0, "max_features": 0.3, "max_bins": 63}

#: Labelled rows in a leaf of a tree, at least: of fewer than 300 labelled rows, and of more.
_FEW, _MANY = 4, 10


@dataclass(frozen=True)
class Boosted:
    """Boosted trees over the strongest columns: no pass of the model.

    Attributes
    ----------
    steps : int
        Trees for each class, one after the other.
    most : int
        Most columns they choose from.
    """

    steps: int = 100
    most: int = 300
    name: str = "boosted"
    prior: float = 1.0

    def answer(self, case: Case) -> tuple[FloatArray | None, Callable[[Table], FloatArray]]:
        """Probabilities of the held-back rows, and of any others."""
        answer: Callable[[Table], FloatArray] = case.of_labels(self, lambda: self._grow(case))
        return None if case.held_back is None else answer(case.held_back), answer

    def _grow(self, case: Case) -> Callable[[Table], FloatArray]:
        columns, rows = self.columns(case), spread(case.y, BOOSTED_MOST)

        def read(numbers: Table) -> FloatArray:
            most = np.finfo(np.float32).max  # half-way between two of them is a number still
            return np.clip(np.asarray(numbers.columns(columns), dtype=np.float64), -most, most)

        y = case.y[rows]
        a_step = int(y.max()) + 1 if y.max() > 1 else 1
        trees = HistGradientBoostingClassifier(
            max_iter=max(_STEPS, min(self.steps, _TREES // a_step)),
            min_samples_leaf=_FEW if len(y) < 300 else _MANY,
            early_stopping=False,
            random_state=case.settings.random_state,
            **_SHAPE,
        )
        with small_trees():
            # Those of the whole case are there already; those of a part need not be kept.
            numbers = case.numbers if case.origin is None else case.codes.transform(case.support)
            trees.fit(read(numbers.take(rows)), y)

        def answer(table: Table) -> FloatArray:
            with small_trees():
                return np.asarray(trees.predict_proba(read(case.codes.transform(table))))

        return answer

    def columns(self, case: Case) -> npt.NDArray[np.int64]:
        """Which columns they choose from, in original order: the strongest by their F statistic."""
        return np.sort(np.argsort(-case.plan.f, kind="stable")[: self.most])

    def words(self, case: Case) -> str:
        """What is read."""
        return f"no model: boosted trees over the {len(self.columns(case)):,} strongest columns"
