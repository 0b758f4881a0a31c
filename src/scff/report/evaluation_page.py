"""One self-contained HTML page about an evaluation."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import scff
from scff.report import charts
from scff.report.evaluation_curves import calibration_bins, class_curves, confusion_counts, mean_numbers
from scff.report.marks import badge, counted, gauge, tile
from scff.report.shell import page
from scff.report.svg import significant
from scff.tables.atomic import write_atomically

if TYPE_CHECKING:
    from scff.evaluate.evaluation import Evaluation
    from scff.evaluate.scores import Estimate

__all__ = ["evaluation_html", "save_evaluation"]

_STEADIEST = 30
_NAMES = {
    "accuracy": ("Accuracy", "share of rows whose most probable class is the true one"),
    "balanced_accuracy": ("Balanced accuracy", "the same, every class counting alike"),
    "auc": ("AUC", "how often a row of a class is ranked above one of another; 0.5 is chance"),
    "log_loss": ("Log-loss", "surprise at the true class; lower is better"),
    "brier": ("Brier score", "squared error of the probabilities; lower is better"),
    "r2": ("R²", "share of the target's variance that is explained; 0 is the mean"),
    "rmse": ("RMSE", "root of the mean squared error, in units of the target; lower is better"),
    "mae": ("MAE", "mean absolute error, in units of the target; lower is better"),
}
_LARGER = ("accuracy", "balanced_accuracy", "auc", "r2")


def save_evaluation(found: Evaluation, path: Path, *, title: str | None = None) -> Path:
    """Write the page of an evaluation, the whole of it or nothing."""
    html = evaluation_html(found, title)
    write_atomically(path, lambda part: part.write_text(html, encoding="utf-8"))
    return path


def evaluation_html(found: Evaluation, title: str | None = None) -> str:
    """The page of an evaluation."""
    classes = [] if found.classes is None else [str(name) for name in found.classes]
    named = f"{len(classes)} classes ({', '.join(classes[:6])}{', …' if len(classes) > 6 else ''})"
    facts = [
        counted(found.n_rows, "row"),
        counted(found.n_columns, "column"),
        named if classes else "predicts numbers",
        "" if found.n_groups is None else counted(found.n_groups, "group"),
        found.splits.words,
    ]
    answers = {
        "good": ("How good?", "How good is it?", _good(found)),
        "better": ("Better than what?", "Is it better than plain models?", _better(found)),
        "errors": ("Where does it err?", "Where does it err?", _errors(found, classes)),
        "steady": ("Which columns?", "Which columns were chosen again and again?", _steady(found)),
        "how": ("How was it done?", "How was this measured?", _how(found)),
    }
    footer = (
        f"Made by scff {scff.__version__}, seed {found.seed}. No row was predicted by a model that had seen its label."
    )
    return page(
        title=title or f"{found.models['scff']} on {counted(found.n_columns, 'column')}",
        brand="evaluation",
        facts=facts,
        summary=f'<span data-value="sentence">{escape(found.sentence)}</span>{_uneven(found)}',
        tiles="".join(
            tile(_NAMES[name][0], _value(name, one), _interval(name, one), name)
            for name, one in found.scores["scff"].items()
        ),
        answers=answers,
        footer=footer,
    )


def _uneven(found: Evaluation) -> str:
    """A sentence where accuracy alone would flatter."""
    if found.classes is None:
        return ""
    counts = np.bincount(found.asked.y[found.asked.rows], minlength=len(found.classes))
    largest = int(counts.argmax())
    share = counts[largest] / counts.sum()
    if share < max(0.6, 1.5 / len(counts)):
        return ""
    return (
        f" The classes are uneven: {share:.0%} of the rows are {escape(str(found.classes[largest]))}, so that always "
        "saying so is right as often; look at balanced accuracy and AUC."
    )


def _good(found: Evaluation) -> str:
    metric = found.metric
    spots = [
        charts.Spot(words, found.scores[name][metric].value, *_ends(found.scores[name][metric]), own=name == "scff")
        for name, words in found.models.items()
        if np.isfinite(found.scores[name][metric].value)
    ]
    heads = "".join(f'<th scope="col" title="{_NAMES[name][1]}">{_NAMES[name][0]}</th>' for name in _ordered(found))
    best = {
        name: (max if name in _LARGER else min)(
            (one[name].value for one in found.scores.values() if np.isfinite(one[name].value)), default=np.nan
        )
        for name in found.scores["scff"]
    }
    rows = "".join(
        f'<tr data-model="{model}"><td>{"<b>" if model == "scff" else ""}{escape(words)}'
        f"{'</b>' if model == 'scff' else ''}</td>"
        + "".join(_cell(name, found.scores[model][name], best[name]) for name in _ordered(found))
        + "</tr>"
        for model, words in found.models.items()
    )
    label = f"{_NAMES[metric][0]}, {'higher' if metric in _LARGER else 'lower'} is better"
    return (
        f'<p class="say">Every row was predicted by models that had not seen it. The lines are 95 % intervals.</p>'
        f'<figure><div class="broad">{charts.side_by_side(spots, label)}</div><div class="narrow">'
        f'{charts.side_by_side(spots, label, 360)}</div></figure><div class="wide"><table class="models"><thead><tr>'
        f'<th scope="col">Model</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        '<p class="muted small">In each column the best figure is bold; below it stands its 95 % interval.</p>'
    )


def _ordered(found: Evaluation) -> list[str]:
    """The figures, the one of the comparison first: a phone shows the first two."""
    return sorted(found.scores["scff"], key=lambda name: name != found.metric)


def _cell(name: str, one: Estimate, best: float) -> str:
    value = f"<b>{_value(name, one)}</b>" if one.value == best else _value(name, one)
    return f'<td>{value}<span class="note">{_interval(name, one)}</span></td>'


def _better(found: Evaluation) -> str:
    absent = "".join(
        f"<p>{escape(words)} did not take part: {escape(reason)}.</p>" for words, reason in found.absent.items()
    )
    if not found.differences:
        return f'<p class="say">There was no baseline to compare with.</p>{absent}'
    mark = '<span class="badge open">undecided</span>'
    if found.verdict != "undecided":
        mark = badge(found.verdict, found.verdict == "better")
    rows = []
    for model, differences in found.differences.items():
        cells = "".join(
            f'<td class="{_colour(name, differences[name])}">{_difference(name, differences[name])}</td>'
            for name in _ordered(found)
        )
        rows.append(f"<tr><td>{escape(found.models[model])}</td>{cells}</tr>")
    heads = "".join(f'<th scope="col">{_NAMES[name][0]}</th>' for name in _ordered(found))
    return (
        f'<p class="say">{mark} {escape(found.sentence)}</p><div class="wide"><table class="models"><thead><tr>'
        f'<th scope="col">Difference to</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        f'<p class="muted small">{escape(found.models["scff"])} less the other, on the same rows, with the 95 % '
        "interval of that difference. Green is better and red is worse, where the interval leaves zero out. The best "
        f"baseline was picked by these same figures, which favours it a little.</p>{absent}"
    )


def _errors(found: Evaluation, classes: list[str]) -> str:
    if found.classes is None:
        true, said = mean_numbers(found)
        return (
            f'<div class="charts"><figure><h3>Predicted against true</h3>{charts.scatter(true, said)}<figcaption>One '
            "point for each row, its predictions averaged over the rounds; on the dashed line it is right.</figcaption>"
            "</figure></div>"
        )
    figures = []
    curves = class_curves(found)
    if curves:
        averaged = "" if found.splits.alone else ", averaged over the folds"
        figures.append(
            f"<figure><h3>ROC {'curve' if len(curves) == 1 else 'curves'}</h3>{charts.roc(curves)}<figcaption>How "
            f"many rows of {'class ' + escape(curves[0].label) if len(curves) == 1 else 'each class'} are found as "
            f"more false alarms are allowed{averaged}.</figcaption></figure>"
        )
    bins = calibration_bins(found)
    about = f"class {escape(classes[1])}" if len(classes) == 2 else "the predicted class"
    figures.append(
        f"<figure><h3>Calibration</h3>{charts.calibration(bins)}<figcaption>On the dashed line, a probability of 0.8 "
        f"for {about} comes true 8 times in 10. {charts.groups_of(bins)}</figcaption></figure>"
    )
    figures.append(charts.confusion(confusion_counts(found), classes))
    rounds = found.splits.n_repeats
    mean = f'<p class="muted small">Counts are means over {rounds} rounds of folds.</p>' if rounds > 1 else ""
    return f'<div class="charts">{"".join(figures)}</div>{mean}'


def _steady(found: Evaluation) -> str:
    if found.columns is None:
        return ""
    shown = found.columns[found.columns["core_share"] > 0].head(_STEADIEST)
    always = int((found.columns["core_share"] == 1).sum())
    ever = int((found.columns["core_share"] > 0).sum())
    rows = "".join(
        f'<tr><td><span class="clip" title="{escape(str(name))}">{escape(str(name))}</span></td>'
        f'<td>{row["core_share"]:.0%}</td><td class="margin">{gauge(row["core_share"])}</td>'
        f"<td>{row['rank']:.0f}</td><td>{row['rank_low']:.0f} to {row['rank_high']:.0f}</td></tr>"
        for name, row in shown.iterrows()
    )
    return (
        f'<p class="say">The columns were ranked anew in each of {len(found.splits)} folds. '
        f"<b>{counted(always, 'column') if always else 'No column'}</b> {'were' if always > 1 else 'was'} in the Core "
        f"every time, {counted(ever, 'column')} at least once.</p><div class='wide'><table class='steady'><thead><tr>"
        "<th scope='col'>Column</th><th scope='col'>In the Core</th><th scope='col' class='left'>Share of the folds"
        "</th><th scope='col'>Median rank</th><th scope='col'>80 % of ranks</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
        f'<p class="muted small">The {len(shown)} steadiest. A column that comes and goes is no finding; one that '
        "stays may still stand for others that it moves with.</p>"
    )


def _how(found: Evaluation) -> str:
    unit = "rows" if found.n_groups is None else "groups"
    baselines = (
        "Logistic regression and the elastic net choose their penalty by log-loss on three folds of the training rows"
        if found.classes is not None
        else "Ridge regression and the elastic net choose their penalty on three folds of the training rows"
    )
    times = "".join(
        f"<tr><td>{escape(found.models[name])}</td><td>{seconds:.1f} s</td></tr>"
        for name, seconds in found.seconds.items()
    )
    return (
        f'<p class="say">{escape(found.splits.words[:1].upper() + found.splits.words[1:])}. Ranking, trials, scaling '
        "and tuning happened inside each fold, on its training rows alone.</p>"
        f"<p>{baselines}; columns are median-filled and standardised, penalties are tuned with groups kept whole. The "
        "random forest has 300 trees, LightGBM 100 trees for few rows.</p>"
        f"<p><b>Intervals</b> come from drawing {unit} with replacement 2,000 times. A row that was predicted in "
        "several rounds is still one row: its scores are averaged first, so that more rounds do not make an interval "
        f"narrower than the {unit} allow. The percentiles are widened for few {unit}. They tell how far the figure may "
        "move with other rows to predict, not with other rows to learn from; on few rows read them as the least that "
        "is uncertain.</p>"
        f"<p><b>Evaluated:</b> <code>{escape(found.estimator)}</code></p>"
        f"<details><summary>Time of all fits and predictions</summary><table><tbody>{times}</tbody></table></details>"
    )


def _ends(one: Estimate) -> tuple[float, float]:
    return one.low, one.high


def _value(name: str, one: Estimate) -> str:
    if not np.isfinite(one.value):
        return "–"
    if name in ("accuracy", "balanced_accuracy"):
        return f"{one.value:.1%}"
    return significant(one.value, 3) if name in ("rmse", "mae") else f"{one.value:.3f}"


def _interval(name: str, one: Estimate) -> str:
    if not np.isfinite(one.low):
        return "no interval"
    if name in ("accuracy", "balanced_accuracy"):
        return f"{100 * one.low:.1f} to {one.high:.1%}"
    if name in ("rmse", "mae"):
        return f"{significant(one.low, 3)} to {significant(one.high, 3)}"
    return f"{one.low:.3f} to {one.high:.3f}"


def _difference(name: str, one: Estimate) -> str:
    if not np.isfinite(one.value):
        return "–"
    scale, digits = (100, 1) if name in ("accuracy", "balanced_accuracy") else (1, 3)
    value, low, high = (f"{scale * end:+.{digits}f}".replace("-", "−") for end in (one.value, one.low, one.high))
    return f'{value}<span class="note">{low} to {high}</span>' if np.isfinite(one.low) else value


def _colour(name: str, one: Estimate) -> str:
    low, high = (one.low, one.high) if name in _LARGER else (-one.high, -one.low)
    return "ok" if low > 0 else "fail" if high < 0 else ""
