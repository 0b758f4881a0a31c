"""How far a run is, and what came of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scff.serving.manifest import Manifest
from scff.serving.places import Part
from scff.serving.workers import Event

__all__ = ["Failure", "Progress", "Run", "Scored"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """A part that was not scored.

    Attributes
    ----------
    part : str
    reason : str
        One sentence.
    """

    part: str
    reason: str


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    parts, total : int
        Parts behind us, and all of them.
    rows : int
        Predicted in this run.
    rows_per_second : float
    seconds_left : float or None
        None before anything can be said.
    """

    parts: int
    total: int
    rows: int
    rows_per_second: float
    seconds_left: float | None


@dataclass(frozen=True)
class Scored:
    """What came of a run.

    Attributes
    ----------
    output : str
    parts : int
        Parts of the table.
    skipped : int
        Parts that an earlier run had finished.
    rows : int
        Rows predicted in this run.
    failed : tuple of Failure
        Parts that were not scored; the others were.
    seconds : float
    peak_bytes : int
        Most memory that predicting added in any one process.
    notes : tuple of str
        What reading did that nobody asked for in so many words.
    """

    output: str
    parts: int
    skipped: int
    rows: int
    failed: tuple[Failure, ...]
    seconds: float
    peak_bytes: int
    notes: tuple[str, ...] = ()


class Run:
    """Notes what happens, and says how far we are.

    Parameters
    ----------
    parts : sequence of Part
        To be scored.
    on_progress : callable
    manifest : Manifest, optional
        Where finished parts are noted.
    """

    def __init__(
        self, parts: Sequence[Part], on_progress: Callable[[Progress], object], manifest: Manifest | None = None
    ) -> None:
        self._manifest, self._on_progress = manifest, on_progress
        self._bytes, self._total = sum(part.size for part in parts), len(parts)
        self._started = time.monotonic()
        self._behind = 0.0
        self.rows = self.finished = self.peak_bytes = 0
        self.failed: list[Failure] = []
        self.notes: dict[str, None] = {}

    def __call__(self, event: Event) -> None:
        """Note an event."""
        self.rows += event.rows
        self._behind += event.share * event.part.size
        self.peak_bytes = max(self.peak_bytes, event.peak_bytes)
        if event.record is not None:
            self.finished += 1
            self.notes |= dict.fromkeys(event.record.notes)
            if self._manifest is not None:
                self._manifest.add(event.record)
        if event.failed is not None:
            self.finished += 1
            self.failed.append(Failure(event.part.name, event.failed))
            logger.info("not scored: %s", event.failed)
        seconds = max(1e-9, time.monotonic() - self._started)
        left = seconds * (self._bytes - self._behind) / self._behind if self._behind > 0 else None
        self._on_progress(Progress(self.finished, self._total, self.rows, self.rows / seconds, left))

    def scored(self, output: str, skipped: int, seconds: float) -> Scored:
        """What came of it."""
        failed = tuple(sorted(self.failed, key=lambda failure: failure.part))
        total = self._total + skipped
        return Scored(output, total, skipped, self.rows, failed, seconds, self.peak_bytes, tuple(self.notes))
