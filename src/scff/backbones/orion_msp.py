"""Orion-MSP, a relative of TabICL v1 with several scales of column groups, on its code in the ``tabtune`` package.

The seam: ``col_embedder`` and ``row_interactor`` are the feature encoder, ``icl_predictor`` is context encoder and
head, called as the package itself calls them. Preprocessing is the package's own, fitted leaf by leaf, after filling
missing numbers with the support's mean, which the package leaves to its user. More classes than the model has go
through its class hierarchy.

The memory in its context encoder ends in a self-attention over all rows, so a prediction depends on the other query
rows of the same call: the model's own behaviour, natively too. Feature encoder, plan and gate are free of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.base import IntArray
from scff.backbones.known.others import ORION_MSP
from scff.backbones.shared.joint import JointBackbone, JointRowView, Step, fill_means
from scff.backbones.shared.probe import not_installed, probed
from scff.backbones.weights.reading import config_and_state, fitting, load_torch, payload_of
from scff.errors import CheckpointError

__all__ = ["OrionView", "load", "recognises"]


class OrionView(JointRowView):
    """Orion-MSP's plain view: no shuffle, no class shift, no normalisation beyond the scaler."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        from tabtune.models.orion_msp.model.inference_config import InferenceConfig

        self._config = InferenceConfig()
        options = {"device": self.device, "use_amp": self.device.type != "cpu", "verbose": False}
        self._config.update_from_dict({part: dict(options) for part in ("COL_CONFIG", "ROW_CONFIG", "ICL_CONFIG")})

    def fit(self, block: npt.NDArray[np.floating]) -> Step:
        """Filling with means, then the package's scaler and outlier clipping."""
        from tabtune.models.orion_msp.sklearn.preprocessing import PreprocessingPipeline

        return fill_means(block, PreprocessingPipeline(normalization_method="none"))

    def run(self, x_TD: torch.Tensor, columns: IntArray) -> torch.Tensor:
        """The package's own forward pass."""
        out: torch.Tensor = self.model(x_TD[None], self.y_S[None], inference_config=self._config)[0]
        return out

    def row_bytes(self, width: int) -> int:
        """A dozen activations of every column, and the context."""
        return 12 * 4 * int(self.model.embed_dim) * (width + 8)

    def encode(self, x_GTW: torch.Tensor, leaves: Sequence[IntArray]) -> torch.Tensor:
        """Column embedding and row interaction."""
        embedded = self.model.col_embedder(x_GTW, train_size=len(self.y_S), mgr_config=self._config.COL_CONFIG)
        message: torch.Tensor = self.model.row_interactor(embedded, mgr_config=self._config.ROW_CONFIG)
        return message

    def head(self, h_TE: torch.Tensor) -> torch.Tensor:
        """Perceiver memory, context encoder and decoder."""
        # A copy, because the package adds the labels in place.
        out: torch.Tensor = self.model.icl_predictor(
            h_TE[None].clone(), y_train=self.y_S[None], return_logits=True, mgr_config=self._config.ICL_CONFIG
        )[0]
        return out


def load(path: Path, device: torch.device) -> JointBackbone:
    """Load a checkpoint."""
    try:
        from tabtune.models.orion_msp.model.orion_msp import OrionMSP
    except ImportError as error:
        raise not_installed("Orion-MSP", error, ORION_MSP.requires) from error
    found = _layout(load_torch(path))
    if found is None:
        raise CheckpointError(f"{path} is not an Orion-MSP checkpoint: it lacks its `config` or `state_dict`.")
    config, state = found
    with fitting(path):
        model = OrionMSP(**config)
        model.load_state_dict(state)
    return probed(JointBackbone(ORION_MSP, path, model, device, OrionView))


def _layout(payload: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    found = config_and_state(payload)
    return found if found is not None and any(key.startswith("perc_") for key in found[0]) else None


def recognises(path: Path) -> bool:
    """Whether a checkpoint has this layout."""
    return _layout(payload_of(path)) is not None
