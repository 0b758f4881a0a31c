"""``scff predict``: predict the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scff.cli.console import out, wants_bars
from scff.cli.options import Engine, Json, TablePath
from scff.cli.output import plain, print_json

__all__ = ["predict"]


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File written by `scff fit`.")],
    table: TablePath,
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV, TSV or Parquet file to write.")],
    proba: Annotated[bool, typer.Option(help="Also write one probability column per class.")] = True,
    engine: Engine = "local",
    raw: Annotated[bool, typer.Option("--raw", help="Write labels that a spreadsheet would run as they are.")] = False,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table, or of a directory of Parquet files in the order of their names."""
    import pandas as pd

    from scff.models.file import load
    from scff.serving.score import local_copy, parts_of, score_table
    from scff.tables.files import write_table

    clf = local_copy(load(model), progress=bool(wants_bars(as_json)))
    parts = parts_of(table)
    if engine == "ray":
        from scff.serving.ray import score_parts

        scored = list(score_parts(clf, parts, proba))
    else:
        scored = [score_table(clf, part, proba) for part in parts]
    predicted = pd.concat(scored, ignore_index=True)
    write_table(predicted, output, raw=raw)
    if as_json:
        classes = getattr(clf, "classes_", ())
        return print_json({"output": str(output), "rows": len(predicted), "classes": [plain(c) for c in classes]})
    out.print(f"{len(predicted)} predictions written to {output}")
    return None
