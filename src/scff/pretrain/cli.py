"""``scff pretrain``: train a small backbone on synthetic tables, by a recipe."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Train a small backbone on synthetic tables, by a recipe.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def pretrain(
    context: typer.Context,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="A recipe of the package (nano, the default), or the path of one in JSON.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    processes: Annotated[int, typer.Option("--processes", "-j", min=1, help="Processes of one thread each.")] = 2,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed; the recipe's own when absent.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Stop at this step.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Stop after this time.")] = None,
) -> None:
    """Train in a folder; kill it whenever you like and continue with --resume."""
    if context.invoked_subcommand is not None:
        return
    from scff.pretrain.config import RecipeConfig
    from scff.pretrain.run import Job, run

    if out is None:
        raise typer.BadParameter("name the folder of the run", param_hint="--out")
    config: RecipeConfig | None = None
    if resume:
        if recipe is not None or seed is not None:
            raise typer.BadParameter("a resumed run keeps its recipe and seed")
    else:
        config = RecipeConfig.named(recipe or "nano")
        if seed is not None:
            config = dataclasses.replace(config, seed=seed)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    finished = run(Job(out, config, steps, minutes), processes)
    typer.echo(f"{out / 'nano.ckpt'} is ready" if finished else "stopped; continue with --resume")


@app.command("deliver")
def deliver_best(out: Annotated[Path, typer.Argument(help="Folder of the run.")]) -> None:
    """Write the best checkpoint of an unfinished run, with its card."""
    from scff.pretrain.run import deliver

    typer.echo(f"{deliver(out)} is ready")
