"""``scff bench``: run a study, collect its records, render its tables and figures."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from scff.bench.records import Reuse
from scff.cli.console import out
from scff.errors import DataError

if TYPE_CHECKING:
    from scff.bench.panels import Panel
    from scff.bench.results import Results
    from scff.bench.studies import Study

__all__ = ["app"]

app = typer.Typer(
    help="The paper's evaluation: paired runs with receipts, statistics, tables and figures.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


Engine = Literal["local", "ray"]
StudyArgument = Annotated[str, typer.Argument(help="Name of a study (`scff bench list`) or a TOML file.")]
ResultsOption = Annotated[Path, typer.Option("--results", "-o", help="Results folder.")]
ShownResultsOption = Annotated[
    Path, typer.Option("--results", "-o", help="Results folder, or a file with a record to a line.")
]
PanelOption = Annotated[str, typer.Option(help="paper-18, tabprep-11, or a folder of Parquet or CSV files.")]
TargetOption = Annotated[str | None, typer.Option(help="Label column, for a folder whose index does not name it.")]
GroupsOption = Annotated[str | None, typer.Option(help="Column of groups that no fold divides.")]
BackboneOption = Annotated[str, typer.Option(help="Name or checkpoint path of a backbone.")]
BackbonesOption = Annotated[
    str | None,
    typer.Option("--backbone", help="Backbones to show, separated by commas; all by default."),
]
ProtocolOption = Annotated[
    str | None, typer.Option(help="Named protocol (`scff bench list`); the study's own, or paper, by default.")
]
ShownOption = Annotated[
    str | None,
    typer.Option("--protocol", help="Named protocol; the newest of a folder, or a file's paper, by default."),
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Short for --protocol quick.")]


@app.command()
def run(
    study: StudyArgument,
    panel: PanelOption = "paper-18",
    backbone: BackboneOption = "auto",
    protocol: ProtocolOption = None,
    quick: QuickOption = False,
    target: TargetOption = None,
    groups: GroupsOption = None,
    results: ResultsOption = Path("bench-results"),
    jobs: Annotated[int, typer.Option("-j", min=1, help="Jobs at a time.")] = 1,
    engine: Annotated[Engine, typer.Option(help="Where jobs run.")] = "local",
    reuse: Annotated[
        Reuse, typer.Option(help="Reuse all records, those of the present code, none; or run nothing.")
    ] = ("yes"),
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed cells again.")] = False,
    time_limit: Annotated[float | None, typer.Option(min=1, help="Seconds an arm may take.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads per arm; the cores over -j by default.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Only these tables, separated by commas.")] = None,
    arms: Annotated[str | None, typer.Option(help="Only these arms of the study, separated by commas.")] = None,
) -> None:
    """Run a study; what is already in the results folder is not run again."""
    from scff.backbones.registry import canonical, choose_auto
    from scff.bench.folds import get_protocol
    from scff.bench.jobs import RunSettings, checkpoint_of
    from scff.bench.panels import load_panel
    from scff.bench.runner import Progress, run_jobs
    from scff.bench.studies import get_study
    from scff.memory.device import resolve_device

    started = time.perf_counter()
    declared, chosen = get_study(study), load_panel(panel, target, groups)
    if datasets is not None:
        chosen = chosen.select([name.strip() for name in datasets.split(",")])
    if arms is not None:
        declared = declared.only([name.strip() for name in arms.split(",")])
    _say_labels(declared.panel(chosen))
    backbone = choose_auto() if backbone == "auto" else canonical(backbone)
    rules = get_protocol(protocol or declared.protocol or "paper")
    rules = get_protocol("quick") if quick else rules
    resolve_device(device)  # a device that is not there is said once, not by every cell
    todo = declared.jobs(chosen, rules)
    settings = RunSettings(
        root=results,
        backbone=backbone,
        checkpoint_sha256=checkpoint_of(backbone),
        protocol=rules,
        device=device,
        threads=threads or _threads(jobs),
        time_limit=time_limit,
        reuse=reuse,
        retry_failed=retry_failed,
        repeats=declared.repeats,
    )
    out.print(
        f"{declared.title}: {len(todo)} jobs on {len(declared.panel(chosen).datasets)} tables of {chosen.name}, "
        f"backbone {backbone} ({settings.checkpoint_sha256[:12]}), protocol {rules.name}"
    )

    def show(progress: Progress) -> None:
        left = "" if progress.seconds_left is None else f", {timedelta(seconds=round(progress.seconds_left))} to go"
        out.print(
            f"{progress.done} cells done, {progress.failed} failed or excluded, {progress.left} left{left}: "
            f"{progress.message}",
            soft_wrap=True,
        )

    end = run_jobs(todo, settings, workers=jobs, engine=engine, report=show)
    out.print(f"Done in {timedelta(seconds=round(time.perf_counter() - started))}; records in {results}/records\n")
    for reason in end.reasons:
        out.print(f"Left out: {reason}", soft_wrap=True, markup=False)
    if not end.done:
        out.print("No cell is complete, so there is nothing to show.")
        raise typer.Exit(1)
    try:
        _show_tables(*_load(study, results, rules.name, backbone), results / "tables")
    except DataError as error:  # records of failures alone are a result too
        out.print(str(error), soft_wrap=True)


@app.command(name="list")
def list_() -> None:
    """Studies, panels, protocols and arms."""
    from scff.bench.arms import ARMS
    from scff.bench.folds import protocols
    from scff.bench.panels import REGISTRIES, load_panel
    from scff.bench.studies import studies

    tables = {
        "Study": [(s.name, s.question) for s in studies().values()],
        "Panel": [(name, f"{len(load_panel(name).datasets)} OpenML tables") for name in REGISTRIES]
        + [("a folder", "Parquet or CSV files, with or without an index.csv")],
        "Protocol": [(p.name, p.summary) for p in protocols().values()],
        "Arm": [(a.name, a.summary) for a in ARMS.values()]
        + [("prefix-K", "the K best columns in a single leaf"), ("scff-leaf-M", "another leaf width")],
    }
    for heading, rows in tables.items():
        table = Table(heading, "", box=None, header_style="bold")
        for row in rows:
            table.add_row(*row)
        out.print(table)
        out.print()


@app.command()
def collect(
    results: ResultsOption = Path("bench-results"),
    output: Annotated[Path | None, typer.Option(help="Parquet file; results.parquet in the folder by default.")] = None,
) -> None:
    """Gather every record into one Parquet file with TabArena's column names."""
    from scff.bench.collect import collect as collect_records

    path, rows = collect_records(results, output)
    out.print(f"{rows} cells in {path}")


@app.command()
def tables(
    study: StudyArgument,
    backbone: BackbonesOption = None,
    protocol: ShownOption = None,
    quick: QuickOption = False,
    results: ShownResultsOption = Path("bench-results"),
    output: Annotated[Path | None, typer.Option(help="Folder; tables in the results folder by default.")] = None,
) -> None:
    """Tables of a study as Markdown, LaTeX and HTML, and the records behind every cell."""
    _show_tables(
        *_load(study, results, "quick" if quick else protocol, backbone), output or _folder(results) / "tables"
    )


@app.command()
def figures(
    study: StudyArgument,
    backbone: BackbonesOption = None,
    protocol: ShownOption = None,
    quick: QuickOption = False,
    results: ShownResultsOption = Path("bench-results"),
    output: Annotated[Path | None, typer.Option(help="Folder; figures in the results folder by default.")] = None,
    format: Annotated[str, typer.Option(help="svg, pdf or png.")] = "svg",
) -> None:
    """Figures of a study."""
    from scff.bench.figures import write_figures

    declared, loaded = _load(study, results, "quick" if quick else protocol, backbone)
    paths = write_figures(declared, loaded, output or _folder(results) / "figures", f".{format}")
    out.print("Written: " + (", ".join(map(str, paths)) or "nothing, the study declares no figure"), soft_wrap=True)


def _say_labels(panel: Panel) -> None:
    """Say which column is taken for the labels where nothing names it; refuse names that are not there."""
    for dataset in panel.datasets:
        if dataset.path is not None:
            label, is_last = dataset.label_column()
            if is_last:
                out.print(f"{dataset.name}, label column: {label} (last)", soft_wrap=True, markup=False)


def _show_tables(study: Study, results: list[Results], folder: Path) -> None:
    from scff.bench.rendering import write_tables

    paths = write_tables(study, results, folder)
    out.print(paths[0].read_text(encoding="utf-8"), soft_wrap=True, markup=False)
    out.print("Written: " + ", ".join(map(str, paths)), soft_wrap=True)


def _load(study: str, root: Path, protocol: str | None, backbones: str | None) -> tuple[Study, list[Results]]:
    """A study and the records it is shown from: of the named protocol and backbones, or of those that are there."""
    from scff.bench.folds import get_protocol
    from scff.bench.jobs import backbone_name
    from scff.bench.results import Results
    from scff.bench.studies import get_study

    declared = get_study(study)
    name, there = Results.find(root, protocol or declared.protocol or None)
    names = there if backbones is None else [backbone_name(one.strip()) for one in backbones.split(",")]
    loaded = [Results.load(root, get_protocol(name), one) for one in names]
    shown = ", ".join(f"{r.backbone} ({r.checkpoint})" for r in loaded)
    out.print(f"Protocol {name}, backbone {shown}", soft_wrap=True)
    return declared, loaded


def _folder(results: Path) -> Path:
    """Where tables go: into the results folder, or where that of a run would be."""
    return Path("bench-results") if results.is_file() else results


def _threads(jobs: int) -> int:
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) > 0 else max(1, (os.cpu_count() or 1) // jobs)
