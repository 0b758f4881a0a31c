"""How good a model is on a labelled test table."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn import metrics

from scff.errors import DataError, shown
from scff.memory.device import resolve_device
from scff.memory.meter import PeakMemory
from scff.report.charts import Bin, Curve, bins_of
from scff.tables.on_disk import open_wide
from scff.tables.table import Table, as_table
from scff.tables.targets import one_column

if TYPE_CHECKING:
    from scff.estimators.base import FoldedEstimator

__all__ = ["Quality", "assess", "known_columns", "seen_before", "split_target"]

FloatArray = npt.NDArray[np.float64]


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
    roc : tuple of Curve
        False and true positive rates of the second class of two, or of each of more against the others; none where the
        test table lacks a class.
    auc : float or None
        Area under it; for more classes the mean over each class against the others. None where the test table lacks a
        class.
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
    roc: tuple[Curve, ...] = field(repr=False)
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


def known_columns(model: FoldedEstimator, X: Any) -> Any:
    """The columns a model was fitted on, out of a table that may hold others beside them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or isinstance(X, Table) or not hasattr(X, "columns"):  # a table was read for this model
        return X
    there = set(X.columns)
    missing = [name for name in names if name not in there]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(f"The test table lacks the column {missing[0]!r}{more} that the model was fitted on.")
    return X[list(names)]


def seen_before(support: Table, X: Any) -> str:
    """A sentence about test rows that have the names of labelled rows; empty where there are none."""
    rows = X.row_names if isinstance(X, Table) else as_table(X).row_names if isinstance(X, pd.DataFrame) else None
    if rows is None or support.row_names is None:
        return ""
    labelled = set(map(str, support.row_names))
    known = [str(name) for name in rows if str(name) in labelled]
    if not known:
        return ""
    shown = ", ".join(known[:3]) + (", …" if len(known) > 3 else "")
    return (
        f"{len(known):,} of the {len(rows):,} test rows have the names of labelled rows ({shown}). If they are the "
        "same samples, the model has seen their labels, and the figures below flatter it."
    )


def assess(model: FoldedEstimator, X: Any, y: Any) -> Quality:
    """Predict a test table once and score it.

    Raises
    ------
    DataError
        If the labels do not match the rows, or one was never seen at fit.
    """
    fitted = model.fitted_
    assert fitted.classes is not None, "numbers are assessed elsewhere"
    classes = fitted.classes
    if isinstance(X, os.PathLike):
        X = open_wide(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column of a frame is as good
        labels = one_column(y, None, "label")
    # By value, or by text: a file may give 1.0 where the model was fitted on 1, and "1" as well.
    position = {str(name): k for k, name in enumerate(classes)} | {name: k for k, name in enumerate(classes.tolist())}
    keys = [label if _is_key(label) and label in position else shown(label) for label in labels.tolist()]
    unknown = sorted({str(key) for key in keys if key not in position})
    if unknown:
        raise DataError(
            f"The test labels hold {', '.join(map(repr, unknown[:3]))}, which the model has never seen; its classes "
            f"are {', '.join(map(str, classes[:8]))}."
        )
    started = time.perf_counter()
    with PeakMemory(resolve_device(fitted.settings.device)) as memory:
        proba = model.predict_proba(X)
    seconds = time.perf_counter() - started
    if len(labels) != len(proba):
        raise DataError(f"The test table has {len(proba)} rows but there are {len(labels)} labels.")
    codes = np.array([position[key] for key in keys], dtype=np.int64)
    prior = np.bincount(fitted.y, minlength=len(classes)) / len(fitted.y)
    predicted = proba.argmax(axis=1)
    hits = int((predicted == codes).sum())
    binary = len(classes) == 2
    given = proba[:, 1] if binary else proba.max(axis=1)
    came_true = codes == 1 if binary else predicted == codes
    all_there = len(np.unique(codes)) == len(classes)
    every = np.arange(len(classes))
    curves = _curves(codes, proba, [str(name) for name in classes]) if all_there else ()
    core = None
    if any(gate is not None and gate.accepted is not None for gates in fitted.gates for gate in gates):
        core = fitted.predict(as_table(X).like(fitted.support), tail=False)
    return Quality(
        n_rows=len(codes),
        accuracy=hits / len(codes),
        log_loss=float(metrics.log_loss(codes, proba, labels=every)),
        accuracy_interval=_wilson(hits, len(codes)),
        prior_accuracy=float((codes == prior.argmax()).mean()),
        prior_log_loss=float(-np.log(prior[codes]).mean()),
        confusion=np.asarray(metrics.confusion_matrix(codes, predicted, labels=every)),
        calibration=bins_of(given, came_true),
        calibrated_class=str(classes[1]) if binary else None,
        roc=curves,
        auc=float(np.mean([curve.area for curve in curves])) if curves else None,
        seconds=seconds,
        peak_bytes=memory.added,
        core_accuracy=None if core is None else float((core.argmax(axis=1) == codes).mean()),
        core_log_loss=None if core is None else float(metrics.log_loss(codes, core, labels=every)),
    )


def _is_key(label: Any) -> bool:
    """Whether a label can be looked up; lists and dicts cannot."""
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _curves(codes: npt.NDArray[np.int64], proba: FloatArray, classes: list[str]) -> tuple[Curve, ...]:
    """The ROC curve of the second of two classes, or of each of more against the others."""
    curves = []
    for k, name in enumerate(classes):
        if len(classes) > 2 or k == 1:
            false, true, _ = metrics.roc_curve(codes == k, proba[:, k])
            curves.append(Curve(name, false, true, float(metrics.roc_auc_score(codes == k, proba[:, k]))))
    return tuple(curves)


def _wilson(hits: int, n: int) -> tuple[float, float]:
    z = 1.959963984540054
    share = hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)
