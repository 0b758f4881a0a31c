"""The command line: one module per command; here they are mounted, and errors become one sentence."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from scff import __version__
from scff.cli.console import any_text, err, if_interrupted, out, show_log
from scff.cli.demo import demo
from scff.cli.evaluate import evaluate
from scff.cli.fit import fit
from scff.cli.plan import plan
from scff.cli.predict import predict
from scff.cli.report import report
from scff.errors import DataWarning, SCFFError

__all__ = ["app", "main"]

app = typer.Typer(
    name="scff",
    help="Frozen tabular foundation models on tables of any width.",
    epilog="Begin with: scff evaluate TABLE --target COLUMN -o page.html",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _command in (fit, evaluate, predict, plan, report, demo):
    app.command()(_command)


def _mount(name: str, summary: str, module: str) -> None:
    """Mount a sub-application without importing it before it is asked for: `scff --help` should not wait for torch."""
    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

    @app.command(name, help=summary, add_help_option=False, context_settings=anything)
    def command(context: typer.Context) -> None:
        code = import_module(module).app(context.args, prog_name=f"scff {name}", standalone_mode=False)
        if isinstance(code, int) and code:
            raise typer.Exit(code)


_mount("bench", "Re-run the paper's evaluation, or the same comparison on your own tables.", "scff.bench.cli")
_mount("pretrain", "Train a small backbone on synthetic tables, by a recipe.", "scff.pretrain.cli")
_mount("backbones", "List backbones; fetch, verify or locate their weights.", "scff.cli.backbones")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    log: Annotated[bool, typer.Option("--verbose", "-v", help="Show the log.", callback=show_log)] = False,
) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit


# What a shell makes of an interruption: 128 and the number of the signal.
_INTERRUPTED = 130

# Who forks this one has things to do at its end that are not ours.
_OWN = os.getpid()


def main() -> NoReturn:
    """Run the command line; errors of use are one sentence and exit code 2, an interruption is exit code 130."""
    any_text()
    try:
        # Hints meant for Python users would stand between a command and its output; the choices are printed anyway.
        warnings.filterwarnings("ignore", message='backbone="auto"')
        warnings.filterwarnings("ignore", category=DataWarning)
        # The hub client reports every retry; what became of it is said in one sentence.
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        code = app(prog_name="scff", standalone_mode=False)
        if code == _INTERRUPTED:  # typer swallows the interruption and keeps its code
            raise KeyboardInterrupt
    except SCFFError as error:
        _stop(str(error))
    except MemoryError:
        _stop("out of memory; set --memory-limit to a budget that fits this machine.")
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _stop(f"{error.strerror or str(error).splitlines()[0]}{where}; check the path, its permissions and its room.")
    except (KeyboardInterrupt, typer.Abort):
        left = if_interrupted()
        _say(f"interrupted; {left}." if left else "interrupted.")
        _leave(_INTERRUPTED)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            sys.exit(2)
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "scff"
        message = error.format_message().rstrip(".")
        _stop(f"{message}; `{command} --help` says what there is.")
    gc.freeze()  # Python would look through all that is left once more before it goes: a second, after torch
    sys.exit(code if isinstance(code, int) else 0)


# The parser's own errors; typer has them from click, or from its copy of it.
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def _say(sentence: str) -> None:
    with suppress(OSError):  # the place where it is said may be what has no room
        err.print("scff: " + " ".join(sentence.split()), soft_wrap=True)


def _stop(sentence: str) -> NoReturn:
    _say(sentence)
    sys.exit(2)


def _leave(code: int) -> NoReturn:
    """Leave at once, with what is to be done at the end, but without Python's own end.

    That would wait for threads in the middle of their work, and it forgets the code where the interruption hit what is
    made of text (a data class that is being imported, say).
    """
    if os.getpid() != _OWN:
        sys.exit(code)
    with suppress(KeyboardInterrupt):  # who is in a hurry presses twice
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
