"""Options that several commands share; choices are the library's own lists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scff.cli.console import show_log
from scff.errors import DataError
from scff.gate.record import TAIL_RULES
from scff.names import TRIALS, EngineName, MethodOrAuto, RankRouting, Trials

if TYPE_CHECKING:
    from scff.tables.reading import Request

__all__ = [
    "Backbone",
    "Categorical",
    "Drop",
    "Engine",
    "Fdr",
    "Group",
    "Id",
    "Json",
    "Keep",
    "KeepId",
    "Layer",
    "LeafWidth",
    "Method",
    "On",
    "OrientName",
    "Routing",
    "Samples",
    "TablePath",
    "Tables",
    "Tail",
    "Target",
    "TaskOption",
    "TrialsName",
    "Verbose",
    "request",
    "trials_named",
]


def _existing(path: Path | None) -> Path | None:
    """Refuse a path before anything heavy is imported to read it."""
    if path is not None and not path.exists():
        raise DataError(f"There is no file {path}; check the path.")
    return path


def _all_existing(tables: list[str]) -> list[str]:
    for table in tables:
        path = Path(table)
        if not path.exists() and "=" in table:
            path = Path(table.partition("=")[2])
        _existing(path)
    return tables


_FILES = "CSV, TSV, Parquet, h5ad, 10x folder, ... Several become blocks of one table; NAME=FILE names a block."

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
TablePath = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file.", callback=_existing)]
Tables = Annotated[list[str], typer.Argument(metavar="TABLE...", help=_FILES, callback=_all_existing)]
Target = Annotated[str, typer.Option("--target", "-t", help="Name of the label column.")]
LeafWidth = Annotated[int, typer.Option(help="Most columns in a leaf.")]
Fdr = Annotated[float, typer.Option(help="Level of the Benjamini-Hochberg count that sizes the Core.")]
Backbone = Annotated[str, typer.Option("--backbone", "-b", help="Name, path of a checkpoint, or auto.")]
Engine = Annotated[EngineName, typer.Option(help="ray scores the files of a directory on a cluster.")]
Method = Annotated[MethodOrAuto, typer.Option(help="auto is the best this library knows, scff the paper's method.")]
Routing = Annotated[RankRouting, typer.Option(help="random is the paper's control: a Core drawn at random.")]
Tail = Annotated[str, typer.Option(help=f"What lets the Tail in: {', '.join(['off', *TAIL_RULES])}.")]
TrialsName = Annotated[
    str, typer.Option(help=f"How much method auto may ask of held-back rows: {', '.join(map(str, TRIALS))}.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the log.", callback=show_log)]
TaskOption = Annotated[
    Literal["auto", "class", "number"], typer.Option("--task", help="Whether the target is of classes or of numbers.")
]

_READING = "Reading"
Samples = Annotated[
    Path | None,
    typer.Option(help="Sample sheet with labels; joined by row name.", callback=_existing, rich_help_panel=_READING),
]
On = Annotated[
    str | None, typer.Option(help="Its column with the samples' names; found by default.", rich_help_panel=_READING)
]
OrientName = Annotated[
    Literal["auto", "rows", "columns"],
    typer.Option("--orient", help="Where samples are; auto tells by their names.", rich_help_panel=_READING),
]
Id = Annotated[
    str | None, typer.Option("--id", help="Column with the row names; found by default.", rich_help_panel=_READING)
]
KeepId = Annotated[
    bool, typer.Option("--keep-id", help="What looks like row names is a feature.", rich_help_panel=_READING)
]
Keep = Annotated[
    list[str] | None, typer.Option("--keep", help="Column to carry along; repeatable.", rich_help_panel=_READING)
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", help="Column to leave out; repeatable.", rich_help_panel=_READING)
]
Group = Annotated[
    str | None, typer.Option("--group", help="Column of patients or batches; never parted.", rich_help_panel=_READING)
]
Categorical = Annotated[
    list[str] | None,
    typer.Option("--categorical", help="Column of numbers that are codes; repeatable.", rich_help_panel=_READING),
]
Layer = Annotated[str | None, typer.Option(help="Matrix of an .h5ad file, instead of X.", rich_help_panel=_READING)]


def request(tables: list[str], **options: Any) -> Request:
    """What to read, as a command was told; lists that were not given are empty."""
    from scff.tables.reading import Request

    lists = {"keep", "drop", "categorical"}
    return Request.of(
        tables, **{name: tuple(value or ()) if name in lists else value for name, value in options.items()}
    )


def trials_named(name: str) -> Trials:
    """What a name of ``--trials`` stands for; the estimator refuses what stands for nothing."""
    return {str(known): known for known in TRIALS}.get(name, name)  # type: ignore[arg-type]
