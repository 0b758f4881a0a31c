"""How good a model is on a labelled test table."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn import metrics

from scff.errors import DataError
from scff.fold.algorithm import Folded
from scff.memory.meter import PeakMemory
from scff.report import svg
from scff.report.svg import COLOURS, Scale

if TYPE_CHECKING:
    from scff.estimators.classifier import FoldedClassifier

__all__ = ["Bin", "Quality", "assess", "calibration_figure", "known_columns", "roc_figure", "split_target"]

FloatArray = npt.NDArray[np.float64]
_BINS = 10


@dataclass(frozen=True)
class Bin:
    """Predictions of similar probability: what was said, what happened, and how many rows."""

    said: float
    happened: float
    rows: int


@dataclass(frozen=True)
class Quality:
    """Scores of one model on one test table.

    Attributes
    ----------
    n_rows : int
    accuracy, log_loss : float
    accuracy_interval : tuple of float
        Wilson 95% interval: what a test table of this size can tell.
    prior_accuracy, prior_log_loss : float
        The same for a model that only knows how frequent the classes are in the support.
    confusion : ndarray of int of shape (K, K)
        Rows are true classes, columns predicted ones.
    calibration : tuple of Bin
    calibrated_class : str or None
        The class whose probability the bins are about; None for that of the predicted class.
    roc : tuple of ndarray or None
        False and true positive rates, for two classes.
    auc : float or None
    seconds : float
        Time to predict the table.
    peak_bytes : int
        Memory that predicting added, at its peak.
    core_accuracy, core_log_loss : float or None
        The same table with the Tail left out, where the model has let it in: what the Tail is worth on unseen rows.
    """

    n_rows: int
    accuracy: float
    log_loss: float
    accuracy_interval: tuple[float, float]
    prior_accuracy: float
    prior_log_loss: float
    confusion: npt.NDArray[np.int64] = field(repr=False)
    calibration: tuple[Bin, ...] = field(repr=False)
    calibrated_class: str | None
    roc: tuple[FloatArray, FloatArray] | None = field(repr=False)
    auc: float | None
    seconds: float
    peak_bytes: int
    core_accuracy: float | None = None
    core_log_loss: float | None = None


def split_target(test: Any, target: Any) -> tuple[Any, Any]:
    """Rows and labels from a table and either the name of its target column or the labels themselves."""
    if target is None:
        raise DataError("A test table needs its labels: name the target column, or pass the labels.")
    if not isinstance(target, str):
        return test, target
    columns = getattr(test, "columns", None)
    if columns is None or target not in list(columns):
        known = "an array without column names" if columns is None else f"columns {', '.join(map(str, columns[:5]))}, …"
        raise DataError(f"The test table has no column {target!r} (it has {known}); name the target column.")
    if not isinstance(test, pd.DataFrame):  # polars
        test = test.to_pandas()
    return test.drop(columns=target), test[target]


def known_columns(model: FoldedClassifier, X: Any) -> Any:
    """The columns a model was fitted on, out of a table that may hold others beside them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or not hasattr(X, "columns"):
        return X
    there = set(X.columns)
    missing = [name for name in names if name not in there]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(f"The test table lacks the column {missing[0]!r}{more} that the model was fitted on.")
    return X[list(names)]


def assess(model: FoldedClassifier, X: Any, y: Any) -> Quality:
    """Predict a test table once and score it.

    Raises
    ------
    DataError
        If the labels do not match the rows, or one was never seen at fit.
    """
    classes = model.classes_
    labels = np.asarray(y).reshape(-1)
    # By value, or by text: a file may give 1.0 where the model was fitted on 1, and "1" as well.
    position = {str(name): k for k, name in enumerate(classes)} | {name: k for k, name in enumerate(classes.tolist())}
    keys = [label if label in position else str(label) for label in labels.tolist()]
    unknown = sorted({str(key) for key in keys if key not in position})
    if unknown:
        raise DataError(
            f"The test labels hold {', '.join(map(repr, unknown[:3]))}, which the model has never seen; its classes "
            f"are "
            f"{', '.join(map(str, classes[:8]))}."
        )
    started = time.perf_counter()
    with PeakMemory(model._device()) as memory:
        proba = model.predict_proba(X)
    seconds = time.perf_counter() - started
    if len(labels) != len(proba):
        raise DataError(f"The test table has {len(proba)} rows but there are {len(labels)} labels.")
    codes = np.array([position[key] for key in keys], dtype=np.int64)
    prior = np.bincount(model._codes, minlength=len(classes)) / len(model._codes)
    predicted = proba.argmax(axis=1)
    hits = int((predicted == codes).sum())
    binary = len(classes) == 2
    said = proba[:, 1] if binary else proba.max(axis=1)
    happened = codes == 1 if binary else predicted == codes
    both = binary and len(np.unique(codes)) == 2
    core = _core_alone(model, X)
    every = np.arange(len(classes))
    return Quality(
        n_rows=len(codes),
        accuracy=hits / len(codes),
        log_loss=float(metrics.log_loss(codes, proba, labels=every)),
        accuracy_interval=_wilson(hits, len(codes)),
        prior_accuracy=float((codes == prior.argmax()).mean()),
        prior_log_loss=float(-np.log(prior[codes]).mean()),
        confusion=np.asarray(metrics.confusion_matrix(codes, predicted, labels=every)),
        calibration=_bins(said, happened),
        calibrated_class=str(classes[1]) if binary else None,
        roc=metrics.roc_curve(codes, said)[:2] if both else None,
        auc=float(metrics.roc_auc_score(codes, said)) if both else None,
        seconds=seconds,
        peak_bytes=memory.added,
        core_accuracy=None if core is None else float((core.argmax(axis=1) == codes).mean()),
        core_log_loss=None if core is None else float(metrics.log_loss(codes, core, labels=every)),
    )


def _core_alone(model: FoldedClassifier, X: Any) -> FloatArray | None:
    """Probabilities with the Tail left out of every view that let it in; None where none did."""
    members = model._members()
    if not any(isinstance(member, Folded) and member.tail is not None for member in members):
        return None
    rows = model._validate(X, reset=False)
    logits = []
    for member in members:
        compared = member.core_alone() if isinstance(member, Folded) else member
        logits.append(compared.predict(rows).float().cpu().numpy())
    return model._runtime[0].combine(logits)


def calibration_figure(quality: Quality) -> str:
    """What was said against what happened; the area of a point is its number of rows."""
    x, y = Scale(0, 1, 56, 300), Scale(0, 1, 250, 16)
    most = max(b.rows for b in quality.calibration)
    points = "".join(
        f'<circle cx="{x(b.said):.1f}" cy="{y(b.happened):.1f}" r="{2.5 + 5 * (b.rows / most) ** 0.5:.1f}" '
        f'fill="{COLOURS["core"]}"><title>said {b.said:.3f}, happened {b.happened:.3f}, {b.rows} rows</title></circle>'
        for b in quality.calibration
    )
    what = "the predicted class" if quality.calibrated_class is None else f"class {quality.calibrated_class}"
    body = (
        svg.axis_y(y, 56, "observed frequency", 300)
        + svg.path([(56, 250), (300, 16)], 'fill="none" stroke="currentColor" stroke-dasharray="4 4" opacity=".5"')
        + svg.path(
            [(x(b.said), y(b.happened)) for b in quality.calibration],
            f'fill="none" stroke="{COLOURS["core"]}" stroke-width="1.8"',
        )
        + points
        + svg.axis_x(x, 250, f"probability given to {what[:28]}")
    )
    return svg.figure("calibration", 320, 300, "Calibration: probability given against observed frequency", body)


def roc_figure(quality: Quality) -> str:
    """The ROC curve of a binary task."""
    assert quality.roc is not None
    x, y = Scale(0, 1, 56, 300), Scale(0, 1, 250, 16)
    fpr, tpr = quality.roc
    points = [(x(float(a)), y(float(b))) for a, b in zip(fpr, tpr, strict=True)]
    body = (
        svg.axis_y(y, 56, "true positive rate", 300)
        + svg.path([(56, 250), (300, 16)], 'fill="none" stroke="currentColor" stroke-dasharray="4 4" opacity=".5"')
        + svg.path([*points, (300, 250)], f'fill="{COLOURS["core"]}" opacity=".12"')
        + svg.path(points, f'fill="none" stroke="{COLOURS["core"]}" stroke-width="2.2"')
        + svg.text(290, 236, f"AUC {quality.auc:.4f}", "end", 'font-weight="600"')
        + svg.axis_x(x, 250, "false positive rate")
    )
    return svg.figure("roc", 320, 300, f"ROC curve, area {quality.auc:.4f}", body)


def _bins(said: FloatArray, happened: npt.NDArray[np.bool_]) -> tuple[Bin, ...]:
    """Bins of about equal numbers of rows: every point then carries the same weight of evidence."""
    order = np.argsort(said, kind="stable")
    parts = [part for part in np.array_split(order, min(_BINS, len(order))) if len(part)]
    return tuple(Bin(float(said[part].mean()), float(happened[part].mean()), len(part)) for part in parts)


def _wilson(hits: int, n: int) -> tuple[float, float]:
    z = 1.959963984540054
    share = hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)
