"""The two streams that commands write to. Whatever a file calls its columns stays text there."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

__all__ = [
    "any_text",
    "busy",
    "err",
    "if_interrupted",
    "import_torch",
    "others_to_stderr",
    "out",
    "show_log",
    "visible",
    "wants_bars",
    "when_interrupted",
]

# Everything but tab and newline that moves a cursor, changes a colour or a title, or turns the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Text with its control characters spelt out, so that a terminal shows them instead of obeying them.

    Examples
    --------
    >>> visible("gene\x1b[2J")
    'gene\\x1b[2J'
    """
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


_SECONDS = 0.5  # between two looks at the clock


class _Stream(Console):
    """A console that takes no text for markup and none for a command to the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Every piece of text that is printed, cells of tables too, comes by here."""
        return super().render_str(visible(text), **options)

    def on_broken_pipe(self) -> None:
        """Whoever read our output has had enough, which is no failure: `main` knows what to do."""
        raise BrokenPipeError


out = _Stream()
"""Results."""

err = _Stream(stderr=True)
"""Progress and complaints."""


def any_text() -> None:
    """Let names that the terminal's encoding lacks be spelt out, instead of ending a command that has done its work."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def wants_bars(as_json: bool) -> int:
    """Whether somebody watches: 1 for progress bars, 0 for none."""
    return int(sys.stderr.isatty() and not as_json)


@contextlib.contextmanager
def busy(text: str, as_json: bool = False) -> Iterator[None]:
    """Show that something is going on and for how long, to somebody who watches; gone when it is done.

    The line leaves room for the bars of the library below it, which know how much there is to do.
    """
    if not wants_bars(as_json):
        yield
        return
    from tqdm import tqdm

    done = threading.Event()
    with tqdm(desc=visible(text), bar_format="{desc}, {elapsed}", leave=False) as line:
        # The clock goes on while the work is inside one call.
        clock = threading.Thread(target=lambda: _tick(line.refresh, done), daemon=True)
        clock.start()
        try:
            yield
        finally:
            done.set()
            clock.join()


def _tick(show: Callable[[], object], done: threading.Event) -> None:
    while not done.wait(_SECONDS):
        show()


@contextlib.contextmanager
def others_to_stderr(wanted: bool = True) -> Iterator[None]:
    """Leave standard output to `out`; for libraries that write to it themselves.

    Ray tells of dead workers there, its core on the descriptor itself, from threads of its own and until the very end:
    so descriptor and ``sys.stdout`` stay with standard error, and only what `out` prints goes to where they led before.
    """
    theirs = sys.stdout
    try:
        kept = os.dup(1) if wanted and theirs.fileno() == 1 else None
    except (OSError, ValueError):  # closed, or no file at all
        kept = None
    if kept is None:
        yield
        return
    theirs.flush()
    os.dup2(2, 1)
    # A line at a time: nobody closes it.
    out.file = os.fdopen(kept, "w", buffering=1, encoding=theirs.encoding, errors=theirs.errors)
    yield


_promised = [""]


def when_interrupted(sentence: str) -> None:
    """What to say of this command's files if it is interrupted from here on."""
    _promised[0] = sentence


def if_interrupted() -> str:
    """What was promised last; empty where a command writes nothing."""
    return _promised[0]


def import_torch() -> None:
    """Import torch as one: an interruption in the middle of it aborts the process, so it is heard right behind it."""
    if threading.current_thread() is not threading.main_thread():  # interruptions are heard in the main thread alone
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        import torch  # noqa: F401
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


def show_log(wanted: bool) -> bool:
    """Send the library's log to standard error; for ``-v``."""
    if wanted:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
        logger = logging.getLogger("scff")
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    return wanted
