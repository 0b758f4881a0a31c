"""What was done and why, for eyes: column evidence, figures, and one HTML page."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scff.report.columns import column_evidence
    from scff.report.page import Report, make_report, write_report

__all__ = ["Report", "column_evidence", "make_report", "write_report"]

_HOME = {"Report": "page", "column_evidence": "columns", "make_report": "page", "write_report": "page"}


def __getattr__(name: str) -> Any:
    # Lazily: a plan can be drawn where torch is not wanted.
    if name not in _HOME:
        raise AttributeError(f"module 'scff.report' has no attribute {name!r}")
    return getattr(import_module(f"scff.report.{_HOME[name]}"), name)
