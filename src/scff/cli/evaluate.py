"""``scff evaluate``: an honest estimate, beside plain models on the same folds."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table as RichTable

from scff.cli.console import busy, others_to_stderr, out, wants_bars, when_interrupted
from scff.cli.estimator import estimator_for
from scff.cli.options import Backbone, Json, Method, TaskOption, TrialsName, Verbose
from scff.cli.output import print_json, print_notes
from scff.cli.reading import Reading, with_reading
from scff.errors import DataError, SCFFError
from scff.names import EngineName

if TYPE_CHECKING:
    from scff.evaluate.evaluation import Evaluation

__all__ = ["evaluate"]

_MOST_PROCESSES = 4


@with_reading
def evaluate(
    reading: Reading,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML page to write.")] = None,
    folds: Annotated[str | None, typer.Option(help="A number, or leave-one-out; chosen by default.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Rounds of folds; 3 below 500 rows, otherwise 1.")] = None,
    baselines: Annotated[
        list[str] | None,
        typer.Option("--baseline", help="logistic, elastic-net, random-forest, ...; repeatable, all by default."),
    ] = None,
    backbone: Backbone = "auto",
    method: Method = "auto",
    task: TaskOption = "auto",
    trials: TrialsName = "auto",
    class_weight: Annotated[
        Literal["none", "balanced"], typer.Option(help="balanced answers as if all classes were equally frequent.")
    ] = "none",
    seed: Annotated[int, typer.Option(help="Seed of the folds, the baselines and the intervals.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes; 0 is one for each core, at most 4.")] = 0,
    engine: Annotated[EngineName, typer.Option(help="ray makes every fit a task of a cluster.")] = "local",
    resume: Annotated[
        Path | None, typer.Option(help="Folder for what each fold said; beside the page by default.")
    ] = None,
    as_json: Json = False,
    log: Verbose = False,
) -> None:
    """Estimate how good a model will be on new rows, beside plain models on the same folds."""
    from scff.tables.reading import read_dataset
    from scff.tables.task import find_task

    if output is not None:
        from scff.tables.atomic import file_to_write

        file_to_write(output, reading.read)
    dealt = _folds(folds)
    with busy("reading", as_json):
        data = read_dataset(reading.request)
    found = find_task(data.y, task)
    estimator = estimator_for(
        found,
        method=method,
        of_classes={"class_weight": class_weight},
        trials=trials,
        backbone=backbone,
        random_state=seed,
    )
    from scff.evaluate import evaluate as run

    folder = resume or (None if output is None else output.with_name(f".{output.name}.folds"))
    done = (
        "nothing is kept; --resume FOLDER would"
        if folder is None
        else (f"what was done is in {folder}, and the same command goes on from there")
    )
    when_interrupted(done if output is None else f"{output} is not written; {done}")
    left = _nothing_left(folder if resume is None else None)
    with others_to_stderr(engine == "ray"), busy("evaluating", as_json), left:
        evaluation = run(
            data.table,
            data.y,
            estimator=estimator,
            groups=data.groups,
            folds=dealt,
            repeats=repeats,
            baselines=baselines or None,
            seed=seed,
            n_jobs=jobs or min(_MOST_PROCESSES, os.cpu_count() or 1),
            engine=engine,
            resume=folder,
            verbose=wants_bars(as_json),
        )
    if output is not None:
        evaluation.save_html(output, title=f"{reading.target} in {reading.files}")
        when_interrupted(f"{output} is written")
    if resume is None and folder is not None:
        shutil.rmtree(folder, ignore_errors=True)  # the page is written: nothing is left to go on with
    if as_json:
        return print_json({"output": None if output is None else str(output), "notes": data.notes} | _facts(evaluation))
    print_notes(data.notes)
    _show(evaluation, output)
    return None


@contextlib.contextmanager
def _nothing_left(folder: Path | None) -> Iterator[None]:
    """Where not a single fold could be asked, leave no folder that nobody asked for."""
    try:
        yield
    except SCFFError:
        if folder is not None and not any(folder.glob("fold-*")):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _folds(text: str | None) -> Any:
    if text is None or text == "leave-one-out":
        return text
    if not (text.isascii() and text.isdigit()):  # ² is a digit too, and no number
        raise DataError(f"--folds must be a number or leave-one-out, not {text!r}.")
    return int(text)


def _facts(evaluation: Evaluation) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(evaluation.to_json())
    return facts


def _show(evaluation: Evaluation, output: Path | None) -> None:
    from scff.evaluate.evaluation import METRICS

    main = evaluation.metric
    others = [name for name in evaluation.scores["scff"] if name not in (main, "balanced_accuracy")]
    out.print(
        f"{evaluation.n_rows:,} rows, {evaluation.n_columns:,} columns; {evaluation.splits.words}", soft_wrap=True
    )
    grid = RichTable("model", f"{METRICS[main]} (95 %)", *(METRICS[name] for name in others), box=None, pad_edge=False)
    for model, words in evaluation.models.items():
        scores = evaluation.scores[model]
        best = scores[main]
        grid.add_row(
            words,
            f"{best.value:.3f} ({best.low:.3f} to {best.high:.3f})",
            *(f"{scores[name].value:.3f}" for name in others),
        )
    out.print(grid)
    for words, reason in evaluation.absent.items():
        out.print(f"{words} did not take part: {reason}", soft_wrap=True)
    out.print(evaluation.sentence, soft_wrap=True)
    if evaluation.columns is not None:
        steady = evaluation.columns[evaluation.columns["core_share"] == 1]
        names = ", ".join(map(str, steady.index[:8])) + (", ..." if len(steady) > 8 else "")
        out.print(f"in the Core of every fold: {names or 'no column'}", soft_wrap=True)
    if output is not None:
        out.print(f"written   {output}", soft_wrap=True)
