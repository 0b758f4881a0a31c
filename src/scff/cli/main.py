"""The command line: parse, call, print."""

from __future__ import annotations

import logging
import sys
import warnings
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table as RichTable

from scff import __version__
from scff.cli.options import (
    Backbone,
    Engine,
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
from scff.cli.output import describe, fit_facts, plain, plan_facts, print_json, read_lines, top_columns
from scff.errors import DataError, SCFFError

__all__ = ["app", "main"]

app = typer.Typer(
    name="scff",
    help="Frozen tabular foundation models on tables of any width.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)


@app.command()
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
    from scff.models.file import save_model

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
        verbose=_wants_bars(as_json),
    )
    clf.fit(X, y)
    save_model(clf, output)
    if as_json:
        return print_json({"model": str(output)} | fit_facts(clf))
    _out.print(f"[bold]{table.name}[/]: {X.shape[0]} rows, {X.shape[1]} columns, {len(clf.classes_)} classes")
    _out.print(f"backbone  {clf.backbone_}")
    if clf.plan_ is not None:
        _out.print(f"plan      {describe(clf.plan_)}", soft_wrap=True)
    for line in read_lines(clf):
        _out.print(line, soft_wrap=True)
    _out.print(f"written   {output} in {sum(clf.seconds_.values()):.1f} s")
    return None


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File written by `scff fit`.")],
    table: TablePath,
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV, TSV or Parquet file to write.")],
    proba: Annotated[bool, typer.Option(help="Also write one probability column per class.")] = True,
    engine: Engine = "local",
    as_json: Json = False,
) -> None:
    """Predict the rows of a table, or of a directory of Parquet files in the order of their names."""
    import pandas as pd

    from scff.models.file import load_model
    from scff.serving.score import local_copy, parts_of, score_table
    from scff.tables.files import write_table

    clf = local_copy(load_model(model), progress=bool(_wants_bars(as_json)))
    parts = parts_of(table)
    if engine == "ray":
        from scff.serving.ray import score_parts

        scored = list(score_parts(clf, parts, proba))
    else:
        scored = [score_table(clf, part, proba) for part in parts]
    out = pd.concat(scored, ignore_index=True)
    write_table(out, output)
    if as_json:
        return print_json({"output": str(output), "rows": len(out), "classes": [plain(c) for c in clf.classes_]})
    _out.print(f"{len(out)} predictions written to {output}")
    return None


@app.command()
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
    _out.print(f"[bold]{table.name}[/]: {X.shape[0]} rows, {X.shape[1]} columns")
    _out.print(describe(compiled))
    grid = RichTable("column", "F", "q", "leaf", box=None, pad_edge=False)
    for row in top_columns(compiled, top):
        grid.add_row(row["column"], f"{row['f']:.4g}", f"{row['q']:.2g}", row["leaf"])
    _out.print(grid)
    return None


@app.command()
def demo(backbone: Backbone = "nano", as_json: Json = False) -> None:
    """Compare native inference, the paper's method and auto on two real tables widened by all pairwise products."""
    from scff.cli import demo as demo_
    from scff.memory.budget import format_bytes

    outcomes: list[demo_.Outcome] = []
    status = None if as_json else _err.status("starting")
    if status is not None:
        status.start()
    try:
        outcomes.extend(demo_.run(backbone, lambda table, method: _show(status, f"{table}: {method}")))
    finally:
        if status is not None:
            status.stop()
    if as_json:
        return print_json({"outcomes": [asdict(outcome) for outcome in outcomes]})
    grid = RichTable(
        "table", "columns", "method", "accuracy", "log-loss", "seconds", "peak memory", title=outcomes[0].backbone
    )
    for o in outcomes:
        grid.add_row(
            o.table,
            str(o.columns),
            o.method,
            f"{100 * o.accuracy:.1f} %",
            f"{o.log_loss:.3f}",
            f"{o.seconds:.1f}",
            format_bytes(o.peak_bytes),
        )
    _out.print(grid)
    for o in outcomes:
        if o.method != "native":
            _out.print(f"{o.table}, {o.method}: {o.read}", soft_wrap=True)
    return None


@app.command()
def report(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File written by `scff fit`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")],
    test: Annotated[Path | None, typer.Option(help="Labelled table held back from fit: shows how good it is.")] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Label column of the test table.")] = None,
) -> None:
    """Write one HTML page that shows what a model used, decided and cost."""
    from scff.models.file import load_model
    from scff.report import write_report
    from scff.tables.files import read_table

    if (test is None) != (target is None):
        raise DataError("--test and --target go together: a labelled table and the name of its label column.")
    frame = None if test is None else read_table(test)
    write_report(load_model(model), output, test=frame, target=target)
    _out.print(f"report written to {output}")


def _mount(name: str, summary: str, module: str) -> None:
    """Mount a sub-application without importing it before it is asked for: `scff --help` should not wait for torch."""
    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

    @app.command(name, help=summary, add_help_option=False, context_settings=anything)
    def command(context: typer.Context) -> None:
        import_module(module).app(context.args, prog_name=f"scff {name}")


_mount("bench", "Re-run the paper's evaluation, or the same comparison on your own tables.", "scff.bench.cli")
_mount("pretrain", "Train the embedded backbone from synthetic tables.", "scff.pretrain.cli")
_mount("backbones", "List backbones; fetch, verify or locate their weights.", "scff.cli.backbones")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        _out.print(__version__)
        raise typer.Exit


def main() -> NoReturn:
    """Run the command line; errors of use are one sentence and exit code 2."""
    # Hints meant for Python users would stand between a command and its output; the choices are printed anyway.
    warnings.filterwarnings("ignore", message='backbone="auto"')
    # The hub client reports every retry; what became of it is said in one sentence.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        app()
    except SCFFError as error:
        _err.print(f"scff: {error}", soft_wrap=True, markup=False)
        sys.exit(2)
    except MemoryError:
        _err.print("scff: out of memory; set --memory-limit to a budget that fits this machine.", soft_wrap=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(0)
    sys.exit(0)


def _show(status: Status | None, text: str) -> None:
    if status is not None:
        status.update(text)


def _wants_bars(as_json: bool) -> int:
    return int(sys.stderr.isatty() and not as_json)


if __name__ == "__main__":
    main()
