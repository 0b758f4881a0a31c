"""A folded model beside LightGBM in AutoGluon, on 3,000 columns.

pip install 'autogluon.tabular[lightgbm]'
python autogluon_table.py
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from autogluon.tabular import TabularPredictor

from scff.integrations.autogluon import register


def train(table: pd.DataFrame, label: str, path: str, **parameters: object) -> TabularPredictor:
    """Both models and their weighted ensemble; parameters are those of `scff.FoldedClassifier`."""
    register()
    held_back = table.sample(frac=0.2, random_state=0)
    predictor = TabularPredictor(label=label, path=path, eval_metric="log_loss", verbosity=1)
    return predictor.fit(
        table.drop(held_back.index), tuning_data=held_back, hyperparameters={"SCFF": parameters, "GBM": {}}
    )


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    table = pd.DataFrame(rng.normal(size=(240, 3000)), columns=[f"x{j}" for j in range(3000)])
    table.iloc[:, :40] += 0.6 * y[:, None]
    table["label"] = y
    predictor = train(table[:160], "label", "autogluon-models", backbone="nano")
    print(predictor.leaderboard(table[160:])[["model", "score_test", "score_val"]])
