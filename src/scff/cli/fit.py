"""``scff fit``: compile a labelled table into a model file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scff.cli.console import busy, out, wants_bars, when_interrupted
from scff.cli.estimator import estimator_for
from scff.cli.options import Backbone, Fdr, Json, LeafWidth, Method, Routing, Tail, TaskOption, TrialsName, Verbose
from scff.cli.output import (
    block_lines,
    describe,
    fit_facts,
    print_json,
    print_notes,
    read_lines,
    target_in_short,
)
from scff.cli.reading import Reading, with_reading

if TYPE_CHECKING:
    from scff.estimators.classifier import FoldedClassifier
    from scff.estimators.regressor import FoldedRegressor
    from scff.tables.task import Task

__all__ = ["fit"]


@with_reading
def fit(
    reading: Reading,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    backbone: Backbone = "auto",
    method: Method = "auto",
    task: TaskOption = "auto",
    leaf_width: LeafWidth = 128,
    fdr: Fdr = 0.05,
    routing: Routing = "anova",
    tail: Tail = "paper",
    trials: TrialsName = "auto",
    memory_limit: Annotated[str | None, typer.Option(help="Budget for added memory, such as 2GiB.")] = None,
    n_estimators: Annotated[
        str,
        typer.Option(help="The backbone's own ensemble views to average: 1, 2, ... or auto.", rich_help_panel="Method"),
    ] = "1",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of ensemble views and random routing.")] = 0,
    caches: Annotated[bool, typer.Option(help="Write caches too: a larger file that predicts at once.")] = False,
    as_json: Json = False,
    log: Verbose = False,
) -> None:
    """Compile a labelled table into a model file (no weights inside)."""
    from scff.tables.atomic import file_to_write
    from scff.tables.reading import read_dataset
    from scff.tables.task import find_task

    file_to_write(output, reading.read)
    when_interrupted(f"{output} is not written, and what was there is as it was")
    with busy("reading", as_json):
        data = read_dataset(reading.request)
    found = find_task(data.y, task)
    model = estimator_for(
        found,
        method=method,
        of_classes={"routing": routing, "tail": tail},
        trials=trials,
        backbone=backbone,
        leaf_width=leaf_width,
        fdr=fdr,
        memory_limit=memory_limit,
        n_estimators=int(n_estimators) if n_estimators.isdecimal() else n_estimators,
        device=device,
        random_state=seed,
        verbose=wants_bars(as_json),
    )
    with busy("fitting", as_json):
        model.fit(data.table, data.y, data.groups)
    model.save(output, caches=caches)
    when_interrupted(f"{output} is written")
    if as_json:
        return print_json({"model": str(output), "task": found.name, "notes": data.notes} | fit_facts(model))
    _show(model, found, reading.files, data.notes)
    for i, flag in enumerate(model.fitted_.flags):
        out.print(f"{'look' if i == 0 else '':<10}{flag.sentence}", soft_wrap=True)
    out.print(f"written   {output} in {sum(model.seconds_.values()):.1f} s", soft_wrap=True)
    return None


def _show(model: FoldedClassifier | FoldedRegressor, task: Task, name: str, notes: Sequence[str]) -> None:
    fitted = model.fitted_
    rows, columns = fitted.support.shape
    out.print(f"{name}: {rows:,} rows, {columns:,} columns, {target_in_short(fitted)}", soft_wrap=True)
    print_notes(notes)
    if task.doubt:
        other = "number" if task.name == "class" else "class"
        out.print(f"task      {task.name}: {task.reason}; --task {other} takes them the other way", soft_wrap=True)
    out.print(f"backbone  {model.backbone_}")
    if model.plan_ is not None:
        out.print(f"plan      {describe(model.plan_)}", soft_wrap=True)
        for line in block_lines(model.plan_, fitted.support.blocks):
            out.print(line, soft_wrap=True)
    for line in read_lines(model):
        out.print(line, soft_wrap=True)
