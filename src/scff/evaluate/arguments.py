"""What `evaluate` is called with, held against what it can do before a table is read."""

from __future__ import annotations

import os
from numbers import Real
from typing import Any

from sklearn.base import is_classifier, is_regressor

from scff.errors import DataError, shown
from scff.estimators.base import FoldedEstimator
from scff.estimators.parameters import check_parameters
from scff.names import ENGINES, is_whole

__all__ = ["check_arguments"]


def check_arguments(estimator: Any, *, engine: Any, n_jobs: Any, seed: Any, resume: Any, verbose: Any) -> None:
    """Refuse what cannot be meant; parameters as for `evaluate`.

    Raises
    ------
    DataError
        Naming the argument.
    """
    if not isinstance(engine, str) or engine not in ENGINES:
        raise DataError(f'engine must be "local" or "ray", not {shown(engine)!r}.')
    if not is_whole(n_jobs) or not (n_jobs >= 1 or n_jobs == -1):
        raise DataError(f"n_jobs must be a number of processes, or -1 for one on every core, not {shown(n_jobs)}.")
    if not is_whole(seed) or not 0 <= seed < 2**32:
        raise DataError(f"seed must be a whole number from 0 to 2**32 - 1, not {shown(seed)}.")
    if resume is not None and not (isinstance(resume, str | os.PathLike) and isinstance(os.fspath(resume), str)):
        raise DataError(f"resume must be the name of a folder, not {shown(resume)}.")
    if resume is not None and (not os.fspath(resume) or "\0" in os.fspath(resume)):
        raise DataError("resume must be the name of a folder, and no folder can be called that.")
    if not isinstance(verbose, Real):
        raise DataError(f"verbose must be 0 or 1, not {shown(verbose)}.")
    if estimator is not None:
        _check_estimator(estimator)


def _check_estimator(estimator: Any) -> None:
    name = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
    if isinstance(estimator, type):
        raise DataError(f"The estimator is the class {name}; give an object of it, such as {name}().")
    if not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        raise DataError(f"The estimator is of type {name}, which cannot be fitted; give one of this library's.")
    if not is_classifier(estimator) and not is_regressor(estimator):
        raise DataError(f"{name} is neither a classifier nor a regressor; give one of them.")
    if isinstance(estimator, FoldedEstimator):
        check_parameters(estimator)  # here, and not in every process of the first fold
    if is_classifier(estimator) and not hasattr(estimator, "predict_proba"):
        raise DataError(f"{name} gives no probabilities, and most figures are about them; calibrate it first.")
