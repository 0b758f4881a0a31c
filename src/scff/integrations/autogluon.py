"""A folded model inside AutoGluon: tables of any width, where its other foundation models are skipped.

>>> from autogluon.tabular import TabularPredictor  # doctest: +SKIP
>>> from scff.integrations.autogluon import register  # doctest: +SKIP
>>> register()  # doctest: +SKIP
>>> TabularPredictor(label="label").fit(table, hyperparameters={"SCFF": {}, "GBM": {}})  # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pandas as pd
import torch

from scff.errors import MissingDependency
from scff.estimators.classifier import FoldedClassifier
from scff.estimators.regressor import FoldedRegressor
from scff.integrations.planning import Task, memory_of_fit

try:
    from autogluon.tabular.models.abstract.abstract_torch_model import AbstractTorchModel
except ImportError as error:
    raise MissingDependency(
        "scff.integrations.autogluon needs AutoGluon; install it with: pip install 'autogluon.tabular>=1.6'"
    ) from error

__all__ = ["FoldedModel", "register"]


class FoldedModel(AbstractTorchModel):  # type: ignore[misc]
    """`FoldedClassifier` or `FoldedRegressor` as an AutoGluon model; its hyperparameters are theirs.

    For a regression, hyperparameters that only the classifier has are left out. ``method="auto"`` asks held-back rows
    within the budget of the fit; AutoGluon's own validation rows stay AutoGluon's.
    """

    ag_key = "SCFF"
    ag_name = "SCFF"
    ag_priority = 60
    seed_name = "random_state"
    gpu_strongly_recommended = False  # a leaf is small, and is encoded once
    default_num_gpus = 1
    default_resources_physical_cores_only = True
    _supported_problem_types: ClassVar[list[str]] = ["binary", "multiclass", "regression"]
    # AutoGluon skips a model on a table wider than its `max_features`; a folded one has no such width.
    _default_auxiliary_params_extra: ClassVar[dict[str, Any]] = {"max_features": None, "max_batch_size": None}
    # The weights are shared within a process: folds in processes of their own would each load them again.
    _default_ag_args_ensemble_extra: ClassVar[dict[str, Any]] = {
        "fold_fitting_strategy": "sequential_local",
        "refit_folds": True,
    }

    @classmethod
    def supported_problem_types(cls) -> list[str]:
        """Two classes, more classes, numbers."""
        return list(cls._supported_problem_types)

    def _fit(self, X: pd.DataFrame, y: pd.Series, num_cpus: int = 1, num_gpus: float = 0, **kwargs: Any) -> None:
        device = self._resolve_fit_device(num_gpus=num_gpus)
        before = torch.get_num_threads()
        torch.set_num_threads(max(1, int(num_cpus)))
        try:
            self.model = _estimator(self.problem_type, self._get_model_params(), device)
            self.model.fit(self.preprocess(X, y=y, is_train=True), y)
        finally:
            torch.set_num_threads(before)

    def get_device(self) -> str:
        """Where the fitted model predicts."""
        return str(self.model.fitted_.settings.device)

    def _set_device(self, device: str) -> None:
        fitted = self.model.fitted_
        if fitted.settings.device != device:
            settings = replace(fitted.settings, device=device)
            self.model.fitted_ = replace(fitted, settings=settings, _compiled=None)

    @classmethod
    def _estimate_memory_usage_static(
        cls, *, X: pd.DataFrame, hyperparameters: dict[str, Any] | None = None, **kwargs: Any
    ) -> int:
        task = _task(kwargs.get("problem_type"))
        return memory_of_fit(*X.shape, hyperparameters or {}, task=task)

    @classmethod
    def _estimate_gpu_memory_usage_static(
        cls, *, X: pd.DataFrame, hyperparameters: dict[str, Any] | None = None, **kwargs: Any
    ) -> int:
        task = _task(kwargs.get("problem_type"))
        return memory_of_fit(*X.shape, hyperparameters or {}, task=task, device="cuda")

    def _more_tags(self) -> dict[str, Any]:
        return {"can_refit_full": True}


def register() -> None:
    """Let AutoGluon know the model by its key, ``"SCFF"``; a second call changes nothing."""
    from autogluon.tabular.registry import ag_model_registry

    if not ag_model_registry.exists(FoldedModel):
        ag_model_registry.add(FoldedModel)


def _task(problem_type: str | None) -> Task:
    return "regression" if problem_type == "regression" else "classification"


def _estimator(problem_type: str, parameters: dict[str, Any], device: str) -> FoldedClassifier | FoldedRegressor:
    given = {"device": device} | parameters
    if problem_type != "regression":
        return FoldedClassifier(**given)
    only = set(FoldedClassifier().get_params()) - set(FoldedRegressor().get_params())
    return FoldedRegressor(**{name: value for name, value in given.items() if name not in only})
