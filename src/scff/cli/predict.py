"""``scff predict``: predict the rows of a table, however large, and go on where an earlier run ended."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from scff.cli.console import err, out, wants_bars
from scff.cli.options import Engine, Id, Json, Keep, Layer, Model, On, OrientName, Samples, Scored
from scff.cli.output import print_json, print_notes
from scff.errors import DataError

if TYPE_CHECKING:
    from scff.serving import Progress
    from scff.serving import Scored as Outcome

__all__ = ["predict"]

# Of parts that could not be scored, as many are named; the count says the rest.
_NAMED = 10


def predict(
    model: Model,
    tables: Scored,
    output: Annotated[
        str, typer.Option("--output", "-o", help="CSV, TSV or Parquet file to write, or a folder: a part for a part.")
    ],
    proba: Annotated[bool, typer.Option(help="Also write one probability column per class.")] = True,
    workers: Annotated[int | None, typer.Option(help="Processes; as many as cores by default.")] = None,
    memory_limit: Annotated[str | None, typer.Option(help="Budget for added memory, such as 2GiB.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, ...; that of the fit by default.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin anew in a folder that has scores.")] = False,
    engine: Engine = "local",
    raw: Annotated[bool, typer.Option("--raw", help="Write labels that a spreadsheet would run as they are.")] = False,
    as_json: Json = False,
    keep: Keep = None,
    row_id: Id = None,
    samples: Samples = None,
    on: On = None,
    orient: OrientName = "auto",
    layer: Layer = None,
) -> None:
    """Predict the rows of a table, or of every Parquet file of a folder; killed and run again, it goes on."""
    from scff.serving import score

    watched = wants_bars(as_json)
    status = err.status("loading the model, and compiling what it reads") if watched else None
    if status is not None:
        status.start()
    try:
        scored = score(
            model,
            tables if len(tables) > 1 else tables[0],
            output,
            proba=proba,
            keep=keep or (),
            id=row_id,
            reading={"samples": samples, "on": on, "orient": None if orient == "auto" else orient, "layer": layer},
            workers=workers,
            memory_limit=memory_limit,
            device=device,
            engine=engine,
            overwrite=overwrite,
            raw=raw,
            on_progress=lambda progress: None if status is None else status.update(_line(progress)),
        )
    finally:
        if status is not None:
            status.stop()
    if scored.parts == 1 and scored.failed:
        raise DataError(scored.failed[0].reason)
    if as_json:
        print_json(asdict(scored))
    else:
        _say(scored)
    if scored.failed:
        raise typer.Exit(1)


def _line(progress: Progress) -> str:
    left = progress.seconds_left
    to_go = "" if left is None else f", {int(left // 60)}:{int(left % 60):02d} to go"
    parts = "" if progress.total == 1 else f"{progress.parts} of {progress.total} parts, "
    return f"{parts}{progress.rows:,} rows, {progress.rows_per_second:,.0f} a second{to_go}"


def _say(scored: Outcome) -> None:
    parts = "" if scored.parts == 1 else f" in {scored.parts - scored.skipped - len(scored.failed)} parts"
    out.print(
        f"{scored.rows:,} {'prediction' if scored.rows == 1 else 'predictions'} written to {scored.output}{parts}",
        soft_wrap=True,
    )
    print_notes(scored.notes)
    if scored.skipped:
        out.print(f"{scored.skipped} {'part was' if scored.skipped == 1 else 'parts were'} there already")
    for failure in scored.failed[:_NAMED]:
        err.print(f"scff: not scored: {failure.reason}", soft_wrap=True)
    if len(scored.failed) > _NAMED:
        err.print(f"scff: and {len(scored.failed) - _NAMED} more parts")
