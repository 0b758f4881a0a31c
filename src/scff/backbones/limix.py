"""LimiX-2M and LimiX-16M: the paper's token adapter, on the architecture in the ``tabtune`` package.

LimiX makes a token of every two columns and appends the target as the last one. Its tokeniser treats groups
independently, so leaves can be tokenised one by one; the column embedding, drawn for as many tokens as there are, is
added to the folded ones. That draw follows torch's global state, which LimiX seeds just before each call; here it is
seeded the same and put back. Folded tokens go through the model's own ``forward`` by exchanging its two tokeniser
modules in a shallow copy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.base import IntArray
from scff.backbones.known.others import LIMIX_2M, LIMIX_16M
from scff.backbones.shared.given import constant, exchanged, same
from scff.backbones.shared.joint import JointBackbone, JointTokenView, Step
from scff.backbones.shared.probe import not_installed, probed
from scff.backbones.weights.reading import config_and_state, fitting, load_torch, payload_of
from scff.errors import CheckpointError

__all__ = ["LimiXView", "load", "recognises"]

_SEED = 0  # LimiX's own default
# LimiX's stored configurations say these only where they differ from its code's defaults.
_DEFAULTS: dict[str, Any] = {"mask_prediction": False, "pre_norm": True}


class LimiXView(JointTokenView):
    """LimiX's plain view of one support table: no rebalancing, no shuffle, identity class order."""

    @property
    def group(self) -> int:  # type: ignore[override]
        """Columns in a token."""
        return int(self.model.features_per_group)

    def fit(self, block: npt.NDArray[np.floating]) -> Step:
        """Nothing: LimiX scales inside its tokeniser, by the support rows."""
        return np.asarray

    def run(self, x_TD: torch.Tensor, columns: IntArray) -> torch.Tensor:
        """LimiX's own forward pass."""
        return self._forward(self.model, x_TD[None])

    def row_bytes(self, width: int) -> int:
        """A dozen activations of every token."""
        return 12 * 4 * int(self.model.embed_dim) * (-(-width // self.group) + 1)

    def tokens(self, x_TW: torch.Tensor) -> torch.Tensor:
        """LimiX's tokeniser, the last group padded with zeros."""
        x_1TW = torch.nn.functional.pad(x_TW, (0, -x_TW.shape[1] % self.group))[None]
        x_1TFg = x_1TW.reshape(1, len(x_TW), -1, self.group)
        groups = {"data": x_1TFg.clone(), "mask": torch.isnan(x_1TFg).to(torch.int32), "eval_pos": len(self.y_S)}
        model = self.model
        tokens: torch.Tensor = model.encoder_x(model.process_4_x(model.x_preprocess(groups)))["data"][0]
        return tokens

    def head(self, tokens_TBE: torch.Tensor) -> torch.Tensor:
        """LimiX's own forward pass from given tokens on."""
        # A copy, because LimiX adds the column embedding in place.
        tokens = {"data": tokens_TBE[None].clone()}
        given = exchanged(self.model, x_preprocess=same, encoder_x=constant(tokens))
        return self._forward(given, tokens_TBE.new_zeros(1, len(tokens_TBE), self.group))

    def _forward(self, model: Any, x_1TD: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(_SEED)
            out: torch.Tensor = model(x=x_1TD, y=self.y_S[None].clone(), eval_pos=len(self.y_S), task_type="cls")
        return out[0]


def load(path: Path, device: torch.device) -> JointBackbone:
    """Load a checkpoint."""
    try:
        from tabtune.models.limix.transformer import FeaturesTransformer
    except ImportError as error:
        raise not_installed("LimiX", error, LIMIX_2M.requires) from error
    found = _layout(load_torch(path))
    if found is None:
        raise CheckpointError(f"{path} is not a LimiX checkpoint: it lacks LimiX's `config` or `state_dict`.")
    config = found[0] | _DEFAULTS
    state = {key.removeprefix("model."): value for key, value in found[1].items()}
    with fitting(path):
        model = FeaturesTransformer(**config)
        model.load_state_dict(state)
    small = int(config["nlayers"]) * int(config["embed_dim"]) ** 2 < _LARGE
    return probed(JointBackbone(LIMIX_2M if small else LIMIX_16M, path, model, device, LimiXView))


_LARGE = 400_000  # layers times squared width: well above the 2M model's and below the 16M one's


def _layout(payload: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    found = config_and_state(payload)
    return found if found is not None and {"encoder_config_x", "features_per_group"} <= found[0].keys() else None


def recognises(path: Path) -> bool:
    """Whether a checkpoint has this layout."""
    return _layout(payload_of(path)) is not None
