"""Keep to a budget: from bytes to block sizes.

A backbone states what encoding costs it (`Footprint`); `keep_within` turns a byte budget into block sizes. Blocks
change when memory is used, never what is computed: no row and no column is ever dropped to fit.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from numbers import Real
from typing import Any

from scff.errors import DataError, MemoryBudgetError, shown

__all__ = ["Footprint", "format_bytes", "keep_within", "parse_bytes"]

# Scoring the columns, and what the interpreter allocates beside the arrays.
_PLANNING = 16 << 20

# An exabyte: more is a slip, and no integer of a machine.
_MOST = 10**18

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
}


def parse_bytes(size: Any) -> int:
    """Read a number of bytes such as ``"2GiB"``, ``"500 MB"`` or ``1 << 30``.

    Examples
    --------
    >>> parse_bytes("2GiB")
    2147483648
    >>> parse_bytes("1.5 MB")
    1500000
    """
    if isinstance(size, Real):
        number, unit = float(size), ""
    elif not isinstance(size, str):
        raise DataError(f'{shown(size)} is not a size; write for example "2GiB", "500MB" or a number of bytes.')
    else:
        match = re.fullmatch(r"\s*([0-9]{0,20}\.?[0-9]{1,20})\s*([a-zA-Z]{0,3})\s*", size)
        if match is None or match[2].lower() not in _UNITS:
            raise DataError(
                f'{str(size)[:40]!r} is not a size; write for example "2GiB", "500MB" or a number of bytes.'
            )
        number, unit = float(match[1]), match[2].lower()
    if not 1 <= number * _UNITS[unit] <= _MOST:
        raise DataError(f"A memory limit must be a number of bytes from 1 to an exabyte, not {size!r}.")
    return int(number * _UNITS[unit])


def format_bytes(size: float, *, up: bool = False) -> str:
    """A size for eyes; rounded up where it is to be typed in again as a limit that suffices.

    Examples
    --------
    >>> format_bytes(3 * 2**20)
    '3.0 MiB'
    >>> format_bytes(3 * 2**20 + 1, up=True)
    '3.1 MiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    size = math.ceil(10 * size) / 10 if up else size
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


@dataclass(frozen=True)
class Footprint:
    """Bytes that encoding one leaf takes.

    Attributes
    ----------
    scratch : int
        Whatever the number of rows: activations of one block.
    cache : int
        What a leaf keeps of the support.
    support_row, query_row : int
        For every row encoded together.
    summary_row : int
        For every row between its first leaf and its prediction.
    """

    scratch: int
    cache: int
    support_row: int
    query_row: int
    summary_row: int

    def least(self, n_support: int) -> int:
        """Bytes without which not even one leaf of so many support rows can be encoded."""
        return _PLANNING + n_support * (self.summary_row + self.support_row) + self.scratch + self.cache


def keep_within(
    limit: int, leaf: Footprint, n_support: int, query_chunk: int, pass_rows: int, leaf_batch: int = 1
) -> tuple[int, int, int, int]:
    """Choose blocks for a budget of added bytes.

    Parameters
    ----------
    limit : int
        The budget.
    leaf : Footprint
        Of the widest leaf.
    n_support : int
        Support rows; they are always encoded together.
    query_chunk, pass_rows, leaf_batch : int
        Most query rows encoded together and taken through all leaves together, and most leaves encoded together.

    Returns
    -------
    leaf_batch, query_chunk, pass_rows, cache_bytes : int
        What fits of each, and how much of the budget caches may take.

    Raises
    ------
    MemoryBudgetError
        If the support alone does not fit; the message says what would.
    """
    waiting = _PLANNING + n_support * leaf.summary_row
    one_leaf = leaf.scratch + leaf.cache + n_support * leaf.support_row
    needed = leaf.least(n_support)
    if needed > limit:
        raise MemoryBudgetError(
            f"memory_limit is {format_bytes(limit)}, and encoding {n_support} support rows of one leaf takes "
            f"{format_bytes(needed, up=True)} beside the weights; raise the limit to that, lower leaf_width, or fit "
            "fewer rows."
        )
    leaves = max(1, min(leaf_batch, (limit - waiting) // one_leaf))
    room = limit - leaves * (leaf.scratch + leaf.cache)
    # Half of the room for rows inside the encoder, half for those waiting for the context.
    chunk = max(1, min(query_chunk, room // 2 // (leaves * leaf.query_row)))
    rows = max(chunk, min(pass_rows, room // 2 // leaf.summary_row))
    spare = limit - waiting - leaves * one_leaf
    return leaves, chunk, rows, max(0, spare // 2)
