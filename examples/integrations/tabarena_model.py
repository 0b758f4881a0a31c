"""A folded model in TabArena: what its experiments need to know about it.

    pip install tabarena
    python examples/integrations/tabarena_model.py

`experiments` gives ready-to-run TabArena experiments; a fork of TabArena would put the same pieces into
``tabarena/models/scff/``. TabArena runs models through AutoGluon, so the model class is the one of `autogluon_model`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from autogluon.common.space import Categorical
from tabarena.utils.config_utils import ConfigGenerator

sys.path.insert(0, str(Path(__file__).parent))
from autogluon_model import FoldedModel

SEARCH_SPACE = {
    "leaf_width": Categorical(64, 128, 256),
    "fdr": Categorical(0.01, 0.05, 0.2),
    "method": Categorical("auto", "scff"),
}


def generator(backbone: str = "tabicl-v2") -> ConfigGenerator:
    """The default configuration, and a small search space around it."""
    space = SEARCH_SPACE | {"backbone": Categorical(backbone)}
    return ConfigGenerator(model_cls=FoldedModel, manual_configs=[{"backbone": backbone}], search_space=space)


def experiments(n_random: int = 0, backbone: str = "tabicl-v2") -> list[Any]:
    """TabArena experiments with bagging, the benchmark's own protocol."""
    return generator(backbone).generate_all_bag_experiments(num_random_configs=n_random)


if __name__ == "__main__":
    for experiment in experiments(n_random=2):
        print(experiment.name)
