"""The two streams that commands write to."""

from __future__ import annotations

import sys

from rich.console import Console

__all__ = ["err", "out", "wants_bars"]

out = Console(highlight=False)
"""Results."""

err = Console(stderr=True, highlight=False)
"""Progress and complaints."""


def wants_bars(as_json: bool) -> int:
    """Whether somebody watches: 1 for progress bars, 0 for none."""
    return int(sys.stderr.isatty() and not as_json)
