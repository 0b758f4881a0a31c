"""Row names: a column that says which row this is, and nothing about it.

With rows sorted by class such a column gives the label away, so it is never a feature unless that is asked for. Taken
for one are: a first column without a name, a column of text that differs in every row, and whole numbers that count
the rows. Under a name such as ``id`` it is enough that whole numbers or labels differ in nearly every row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types as pdt

from scff.errors import DataError

__all__ = ["UNNAMED", "Naming", "as_row_names", "check_writable", "find_row_names", "index_names", "named_in_floats"]

UNNAMED = "Unnamed: 0"
"""What pandas calls a first column without a name."""

#: Below this, values that differ in every row are no surprise.
_FEWEST = 5
#: Share of rows in which a column that is called like a row name differs: some have none, some are there twice.
_NEARLY_ALL = 0.9
#: Whole numbers beyond it are not all floats.
_EXACT = 2.0**53

_IDS = {"id", "ids", "index", "row", "rowid", "rowname", "rownames", "sample", "sampleid", "samplename", "samples"}
_IDS |= {"subject", "subjectid", "patient", "patientid", "cell", "cellid", "barcode", "barcodes", "key", "uuid", "name"}

RowNames = npt.NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Naming:
    """How the rows of a frame are named.

    Attributes
    ----------
    row_names : ndarray of str or None
    id_column : str or None
        The column they stood in.
    aside : tuple of (str, str)
        Columns that are no features, the one of the row names first, each with the reason.
    kept : tuple of (str, str)
        Columns that look like row names too and are features all the same, because another one was asked for.
    """

    row_names: RowNames | None = None
    id_column: str | None = None
    aside: tuple[tuple[str, str], ...] = ()
    kept: tuple[tuple[str, str], ...] = ()

    @property
    def sentence(self) -> str:
        """What was done, and what to do if it was wrong; empty where nothing was."""
        if not self.aside:
            return ""
        (first, why), *others = self.aside
        also = "".join(f", and so is {name!r} ({reason})" for name, reason in others)
        done = "the row name, not a feature" if self.id_column == first else "no feature"
        said = f"column {_shown(first)} is {done} ({why}){also}"
        return f"{said}; {self.doubt}" if self.kept else said

    @property
    def doubt(self) -> str:
        """What looks like row names and is a feature all the same; empty where nothing does."""
        return " and ".join(
            f"{_shown(name)} is a feature ({reason}): leave it out if not" for name, reason in self.kept
        )


def find_row_names(
    frame: pd.DataFrame,
    *,
    id_column: str | None = None,
    keep_id: bool = False,
    known: Collection[str] = (),
    reason: str = "as asked",
) -> Naming:
    """Find the columns of a frame that name its rows.

    Parameters
    ----------
    frame : DataFrame
    id_column : str, optional
        The column that does, if it is known.
    keep_id : bool, default=False
        Whether columns that only look like row names are features all the same.
    known : collection of str
        Columns with another part to play: target, groups.
    reason : str
        How it is known that ``id_column`` does. Where nobody asked for it, others that look like row names are no
        features either; where it was asked for, they are and it is said.

    Returns
    -------
    Naming
        With the names of the frame's index where no column is found.

    Raises
    ------
    DataError
        If there is no such column.

    Examples
    --------
    >>> frame = pd.DataFrame({"sample": list("abcdef"), "x": [0.1, 0.5, 0.2, 0.4, 0.9, 0.7]})
    >>> naming = find_row_names(frame)
    >>> naming.id_column, naming.row_names[:2].tolist()
    ('sample', ['a', 'b'])
    """
    if id_column is not None:
        if id_column not in frame.columns:
            raise DataError(f"There is no column {id_column!r} for the row names; name one of the table's columns.")
        others = {} if keep_id else _suspects(frame, {id_column, *known})
        rest = tuple((str(name), why) for name, why in others.items())
        own = (id_column, reason)
        asked = reason == "as asked"
        return Naming(
            as_row_names(frame[id_column]), id_column, (own,) if asked else (own, *rest), rest if asked else ()
        )
    names = index_names(frame)
    if keep_id:
        return Naming(names)
    found = _suspects(frame, set(known))
    if not found:
        return Naming(names)
    # The nameless column first, then one that is called like a row name, then the leftmost.
    order = sorted(found, key=lambda name: (name != UNNAMED, not _is_id(name)))
    if names is None:
        names, chosen = as_row_names(frame[order[0]]), order[0]
    else:
        chosen = None
    return Naming(names, chosen, tuple((str(name), found[name]) for name in order))


def index_names(frame: pd.DataFrame) -> RowNames | None:
    """The index of a frame as row names; None for one that only counts."""
    index = frame.index
    return None if isinstance(index, pd.RangeIndex) else as_row_names(index)


def check_writable(texts: Iterable[str], what: str) -> None:
    """Refuse text that no file can hold.

    Raises
    ------
    DataError
        Naming the first of it.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(f"{what} {text!r} holds half a character, which no file can hold; rename it.") from None


def as_row_names(values: Any) -> RowNames:
    """Names as text; whole numbers without a decimal point."""
    if isinstance(values, pd.MultiIndex):  # levels of names, one after the other
        values = [" ".join(map(str, names)) for names in values]
    objects = isinstance(values, pd.Index | pd.Series) and values.dtype == object
    series = pd.Series(values, dtype=object if objects else None)
    whole = pdt.is_float_dtype(series.dtype) and _are_whole(series)
    names = series.astype(object).where(series.notna(), "")
    # Digit for digit: what a hole in the column, or its size, made a float of is a whole number all the same.
    out = np.array([str(int(name) if whole and name != "" else name).strip() for name in names], dtype=object)
    check_writable(out, "Row name")
    return out


def _suspects(frame: pd.DataFrame, known: set[str]) -> dict[str, str]:
    """Columns that look like row names, each with the reason."""
    n = len(frame)
    found = {}
    if n < _FEWEST:
        return {UNNAMED: "it has no name"} if len(frame.columns) and frame.columns[0] == UNNAMED else {}
    whole, floats = [], []
    for j, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        if name in known:
            continue
        if j == 0 and name == UNNAMED:
            found[name] = "it has no name"
        elif pdt.is_integer_dtype(dtype):
            whole.append(j)
        elif pdt.is_float_dtype(dtype) and not isinstance(dtype, pd.SparseDtype):
            floats.append(j)
        elif _is_text(dtype) and _all_differ(frame.iloc[:, j]):
            found[name] = "its text differs in every row"
        elif _is_text(dtype) and _is_id(name) and _names_nearly_all(frame.iloc[:, j]):
            found[name] = "it differs in nearly every row"
    for j, reason in (*_counting(frame, whole), *_counting_in_floats(frame, floats)):
        found[frame.columns[j]] = reason
    return found


def _counting(frame: pd.DataFrame, columns: list[int]) -> list[tuple[int, str]]:
    """Columns of whole numbers that count the rows, or name them."""
    found = []
    n = len(frame)
    for start in range(0, len(columns), 1024):
        some = columns[start : start + 1024]
        block = frame.iloc[:, some].to_numpy(dtype=np.float64, na_value=np.nan)
        spans = block.max(axis=0) - block.min(axis=0)  # NaN where a value is missing
        for j, span, values in zip(some, spans, block.T, strict=True):
            large = np.abs(values[0]) > _EXACT
            if (_span(frame.iloc[:, j]) if large else span) == n - 1 and frame.iloc[:, j].nunique() == n:
                found.append((j, "it counts the rows"))
            elif _is_id(frame.columns[j]) and _names_nearly_all(frame.iloc[:, j]):
                found.append((j, "its number differs in every row"))
    return found


def _span(column: pd.Series[Any]) -> int | None:
    """From the smallest whole number to the largest, in numbers that know no largest."""
    return None if column.isna().any() else int(column.max()) - int(column.min())


def _counting_in_floats(frame: pd.DataFrame, columns: list[int]) -> list[tuple[int, str]]:
    """The same of floats, which a hole in a column or another program makes of whole numbers.

    Ranks are floats too, and a permutation of the rows' numbers: so floats must count the rows in their order. Two rows
    tell for nearly every column that it does not; a wide table is not gone through for this.
    """
    found = []
    with np.errstate(over="ignore", invalid="ignore"):  # long doubles, and steps, may be beyond a float
        first = frame.iloc[:2, columns].to_numpy(dtype=np.float64, na_value=np.nan)
        steps = first[1] - first[0]
    for j, step in zip(columns, steps, strict=True):
        if step == 1 and (np.diff(frame.iloc[:, j].to_numpy(dtype=np.float64, na_value=np.nan)) == 1).all():
            found.append((j, "it counts the rows"))
        elif named_in_floats(frame.columns[j], frame.iloc[:, j]):
            found.append((j, "its number differs in every row"))
    return found


def named_in_floats(name: Any, column: pd.Series[Any]) -> bool:
    """Whether floats are the whole numbers by which rows are called, under a name that says so."""
    return pdt.is_float_dtype(column.dtype) and _is_id(name) and _names_nearly_all(column)


def _names_nearly_all(column: pd.Series[Any]) -> bool:
    """Whether whole numbers or labels tell nearly all rows apart; exactly, however large the numbers are."""
    present = column[column.notna()]
    try:
        if present.nunique() < _NEARLY_ALL * len(column):
            return False
        return not pdt.is_float_dtype(present.dtype) or _are_whole(present)
    except (TypeError, ArithmeticError):  # lists, decimals that are no numbers: refused elsewhere
        return False


def _are_whole(column: pd.Series[Any]) -> bool:
    present = column[column.notna()].to_numpy(dtype=np.float64)
    return bool(np.isfinite(present).all() and (present == np.floor(present)).all())


def _is_text(dtype: Any) -> bool:
    return bool(pdt.is_string_dtype(dtype) or dtype == np.dtype(object) or isinstance(dtype, pd.CategoricalDtype))


def _all_differ(column: pd.Series[Any]) -> bool:
    try:
        # Labels of several kinds are read as text, and whole numbers among them with it.
        kinds = ("string", "mixed-integer") if column.dtype == np.dtype(object) else ("string",)
        values = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
        differ = bool(column.notna().all() and column.nunique() == len(column))
        return differ and pdt.infer_dtype(values) in kinds
    except (TypeError, ArithmeticError):  # lists, decimals that are no numbers: refused elsewhere
        return False


def _is_id(name: Any) -> bool:
    return "".join(c for c in str(name).lower() if c.isalnum()) in _IDS


def _shown(name: str) -> str:
    return "without a name" if name == UNNAMED else repr(name)
