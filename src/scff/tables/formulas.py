"""Text that a spreadsheet would run, written so that it shows it instead."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

__all__ = ["defuse", "defused"]

# What makes a cell a formula, a tab or a line break before it included; a plain number with a sign is none.
_FORMULA = re.compile(r"[\s]*[=+\-@]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def defuse(value: Any) -> Any:
    """A cell that a spreadsheet shows as it is: an apostrophe goes before text that it would take for a formula.

    Examples
    --------
    >>> defuse("=HYPERLINK(A1)")
    "'=HYPERLINK(A1)"
    >>> defuse("-1.5"), defuse("benign"), defuse(-2)
    ('-1.5', 'benign', -2)
    """
    if not isinstance(value, str):
        return value
    # A bare carriage return is not quoted in CSV, and ends the row for some readers: the next row would run.
    value = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{value}" if _FORMULA.match(value) and not _NUMBER.fullmatch(value) else value


def defused(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose text and column names are safe to open in a spreadsheet; the table itself stays as it is."""
    out = frame.rename(columns=defuse)
    for j in range(out.shape[1]):
        column = out.iloc[:, j]
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(object)
        if not (pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype)):
            out.isetitem(j, column.map(defuse).array)
    return out
