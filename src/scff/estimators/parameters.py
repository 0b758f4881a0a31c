"""What constructor arguments may be, declared as scikit-learn does."""

from __future__ import annotations

import math
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

from scff.errors import DataError, one_line, shown
from scff.gate.record import TAIL_RULES, TailRule
from scff.names import ENGINES, METHODS, ROUTINGS, is_whole

__all__ = ["CLASSIFIER", "REGRESSOR", "REGRESSOR_METHODS", "check_parameters", "class_weights"]

REGRESSOR_METHODS = ("auto", "scff", "native", "raw-core", "bounded-core")

#: Of columns, leaves or rows, as a model file holds it.
_COUNT = Interval(Integral, 1, 2**31 - 1, closed="both")
_SHARED: dict[str, Any] = {
    "backbone": [str, os.PathLike],
    "leaf_width": [_COUNT],
    "fdr": [Interval(Real, 0, 1, closed="neither")],
    "memory_limit": [None, str, Interval(Real, 0, None, closed="neither")],
    "n_estimators": [StrOptions({"auto"}), Interval(Integral, 1, 1024, closed="both")],
    "device": [str],
    "cache": [StrOptions({"disk"}), Options(bool, {True, False})],
    "random_state": [Interval(Integral, 0, 2**32 - 1, closed="both")],
    "verbose": [Interval(Integral, 0, None, closed="left"), bool],
    "leaf_batch": [StrOptions({"auto"}), _COUNT],
    "query_chunk": [StrOptions({"auto"}), _COUNT],
    "id_column": [None, str],
    "keep_id": ["boolean"],
    "categorical": [None, list, tuple],
    "trials": [StrOptions({"auto", "thorough"}), Options(Integral, {0})],
}
_NUMBERS = {"leaf_width", "fdr", "memory_limit", "n_estimators", "random_state", "trials", "leaf_batch", "query_chunk"}
CLASSIFIER: dict[str, Any] = _SHARED | {
    "method": [StrOptions({"auto", *METHODS})],
    "tail": [StrOptions({"off", *TAIL_RULES}), TailRule],
    "routing": [StrOptions(set(ROUTINGS))],
    "engine": [StrOptions(set(ENGINES))],
    "class_weight": [None, dict, StrOptions({"balanced"})],
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
    constraints = estimator._parameter_constraints
    try:
        for name in _NUMBERS & parameters.keys():  # to Python a truth value is a number; here it is a slip
            if isinstance(parameters[name], bool | np.bool_):
                raise InvalidParameterError(f"{name!r} must be a number, not {parameters[name]}.")
        validate_parameter_constraints(constraints, parameters, type(estimator).__name__)
    except InvalidParameterError as error:
        raise DataError(one_line(error)) from error
    except (TypeError, ValueError) as error:  # an array has no one truth value to be compared by
        raise DataError(f"An argument of {type(estimator).__name__} cannot be compared ({error}).") from error
    for name in parameters.get("categorical") or ():
        if not isinstance(name, str) and not is_whole(name):
            raise DataError(f"categorical must hold names or numbers of columns, not {shown(name)}.")
    if parameters.get("engine") == "ray" and estimator.method not in ("auto", "scff", "bounded-core"):
        raise DataError(
            'engine="ray" spreads the leaves of a row backbone over a cluster; use it with method="auto", "scff" or '
            '"bounded-core", or leave engine at "local".'
        )


#: What a class is worth at least, in terms of the one that is worth most.
_LEAST = float(np.finfo(np.float64).tiny)


def class_weights(
    wanted: dict[Any, float] | str | None, codes: npt.NDArray[np.int64], classes: npt.NDArray[Any]
) -> tuple[float, ...] | None:
    """What the probability of each class is multiplied by; None for nothing.

    Raises
    ------
    DataError
        If a weight belongs to no class, or is not a positive number.
    """
    if wanted is None:
        return None
    if isinstance(wanted, str):
        counts = np.bincount(codes, minlength=len(classes))
        return tuple((len(codes) / (len(classes) * counts)).tolist())
    known = classes.tolist()
    for label, weight in wanted.items():
        if label not in known:
            raise DataError(f"class_weight names {label!r}, which is no class; the classes are {known[:8]}.")
        if not _is_positive(weight):
            raise DataError(f"The class_weight of {label!r} must be a positive number, not {shown(weight)}.")
    weights = [float(wanted.get(label, 1.0)) for label in known]
    # The largest is 1 and none is 0: no product with a probability is beyond a float, nor the sum of them zero.
    return tuple(max(weight / max(weights), _LEAST) for weight in weights)


def _is_positive(weight: Any) -> bool:
    try:
        return isinstance(weight, Real) and 0 < float(weight) < math.inf
    except OverflowError:  # a whole number or fraction beyond any float
        return False
