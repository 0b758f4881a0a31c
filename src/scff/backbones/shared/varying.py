"""Which columns vary on the support: a constant one tells a model nothing, and most drop it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.backbones.base import IntArray
from scff.tables.table import Table

__all__ = ["several_present", "several_values", "varying"]

Floats = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]

# Columns looked at together: bounds the working copy on very wide tables.
BLOCK = 1024


def several_values(block: Floats) -> Mask:
    """Columns with more than one value, a missing one being a value of its own."""
    out: Mask = block.min(axis=0) != block.max(axis=0)  # also true with a NaN
    return out


def several_present(block: Floats) -> Mask:
    """Columns with more than one value, missing ones aside."""
    missing = np.isnan(block)
    low, high = np.where(missing, np.inf, block).min(axis=0), np.where(missing, -np.inf, block).max(axis=0)
    out: Mask = low < high
    return out


def varying(numbers: Table, several: Callable[[Floats], Mask] = several_present) -> IntArray:
    """Columns a model keeps.

    Parameters
    ----------
    numbers : Table
        The support, numeric.
    several : callable
        Tells which columns of a block have more than one value, as the model sees them.

    Returns
    -------
    ndarray of int
        The columns; all where there is one row, the first where none varies.
    """
    if numbers.n_rows < 2:
        return np.arange(numbers.n_columns)
    keep = np.zeros(numbers.n_columns, dtype=bool)
    for start in range(0, numbers.n_columns, BLOCK):
        block = numbers.columns(np.arange(start, min(start + BLOCK, numbers.n_columns)))
        keep[start : start + BLOCK] = several(block)
    return np.flatnonzero(keep) if keep.any() else np.zeros(1, dtype=np.int64)
