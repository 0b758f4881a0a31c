"""A folded model inside AutoGluon: tables of any width, where AutoGluon would skip its other foundation models.

pip install autogluon.tabular
python examples/integrations/autogluon_model.py
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from autogluon.core.models import AbstractModel


class FoldedModel(AbstractModel):
    """`scff.FoldedClassifier` as an AutoGluon model; its hyperparameters are those of the classifier."""

    ag_key = "SCFF"
    ag_name = "SCFF"
    ag_priority = 60
    seed_name = "random_state"
    _supported_problem_types = ("binary", "multiclass")
    # AutoGluon skips a model on a table wider than its `max_features`; a folded one has no such width.
    _default_auxiliary_params_extra = {"max_features": None}  # noqa: RUF012
    # The weights are shared within a process: folds in processes of their own would each load them again.
    _default_ag_args_ensemble_extra = {"fold_fitting_strategy": "sequential_local", "refit_folds": True}  # noqa: RUF012

    @classmethod
    def supported_problem_types(cls) -> list[str]:
        """Classification only, as in the paper."""
        return list(cls._supported_problem_types)

    def _fit(self, X: pd.DataFrame, y: pd.Series, **kwargs: Any) -> None:
        from scff import FoldedClassifier

        self.model = FoldedClassifier(**self._get_model_params())
        self.model.fit(self.preprocess(X, is_train=True), y)


if __name__ == "__main__":
    import numpy as np
    from autogluon.tabular import TabularPredictor

    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    table = pd.DataFrame(rng.normal(size=(240, 2500)), columns=[f"x{j}" for j in range(2500)])
    table.iloc[:, :40] += 0.6 * y[:, None]
    table["label"] = y
    predictor = TabularPredictor(label="label", verbosity=1).fit(
        table[:160], hyperparameters={FoldedModel: {"backbone": "nano"}}, fit_weighted_ensemble=False
    )
    print(predictor.leaderboard(table[160:])[["model", "score_test", "score_val"]])
