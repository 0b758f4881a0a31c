"""Our arms on folds that others published results for, fold by fold."""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from scff.bench import layout as t
from scff.bench import stats
from scff.bench.layout import Cell, ReportTable
from scff.bench.paper import printed
from scff.bench.reports import report
from scff.bench.results import Results
from scff.errors import DataError

__all__ = ["recorded", "theirs_on"]

Scores = dict[int, tuple[float, float, float]]
_PAPER = ("tabpfn-v3", "tabicl-v1", "tabicl-v2", "refineicl-24l")  # whose effects the paper prints table by table
_METRICS = ("accuracy", "auc", "nll")
_ROUNDED = 1e-5  # published scores have five digits: 23 of 24 right is a tie with .95833


@cache
def recorded(file: str) -> dict[str, dict[str, Scores]]:
    """What others recorded: table to method to fold to accuracy, AUC and log-loss."""
    text = files("scff.bench").joinpath("published", file).read_text(encoding="utf-8")
    found: dict[str, dict[str, Scores]] = {}
    for row in csv.DictReader(text.splitlines()):
        scores = float(row["accuracy"]), float(row["auc"]), float(row["log_loss"])
        found.setdefault(row["table"], {}).setdefault(row["method"], {})[int(row["fold"])] = scores
    return found


def theirs_on(file: str, dataset: str) -> dict[str, Scores]:
    """What others recorded on a table: method to fold to scores; nothing for a table that they do not have.

    Tables of the scikit-feature collection may keep its name before their own.
    """
    return recorded(file).get(dataset.removeprefix("skf_"), {})


@report("published")
def _published(results: Sequence[Results], file: str, rival: str) -> list[ReportTable]:
    """One table for each data set: means of every arm and of every published method on the folds all of ours have."""
    out = []
    for r in results:
        for dataset in sorted(d for d in r.datasets if theirs_on(file, d)):
            theirs = theirs_on(file, dataset)
            if rival not in theirs:
                raise DataError(f"{file} has no method {rival!r} for {dataset}.")
            ours, sources = _ours(r, dataset, theirs[rival])
            folds = sorted(set.intersection(*(set(scores) for scores in ours.values()))) if ours else []
            if not folds:
                continue
            rows = [(name, ours[name], sources) for name in ours]
            rows += [(f"published: {name}", scores, ()) for name, scores in theirs.items()]
            rows.sort(key=lambda row: -np.mean([row[1][fold][1] for fold in folds]))
            cells = [_row(name, scores, theirs[rival], folds, src) for name, scores, src in rows]
            columns = ("Arm", "Accuracy %", "AUC", "NLL", "ΔAcc. pp, paired", "Folds W/T/L", "ΔAUC, paired")
            notes = (
                f"Means over {len(folds)} folds, best AUC first; paired differences to {rival}, ± their standard error "
                "over folds. The folds share rows, so that error is too small for an interval.",
            )
            out.append(ReportTable(f"{dataset}, {r.backbone}", columns, tuple(cells), notes))
    return out


@report("published-mean")
def _published_mean(results: Sequence[Results], file: str, rival: str, tables: Sequence[str]) -> list[ReportTable]:
    """Every arm and every published method, mean over these tables, on the folds of a table that all our arms have."""
    out = []
    for r in results:
        ours = {d: _ours(r, d, recorded(file)[d][rival]) for d in sorted(set(r.datasets) & set(tables))}
        names = _common([arms for arms, _ in ours.values()])
        if len(ours) < 2 or not names:
            continue
        src = tuple(path for _, paths in ours.values() for path in paths)
        folds = {d: sorted(set.intersection(*(set(arms[n]) for n in names))) for d, (arms, _) in ours.items()}
        scores = {name: {d: arms[name] for d, (arms, _) in ours.items()} for name in names}
        for name in _common([recorded(file)[d] for d in ours]):
            scores[f"published: {name}"] = {d: recorded(file)[d][name] for d in ours}
        means = {
            name: np.array([np.mean([some[d][fold] for fold in folds[d]], axis=0) for d in ours])
            for name, some in scores.items()
        }
        level = means[f"published: {rival}"]
        rows = []
        for name, values_DM in sorted(means.items(), key=lambda item: -item[1][:, 1].mean()):
            accuracy, auc, nll = values_DM.mean(axis=0)
            won = [stats.win_tie_loss(list((values_DM - level)[:, i]), True, _ROUNDED) for i in (0, 1)]
            against = [t.label("")] * 2 if name == f"published: {rival}" else [Cell(str(w), str(w), src) for w in won]
            cells = (t.count(100 * accuracy, src, 2), t.count(auc, src, 4), t.count(nll, src, 3))
            rows.append((t.label(name), *cells, *against))
        columns = ("Arm", "Accuracy %", "AUC", "NLL", "Tables W/T/L, accuracy", "Tables W/T/L, AUC")
        count = ", ".join(f"{d} {len(some)}" for d, some in folds.items())
        notes = (f"Means over tables, best AUC first; wins, ties and losses against {rival}. Folds: {count}.",)
        out.append(ReportTable(f"Mean of {len(ours)} tables, {r.backbone}", columns, tuple(rows), notes))
    return out


@report("registry")
def _registry(results: Sequence[Results], folds: str) -> list[ReportTable]:
    """Tables of the paper's registry: our effects, and what the paper prints for its own backbones."""
    rows = []
    for r in results:
        pairs = r.pairs("scff", "native", folds)
        accuracy, nll = (pairs.effects(metric) for metric in ("accuracy", "nll"))
        for dataset in sorted(pairs.datasets):
            theirs = [printed("effects", name, metric, dataset) for name in _PAPER for metric in ("accuracy", "nll")]
            if theirs[0] is not None:
                src = pairs.where(lambda p, d=dataset: p.dataset == d).sources  # type: ignore[misc]
                ours = Cell(f"{100 * accuracy[dataset]:+.2f} / {nll[dataset]:+.4f}", None, src)
                paper = [t.label(f"{a:+.2f} / {b:+.4f}") for a, b in zip(theirs[::2], theirs[1::2], strict=True)]
                rows.append((t.label(dataset), t.label(r.backbone), ours, *paper))
    columns = ("Table", "Backbone here", "ΔAcc. pp / ΔNLL here", *(f"{name}, paper" for name in _PAPER))
    notes = ("SCFF minus native, locked folds. Same table, other backbones: signs may be compared, sizes may not.",)
    return [ReportTable("Tables of the paper's registry", columns, tuple(rows), notes)]


def _common(tables: Sequence[Collection[str]]) -> list[str]:
    """The names that all tables have, in the order of the first."""
    return [name for name in tables[0] if all(name in other for other in tables)] if tables else []


def _ours(r: Results, dataset: str, theirs: Scores) -> tuple[dict[str, Scores], tuple[str, ...]]:
    ours: dict[str, Scores] = {}
    sources = []
    for fold in r.folds("all"):
        if fold in theirs:
            for arm, record in r.arms(dataset, fold).items():
                scores = tuple(record.metrics[metric] for metric in _METRICS)
                if None not in scores:
                    ours.setdefault(arm, {})[fold] = scores  # type: ignore[assignment]
                    sources.append(str(record.key.path))
    return ours, tuple(sources)


def _row(name: str, scores: Scores, rival: Scores, folds: Sequence[int], src: Sequence[str]) -> tuple[Cell, ...]:
    accuracy, auc, nll = np.array([scores[fold] for fold in folds]).T
    d_accuracy, d_auc, _ = np.array([scores[fold] for fold in folds]).T - np.array([rival[fold] for fold in folds]).T
    same = scores is rival
    won = stats.win_tie_loss(list(d_accuracy), True, _ROUNDED)
    paired = [t.label(""), t.label(""), t.label("")]
    if not same:
        paired = [_paired(100 * d_accuracy, 2, src), Cell(str(won), str(won), tuple(src)), _paired(d_auc, 3, src)]
    means = [t.count(100 * accuracy.mean(), src, 2), t.count(auc.mean(), src, 3), t.count(nll.mean(), src, 3)]
    return (t.label(name), *means, *paired)


def _paired(difference: np.ndarray[tuple[int], np.dtype[np.float64]], digits: int, src: Sequence[str]) -> Cell:
    error = float(difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else float("nan")
    shown = f"{difference.mean():+.{digits}f} ± {error:.{digits}f}"
    return Cell(shown, [float(difference.mean()), error], tuple(src))
