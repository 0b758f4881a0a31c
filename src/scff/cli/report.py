"""``scff report``: one HTML page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scff.cli.console import busy, import_torch, out, wants_bars, when_interrupted
from scff.cli.options import Model, On, OrientName, Samples
from scff.cli.output import print_notes
from scff.errors import DataError

__all__ = ["report"]


def report(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")],
    test: Annotated[
        list[str] | None, typer.Option(help="Labelled table held back from fit: shows how good it is.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Label column of the test table.")] = None,
    samples: Samples = None,
    on: On = None,
    orient: OrientName = "auto",
) -> None:
    """Write one HTML page that shows what a model used, decided and cost."""
    import_torch()
    from scff.models.file import load
    from scff.report import write_report
    from scff.tables.atomic import file_to_write
    from scff.tables.reading import Request, read

    if (not test) != (target is None):
        raise DataError("--test and --target go together: a labelled table and the name of its label column.")
    if not test and samples is not None:
        raise DataError("--samples belongs to a test table; name it with --test.")
    tested = [path for _, path in Request.of(test or ()).tables]
    file_to_write(output, [model, *tested, *([] if samples is None else [samples])])
    when_interrupted(f"{output} is not written, and what was there is as it was")
    with busy("loading the model"):
        fitted = load(model)
    X = y = None
    if test:
        like = fitted.fitted_.support
        data = read(test, like=like, target=target, samples=samples, on=on, orient=orient)
        X, y = data.table, data.y
        print_notes(data.notes)
    with busy("making the report"):
        write_report(fitted, output, test=X, target=y, verbose=wants_bars(False))
    when_interrupted(f"{output} is written")
    out.print(f"report written to {output}", soft_wrap=True)
