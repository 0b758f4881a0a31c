"""How far long work is: one line for whoever watches, with the time to go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from tqdm.auto import tqdm

__all__ = ["Steps"]

T = TypeVar("T")

_LINE = "{desc} {percentage:3.0f} %|{bar}| {elapsed}, {remaining} to go"
_PATIENCE = 1.0  # seconds: whatever is done sooner needs no bar


class Steps:
    """Work done piece by piece.

    Pieces have sizes, in any unit: the share of all that is behind us tells the time to go. The line is gone when the
    work is done.

    Parameters
    ----------
    label : str
    expected : float
        Size of all pieces, as far as it is known.
    shown : bool
        Whether anybody watches.

    Examples
    --------
    >>> with Steps("leaves", 4, shown=False) as steps:
    ...     steps.done()
    ...     for leaf in steps.over(["Core 1", "Core 2"]):
    ...         pass
    >>> steps.share
    0.75
    """

    def __init__(self, label: str, expected: float = 0.0, *, shown: bool) -> None:
        self._expected, self._behind, self.share = expected, 0.0, 0.0
        self._bar = tqdm(
            desc=label, total=1.0, disable=not shown, leave=False, delay=_PATIENCE, smoothing=0, bar_format=_LINE
        )

    def expect(self, more: float) -> None:
        """There is so much more to do; less where it is negative."""
        self._expected += more

    def done(self, size: float = 1.0) -> None:
        """A piece is done."""
        self._behind += size
        # What turns out to be longer than it looked stands still for a while: a bar does not go back.
        share = max(self.share, min(1.0, self._behind / max(self._expected, self._behind, 1e-300)))
        self._bar.update(share - self.share)
        self.share = share

    def rename(self, label: str) -> None:
        """What is being done now."""
        self._bar.set_description_str(label, refresh=False)

    def over(self, pieces: Iterable[T], size: float = 1.0) -> Iterator[T]:
        """Pieces of one size, each done when the next is asked for."""
        for piece in pieces:
            yield piece
            self.done(size)

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
