"""What constructor arguments may be, declared as scikit-learn does, and what a target may be."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    Options,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from scff.errors import DataError
from scff.gate.record import TAIL_RULES, TailRule
from scff.names import ENGINES, METHODS, ROUTINGS
from scff.tables.table import Table, encode_target

__all__ = ["CLASSIFIER", "REGRESSOR", "REGRESSOR_METHODS", "check_parameters", "class_labels", "one_column"]

REGRESSOR_METHODS = ("scff", "native", "raw-core", "bounded-core")

_SHARED: dict[str, Any] = {
    "backbone": [str, os.PathLike],
    "leaf_width": [Interval(Integral, 1, None, closed="left")],
    "fdr": [Interval(Real, 0, 1, closed="neither")],
    "memory_limit": [None, str, Interval(Real, 0, None, closed="neither")],
    "n_estimators": [Interval(Integral, 1, None, closed="left")],
    "device": [str],
    "cache": [StrOptions({"disk"}), Options(bool, {True, False})],
    "random_state": [Interval(Integral, 0, 2**32 - 1, closed="both")],
    "verbose": [Interval(Integral, 0, None, closed="left"), bool],
    "leaf_batch": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "query_chunk": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
}
CLASSIFIER: dict[str, Any] = _SHARED | {
    "method": [StrOptions({"auto", *METHODS})],
    "tail": [StrOptions({"off", *TAIL_RULES}), TailRule],
    "routing": [StrOptions(set(ROUTINGS))],
    "trials": [StrOptions({"auto", "thorough"}), Options(Integral, {0})],
    "engine": [StrOptions(set(ENGINES))],
}
REGRESSOR: dict[str, Any] = _SHARED | {"method": [StrOptions(set(REGRESSOR_METHODS))]}


def check_parameters(estimator: Any) -> None:
    """Hold an estimator's constructor arguments against what its class declares.

    Raises
    ------
    DataError
        Naming the argument, what it may be and what it is.
    """
    parameters = estimator.get_params(deep=False)
    try:
        validate_parameter_constraints(estimator._parameter_constraints, parameters, type(estimator).__name__)
    except InvalidParameterError as error:
        raise DataError(str(error)) from error
    if parameters.get("engine") == "ray" and estimator.method not in ("auto", "scff", "bounded-core"):
        raise DataError(
            'engine="ray" spreads the leaves of a row backbone over a cluster; use it with method="auto", "scff" or '
            '"bounded-core", or leave engine at "local".'
        )


def one_column(y: Any, support: Table, what: str) -> npt.NDArray[Any]:
    """A target as one column with an entry for every row of the support."""
    if y is None:
        raise DataError(f"fit requires y to be passed, but the target y is None; give one {what} per row.")
    try:
        y = column_or_1d(y, warn=True)
    except (TypeError, ValueError) as error:
        raise DataError(f"The target must be one column, one {what} per row ({error}).") from error
    if len(y) != support.n_rows:
        raise DataError(f"X has {support.n_rows} rows but y has {len(y)}; give one {what} per row.")
    out: npt.NDArray[Any] = y
    return out


def class_labels(y: Any, support: Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Class codes of the support rows, and the classes; refuses what is no target of a classifier."""
    y = one_column(y, support, "label")
    codes, classes = encode_target(y)
    try:
        check_classification_targets(y)
    except ValueError as error:
        raise DataError(f"{error} Use FoldedRegressor for numbers.") from error
    if len(classes) < 2:
        raise DataError(f"The target has one class ({classes[0]!r}); a classifier needs rows of at least two.")
    return codes, classes
