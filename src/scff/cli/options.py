"""Options that several commands share; choices are the library's own lists."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from scff.cli.console import show_log
from scff.errors import DataError, ModelFileError
from scff.names import TAILS, TRIALS, EngineName, MethodOrAuto, RankRouting

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
    "Model",
    "On",
    "OrientName",
    "Routing",
    "Samples",
    "Scored",
    "Tables",
    "Tail",
    "Target",
    "TaskOption",
    "TrialsName",
    "Verbose",
]


# Callbacks of the parser: what is not there is refused before anything heavy is imported to read it.


def _existing(path: Path | None) -> Path | None:
    if path is not None and not os.path.exists(path):  # which answers for names that no file system takes
        raise DataError(f"There is no file {path}; check the path.")
    return path


def _existing_tables(tables: list[str]) -> list[str]:
    for table in tables:
        if _ELSEWHERE not in table:
            _, equals, path = table.partition("=")
            _existing(Path(path if equals and not os.path.exists(table) else table))
    return tables


def _existing_model(model: str) -> str:
    if _ELSEWHERE not in model and not os.path.exists(model):
        raise ModelFileError(f"There is no model {model}; make one with `scff fit`.")
    return model


_ELSEWHERE = "://"  # a URL; whoever opens it knows whether something is there
_FILES = "CSV, TSV, Parquet, h5ad, 10x folder, ... Several become blocks of one table; NAME=FILE names a block."

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Tables = Annotated[list[str], typer.Argument(metavar="TABLE", help=_FILES, callback=_existing_tables)]
Scored = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE",
        help="A table of any known format, a folder of Parquet files, or the URL of either. Several are scored one "
        "after the other, or side by side where the model was fitted so.",
        callback=_existing_tables,
    ),
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="File written by `scff fit`.", callback=_existing_model)]
Target = Annotated[str, typer.Option("--target", "-t", help="Name of the label column.")]
_METHOD = "Method"
LeafWidth = Annotated[int, typer.Option(help="Most columns in a leaf.", rich_help_panel=_METHOD)]
Fdr = Annotated[
    float,
    typer.Option(help="Level of the Benjamini-Hochberg count that sizes the Core.", rich_help_panel=_METHOD),
]
Backbone = Annotated[str, typer.Option("--backbone", "-b", help="Name, path of a checkpoint, or auto.")]
Engine = Annotated[EngineName, typer.Option(help="ray scores the files of a directory on a cluster.")]
Method = Annotated[
    MethodOrAuto,
    typer.Option(help="auto is the best this library knows, scff the paper's method.", rich_help_panel=_METHOD),
]
Routing = Annotated[
    RankRouting,
    typer.Option(help="random is the paper's control: a Core drawn at random.", rich_help_panel=_METHOD),
]
Tail = Annotated[str, typer.Option(help=f"What lets the Tail in: {', '.join(TAILS)}.", rich_help_panel=_METHOD)]
TrialsName = Annotated[
    str,
    typer.Option(
        help=f"How much method auto may ask of held-back rows: {', '.join(map(str, TRIALS))}.", rich_help_panel=_METHOD
    ),
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
