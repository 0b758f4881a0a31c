"""The rows that a model keeps: its own, whatever becomes of the table they came from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from scff.tables.sparse import SparseColumns
from scff.tables.table import Table

__all__ = ["keep_rows"]

_PANDAS = int(pd.__version__.partition(".")[0])


def keep_rows(table: Table, source: Any, *, copy: bool = True) -> Table:
    """A table that changes with nothing that its user does later.

    Parameters
    ----------
    table : Table
        What was made of the source, perhaps without copying it.
    source : object
        What the user passed.
    copy : bool, default=True
        Whether an array in memory is copied. Where memory is scarce it is marked read-only instead: a later change is
        then an error where it is made.

    Returns
    -------
    Table
        A DataFrame is copied when it is changed and not before, which is pandas' own way; files are left where they
        are, and must not change.
    """
    values = table.values
    if isinstance(values, pd.DataFrame):
        return replace(table, values=values.copy(deep=_PANDAS < 3))
    if isinstance(values, SparseColumns):
        return replace(table, values=values.copied()) if copy else table
    if not isinstance(values, np.ndarray) or _is_mapped(values):
        return table
    is_fresh = values is not source and values.base is None
    if is_fresh or not copy:
        values.flags.writeable = False
        return table
    if not values.flags.writeable and values.base is None:
        return table  # nobody can change it without saying so
    values = values.copy()
    values.flags.writeable = False
    return replace(table, values=values)


def _is_mapped(values: Any) -> bool:
    """Whether an array is a file's."""
    while values is not None and not isinstance(values, np.memmap):
        values = getattr(values, "base", None)
    return values is not None
