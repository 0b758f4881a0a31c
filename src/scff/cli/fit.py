"""``scff fit``: compile a labelled table into a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scff.cli.console import out, wants_bars
from scff.cli.options import (
    Backbone,
    Fdr,
    Json,
    LeafWidth,
    Method,
    Routing,
    TablePath,
    Tail,
    Target,
    TrialsName,
    trials_named,
)
from scff.cli.output import describe, fit_facts, print_json, read_lines

__all__ = ["fit"]


def fit(
    table: TablePath,
    target: Target,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    backbone: Backbone = "auto",
    method: Method = "auto",
    leaf_width: LeafWidth = 128,
    fdr: Fdr = 0.05,
    routing: Routing = "anova",
    tail: Tail = "paper",
    trials: TrialsName = "auto",
    memory_limit: Annotated[str | None, typer.Option(help="Budget for added memory, such as 2GiB.")] = None,
    n_estimators: Annotated[int, typer.Option(help="The backbone's own ensemble views to fold and average.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of ensemble views and random routing.")] = 0,
    as_json: Json = False,
) -> None:
    """Compile a labelled table into a model file (no weights inside)."""
    from scff.tables.files import read_labelled

    X, y = read_labelled(table, target)
    from scff.estimators.classifier import FoldedClassifier  # torch, once the table is known to be one

    clf = FoldedClassifier(
        backbone=backbone,
        method=method,
        leaf_width=leaf_width,
        fdr=fdr,
        routing=routing,
        tail=tail,
        trials=trials_named(trials),
        memory_limit=memory_limit,
        n_estimators=n_estimators,
        device=device,
        random_state=seed,
        verbose=wants_bars(as_json),
    )
    clf.fit(X, y)
    clf.save(output)
    if as_json:
        return print_json({"model": str(output)} | fit_facts(clf))
    out.print(f"{table.name}: {X.shape[0]} rows, {X.shape[1]} columns, {len(clf.classes_)} classes")
    out.print(f"backbone  {clf.backbone_}")
    if clf.plan_ is not None:
        out.print(f"plan      {describe(clf.plan_)}", soft_wrap=True)
    for line in read_lines(clf):
        out.print(line, soft_wrap=True)
    out.print(f"written   {output} in {sum(clf.seconds_.values()):.1f} s")
    return None
