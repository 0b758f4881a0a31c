"""TabICL's regressor: the same seam as the classifier's, a target of numbers, and quantiles for an output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.preprocessing import StandardScaler

from scff.backbones.base import BackboneSpec, Limits, Views, Weights
from scff.backbones.tabicl.encoder import LeafEncoder
from scff.backbones.tabicl.files import has_layout, read
from scff.backbones.tabicl.model import TabICLBackbone, TabICLView
from scff.backbones.weights.checkpoints import load_torch
from scff.errors import BackboneError, CheckpointError
from scff.tables.table import Table

__all__ = ["SPECS", "TabICLRegressorBackbone"]

_REQUIRES = "tabicl>=2.1,<3"


class TabICLRegressorBackbone(TabICLBackbone):
    """A loaded TabICL regressor."""

    def views(  # type: ignore[override]
        self, support: Table, y: npt.NDArray[np.float64], *, n_estimators: int, cache: bool, random_state: int
    ) -> Views[TabICLRegressorView]:
        """TabICL's ensemble views of a support table."""
        # A regressor deals no class orders; one class has a single one.
        one_class = np.zeros(len(y), dtype=np.int64)
        views = super().views(support, one_class, n_estimators=n_estimators, cache=cache, random_state=random_state)
        return Views(len(views), lambda i: TabICLRegressorView(views.view(i), y, cache))

    def combine(self, predictions: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Mean over the members."""
        mean: npt.NDArray[np.float64] = np.mean(np.stack(predictions), axis=0, dtype=np.float64)
        return mean


class TabICLRegressorView(TabICLView):
    """A classifier's view with the target exchanged and the output decoded."""

    def __init__(self, view: TabICLView, y: npt.NDArray[np.float64], cache: bool) -> None:
        self.__dict__.update(view.__dict__)
        # As TabICL scales it: in single precision.
        self._scaler = StandardScaler()
        scaled = self._scaler.fit_transform(y.astype(np.float32)[:, None])[:, 0]
        self._y_1S = torch.from_numpy(scaled).float()[None].to(self._device)
        self._encoder = LeafEncoder(self._model, self._config, self._y_1S, keep=cache)
        self._cache_context = cache

    def _unshuffle(self, quantiles_QK: torch.Tensor) -> torch.Tensor:
        """Mean of the predicted quantiles in the units of the target, predictions_Q1."""
        mean_Q: torch.Tensor = self._model.quantile_dist(quantiles_QK.float()[None]).quantiles[0].mean(dim=-1)
        return mean_Q[:, None] * float(self._scaler.scale_[0]) + float(self._scaler.mean_[0])


def _load(path: Path, device: torch.device) -> TabICLRegressorBackbone:
    model, components = read(path)
    if model.max_classes != 0:
        raise CheckpointError(f"{path} is a TabICL classifier; a regressor needs a regression checkpoint.")
    backbone = TabICLRegressorBackbone(SPECS[0], path, model, device, components)
    _probe(backbone)
    return backbone


def _probe(backbone: TabICLRegressorBackbone) -> None:
    """Fold a tiny table as one leaf and natively; anything but the same numbers means the upstream changed."""
    rng = np.random.default_rng(0)
    support, query, y = Table(rng.normal(size=(6, 3))), Table(rng.normal(size=(2, 3))), rng.normal(size=6)
    try:
        view, joint = (
            backbone.views(support, y, n_estimators=1, cache=cache, random_state=0).view(0) for cache in (True, False)
        )
        message, cache = view.encode_support([view.columns])
        folded = view.predict(view.build_context(message[0]), view.encode_query([view.columns], cache, query)[0])
        native = joint.native(joint.compile_native(joint.columns), query)
    except (AttributeError, TypeError, KeyError) as error:
        raise BackboneError(
            f"The installed tabicl is not one this version knows ({error}); use {_REQUIRES}."
        ) from error
    if not torch.allclose(folded, native, atol=1e-3 if backbone.device.type == "cpu" else 5e-2):
        raise BackboneError(f"Folding no longer reproduces the installed tabicl's own numbers; use {_REQUIRES}.")


def _recognises(path: Path) -> bool:
    if path.suffix == ".safetensors":
        return False
    payload: Any = load_torch(path)
    return has_layout(payload) and payload["config"].get("max_classes") == 0


SPECS = (
    BackboneSpec(
        name="tabicl-v2-regressor",
        kind="row",
        summary="TabICLv2 for numbers, and any regressor in its layout by path",
        load=_load,
        weights=Weights("tabicl-regressor-v2-20260212.ckpt", "jingang/TabICL"),
        code_licence="BSD-3-Clause",
        weights_licence="BSD-3-Clause",
        limits=Limits(),
        requires=_REQUIRES,
        recognises=_recognises,
        task="regression",
    ),
)
