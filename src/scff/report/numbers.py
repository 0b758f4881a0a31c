"""How good a model of numbers is on a test table."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn import metrics

from scff.memory.device import resolve_device
from scff.memory.meter import PeakMemory
from scff.report import charts
from scff.report.marks import counted, tile
from scff.report.svg import significant
from scff.tables.on_disk import open_wide
from scff.tables.targets import number_target

if TYPE_CHECKING:
    from scff.estimators.base import FoldedEstimator

__all__ = ["NumberQuality", "assess_numbers", "good_numbers"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NumberQuality:
    """Scores of one regressor on one test table.

    Attributes
    ----------
    n_rows : int
    r2, rmse, mae : float
    prior_rmse : float
        The same error for always saying the mean of the support.
    true, said : ndarray
    seconds : float
        Time to predict the table.
    peak_bytes : int
        Memory that predicting added, at its peak.
    """

    n_rows: int
    r2: float
    rmse: float
    mae: float
    prior_rmse: float
    true: FloatArray = field(repr=False)
    said: FloatArray = field(repr=False)
    seconds: float
    peak_bytes: int


def assess_numbers(model: FoldedEstimator, X: Any, y: Any) -> NumberQuality:
    """Predict a test table once and score it."""
    fitted = model.fitted_
    if isinstance(X, os.PathLike):
        X = open_wide(X)
    started = time.perf_counter()
    with PeakMemory(resolve_device(fitted.settings.device)) as memory:
        said = model.predict(X)
    seconds = time.perf_counter() - started
    true = number_target(y, len(said))
    return NumberQuality(
        n_rows=len(true),
        r2=float(metrics.r2_score(true, said)) if len(true) > 1 else float("nan"),
        rmse=float(metrics.root_mean_squared_error(true, said)),
        mae=float(metrics.mean_absolute_error(true, said)),
        prior_rmse=float(np.sqrt(np.mean((true - fitted.y.mean()) ** 2))),
        true=true,
        said=said,
        seconds=seconds,
        peak_bytes=memory.added,
    )


def good_numbers(quality: NumberQuality) -> str:
    """How good is it?"""
    tiles = [
        tile("R²", f"{quality.r2:.3f}", "1 is perfect, 0 the mean", "r2"),
        tile("RMSE", significant(quality.rmse), "root of the mean squared error", "rmse"),
        tile("MAE", significant(quality.mae), "mean absolute error", "mae"),
        tile("Test rows", f"{quality.n_rows:,}", "as given to this report", "test_rows"),
    ]
    return (
        f'<p class="say">On {counted(quality.n_rows, "test row")} the model is off by {significant(quality.rmse)} '
        f"(RMSE). Always saying the mean of the labelled rows would be off by {significant(quality.prior_rmse)}.</p>"
        f'<div class="tiles">{"".join(tiles)}</div><div class="charts"><figure><h3>Predicted against true</h3>'
        f"{charts.scatter(quality.true, quality.said)}<figcaption>One point for each test row; on the dashed line it "
        "is "
        "right.</figcaption></figure></div>"
    )
