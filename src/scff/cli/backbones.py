"""``scff backbones``: which models there are, where their weights are, and how to get them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from scff.backbones import listing
from scff.backbones.absent import ABSENT
from scff.cli.console import out

__all__ = ["app"]

app = typer.Typer(
    help="List backbones; fetch, verify or locate their weights.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Name = Annotated[str, typer.Argument(help="Name of a backbone.")]


@app.callback(invoke_without_command=True)
def list_backbones(context: typer.Context, as_json: Json = False) -> None:
    """List every backbone: what it is, its licences and limits, and where its weights are."""
    if context.invoked_subcommand is not None:
        return
    rows = listing.listing()
    if as_json:
        sys.stdout.write(json.dumps([asdict(row) for row in rows], default=str) + "\n")
        return
    for row in rows:
        # Nothing is put into columns that a narrow window would break: names and commands can be copied.
        out.print(f"{row.name:<26}{row.where}", soft_wrap=True)
        limits = [f"leaves of at most {row.leaf_width}"] if row.leaf_width else []
        limits += [f"at most {row.classes} classes"] if row.classes else []
        what = ["predicts " + ("classes" if row.task == "classification" else "numbers"), f"{row.kind} model", *limits]
        out.print(f"  {', '.join(what)}")
        out.print(f"  licence: code {row.code_licence}, weights {row.weights_licence}")
        if row.aliases:
            out.print(f"  also called {', '.join(row.aliases)}")
        if row.command:
            out.print(f"  get it with: {row.command}", soft_wrap=True)
    for name, reason in ABSENT.items():
        out.print(f"{name:<26}not here")
        out.print(f"  {reason}")


@app.command()
def fetch(name: Name) -> None:
    """Download the weights of a backbone and check them."""
    out.print(str(listing.fetch(name, progress=sys.stderr.isatty())), soft_wrap=True)


@app.command()
def verify(name: Annotated[str | None, typer.Argument(help="One backbone; all by default.")] = None) -> None:
    """Compare weights on this machine with their pinned digests; exit code 1 if any differs."""
    results = listing.verify(name)
    for result in results:
        verdict = {True: "ok", False: "DIFFERS", None: "nothing pinned"}[result.ok]
        out.print(f"{result.name:<22}{verdict:<16}{result.sha256[:12]}  {result.path}", soft_wrap=True)
    if any(result.ok is False for result in results):
        raise typer.Exit(1)


@app.command()
def path(name: Name) -> None:
    """Print where the weights of a backbone are."""
    out.print(str(listing.path(name)), soft_wrap=True)
