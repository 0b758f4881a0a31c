"""Measure a peak."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import ClassVar

import torch

from scff.memory.pages import return_freed

__all__ = ["PeakMemory"]


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
