"""One question to several models: what they are asked, and how each of them answers in one fold."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

import scff
from scff.evaluate.baselines import Baseline, answer
from scff.evaluate.records import Answer, digest_of
from scff.evaluate.splits import Splits
from scff.tables.table import Table

__all__ = ["OWN", "Question"]

FloatArray = npt.NDArray[np.float64]

OWN = "scff"
"""Name of the estimator among the models."""


@dataclass(frozen=True, eq=False)
class Question:
    """Rows, labels, folds and models: everything that decides the answers.

    Attributes
    ----------
    table : Table
    target : ndarray
        Class codes, or numbers.
    labels : ndarray
        What the estimator is given.
    classes : ndarray or None
    groups : ndarray of int or None
    splits : Splits
    estimator : estimator
    baselines : dict of str to Baseline
    seed : int
    """

    table: Table
    target: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    classes: npt.NDArray[Any] | None
    groups: npt.NDArray[np.int64] | None
    splits: Splits
    estimator: Any
    baselines: dict[str, Baseline] = field(repr=False)
    seed: int

    @property
    def models(self) -> list[str]:
        """Names of all models, the estimator first."""
        return [OWN, *self.baselines]

    def digest(self) -> str:
        """What tells this question from any other."""
        facts = {
            "scff": scff.__version__,
            "estimator": repr(self.estimator),
            "folds": [[train.tolist(), test.tolist()] for train, test in self.splits.pairs],
            "groups": None if self.groups is None else self.groups.tolist(),
            "seed": self.seed,
        }
        return digest_of(self.table, self.target, facts)

    def answer(self, fold: int, model: str) -> Answer:
        """Ask one model in one fold."""
        train, test = self.splits.pairs[fold]
        support, queries = self.table.take(train), self.table.take(test)
        started = time.perf_counter()
        groups = None if self.groups is None else self.groups[train]
        if model == OWN:
            values, present, rank, core = self._own(support, train, queries, groups)
        else:
            rank = core = None
            y, present = self.target[train], None
            if self.classes is not None:
                present, y = np.unique(y, return_inverse=True)
            values = answer(self.baselines[model], support, y, queries, groups, self.seed)
        seconds = time.perf_counter() - started
        return Answer(self._every_class(values, present), seconds, rank, core)

    def _own(self, support: Table, train: Any, queries: Table, groups: Any) -> tuple[Any, Any, Any, Any]:
        model = clone(self.estimator)
        folded = isinstance(model, scff.FoldedClassifier | scff.FoldedRegressor)
        inside: tuple[Any, Any] = (support, queries) if folded else (_plain(support), _plain(queries))
        takes_groups = groups is not None and folded
        model.fit(inside[0], self.labels[train], **({"groups": groups} if takes_groups else {}))
        if self.classes is None:
            values, present = np.asarray(model.predict(inside[1]), dtype=np.float64)[:, None], None
        else:
            values, present = model.predict_proba(inside[1]), np.searchsorted(self.classes, model.classes_)
        plan = model.plan_ if folded else None
        if plan is None:
            return values, present, None, None
        rank = np.empty(plan.n_columns, dtype=np.int32)
        rank[np.argsort(-plan.f, kind="stable")] = np.arange(1, plan.n_columns + 1, dtype=np.int32)
        core = np.zeros(plan.n_columns, dtype=bool)
        core[plan.core] = True
        return values, present, rank, core

    def _every_class(self, values: FloatArray, present: npt.NDArray[np.int64] | None) -> FloatArray:
        """Probabilities of all classes; one that no training row had gets none."""
        if self.classes is None or present is None or len(present) == len(self.classes):
            return np.asarray(values, dtype=np.float64)
        out = np.zeros((len(values), len(self.classes)))
        out[:, present] = values
        return out


def _plain(table: Table) -> Any:
    """A table as any scikit-learn model takes it."""
    return np.asarray(table.values) if table.is_numeric else table.values
