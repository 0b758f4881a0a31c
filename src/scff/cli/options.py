"""Options that several commands share; choices are the library's own lists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scff.errors import DataError
from scff.gate.record import TAIL_RULES
from scff.names import TRIALS, EngineName, MethodOrAuto, RankRouting, Trials

__all__ = [
    "Backbone",
    "Engine",
    "Fdr",
    "Json",
    "LeafWidth",
    "Method",
    "Routing",
    "TablePath",
    "Tail",
    "Target",
    "TrialsName",
    "trials_named",
]


def _existing(path: Path) -> Path:
    """Refuse a path before anything heavy is imported to read it."""
    if not path.exists():
        raise DataError(f"There is no file {path}; check the path.")
    return path


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
TablePath = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file.", callback=_existing)]
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


def trials_named(name: str) -> Trials:
    """What a name of ``--trials`` stands for; the estimator refuses what stands for nothing."""
    return {str(known): known for known in TRIALS}.get(name, name)  # type: ignore[arg-type]
