"""How far a run is, and what came of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scff.serving.manifest import Manifest
from scff.serving.source import Part
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
    written : bool
        Whether there is an output: a file is written when none of its parts has failed, a folder holds those that have
        not.
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
    gone : tuple of str
        Parts in the output folder of tables that were scored before and are not among the parts any more.
    waiting : str or None
        Where finished parts wait for a file that is not written because others have failed.
    """

    output: str
    written: bool
    parts: int
    skipped: int
    rows: int
    failed: tuple[Failure, ...]
    seconds: float
    peak_bytes: int
    notes: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    waiting: str | None = None


class Run:
    """Notes what happens, and says how far we are.

    Parameters
    ----------
    parts : sequence of Part
        To be scored.
    on_progress : callable
    manifest : Manifest, optional
        Where finished parts are noted.
    notes : sequence of str
        What is to be said already.
    one_file : bool, default=False
        Whether all parts are for one file.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        on_progress: Callable[[Progress], object],
        manifest: Manifest | None = None,
        notes: Sequence[str] = (),
        *,
        one_file: bool = False,
    ) -> None:
        self._one_file = one_file
        self._manifest, self._on_progress = manifest, on_progress
        self._bytes, self._total = sum(part.size for part in parts), len(parts)
        self._started = time.monotonic()
        self._behind = 0.0
        self.rows = self.finished = self.peak_bytes = 0
        self.failed: list[Failure] = []
        self.notes: dict[str, None] = dict.fromkeys(notes)

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
            if self._manifest is not None:
                self._manifest.drop(event.part)
            logger.info("not scored: %s", event.failed)
        seconds = max(1e-9, time.monotonic() - self._started)
        left = seconds * (self._bytes - self._behind) / self._behind if self._behind > 0 else None
        self._on_progress(Progress(self.finished, self._total, self.rows, self.rows / seconds, left))

    def scored(
        self, output: str, skipped: int, seconds: float, gone: tuple[str, ...] = (), waiting: str | None = None
    ) -> Scored:
        """What came of it."""
        failed = tuple(sorted(self.failed, key=lambda failure: failure.part))
        return Scored(
            output=output,
            written=not (self._one_file and failed),
            parts=self._total + skipped,
            skipped=skipped,
            rows=self.rows,
            failed=failed,
            seconds=seconds,
            peak_bytes=self.peak_bytes,
            notes=tuple(self.notes),
            gone=gone,
            waiting=waiting,
        )
