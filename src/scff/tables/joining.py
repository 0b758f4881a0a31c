"""Two tables about the same samples: which rows are the same, and which way round a table lies.

Keys are compared as text. The pair of columns with the most keys in common wins; nothing is guessed from names. A row
without a key belongs to no other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types as pdt

from scff.errors import DataError
from scff.tables.naming import as_row_names, named_in_floats
from scff.tables.sheet import Sheet

__all__ = ["Match", "candidates", "common_rows", "features_in_rows", "match_rows"]

Keys = npt.NDArray[np.object_]
IntArray = npt.NDArray[np.int64]

#: Columns of a table that may hold its keys: they stand in front.
_FRONT = 20
#: What a key is that is missing.
_NONE = ""


@dataclass(frozen=True, eq=False)
class Match:
    """Which row of a sample sheet belongs to which row of a table.

    Attributes
    ----------
    column : str or None
        Column of the table with the keys; None for its row names.
    rows, sheet_rows : ndarray of int
        The rows that matched, in the order of the table, and theirs in the sheet.
    sentence : str
        The counts of what did and did not match.
    """

    column: str | None
    rows: IntArray
    sheet_rows: IntArray
    sentence: str


def features_in_rows(sheet: Sheet, keys: Sequence[Collection[str]], features: Collection[str]) -> bool:
    """Whether a table has its features in rows, told by who is where.

    Parameters
    ----------
    sheet : Sheet
    keys : sequence of collections of str
        Names that samples may have: one collection for each column of a sample sheet.
    features : collection of str
        Names that are known to be those of columns: of a model, or of the target.
    """
    across, down = set(sheet.heads), [set(names) for _, names in candidates(sheet)]
    as_rows = max((len(one & set(known)) for one in down for known in keys), default=0)
    as_columns = max((len(across & set(known)) for known in keys), default=0)
    if as_rows != as_columns:
        return as_columns > as_rows
    wanted = set(features)
    return max((len(one & wanted) for one in down), default=0) > len(across & wanted)


def match_rows(sheet: Sheet, samples: Sheet, on: str | None = None) -> Match:
    """Find the row of a sample sheet for every row of a table.

    Parameters
    ----------
    sheet : Sheet
        Samples in rows.
    samples : Sheet
        The sample sheet.
    on : str, optional
        Its column with the names of the samples; the one that fits best by default.

    Raises
    ------
    DataError
        If nothing matches, or a sample has two lines in the sheet.
    """
    offered = list(candidates(samples, on))
    if on is not None and not offered:
        raise DataError(f"{samples.origin} has no column {on!r}; its columns are {', '.join(samples.heads[:8])}.")
    ours_offered = list(candidates(sheet, on if on in sheet.heads else None))
    pair = _best_pair(ours_offered, offered)
    if pair is None:
        if sheet.n_rows == samples.n_rows and not ours_offered and on is None:
            everything = np.arange(sheet.n_rows)
            said = f"{sheet.origin} has no row names: its {sheet.n_rows} rows are those of {samples.origin}, in order"
            return Match(None, everything, everything, said)
        first, second = (str(next(iter(one), (None, ["?"]))[1][0]) for one in (ours_offered, offered))
        raise DataError(
            f"No sample of {sheet.origin} ({first}, ...) is in {samples.origin} ({second}, ...); name the column "
            "with the samples' names with --on, and check --orient."
        )
    (column, ours), (chosen, theirs) = pair
    places = pd.Series(np.arange(len(theirs)), index=theirs)
    rows = np.flatnonzero(pd.Series(ours).isin(set(theirs) - {_NONE}))
    used = pd.Series(theirs)[pd.Series(theirs).isin(set(ours) - {_NONE})]
    if used.duplicated().any():
        raise DataError(
            f"Sample {used[used.duplicated()].iloc[0]!r} has more than one line in {samples.origin} (column "
            f"{chosen!r}); keep one line per sample, or name another column with --on."
        )
    sheet_rows = places.loc[list(ours[rows])].to_numpy()
    return Match(column, rows, sheet_rows, _counts(sheet, samples, ours, theirs))


def _best_pair(
    ours: Sequence[tuple[str | None, Keys]], theirs: Sequence[tuple[str | None, Keys]]
) -> tuple[tuple[str | None, Keys], tuple[str | None, Keys]] | None:
    """The two columns with the most keys in common; of a sheet, one that names every sample once if there is any."""
    best, most = None, (0, 0)
    for two in theirs:
        known = set(two[1]) - {_NONE}
        once = len(known) == sum(key != _NONE for key in two[1])
        for one in ours:
            found = sum(key in known for key in one[1])
            score = (int(once), found)
            if found and score > most:
                best, most = (one, two), score
    return best


def common_rows(sheets: Sequence[Sheet]) -> tuple[list[IntArray], str]:
    """Rows of several tables that are the same samples, in the order of the first; also the counts, in words.

    Raises
    ------
    DataError
        If samples cannot be told apart, or no sample is in all tables.
    """
    origins, names = [sheet.origin for sheet in sheets], [sheet.row_names for sheet in sheets]
    sizes = [sheet.n_rows for sheet in sheets]
    if all(one is None for one in names):
        if len(set(sizes)) > 1:
            raise DataError(f"{' and '.join(origins)} have no row names to be joined by; give each a column with them.")
        said = f"{' and '.join(origins)} have no row names: their {sizes[0]} rows are taken to be the same, in order"
        return [np.arange(sizes[0]) for _ in names], said
    for origin, one in zip(origins, names, strict=True):
        if one is None:
            raise DataError(f"{origin} has no row names to be joined by; name its column with --id.")
        repeated = pd.Series(one)[pd.Series(one).duplicated() & (one != _NONE)]
        if len(repeated):
            raise DataError(f"Row name {repeated.iloc[0]!r} occurs more than once in {origin}; rows cannot be joined.")
    known = [one for one in names if one is not None]
    shared = set(known[0]).intersection(*known[1:]) - {_NONE}
    if not shared:
        firsts = ", ".join(f"{origin} has {one[0]!r}" for origin, one in zip(origins, known, strict=True))
        raise DataError(f"No sample is in all tables ({firsts}, ...); check the row names.")
    order = [key for key in known[0] if key in shared]
    places = [{key: row for row, key in enumerate(one)} for one in known]
    rows = [np.array([place[key] for key in order], dtype=np.int64) for place in places]
    counted = ", ".join(f"{origin} has {len(one)}" for origin, one in zip(origins, known, strict=True))
    return rows, f"{len(order)} samples are in all tables ({counted})"


def _counts(sheet: Sheet, samples: Sheet, ours: Keys, theirs: Keys) -> str:
    matched = (set(ours) & set(theirs)) - {_NONE}
    said = [f"{sum(key in matched for key in ours)} samples are in {sheet.origin} and in {samples.origin}"]
    for origin, keys in ((sheet.origin, ours), (samples.origin, theirs)):
        alone = [key for key in dict.fromkeys(keys) if key not in matched and key != _NONE]
        if alone:
            shown = ", ".join(alone[:3]) + (", ..." if len(alone) > 3 else "")
            said.append(f"{len(alone)} only in {origin} ({shown})")
        if nameless := sum(key == _NONE for key in keys):
            said.append(f"{nameless} without a name in {origin}")
    return "; ".join(said)


def candidates(sheet: Sheet, only: str | None = None) -> Iterator[tuple[str | None, Keys]]:
    """Columns that may hold the names of rows, each as text; row names themselves first."""
    if only is None and sheet.row_names is not None:
        yield None, sheet.row_names
    frame = sheet.values if sheet.is_frame else sheet.beside
    if only is not None:
        if only in frame.columns:
            yield only, as_row_names(frame[only])
        return
    for name in frame.columns[:_FRONT]:
        column = frame[name]
        # Numbers that repeat are measurements: two of those would have much in common.
        if pdt.is_integer_dtype(column.dtype) and not column.is_unique:
            continue
        texts = pdt.is_string_dtype(column.dtype) or column.dtype == np.dtype(object)
        if texts or pdt.is_integer_dtype(column.dtype) or named_in_floats(name, column):
            yield str(name), as_row_names(column)
