"""``scff plan``: what `scff fit` would fold how."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table as RichTable

from scff.cli.console import busy, out, when_interrupted
from scff.cli.options import Backbone, Fdr, Json, LeafWidth, TaskOption, Verbose
from scff.cli.output import block_lines, describe, plan_facts, print_json, print_notes, top_columns
from scff.cli.reading import Reading, with_reading
from scff.errors import DataError

if TYPE_CHECKING:
    from scff.tables.table import Table

__all__ = ["plan"]

Ranking = Annotated[
    Literal["auto", "anova", "linear", "random"],
    typer.Option("--routing", help="How columns are ranked; auto is anova for classes and linear for numbers."),
]


@with_reading
def plan(
    reading: Reading,
    backbone: Backbone = "auto",
    task: TaskOption = "auto",
    leaf_width: LeafWidth = 128,
    fdr: Fdr = 0.05,
    routing: Ranking = "auto",
    seed: Annotated[int, typer.Option(help="Seed of random routing.")] = 0,
    top: Annotated[int, typer.Option(help="How many of the strongest columns to show.")] = 10,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write the whole plan as JSON.")] = None,
    as_json: Json = False,
    log: Verbose = False,
) -> None:
    """Show what `scff fit` would fold how; loads no weights."""
    from scff.plan.compile import compile_plan
    from scff.tables.atomic import file_to_write, write_atomically
    from scff.tables.reading import read_dataset
    from scff.tables.targets import class_labels, number_target
    from scff.tables.task import find_task

    if output is not None:
        file_to_write(output, reading.read)
        when_interrupted(f"{output} is not written")
    with busy("reading", as_json):
        data = read_dataset(reading.request)
    found = find_task(data.y, task)
    y: Any
    if found.name == "number":
        if routing in ("anova", "random"):
            raise DataError(
                f"--routing {routing} compares classes and the target is of numbers ({found.reason}); leave it out, or "
                "say --task class."
            )
        y, ranking = number_target(data.y, data.table.n_rows), "linear"
    else:
        if routing == "linear":
            raise DataError("--routing linear is for a target of numbers; leave it out, or say --task number.")
        (y, classes), ranking = class_labels(data.y, data.table.n_rows), "anova" if routing == "auto" else routing
    n_classes = 0 if found.name == "number" else len(classes)
    with busy("ranking columns", as_json):
        name, width, columns = _read_by(backbone, found.name, n_classes, data.table)
        compiled = compile_plan(
            data.table,
            y,
            leaf_width=min(leaf_width, width or leaf_width),
            fdr=fdr,
            routing=ranking,  # type: ignore[arg-type]
            columns=columns,
            random_state=seed,
        )
    if output is not None:
        write_atomically(output, lambda path: path.write_text(compiled.to_json()))
    if as_json:
        facts = {"backbone": name, "task": found.name, "notes": data.notes, **plan_facts(compiled)}
        return print_json(facts | {"top": top_columns(compiled, top, data.table.blocks)})
    out.print(f"{reading.files}: {data.table.n_rows:,} rows, {data.table.n_columns:,} columns", soft_wrap=True)
    print_notes(data.notes)
    out.print(f"backbone  {name}")
    out.print(f"plan      {describe(compiled)}", soft_wrap=True)
    for line in block_lines(compiled, data.table.blocks):
        out.print(line, soft_wrap=True)
    grid = RichTable("column", "F", "q", "leaf", box=None, pad_edge=False)
    for row in top_columns(compiled, top):
        grid.add_row(row["column"], f"{row['f']:.4g}", f"{row['q']:.2g}", row["leaf"])
    out.print(grid)
    return None


def _read_by(backbone: str, task: str, n_classes: int, table: Table) -> tuple[str, int | None, Any]:
    """Name of the backbone that `scff fit` would take first, its widest leaf, and the columns it keeps."""
    from scff.backbones.registry import choose_auto, specification  # torch, once table and target are known to be good
    from scff.backbones.shared.categories import OrdinalCodes
    from scff.backbones.shared.varying import varying

    kind: Literal["classification", "regression"] = "regression" if task == "number" else "classification"
    spec = specification(choose_auto(kind, n_classes) if backbone == "auto" else backbone, kind)
    return spec.name, spec.limits.leaf_width, varying(OrdinalCodes.fit(table).transform(table))
