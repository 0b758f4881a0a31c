"""Frames on disk: read any known format, write CSV and Parquet, whole files or none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from scff.errors import DataError
from scff.tables.atomic import write_atomically
from scff.tables.formats import load
from scff.tables.formulas import defused
from scff.tables.on_disk import is_wide, open_wide
from scff.tables.table import Table

__all__ = [
    "read_columns",
    "read_table",
    "write_table",
]


def read_table(path: Path) -> pd.DataFrame:
    """Read a file of any known format as a frame.

    Raises
    ------
    DataError
        If there is no such file or it cannot be read.
    """
    sheet = load(path)
    if not isinstance(sheet.values, pd.DataFrame):
        frame = pd.DataFrame(np.asarray(sheet.values), columns=None if sheet.names is None else list(sheet.names))
        return pd.concat([frame, sheet.beside], axis=1)
    return sheet.values


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
