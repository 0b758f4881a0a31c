"""Checkpoints in TabICL's layout: reading them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tabicl._model.tabicl import TabICL

from scff.backbones.known.tabicl import SPECS
from scff.backbones.shared.probe import probed
from scff.backbones.spec import Task
from scff.backbones.tabicl.model import TabICLBackbone, TabICLRegressorBackbone
from scff.backbones.weights.reading import config_and_state, fitting, load_torch, payload_of
from scff.errors import CheckpointError

__all__ = ["load", "read", "recognises"]

# Files of tabicl 0.1.x say nothing about what came later; these are the values that make today's class rebuild them.
_V1_CONFIG = {
    "col_affine": True,
    "col_feature_group": False,
    "col_target_aware": False,
    "col_ssmax": False,
    "icl_ssmax": False,
    "row_rope_interleaved": True,
    "bias_free_ln": False,
}


def read(path: Path) -> TabICL:
    """Build the model of a checkpoint ``{"config", "state_dict"}``.

    Raises
    ------
    CheckpointError
        If the file is not in TabICL's layout or its weights do not fit its configuration.
    """
    found = _layout(load_torch(path))
    if found is None:
        raise CheckpointError(f"{path} is not a TabICL checkpoint: it lacks `config` or a TabICL `state_dict`.")
    config, state = found
    if "col_target_aware" not in config and "col_embedder.y_encoder.weight" not in state:
        config = _V1_CONFIG | config
    with fitting(path, draw=False):  # reading is strict: no tensor keeps what it would be drawn
        model = TabICL(**config)
        model.load_state_dict(state)
    return model


def load(path: Path, device: torch.device, *, name: str) -> TabICLBackbone:
    """Load a checkpoint as the backbone of a name."""
    spec = next(spec for spec in SPECS if spec.name == name)
    model = read(path)
    is_regressor = model.max_classes == 0
    if is_regressor and spec.task == "classification":
        raise CheckpointError(f"{path} is a TabICL regressor; a classifier needs a classification checkpoint.")
    if not is_regressor and spec.task == "regression":
        raise CheckpointError(f"{path} is a TabICL classifier; a regressor needs a regression checkpoint.")
    backbone = TabICLRegressorBackbone if is_regressor else TabICLBackbone
    return probed(backbone(spec, path, model, device))


def _layout(payload: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    found = config_and_state(payload)
    return found if found is not None and any(key.startswith("icl_predictor.") for key in found[1]) else None


def recognises(path: Path, *, task: Task) -> bool:
    """Whether a checkpoint has this layout and is for a task."""
    found = _layout(payload_of(path))
    return found is not None and (found[0].get("max_classes") == 0) == (task == "regression")
