"""``scff predict``: predict the rows of a table, however large, and go on where an earlier run ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from scff.cli.console import err, import_torch, others_to_stderr, out, wants_bars
from scff.cli.options import Engine, Id, Json, Keep, Layer, Model, On, OrientName, Samples, Scored
from scff.cli.output import print_json, print_notes
from scff.errors import DataError

if TYPE_CHECKING:
    from scff.serving import Progress
    from scff.serving import Scored as Outcome

__all__ = ["predict"]

# Of parts that could not be scored, as many are named; the count says the rest.
_NAMED = 10
_SECONDS = 60.0  # from one line of progress to the next


def predict(
    model: Model,
    tables: Scored,
    output: Annotated[
        str, typer.Option("--output", "-o", help="CSV, TSV or Parquet file to write, or a folder: a part for a part.")
    ],
    proba: Annotated[bool, typer.Option(help="Also write one probability column per class.")] = True,
    workers: Annotated[int | None, typer.Option(help="Processes; by default as many as cores, one for little.")] = None,
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
    import_torch()
    from scff.serving import score

    watched = wants_bars(as_json)
    status = err.status("loading the model, and compiling what it reads") if watched else None
    show: Callable[[Progress], object] = _Lines(shown=not as_json)
    if status is not None:
        status.start()
        show = lambda progress: status.update(_line(progress))  # noqa: E731
    try:
        with others_to_stderr(engine == "ray"):
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
                on_progress=show,
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


class _Lines:
    """Progress for whoever reads a log instead of watching a terminal: a line a minute."""

    def __init__(self, shown: bool) -> None:
        self._shown, self._last = shown, time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if self._shown and time.monotonic() - self._last >= _SECONDS:
            err.print(f"scff: {_line(progress)}", soft_wrap=True)
            self._last = time.monotonic()


def _say(scored: Outcome) -> None:
    done = scored.parts - scored.skipped - len(scored.failed)
    if scored.written and done:
        parts = "" if scored.parts == 1 else f" in {_count(done, 'part')}"
        out.print(f"{_count(scored.rows, 'prediction')} written to {scored.output}{parts}", soft_wrap=True)
    elif scored.written:
        state = "has nothing new" if scored.failed else "is up to date"
        out.print(f"{scored.output} {state}", soft_wrap=True)
    print_notes(scored.notes, _NAMED)
    if scored.skipped:
        out.print(f"{scored.skipped} {'part was' if scored.skipped == 1 else 'parts were'} there already")
    _name([f"not scored: {failure.reason}" for failure in scored.failed], "parts")
    _name([f"{part} is of a table that is gone; remove it, or pass --overwrite" for part in scored.gone], "parts")
    if not scored.written:
        err.print(f"scff: {_not_written(scored)}", soft_wrap=True)


def _not_written(scored: Outcome) -> str:
    from scff.serving.places import place_of

    old = " (what is there is of an earlier run)" if place_of(scored.output).exists() else ""
    ready = scored.parts - len(scored.failed)
    wait = "" if scored.waiting is None else f"; {_count(ready, 'part')} wait{'s' * (ready == 1)} in {scored.waiting}"
    return f"{scored.output} is not written{old}{wait}; mend what was not scored and run again"


def _name(lines: Sequence[str], what: str) -> None:
    """The first lines on standard error, and how many more there are."""
    for line in lines[:_NAMED]:
        err.print(f"scff: {line}", soft_wrap=True)
    if len(lines) > _NAMED:
        err.print(f"scff: and {len(lines) - _NAMED} more {what}")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
