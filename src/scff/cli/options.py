"""Options that several commands share, and the choices behind them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Backbone",
    "Engine",
    "Fdr",
    "Json",
    "LeafWidth",
    "Method",
    "Routing",
    "RoutingOption",
    "TablePath",
    "Target",
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
TablePath = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file.")]
Target = Annotated[str, typer.Option("--target", "-t", help="Name of the label column.")]
LeafWidth = Annotated[int, typer.Option(help="Most columns in a leaf.")]
Fdr = Annotated[float, typer.Option(help="Level of the Benjamini-Hochberg count that sizes the Core.")]
Backbone = Annotated[str, typer.Option("--backbone", "-b", help="Name, path of a checkpoint, or auto.")]


class Method(StrEnum):
    """The methods of the paper."""

    scff = "scff"
    native = "native"
    raw_core = "raw-core"
    bounded_core = "bounded-core"
    mass_huber = "mass-huber"


class Routing(StrEnum):
    """How the Core is chosen."""

    auto = "auto"
    anova = "anova"
    linked = "linked"
    random = "random"


RoutingOption = Annotated[
    Routing,
    typer.Option(
        "--routing", help="linked fills a small Core with columns that correlate with it; auto asks the model whether."
    ),
]


class PlanRouting(StrEnum):
    """How the Core is chosen where no model can be asked."""

    anova = "anova"
    linked = "linked"
    random = "random"


PlanRoutingOption = Annotated[
    PlanRouting, typer.Option("--routing", help="linked fills a small Core with columns that correlate with it.")
]


class Engine(StrEnum):
    """Where the work is done."""

    local = "local"
    ray = "ray"
