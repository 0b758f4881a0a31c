"""One TabArena job of a folded model on a table of your own.

pip install tabarena
python tabarena_job.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from tabarena.benchmark.task.user_task import UserTask

from scff.integrations.tabarena import experiments, register


def run(table: pd.DataFrame, label: str, n_train: int, backbone: str = "auto") -> dict[str, Any]:
    """The default configuration, bagged twice, on one split: the first rows train, the others test.

    TabArena gives a fit an hour; this one has as long as it takes, on however busy a machine.
    """
    register()
    splits = {0: {0: (list(range(n_train)), list(range(n_train, len(table))))}}
    task = UserTask(task_name=label).create_task(
        target_feature=label, problem_type="classification", dataset=table, splits=splits
    )
    (experiment,) = experiments(backbone=backbone, num_bag_folds=2, time_limit=None)
    return experiment.run(task, fold=0, task_name=label, cache_task_key=label)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    table = pd.DataFrame(rng.normal(size=(200, 500)), columns=[f"x{j}" for j in range(500)])
    table.iloc[:, :40] += 0.6 * y[:, None]
    print(run(table.assign(label=pd.Series(y).astype("category")), "label", 120, "nano")["metric_error"])
