"""Variants of a fold's table: smaller contexts, added nuisance columns, generated features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.bench.folds import Protocol, Split, make_split
from scff.bench.generate import FeatureGenerator
from scff.bench.panels import Dataset, TableData
from scff.tables.table import as_table

__all__ = ["PLAIN", "Task", "Variant", "make_task"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Variant:
    """What is changed about a fold's table before an arm sees it.

    Attributes
    ----------
    context : int or None
        Support rows, a nested prefix of the uncapped support; None takes the protocol's cap.
    nuisance : int
        Label-independent columns to add.
    seed : int
        Seed of the nuisance columns.
    generated : bool
        Add the columns of `FeatureGenerator`.
    """

    context: int | None = None
    nuisance: int = 0
    seed: int = 0
    generated: bool = False

    @property
    def name(self) -> str:
        """Name in paths and records."""
        parts = []
        if self.context is not None:
            parts.append(f"context-{self.context}")
        if self.nuisance:
            parts.append(f"nuisance-{self.nuisance}-s{self.seed}")
        if self.generated:
            parts.append("generated")
        return "_".join(parts) or "plain"


PLAIN = Variant()


@dataclass(frozen=True, eq=False)
class Task:
    """One fold of one table, ready for an arm. The query's labels stay here; no arm gets them."""

    dataset: Dataset
    split: Split
    variant: Variant
    digest: str
    X_support: pd.DataFrame
    y_support: npt.NDArray[Any]
    X_query: pd.DataFrame
    y_query: npt.NDArray[Any]
    n_groups: int = 0


def make_task(dataset: Dataset, table: TableData, fold: int, protocol: Protocol, variant: Variant = PLAIN) -> Task:
    """Cut one fold out of a table and apply a variant."""
    whole = make_split(table.y, dataset.name, fold, protocol, capped=variant.context is None, groups=table.groups)
    split = whole.prefix(variant.context)
    support = table.X.iloc[split.support].reset_index(drop=True)
    query = table.X.iloc[split.query].reset_index(drop=True)
    if variant.generated:
        generator = FeatureGenerator().fit(support)
        support, query = generator.transform(support), generator.transform(query)
    if variant.nuisance:
        support, query = (
            pd.concat([frame, nuisance_columns(frame, variant.nuisance, variant.seed, side)], axis=1)
            for side, frame in enumerate((support, query))
        )
    y = table.y
    n_groups = 0 if table.groups is None else len(np.unique(table.groups))
    return Task(dataset, split, variant, table.digest, support, y[split.support], query, y[split.query], n_groups)


def nuisance_columns(frame: pd.DataFrame, n: int, seed: int, side: int) -> pd.DataFrame:
    """Columns with the margins of real ones and no relation to the label or to each other.

    Each is a transformed real column with its rows shuffled within this side of the split. Column ``j`` depends on
    ``seed`` and ``j`` alone, so a smaller dose is the beginning of a larger one.
    """
    values = np.asarray(as_table(frame).numeric(), dtype=np.float64)
    made = {}
    for j in range(n):
        choice = np.random.default_rng([seed, j])
        source, kind = int(choice.integers(values.shape[1])), int(choice.integers(4))
        column = np.random.default_rng([seed, j, side]).permutation(values[:, source])
        made[f"nuisance_{j}"] = _transform(column, kind)
    return pd.DataFrame(made, index=frame.index)


def _transform(column: FloatArray, kind: int) -> FloatArray:
    if kind == 1:
        return np.sign(column) * np.log1p(np.abs(column))
    if kind == 2:
        return -column
    if kind == 3:
        return np.tanh(column / (np.nanmax(np.abs(column)) or 1.0))
    return column
