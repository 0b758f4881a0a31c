"""Whose column is whose behind the ``tabpfn`` package's preprocessing.

The package moves columns (categorical ones first), drops constant ones, may shuffle them, and spreads dates over
several. It does not say which output came from which input, so that is asked of the fitted pipeline itself: rows that
switch the input columns between two of their values by the binary digits of the column's number reveal, with two plus
log2(D) rows, the number of the one column behind every output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.backbones.base import IntArray
from scff.errors import BackboneError
from scff.tables.table import Table

__all__ = ["columns_behind"]

_ATTEMPTS = 8


def columns_behind(
    transform: Callable[[Table], npt.NDArray[np.floating]], support: Table, n_outputs: int, requires: str
) -> IntArray:
    """The user's column behind each output of a fitted preprocessing.

    Parameters
    ----------
    transform : callable
        Preprocessing of rows, column by column.
    support : Table
        The rows it was fitted on.
    n_outputs : int
        Columns it gives.
    requires : str
        Versions of the package that are known to work, for the message.

    Raises
    ------
    BackboneError
        If an output comes from several columns.
    """
    numeric = np.asarray(support.numeric())
    present = ~np.isnan(numeric)
    low = np.where(present, numeric, np.inf).argmin(axis=0)
    high = np.where(present, numeric, -np.inf).argmax(axis=0)
    rng = np.random.default_rng(0)
    origin = np.full(n_outputs, -1, dtype=np.int64)
    for _ in range(_ATTEMPTS):
        switched = _Switched.build(support, low, high)
        found = switched.read(transform(switched.rows))
        origin = np.where(origin < 0, found, origin)
        if (origin >= 0).all():
            break
        # What the extremes do not tell apart (a month in a date, say) two random rows may.
        low, high = rng.integers(support.n_rows, size=(2, support.n_columns))
    unknown = np.flatnonzero(origin < 0)
    if len(unknown):  # columns that never vary yet were kept: they come in order
        constant = np.setdiff1d(np.arange(support.n_columns), origin)
        if len(constant) < len(unknown):
            raise BackboneError(
                "The tabpfn package mixes columns before its model, so they cannot be folded one by one; "
                f"use {requires}."
            )
        origin[unknown] = constant[: len(unknown)]
    if origin.max() >= support.n_columns:
        raise BackboneError(f"The tabpfn package's preprocessing is not one this version knows; use {requires}.")
    return origin


@dataclass(frozen=True)
class _Switched:
    """Rows that switch each column between two of its values: all first, all second, then one row a binary digit."""

    rows: Table
    n_digits: int

    @classmethod
    def build(cls, support: Table, first: IntArray, second: IntArray) -> _Switched:
        """From the numbers of the support rows that lend each column its two values."""
        n_columns = support.n_columns
        n_digits = max(1, math.ceil(math.log2(n_columns))) if n_columns > 1 else 1
        columns = np.arange(n_columns)
        picks = [first, second] + [np.where(columns >> digit & 1, second, first) for digit in range(n_digits)]
        index = np.stack(picks)
        if not isinstance(support.values, pd.DataFrame):
            return cls(Table(np.asarray(support.values)[index, columns], support.names), n_digits)
        frame = support.values
        parts = {j: frame.iloc[:, j].iloc[index[:, j]].reset_index(drop=True) for j in range(n_columns)}
        rows = pd.DataFrame(parts)
        rows.columns = frame.columns
        return cls(Table(rows, support.names), n_digits)

    def read(self, out: npt.NDArray[np.floating]) -> IntArray:
        """Number of the column behind each output, -1 where the two values gave the same."""
        first, second, digits = out[0], out[1], out[2:]
        on = _same(digits, second)
        readable = ~_same(first, second) & (on | _same(digits, first)).all(axis=0)
        number = (on * (1 << np.arange(self.n_digits))[:, None]).sum(axis=0)
        return np.where(readable, number, -1).astype(np.int64)


def _same(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    out: npt.NDArray[np.bool_] = (a == b) | (np.isnan(a) & np.isnan(b))
    return out
