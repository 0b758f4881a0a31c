"""``scff pretrain``: train a small backbone on synthetic tables, by a recipe."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Pretrain a small backbone on synthetic tables; the embedded nano came from a chain of such runs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def pretrain(
    context: typer.Context,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    pool: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Folder of the pool (see `scff pretrain pool`).")
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Recipe as JSON; the default recipe when absent.")
    ] = None,
    init: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Begin from this checkpoint.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    processes: Annotated[int, typer.Option("--processes", "-j", min=1, help="Processes of one thread each.")] = 2,
    seed: Annotated[int | None, typer.Option(help="Seed; the recipe's own when absent.")] = None,
    steps: Annotated[int | None, typer.Option(help="Stop at this step.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this time.")] = None,
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
        if recipe is not None or init is not None or seed is not None:
            raise typer.BadParameter("a resumed run keeps its recipe, seed and first weights")
    else:
        config = RecipeConfig.read(recipe) if recipe is not None else RecipeConfig()
        if seed is not None:
            config = dataclasses.replace(config, seed=seed)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    finished = run(Job(out, config, pool, init, steps, minutes), processes)
    typer.echo(f"{out / 'nano.ckpt'} is ready" if finished else "stopped; continue with --resume")


@app.command("deliver")
def deliver_best(out: Annotated[Path, typer.Argument(help="Folder of the run.")]) -> None:
    """Write the best checkpoint of an unfinished run, with its card."""
    from scff.pretrain.run import deliver

    typer.echo(f"{deliver(out)} is ready")


@app.command("average")
def average_weights(
    out: Annotated[Path, typer.Argument(help="File to write.")],
    checkpoints: Annotated[
        list[Path], typer.Argument(exists=True, dir_okay=False, help="Checkpoints of one line of runs, oldest first.")
    ],
    half: Annotated[bool, typer.Option("--half", help="Store matrices in half precision.")] = False,
    components: Annotated[
        int | None, typer.Option(help="Principal components to read behind a leaf's columns; as trained when absent.")
    ] = None,
) -> None:
    """Write the mean of the weights of several checkpoints, with a card; one is written as it is."""
    from scff.pretrain.averaging import average

    typer.echo(f"{average(checkpoints, out, half=half, components=components)} is ready")


@app.command("pool")
def draw(
    out: Annotated[Path, typer.Argument(help="Folder of the pool.")],
    files: Annotated[int, typer.Option(min=1, help="Files.")] = 400,
    tables: Annotated[int, typer.Option(min=1, help="Tables in a file.")] = 16,
    rows: Annotated[int, typer.Option(min=1, help="Rows of a table.")] = 256,
    columns: Annotated[int, typer.Option(min=1, help="Most columns of a table.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Seed.")] = 0,
    part: Annotated[int, typer.Option(min=0, help="Draw this part only ...")] = 0,
    parts: Annotated[int, typer.Option(min=1, help="... of so many.")] = 1,
) -> None:
    """Draw the pool of causal tables; missing files only, so it can be interrupted."""
    from scff.pretrain.pool import PoolConfig, draw_pool

    draw_pool(PoolConfig(seed, files, tables, rows, columns), out, part, parts)
