"""`evaluate`: the folds, the models on each of them, and the figures."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, cpu_count, delayed
from sklearn.base import is_classifier

import scff
from scff.backbones.loaded import staying_loaded
from scff.errors import DataError, shown
from scff.estimators.input import given_support
from scff.evaluate.arguments import check_arguments
from scff.evaluate.baselines import Unavailable, choose
from scff.evaluate.evaluation import Evaluation
from scff.evaluate.question import OWN, Question
from scff.evaluate.records import Answer, Records
from scff.evaluate.scores import LARGER, Asked, Estimate, draw, estimate, figures
from scff.evaluate.splits import Folds, choose_splits
from scff.evaluate.stability import selection_stability
from scff.fold.ray import RETRIES, connect, result_of, share, unpacked
from scff.names import EngineName
from scff.processes import end_with, unheard_interrupts
from scff.progress import Steps
from scff.tables.targets import class_labels, group_codes, number_target, one_column
from scff.tables.task import TaskName, find_task

__all__ = ["evaluate"]

logger = logging.getLogger(__name__)
FloatArray = npt.NDArray[np.float64]


def evaluate(
    X: Any,
    y: Any,
    *,
    estimator: Any = None,
    groups: Any = None,
    task: TaskName = "auto",
    folds: Folds = None,
    repeats: int | None = None,
    baselines: Sequence[str] | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    engine: EngineName = "local",
    resume: str | os.PathLike[str] | None = None,
    verbose: int = 0,
) -> Evaluation:
    """Estimate how good a model will be on new rows, beside plain models on the same folds.

    Columns are ranked, trials held and penalties tuned inside each fold, on its training rows alone.

    Parameters
    ----------
    X : array-like, DataFrame, AnnData, Table, path or dict of tables
        As for `FoldedClassifier.fit`.
    y : array-like of shape (n_rows,) or str
        Labels or numbers, or the name of their column.
    estimator : estimator, optional
        What is evaluated; ``FoldedClassifier()`` or ``FoldedRegressor()`` by default. It is cloned, not fitted.
    groups : array-like of shape (n_rows,) or str, optional
        Patients, batches: rows of one group are never parted, neither by the folds nor inside them, and intervals are
        over groups.
    task : {"auto", "class", "number"}, default="auto"
        What is predicted where no estimator says it.
    folds : int, "leave-one-out", pairs of rows, or None
        None takes five folds, or leaves every row or group out alone where there are at most 24.
    repeats : int, optional
        Rounds of folds, each dealt anew; three below 500 rows and one above by default.
    baselines : sequence of str, optional
        Of ``"logistic"``, ``"elastic-net"``, ``"random-forest"``, ``"lightgbm"``, ``"majority"`` (for numbers
        ``"ridge"`` and ``"mean"`` instead of the first and the last); all that are installed by default.
    seed : int, default=0
        Of the folds, the baselines and the intervals.
    n_jobs : int, default=1
        Processes.
    engine : {"local", "ray"}, default="local"
        ``"ray"`` makes every fit a task of a Ray cluster, with the table put once into its object store; ``n_jobs`` is
        then the cluster's affair. The figures are the same.
    resume : path, optional
        Folder for what each fold said. An evaluation that was stopped goes on from there; answers to another question
        are refused.
    verbose : int, default=0
        1 shows progress and the time to go.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from scff import FoldedClassifier
    >>> from scff.evaluate import evaluate
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = FoldedClassifier("nano", method="raw-core")
    >>> found = evaluate(X, y, estimator=model, folds=3, repeats=1, baselines=["logistic", "majority"])
    >>> found.splits.words
    '3 folds of 150 rows, classes dealt evenly, once'
    >>> found.scores["scff"]["accuracy"].value > 0.9
    True
    >>> found.scores["majority"]["auc"].value
    0.5
    """
    check_arguments(estimator, engine=engine, n_jobs=n_jobs, seed=seed, resume=resume, verbose=verbose)
    n_jobs, seed = int(n_jobs), int(seed)
    given = given_support(X, y, groups)
    table, n = given.table, given.table.n_rows
    labels = one_column(given.y, n, "label")
    groups = None if given.groups is None else group_codes(given.groups, n)
    target: npt.NDArray[Any]
    classes: npt.NDArray[Any] | None = None
    classified = _is_classified(estimator, task, labels)
    if classified:
        target, classes = class_labels(labels, n)
        labels = classes[target]
    else:
        labels = target = number_target(labels, n)
    if estimator is None:
        estimator = scff.FoldedClassifier() if classified else scff.FoldedRegressor()
    splits = choose_splits(target, groups, folds, repeats, seed, classes=None if classes is None else list(classes))
    arms, absent = choose(baselines, classified=classified)
    question = Question(table, target, labels, classes, groups, splits, estimator, arms, seed)
    width = 1 if classes is None else len(classes)
    shapes = [(len(test), width) for _, test in splits.pairs]
    records = Records(None if resume is None else Path(resume), question.digest(), shapes, table.n_columns)
    _ask(question, records, n_jobs, engine, verbose)
    return _judge(question, records, absent)


def _ask(question: Question, records: Records, n_jobs: int, engine: EngineName, verbose: int) -> None:
    """Every model in every fold that is not on record yet."""
    every = [(fold, model) for fold in range(len(question.splits)) for model in question.models]
    missing = [one for one in every if records.get(*one) is None]
    if len(missing) < len(every):
        logger.info("%d of %d answers were on record", len(every) - len(missing), len(every))
    # Fold by fold, so that what is done is a fair sample of what is to do, and the time to go can be believed.
    with Steps("the first fold", len(missing), shown=verbose > 0) as steps:
        for (fold, model), found in (
            _on_cluster(question, missing) if engine == "ray" else _answers(question, missing, n_jobs)
        ):
            records.put(fold, model, found)
            steps.rename(f"fold {fold + 1} of {len(question.splits)}")
            steps.done()


def _answers(
    question: Question, missing: list[tuple[int, str]], n_jobs: int
) -> Iterator[tuple[tuple[int, str], Answer]]:
    if n_jobs == 1 or len(missing) < 2:
        with staying_loaded():
            for one in missing:
                yield _answer(question, one)
        return
    n_jobs = min(cpu_count() if n_jobs == -1 else n_jobs, len(missing))  # joblib starts as many as it is told
    jobs = _pool(n_jobs)
    with warnings.catch_warnings():
        # Joblib exchanges a process that holds more than it did at first, as weights make it do: nothing to act on.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        with unheard_interrupts():  # joblib ends its processes when this one is interrupted
            answers = jobs(delayed(_answer_beside)(os.getpid(), question, one) for one in missing)
        yield from answers


def _answer_beside(parent: int, question: Question, one: tuple[int, str]) -> tuple[tuple[int, str], Answer]:
    end_with(parent)
    return _answer_apart(question, one)


def _pool(n_jobs: int) -> Any:
    """Processes that do not wait for five minutes, as joblib's do, when there is nobody left to ask them."""
    options = {"n_jobs": n_jobs, "return_as": "generator_unordered", "max_nbytes": "100K"}
    try:
        return Parallel(**options, initializer=end_with, initargs=(os.getpid(),))
    except TypeError:  # joblib before 1.5: only those that were asked something know whom to look at
        return Parallel(**options)


def _answer_apart(question: Question, one: tuple[int, str]) -> tuple[tuple[int, str], Answer]:
    _stay_loaded()
    return _answer(question, one)


@cache
def _stay_loaded() -> ExitStack:
    """In a process that does nothing but answer, weights stay as long as it lives."""
    stack = ExitStack()
    stack.enter_context(staying_loaded())
    return stack


def _on_cluster(question: Question, missing: list[tuple[int, str]]) -> Iterator[tuple[tuple[int, str], Answer]]:
    """Every answer a task; as they come."""
    if not missing:
        return
    ray = connect()
    task = ray.remote(_answer_there).options(max_retries=RETRIES)
    shared = share(ray, question)
    running = [task.remote(shared, one) for one in missing]
    while running:
        (done,), running = ray.wait(running, num_returns=1)
        yield result_of(ray, done)


def _answer_there(shared: list[Any], one: tuple[int, str]) -> tuple[tuple[int, str], Answer]:
    return _answer_apart(unpacked(shared), one)


def _answer(question: Question, one: tuple[int, str]) -> tuple[tuple[int, str], Answer]:
    with warnings.catch_warnings():
        # What an upstream package has to say about one fold would stand there fifteen times.
        warnings.simplefilter("ignore")
        return one, question.answer(*one)


def _judge(question: Question, records: Records, absent: dict[str, Unavailable]) -> Evaluation:
    """From answers to figures."""
    splits, n, target = question.splits, question.table.n_rows, question.target
    width = 1 if question.classes is None else len(question.classes)
    fold_RN = np.full((splits.n_repeats, n), -1, dtype=np.int64)
    answers = {model: np.full((splits.n_repeats, n, width), np.nan) for model in question.models}
    seconds = dict.fromkeys(question.models, 0.0)
    own = []
    for fold, (_, test) in enumerate(splits.pairs):
        fold_RN[splits.repeats[fold], test] = fold
        for model in question.models:
            found = records.get(fold, model)
            assert found is not None, "every model was asked in every fold"
            answers[model][splits.repeats[fold], test] = found.values
            seconds[model] += found.seconds
            own += [found] if model == OWN else []
    asked = Asked(target, 0 if question.classes is None else width, fold_RN, splits.alone)
    weights, n_units = draw(asked, question.groups, question.seed)
    drawn = {model: figures(asked, values, weights) for model, values in answers.items()}
    smallest = _smallest(asked, question.groups)
    scores = {
        model: {
            name: estimate(
                values,
                n_units,
                1.0 if LARGER[name] and name != "r2" else None,
                n_units if name == "accuracy" else smallest,
            )
            for name, values in found.items()
        }
        for model, found in drawn.items()
    }
    differences: dict[str, dict[str, Estimate]] = {
        model: {name: estimate(drawn[OWN][name] - drawn[model][name], n_units) for name in drawn[OWN]}
        for model in question.baselines
    }
    words = {OWN: _words(question.estimator)} | {name: one.words for name, one in question.baselines.items()}
    return Evaluation(
        splits=splits,
        classes=None if question.classes is None else tuple(question.classes.tolist()),
        n_columns=question.table.n_columns,
        n_groups=None if question.groups is None else int(question.groups.max()) + 1,
        estimator=repr(question.estimator),
        models=words,
        scores=scores,
        differences=differences,
        absent={one.words: one.reason for one in absent.values()},
        columns=selection_stability(own, question.table.names),
        seconds=seconds,
        seed=question.seed,
        asked=asked,
        answers=answers,
    )


def _smallest(asked: Asked, groups: npt.NDArray[Any] | None) -> int | None:
    """Rows, or groups, of the rarest class."""
    if asked.n_classes == 0:
        return None
    units = np.arange(len(asked.y)) if groups is None else groups
    return min(len(np.unique(units[asked.rows][asked.y[asked.rows] == k])) for k in np.unique(asked.y[asked.rows]))


def _words(estimator: Any) -> str:
    return OWN if isinstance(estimator, scff.FoldedClassifier | scff.FoldedRegressor) else type(estimator).__name__


def _is_classified(estimator: Any, task: TaskName, labels: npt.NDArray[Any]) -> bool:
    if estimator is not None:
        return bool(is_classifier(estimator))
    if not isinstance(task, str) or task not in ("auto", "class", "number"):
        raise DataError(f'task must be "auto", "class" or "number", not {shown(task)!r}.')
    return find_task(labels, task).name == "class"
