"""Classes or numbers: what a target is, told by its values, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types as pdt

from scff.errors import DataError

__all__ = ["Task", "TaskName", "find_task"]

TaskName = Literal["auto", "class", "number"]

#: More whole numbers than this are measurements or counts.
_MANY = 20


@dataclass(frozen=True)
class Task:
    """What is to be predicted.

    Attributes
    ----------
    name : {"class", "number"}
    reason : str
        Why.
    doubt : bool
        Whether the values would bear the other reading as well.
    """

    name: Literal["class", "number"]
    reason: str
    doubt: bool = False


def find_task(y: Any, asked: TaskName = "auto") -> Task:
    """Tell whether a target is of classes or of numbers.

    Text and truth values are classes, numbers with fractions are numbers. Whole numbers are classes if they are few:
    two, or codes that begin at 0 or 1 and leave none out. Whole numbers of more than twenty kinds are numbers. In
    between there is doubt, and classes are taken.

    Parameters
    ----------
    y : array-like
    asked : {"auto", "class", "number"}
        What the user says.

    Raises
    ------
    DataError
        If numbers are asked for and there is text.

    Examples
    --------
    >>> find_task(["a", "b"]).name, find_task([0.5, 1.25, 3.0]).name, find_task(range(100)).name
    ('class', 'number', 'number')
    >>> find_task([2, 4, 8, 2, 4, 8])
    Task(name='class', reason='3 different whole numbers in 6 rows', doubt=True)
    """
    column = pd.Series(y)
    values = column[column.notna()]
    numeric = pdt.is_numeric_dtype(values.dtype) and not pdt.is_bool_dtype(values.dtype)
    if asked != "auto":
        if asked == "number" and not numeric:
            raise DataError(f"The target holds {str(values.iloc[0])[:40]!r}, which is no number; use --task class.")
        return Task(asked, "as asked")
    if not numeric:
        return Task("class", "text" if not pdt.is_bool_dtype(values.dtype) else "truth values")
    numbers = values.to_numpy(dtype=np.float64)
    if (numbers != np.floor(numbers)).any():
        return Task("number", "numbers with fractions")
    kinds = np.unique(numbers)
    said = f"{len(kinds)} different whole numbers in {len(values)} rows"
    if len(kinds) <= 2 or (len(kinds) <= _MANY and kinds[0] in (0, 1) and kinds[-1] - kinds[0] == len(kinds) - 1):
        return Task("class", said)
    if len(kinds) > _MANY:
        return Task("number", said, doubt=len(values) > 4 * len(kinds))
    return Task("class", said, doubt=True)
