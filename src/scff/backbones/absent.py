"""Models that people ask for and that are not here, each with the reason."""

from __future__ import annotations

__all__ = ["ABSENT"]

ABSENT: dict[str, str] = {
    "exaone-tabular": (
        "all of its twelve layers keep a state for every row and feature group and read the answer off the label's own "
        "group at the end, so there is no row representation before a context encoder where leaves could be merged; "
        "its code is in ``tabtune`` 0.2.1 (``tabtune/models/exaone``), its weights are for research only, on a hub "
        "that needs an account, so folding it by tokens was not tried"
    ),
}
"""Name to reason."""
