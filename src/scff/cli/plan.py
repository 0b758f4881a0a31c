"""``scff plan``: what would be folded how."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as RichTable

from scff.cli.console import out
from scff.cli.options import Fdr, Json, LeafWidth, Routing, TablePath, Target
from scff.cli.output import describe, plan_facts, print_json, top_columns

__all__ = ["plan"]


def plan(
    table: TablePath,
    target: Target,
    leaf_width: LeafWidth = 128,
    fdr: Fdr = 0.05,
    routing: Routing = "anova",
    top: Annotated[int, typer.Option(help="How many of the strongest columns to show.")] = 10,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write the whole plan as JSON.")] = None,
    as_json: Json = False,
) -> None:
    """Show what would be folded how; needs no model."""
    from scff.plan.compile import compile_plan
    from scff.tables.atomic import write_atomically
    from scff.tables.files import read_labelled

    X, y = read_labelled(table, target)
    compiled = compile_plan(X, y, leaf_width=leaf_width, fdr=fdr, routing=routing)
    if output is not None:
        write_atomically(output, lambda path: path.write_text(compiled.to_json()))
    if as_json:
        return print_json(plan_facts(compiled) | {"top": top_columns(compiled, top)})
    out.print(f"{table.name}: {X.shape[0]} rows, {X.shape[1]} columns")
    out.print(describe(compiled))
    grid = RichTable("column", "F", "q", "leaf", box=None, pad_edge=False)
    for row in top_columns(compiled, top):
        grid.add_row(row["column"], f"{row['f']:.4g}", f"{row['q']:.2g}", row["leaf"])
    out.print(grid)
    return None
