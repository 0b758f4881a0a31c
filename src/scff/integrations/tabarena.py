"""A folded model in TabArena: the model class, its search space, what is known of it, and its weights fetched ahead.

>>> from scff.integrations.tabarena import experiments, register  # doctest: +SKIP
>>> register()  # doctest: +SKIP
>>> experiments(n_random=20)  # doctest: +SKIP

Everything is defined at the top of an importable module, so that TabArena's workers can unpickle it.
"""

from __future__ import annotations

from typing import Any

from scff.backbones import listing
from scff.backbones.registry import choose_auto
from scff.errors import MissingDependency
from scff.integrations.autogluon import FoldedModel
from scff.integrations.autogluon import register as register_with_autogluon

try:
    from autogluon.common.space import Categorical
    from tabarena.models._method_metadata import MethodMetadata
    from tabarena.models._model_info import ModelInfo
    from tabarena.models._registry import register_model_info
    from tabarena.utils.config_utils import ConfigGenerator
except ImportError as error:
    raise MissingDependency(
        "scff.integrations.tabarena needs TabArena; install it with: pip install tabarena"
    ) from error

__all__ = ["SEARCH_SPACE", "experiments", "generator", "info", "prefetch_weights", "register"]

SEARCH_SPACE = {
    "leaf_width": Categorical(64, 128, 256),
    "fdr": Categorical(0.01, 0.05, 0.2),
    "n_estimators": Categorical(1, 2, 4),
    "trials": Categorical("auto", "thorough"),
}
"""Around the default, which ``method="auto"`` tunes by itself on held-back rows."""


def generator(backbone: str = "auto") -> Any:
    """The default configuration, and random ones of `SEARCH_SPACE`."""
    space = SEARCH_SPACE | {"backbone": Categorical(backbone)}
    return ConfigGenerator(model_cls=FoldedModel, manual_configs=[{"backbone": backbone}], search_space=space)


def experiments(n_random: int = 0, backbone: str = "auto", **options: Any) -> list[Any]:
    """TabArena experiments with bagging, the benchmark's own protocol.

    Parameters
    ----------
    n_random : int
        Random configurations beside the default.
    backbone : str
        Name or path.
    **options
        For ``ConfigGenerator.generate_all_bag_experiments``.
    """
    found: list[Any] = generator(backbone).generate_all_bag_experiments(num_random_configs=n_random, **options)
    return found


def prefetch_weights() -> None:
    """Have the weights on this machine before jobs are sent to machines without a network."""
    listing.fetch(choose_auto())


info = ModelInfo(
    model_cls=FoldedModel,
    search_space=generator,
    method_metadata=MethodMetadata.config(
        method="SCFF",
        ag_key=FoldedModel.ag_key,
        config_default="SCFF_c1_BAG_L1",
        can_hpo=True,
        compute="cpu",
        is_bag=False,
        display_name="SCFF",
        reference_url="https://arxiv.org/abs/2609.28208",
        verified=False,
    ),
    pip_extra=("scff",),
    prefetch_weights=prefetch_weights,
)
"""What TabArena's registry holds of a model."""


def register() -> None:
    """Enter the model into the registries of TabArena and AutoGluon; a second call changes nothing."""
    register_with_autogluon()
    register_model_info(info)
