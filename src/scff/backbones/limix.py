"""LimiX-2M and LimiX-16M: the paper's token adapter, on the architecture in the ``tabtune`` package.

LimiX makes a token of every two columns and appends the target as the last one. Its tokeniser treats groups
independently, so leaves can be tokenised one by one; the column embedding, drawn for as many tokens as there are, is
added to the folded ones. That draw follows torch's global state, which LimiX seeds just before each call; here it is
seeded the same and put back. Folded tokens go through the model's own ``forward`` by exchanging its two tokeniser
modules in a shallow copy.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.base import BackboneSpec, IntArray, Limits, Weights
from scff.backbones.shared.categories import OrdinalCodes
from scff.backbones.shared.joint import JointBackbone, JointTokenView, Step, missing_tabtune, probe
from scff.backbones.weights import checkpoints
from scff.errors import CheckpointError
from scff.tables.table import Table

__all__ = ["SPECS", "LimiXBackbone", "LimiXView"]

_REQUIRES = "tabtune>=0.2,<0.3"
_SEED = 0  # LimiX's own default
# LimiX's stored configurations say these only where they differ from its code's defaults.
_DEFAULTS: dict[str, Any] = {"mask_prediction": False, "pre_norm": True}


class LimiXBackbone(JointBackbone):
    """A loaded LimiX."""

    def view(self, codes: OrdinalCodes, numbers: Table, columns: IntArray, y: IntArray) -> LimiXView:
        """The plain member: no rebalancing, no shuffle, identity class order."""
        return LimiXView(self, codes, numbers, columns, y)


class LimiXView(JointTokenView):
    """LimiX's plain view of one support table."""

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
        given = copy.copy(self.model)
        given._modules = dict(self.model._modules)
        given._modules["x_preprocess"] = torch.nn.Identity()
        # A copy, because LimiX adds the column embedding in place.
        given._modules["encoder_x"] = _Given(tokens_TBE[None].clone())
        return self._forward(given, tokens_TBE.new_zeros(1, len(tokens_TBE), self.group))

    def _forward(self, model: Any, x_1TD: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(_SEED)
            out: torch.Tensor = model(x=x_1TD, y=self.y_S[None].clone(), eval_pos=len(self.y_S), task_type="cls")
        return out[0]


class _Given(torch.nn.Module):
    """Stands where the tokeniser was."""

    def __init__(self, tokens: torch.Tensor) -> None:
        super().__init__()
        self.tokens = tokens

    def forward(self, groups: dict[str, Any]) -> dict[str, torch.Tensor]:
        return {"data": self.tokens}


def _load(path: Path, device: torch.device) -> LimiXBackbone:
    try:
        from tabtune.models.limix.transformer import FeaturesTransformer
    except ImportError as error:
        raise missing_tabtune("LimiX", _REQUIRES, error=error) from error
    payload = checkpoints.load_torch(path)
    if not _has_layout(payload):
        raise CheckpointError(f"{path} is not a LimiX checkpoint: it lacks LimiX's `config` or `state_dict`.")
    config = payload["config"] | _DEFAULTS
    state = {key.removeprefix("model."): value for key, value in payload["state_dict"].items()}
    with checkpoints.fitting(path):
        model = FeaturesTransformer(**config)
        model.load_state_dict(state)
    small = int(config["nlayers"]) * int(config["embed_dim"]) ** 2 < _LARGE
    backbone = LimiXBackbone(SPECS[0] if small else SPECS[1], path, model, device)
    probe(backbone, _REQUIRES)
    return backbone


_LARGE = 400_000  # layers times squared width: well above the 2M model's and below the 16M one's


def _has_layout(payload: Any) -> bool:
    return (
        isinstance(payload, dict)
        and isinstance(payload.get("config"), dict)
        and isinstance(payload.get("state_dict"), dict)
        and {"encoder_config_x", "features_per_group"} <= payload["config"].keys()
    )


def _recognises(path: Path) -> bool:
    return path.suffix != ".safetensors" and _has_layout(checkpoints.load_torch(path))


def _spec(name: str, size: str) -> BackboneSpec:
    return BackboneSpec(
        name=name,
        kind="token",
        summary=f"LimiX-{size}, folded by tokens; the paper uses leaf_width=512",
        load=_load,
        weights=Weights(f"LimiX-{size}.ckpt", f"stableai-org/LimiX-{size}"),
        code_licence="Apache-2.0",
        weights_licence="LimiX Model License (research; commercial by agreement)",
        limits=Limits(classes=10),
        requires=_REQUIRES,
        recognises=_recognises,
    )


SPECS = (_spec("limix-2m", "2M"), _spec("limix-16m", "16M"))
