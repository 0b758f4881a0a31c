"""Text tables: the delimiter, the compression and the decimal sign are found, not asked for."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from scff.errors import DataError

__all__ = ["COMPRESSIONS", "read_delimited"]

COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz")

_DELIMITERS = ("\t", ";", ",", "|")
#: Lines that are looked at, and the characters that one may have: a million columns are some twenty million.
_LOOK, _LONGEST = 64, 1 << 28
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?$")


@dataclass(frozen=True)
class _Dialect:
    """How a text table is written."""

    delimiter: str
    encoding: str
    decimal: str
    skip: int
    padded: frozenset[int]

    @property
    def options(self) -> dict[str, Any]:
        """As pandas wants to be told."""
        fast = len(self.delimiter) == 1
        return {
            "sep": self.delimiter,
            "encoding": self.encoding,
            "decimal": self.decimal,
            "skiprows": self.skip,
            **({"low_memory": False} if fast else {"engine": "python"}),
        }


def read_delimited(path: Path, texts: Collection[str] = ()) -> pd.DataFrame:
    """Read a text table.

    Parameters
    ----------
    path : Path
        CSV, TSV or other delimited text, maybe compressed.
    texts : collection of str
        Columns that hold labels, even where these look like numbers.

    Returns
    -------
    DataFrame
        With the first column as index where the header is one short, as R writes it.

    Raises
    ------
    DataError
        If a column name repeats, or rows are longer than the header and do not begin with a name.
    """
    dialect = _dialect(path)
    with _opened(path) as file:
        header = pd.read_csv(file, **dialect.options, header=None, nrows=1, dtype=str)
    names = ["" if pd.isna(name) else str(name) for name in header.iloc[0]]
    if len(set(names)) < len(names):  # pandas would rename them in silence
        repeated = {name for name in names if name and names.count(name) > 1}
        if repeated:
            raise DataError(f"Column name {min(repeated)!r} occurs more than once in {path}; rename the columns.")
    with _opened(path) as file:
        # A number with a zero in front is a name: 007 stays 007.
        labels = {*texts, *(names[j] or f"Unnamed: {j}" for j in dialect.padded if j < len(names))}
        frame: pd.DataFrame = pd.read_csv(file, **dialect.options, dtype=dict.fromkeys(labels, str) if labels else None)
    _refuse_shifted(frame, len(names), path)
    dates = {name: days for name in frame.columns if (days := _as_dates(frame[name])) is not None}
    return frame.assign(**dates) if dates else frame


def _refuse_shifted(frame: pd.DataFrame, width: int, path: Path) -> None:
    """Refuse rows that pandas moved to the left, so that every column stands under its neighbour's name."""
    extra = frame.index.nlevels if not isinstance(frame.index, pd.RangeIndex) else 0
    if extra > 1:
        raise DataError(
            f"The rows of {path} have {width + extra} fields and its first line has {width}; put a header with a name "
            "for every column there, and nothing above it."
        )
    if extra and frame.iloc[:, -1].isna().all():
        raise DataError(
            f"The rows of {path} have one field more than its header, and the last of them is empty; if lines end in a "
            "delimiter, let the header end in one too, and if they begin with row names, name their column."
        )


def _opened(path: Path) -> IO[bytes]:
    ending = path.suffix.lower()
    if ending == ".gz":
        return io.BufferedReader(gzip.open(path, "rb"))
    if ending == ".bz2":
        return bz2.open(path, "rb")
    if ending == ".xz":
        return lzma.open(path, "rb")
    if ending == ".zst":
        import pyarrow as pa

        return io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
    return path.open("rb")


def _dialect(path: Path) -> _Dialect:
    """Look at the first lines."""
    with _opened(path) as file:
        start = file.read(1 << 16)
    wide = start[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff")  # the first of them begins as UTF-16 does
    encoding = "utf-32" if wide else "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    if encoding == "utf-8-sig" and b"\0" in start:
        raise DataError(f"{path} holds bytes that no text has; it is another kind of file, or was not written whole.")
    if start.startswith(b"version https://git-lfs"):
        raise DataError(f"{path} only says where Git LFS keeps the table; get it with `git lfs pull`.")
    with io.TextIOWrapper(_opened(path), encoding=encoding) as text:
        lines = [line.rstrip("\r\n") for line in _first_lines(text, path)]
    # Remarks above the header: lines that begin with # and are not as wide as what follows.
    skip = 0
    while skip + 1 < len(lines) and lines[skip].startswith("#") and not _alike(lines[skip], lines[skip + 1]):
        skip += 1
    lines = _records([line for line in lines[skip:] if line])
    header, first, second = [*lines, "", "", ""][:3]
    widths = {mark: _fields(header, mark) for mark in _DELIMITERS if _fits(header, first, mark)}
    delimiter = max(widths, key=lambda mark: widths[mark], default=",")
    if widths.get(delimiter, 1) == 1 and len(header.split()) > 1 and "," not in first:
        delimiter = r"\s+"
    if widths.get(delimiter, 1) == 1 and any(1 < _fields(first, m) == _fields(second, m) for m in _DELIMITERS):
        raise DataError(
            f"{path} begins with {header[:40]!r}, which is not as wide as the lines below; begin with the header, or "
            "put a # before what stands above it."
        )
    decimal = _decimal(" ".join(lines[1:]), delimiter)
    return _Dialect(delimiter, encoding, decimal, skip, _padded(lines[1:], delimiter, _fields(header, delimiter)))


def _decimal(body: str, delimiter: str) -> str:
    """The sign before fractions: a comma where no field can end in one and some number has one."""
    if delimiter == "," or re.search(r"\d\.\d", body):
        return "."
    # Between semicolons a comma is a decimal sign; elsewhere 1,234 may be more than a thousand, but not 0,123 nor 1,2.
    number = r"\d,\d" if delimiter == ";" else r"(?<![\d,])(0,\d+|\d+,(\d{1,2}|\d{4,}))(?![\d,])"
    return "," if re.search(number, body) else "."


def _first_lines(text: IO[str], path: Path) -> Iterator[str]:
    for _ in range(_LOOK):
        line = text.readline(_LONGEST)
        if len(line) == _LONGEST:  # whatever it is, it would fill the memory before it is known to be no table
            raise DataError(f"{path} has a line of more than {_LONGEST:,} characters; it is no table, or on one line.")
        if not line:
            return
        yield line


def _records(lines: list[str]) -> list[str]:
    """Lines as a reader takes them: what is quoted may go on over several."""
    out: list[str] = []
    for line in lines:
        if out and out[-1].count('"') % 2:
            out[-1] += f" {line}"
        else:
            out.append(line)
    return out


def _padded(lines: list[str], mark: str, width: int) -> frozenset[int]:
    """Columns in which a number has a zero in front."""
    if len(mark) > 1:
        return frozenset()
    found = set()
    for line in lines:
        if re.search(r"(^|\W)0\d", line):
            cells = next(csv.reader([line], delimiter=mark), [])
            shift = len(cells) - width  # row names under a header that is one short
            found |= {j - shift for j, cell in enumerate(cells) if re.fullmatch(r"0\d+", cell) and j >= shift}
    return frozenset(found)


def _fields(line: str, mark: str) -> int:
    return re.sub(r'"[^"]*"', "", line).count(mark) + 1


def _fits(header: str, first: str, mark: str) -> bool:
    """Whether a delimiter cuts header and first row into as many fields, or one more in the row, as R writes it."""
    return not first or _fields(first, mark) - _fields(header, mark) in (0, 1)


def _alike(line: str, following: str) -> bool:
    return any(_fields(line, mark) > 1 and _fits(line, following, mark) for mark in _DELIMITERS)


def _as_dates(column: pd.Series[Any]) -> pd.Series[Any] | None:
    """A column of text that is all ISO dates, as dates."""
    if pd.api.types.is_numeric_dtype(column.dtype) or not pd.api.types.is_string_dtype(column.dtype):
        return None
    present = column[column.notna()]
    if not len(present) or not _ISO_DATE.match(str(present.iloc[0])):
        return None
    if not present.map(lambda text: bool(_ISO_DATE.match(str(text)))).all():
        return None
    try:
        dates = pd.to_datetime(column, format="ISO8601", utc=True)
    except (ValueError, TypeError):  # the thirtieth of February
        return None
    return dates.dt.tz_localize(None) if np.ndim(dates) else None
