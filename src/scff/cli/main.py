"""The command line: one module per command; here they are mounted, and errors become one sentence."""

from __future__ import annotations

import logging
import sys
import warnings
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from scff import __version__
from scff.cli.console import err, out
from scff.cli.demo import demo
from scff.cli.fit import fit
from scff.cli.plan import plan
from scff.cli.predict import predict
from scff.cli.report import report
from scff.errors import SCFFError

__all__ = ["app", "main"]

app = typer.Typer(
    name="scff",
    help="Frozen tabular foundation models on tables of any width.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _command in (fit, predict, plan, report, demo):
    app.command()(_command)


def _mount(name: str, summary: str, module: str) -> None:
    """Mount a sub-application without importing it before it is asked for: `scff --help` should not wait for torch."""
    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

    @app.command(name, help=summary, add_help_option=False, context_settings=anything)
    def command(context: typer.Context) -> None:
        import_module(module).app(context.args, prog_name=f"scff {name}")


_mount("bench", "Re-run the paper's evaluation, or the same comparison on your own tables.", "scff.bench.cli")
_mount("pretrain", "Train a small backbone on synthetic tables, by a recipe.", "scff.pretrain.cli")
_mount("backbones", "List backbones; fetch, verify or locate their weights.", "scff.cli.backbones")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        out.print(__version__)
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
        err.print(f"scff: {error}", soft_wrap=True, markup=False)
        sys.exit(2)
    except MemoryError:
        err.print("scff: out of memory; set --memory-limit to a budget that fits this machine.", soft_wrap=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(0)
    sys.exit(0)


if __name__ == "__main__":
    main()
