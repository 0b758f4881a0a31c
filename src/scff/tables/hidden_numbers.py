"""Numbers that a table holds as text: a question mark among them, a comma or a percent sign in them.

As labels such a column would be read by its alphabetical order, in which 10 comes before 9; as text that differs in
every row it would pass for row names. Neither is what anybody means, so it is refused unless it is called categorical.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from scff.errors import DataError, shown

__all__ = ["refuse_hidden_numbers"]

#: With fewer different values a column may be of codes or doses, which are labels.
_MANY = 10
_MARKS = {"", "-", "--", "---", "?", ".", "..", "*", "na", "n/a", "n.a.", "n.a", "nan", "nd", "n.d.", "null", "none"}
_MARKS |= {"missing", "unknown", "not available", "not done", "#n/a", "#na", "#value!", "#div/0!", "#ref!", "#num!"}
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_GROUPED = r"\d+(,\d+)?|\d{1,3}([,.'\u2019 \u00a0\u202f]\d{3})+([.,]\d+)?"
_MONEY = "$\u20ac\u00a3\u00a5"
_DRESSED = re.compile(rf"[<>\u2264\u2265~]?=? ?[+-]?[{_MONEY}]? ?[+-]?({_GROUPED}|\d*\.\d+) ?[%\u2030{_MONEY}]?")


def refuse_hidden_numbers(frame: pd.DataFrame, besides: Collection[Any] = ()) -> None:
    """Refuse a column of text whose cells are numbers but for how some of them are written.

    Parameters
    ----------
    frame : DataFrame
    besides : collection of str
        Columns that may hold what they like: target, groups, row names, categories.

    Raises
    ------
    DataError
        Naming the column, and a cell that is no number as it stands.

    Examples
    --------
    >>> refuse_hidden_numbers(pd.DataFrame({"age": [*map(str, range(20, 40)), "?"]}))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    scff.errors.DataError: Column 'age' holds numbers, and '?' among them; leave such cells empty...
    """
    for j, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        if str(name) in besides or not (pdt.is_string_dtype(dtype) or dtype == np.dtype(object)):
            continue
        if (cell := _odd_cell(frame.iloc[:, j])) is not None:
            what = "leave such cells empty" if cell.strip().lower() in _MARKS else "write plain numbers such as 1234.5"
            raise DataError(
                f"Column {str(name)!r} holds numbers, and {shown(cell)!r} among them; {what}, or call the column "
                "categorical if these are labels."
            )


def _odd_cell(column: pd.Series[Any]) -> str | None:
    """A cell that keeps a column of numbers from being one; None where it is not of numbers, or of nothing else."""
    different: set[str] = set()
    marks: list[str] = []
    dressed: list[str] = []
    for cell in column:
        if cell is None or cell is pd.NA or cell is pd.NaT:
            continue
        if not isinstance(cell, str | int | float | np.number) or isinstance(cell, bool):
            return None  # whatever else there is, is looked at elsewhere
        text = str(cell).strip()
        if text.lower() in _MARKS:
            marks += [cell] if isinstance(cell, str) else []  # a float that is missing is no mark
        elif _PLAIN.fullmatch(text):
            different.add(text)
        elif _DRESSED.fullmatch(text):
            different.add(text)
            dressed.append(text)
        else:
            return None
    return next(iter(dressed or marks), None) if len(different) > _MANY else None
