"""Tables on disk: read CSV and Parquet, write whole files or none."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from scff.errors import DataError
from scff.tables.atomic import write_atomically
from scff.tables.formulas import defused
from scff.tables.on_disk import is_wide, open_labelled, open_wide
from scff.tables.table import Table

__all__ = [
    "read_columns",
    "read_labelled",
    "read_table",
    "split_target",
    "write_table",
]

logger = logging.getLogger(__name__)


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV, TSV or Parquet file.

    Raises
    ------
    DataError
        If there is no such file or it cannot be read.
    """
    if not path.exists():
        raise DataError(f"There is no file {path}; check the path.")
    suffixes = path.suffixes
    try:
        if path.suffix in (".parquet", ".pq") or path.is_dir():
            frame = pd.read_parquet(path)
        elif ".csv" in suffixes or ".tsv" in suffixes:
            separator = "\t" if ".tsv" in suffixes else ","
            frame = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str)
            names = ["" if pd.isna(name) else name for name in frame.iloc[0]]
            repeated = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
            if repeated:  # pandas would rename them in silence
                raise DataError(f"Column name {min(repeated)!r} occurs more than once in {path}; rename the columns.")
            frame = pd.read_csv(path, sep=separator, low_memory=False)
        else:
            raise DataError(f"{path} is neither CSV, TSV nor Parquet by its name; convert it to one of them.")
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read as a table ({str(error).splitlines()[0][:160]}).") from error
    if frame.empty:
        raise DataError(f"{path} holds no rows ({frame.shape[0]} rows, {frame.shape[1]} columns).")
    return frame


def read_labelled(path: Path, target: str) -> tuple[pd.DataFrame | Table, Any]:
    """Read a table and its target; a very wide numeric Parquet file stays on disk and is opened instead.

    Raises
    ------
    DataError
        As `read_table` and `split_target`.
    """
    if is_wide(path):
        try:
            return open_labelled(path, target)
        except DataError as error:  # text in a feature, or no such target: the general way says what is wrong
            logger.info("%s is loaded as a whole: %s", path, error)
    return split_target(read_table(path), target, path)


def read_columns(path: Path, names: Sequence[str], numeric: bool) -> pd.DataFrame | Table:
    """Read the named columns of a table, in this order; those of a very wide numeric Parquet file stay on disk.

    Raises
    ------
    DataError
        If one of them is not there.
    """
    if numeric and is_wide(path):
        return open_wide(path, names)
    frame = read_table(path)
    missing = [name for name in names if name not in frame.columns]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(f"{path} lacks the column {missing[0]!r}{more} that the model was fitted on.")
    return frame[list(names)]


def split_target(frame: pd.DataFrame, target: str, path: Path) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Take the target column out of a table."""
    if target not in frame.columns:
        close = [str(name) for name in frame.columns if str(name).lower() == target.lower()]
        listed = ", ".join(map(str, frame.columns[:8])) + (" and others" if frame.shape[1] > 8 else "")
        hint = f"did you mean {close[0]!r}?" if close else f"its columns are {listed}."
        raise DataError(f"{path} has no column {target!r}; {hint}")
    if frame.shape[1] < 2:
        raise DataError(f"{path} has no column besides the target {target!r}.")
    return frame.drop(columns=target), frame[target]


def write_table(frame: pd.DataFrame, path: Path, *, raw: bool = False) -> None:
    """Write CSV or Parquet by the name's ending, the whole file or none.

    Text that a spreadsheet would run (`scff.tables.formulas`) gets an apostrophe in CSV and TSV, unless ``raw``.
    """
    if path.suffix in (".parquet", ".pq"):
        write_atomically(path, lambda temporary: frame.to_parquet(temporary, index=False))
    elif path.suffix in (".csv", ".tsv"):
        separator = "\t" if path.suffix == ".tsv" else ","
        safe = frame if raw else defused(frame)
        write_atomically(path, lambda temporary: safe.to_csv(temporary, sep=separator, index=False))
    else:
        raise DataError(f"The output {path} must end in .csv, .tsv or .parquet.")
