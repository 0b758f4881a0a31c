"""``scff report``: one HTML page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scff.cli.console import out
from scff.errors import DataError

__all__ = ["report"]


def report(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File written by `scff fit`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")],
    test: Annotated[Path | None, typer.Option(help="Labelled table held back from fit: shows how good it is.")] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Label column of the test table.")] = None,
) -> None:
    """Write one HTML page that shows what a model used, decided and cost."""
    from scff.estimators.classifier import FoldedClassifier
    from scff.models.file import load
    from scff.report import write_report
    from scff.tables.files import read_table

    if (test is None) != (target is None):
        raise DataError("--test and --target go together: a labelled table and the name of its label column.")
    frame = None if test is None else read_table(test)
    fitted = load(model)
    if not isinstance(fitted, FoldedClassifier):
        raise DataError(f"{model} predicts numbers; a report is about a classifier.")
    write_report(fitted, output, test=frame, target=target)
    out.print(f"report written to {output}")
