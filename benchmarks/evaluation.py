"""Run the paper's studies and write their tables and figures into docs/results.md.

    python benchmarks/evaluation.py --panel ../shared/data --backbone nano --backbone tabpfn-v1 --protocol laptop

What is in the results folder already is not run again, so the same command resumes after an interruption and only
renders when nothing is left. Text outside the markers of docs/results.md is kept.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from scff.bench.figures import write_figures
from scff.bench.folds import get_protocol
from scff.bench.layout import to_markdown
from scff.bench.rendering import study_tables
from scff.bench.results import Results
from scff.bench.studies import Study, get_study
from scff.errors import DataError

STUDIES = ("main", "core-decomposition", "tail", "components", "leaf-width", "nuisance", "equal-memory")
DOCS = Path(__file__).resolve().parent.parent / "docs"


def section(study: Study, results: list[Results], figures: Path) -> str:
    """Tables, figures and cost of one study."""
    with_records = []
    for r in results:
        try:
            study_tables(study, [r])
            with_records.append(r)
        except DataError:  # this backbone has not run the study
            continue
    if not with_records:
        return "Not run yet.\n"
    text = to_markdown(study_tables(study, with_records)).replace("### ", "#### ")
    for path in write_figures(study, with_records, figures):
        text += f"\n![{path.stem}]({path.relative_to(DOCS)})\n"
    return text


def cost(results: list[Results]) -> str:
    """What the records cost, from the records."""
    lines = [
        "| Backbone | Checkpoint | Cells | Failed or excluded | Hours of fitting and predicting |",
        "|---|---|---:|---:|---:|",
    ]
    for r in results:
        done = [record for record in r.records if record.ok]
        hours = sum(record.seconds["load"] + record.seconds["total"] for record in done) / 3600
        lines.append(f"| {r.backbone} | `{r.checkpoint}` | {len(done)} | {len(r.records) - len(done)} | {hours:.2f} |")
    return "\n".join(lines) + "\n"


def main(
    panel: Annotated[str, typer.Option(help="paper-18 or a folder with an index.csv.")] = "../shared/data",
    backbone: Annotated[list[str] | None, typer.Option(help="May be given more than once.")] = None,
    protocol: Annotated[str, typer.Option(help="paper, laptop or quick.")] = "laptop",
    results: Annotated[Path, typer.Option(help="Results folder.")] = Path("bench-results"),
    jobs: Annotated[int, typer.Option("-j", help="Jobs at a time.")] = 1,
    render_only: Annotated[bool, typer.Option("--render-only", help="Run nothing.")] = False,
) -> None:
    """Run every study for every backbone, then render."""
    names = backbone or ["nano"]
    for name in names if not render_only else []:
        for study in STUDIES:
            command = [sys.executable, "-m", "scff.bench", "run", study, "--panel", panel, "--backbone", name]
            subprocess.run([*command, "--protocol", protocol, "-o", str(results), "-j", str(jobs)], check=True)
    loaded = []
    for name in names:
        try:
            loaded.append(Results.load(results, get_protocol(protocol), name))
        except DataError as error:
            typer.echo(f"left out: {error}")
    parts = {study: section(get_study(study), loaded, DOCS / "figures") for study in STUDIES}
    parts["cost"] = cost(loaded)
    page = DOCS / "results.md"
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        pattern = rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)"
        if not re.search(pattern, text, re.DOTALL):
            raise DataError(f"{page} has no markers for {name!r}.")
        text = re.sub(pattern, lambda m, part=part: f"{m[1]}\n{part}\n{m[2]}", text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")
    typer.echo(f"Written: {page}")


if __name__ == "__main__":
    typer.run(main)
