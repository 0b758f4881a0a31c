"""Measure a peak, and keep to a budget.

A backbone states what encoding costs it (`Footprint`); `keep_within` turns a byte budget into block sizes. Blocks
change when memory is used, never what is computed: no row and no column is ever dropped to fit.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar

import torch

from scff.errors import DataError, MemoryBudgetError

__all__ = [
    "Blocks",
    "Footprint",
    "PeakMemory",
    "format_bytes",
    "keep_within",
    "own_pages",
    "parse_bytes",
    "return_freed",
]

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


def parse_bytes(size: int | float | str) -> int:
    """Read a number of bytes such as ``"2GiB"``, ``"500 MB"`` or ``1 << 30``.

    Examples
    --------
    >>> parse_bytes("2GiB")
    2147483648
    >>> parse_bytes("1.5 MB")
    1500000
    """
    if isinstance(size, int | float):
        number, unit = float(size), ""
    else:
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]*)\s*", size)
        if match is None or match[2].lower() not in _UNITS:
            raise DataError(f'{size!r} is not a size; write for example "2GiB", "500MB" or a number of bytes.')
        number, unit = float(match[1]), match[2].lower()
    if number <= 0:
        raise DataError(f"A memory limit must be positive, not {size!r}.")
    return int(number * _UNITS[unit])


def format_bytes(size: float) -> str:
    """A size for eyes.

    Examples
    --------
    >>> format_bytes(3 * 2**20)
    '3.0 MiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


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


@dataclass(frozen=True)
class Blocks:
    """Block sizes that keep to a budget."""

    leaf_batch: int
    query_chunk: int
    pass_rows: int
    cache_bytes: int


def keep_within(
    limit: int, leaf: Footprint, n_support: int, query_chunk: int, pass_rows: int, leaf_batch: int = 1
) -> Blocks:
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

    Raises
    ------
    MemoryBudgetError
        If the support alone does not fit; the message says what would.
    """
    waiting = _PLANNING + n_support * leaf.summary_row
    one_leaf = leaf.scratch + leaf.cache + n_support * leaf.support_row
    needed = waiting + one_leaf
    if needed > limit:
        raise MemoryBudgetError(
            f"memory_limit is {format_bytes(limit)}, and encoding {n_support} support rows of one leaf takes "
            f"{format_bytes(needed)}; raise the limit to that, lower leaf_width, or fit fewer rows."
        )
    leaves = max(1, min(leaf_batch, (limit - waiting) // one_leaf))
    room = limit - leaves * (leaf.scratch + leaf.cache)
    # Half of the room for rows inside the encoder, half for those waiting for the context.
    chunk = max(1, min(query_chunk, room // 2 // (leaves * leaf.query_row)))
    rows = max(chunk, min(pass_rows, room // 2 // leaf.summary_row))
    spare = limit - waiting - leaves * one_leaf
    return Blocks(leaf_batch=leaves, query_chunk=chunk, pass_rows=rows, cache_bytes=max(0, spare // 2))


def own_pages(*shape: int) -> torch.Tensor:
    """An uninitialised float32 tensor on pages of its own, which go back to the system with it.

    A leaf's embedding and cache are tens of megabytes, made and freed for every leaf between thousands of small
    activations. On the heap they leave holes that the next leaf does not fit into, and the process grows.

    Examples
    --------
    >>> own_pages(2, 3).shape
    torch.Size([2, 3])
    """
    count = math.prod(shape)
    if 4 * count < _PAGES_FROM:
        return torch.empty(shape)
    return torch.frombuffer(mmap.mmap(-1, 4 * count), dtype=torch.float32).view(shape)


# Below this the heap is faster, and its holes are small.
_PAGES_FROM = 1 << 20

# Scoring the columns, and what the interpreter allocates beside the arrays.
_PLANNING = 16 << 20


class PeakMemory:
    """Peak memory of a block of code.

    On Linux the kernel's own high-water mark is reset on entry, exact and free of cost; elsewhere the resident size is
    sampled. On a CUDA device the allocator's peak is read. Figures of different meters must not be compared.
    Blocks may be nested: the peak of an inner one counts for the outer ones too.

    Parameters
    ----------
    device : torch.device, optional
        A CUDA device to meter instead of the process.

    Attributes
    ----------
    meter : {"linux-hwm", "cuda", "sampler"}
    start : int
        Bytes in use on entry.
    peak : int
        Most bytes in use until exit.

    Examples
    --------
    >>> with PeakMemory() as memory:
    ...     block = bytearray(64 << 20)
    >>> memory.added > 60 << 20
    True
    """

    _STATUS = Path("/proc/self/status")
    _RESET = Path("/proc/self/clear_refs")
    _open: ClassVar[list[PeakMemory]] = []

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device
        if device is not None and device.type == "cuda":
            self.meter = "cuda"
        else:
            self.meter = "linux-hwm" if os.access(self._RESET, os.W_OK) else "sampler"
        self.start = self.peak = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def added(self) -> int:
        """Bytes above what was in use on entry."""
        return self.peak - self.start

    def __enter__(self) -> PeakMemory:
        self.peak = 0
        for outer in self._open:  # what they have seen so far is lost with the reset
            outer._note()
        self._open.append(self)
        if self.meter == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            self.start = torch.cuda.memory_allocated(self._device)
        elif self.meter == "linux-hwm":
            return_freed()
            self._RESET.write_text("5")  # 5 resets the high-water mark to the present resident size
            self.start = self._read("VmRSS")
        else:
            self.start = self.peak = self._resident()
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for meter in self._open:
            meter._note()
        self._open.remove(self)
        if self._thread is not None:
            self._stop.set()
            self._thread.join()

    def _note(self) -> None:
        if self.meter == "cuda":
            self.peak = max(self.peak, torch.cuda.max_memory_allocated(self._device))
        elif self.meter == "linux-hwm":
            self.peak = max(self.peak, self._read("VmHWM"))

    def _read(self, field: str) -> int:
        for line in self._STATUS.read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise OSError(f"{self._STATUS} has no {field}")

    def _sample(self) -> None:
        while not self._stop.is_set():
            self.peak = max(self.peak, self._resident())
            time.sleep(0.005)

    @staticmethod
    def _resident() -> int:
        import resource
        import sys

        # Without /proc there is no cheap reading of the present size; the process's maximum is the next best.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def return_freed() -> None:
    """Give freed heap back to the system: holes do not add up, and a block that reuses them is not measured as free."""
    with contextlib.suppress(OSError, AttributeError):  # a C library other than glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
