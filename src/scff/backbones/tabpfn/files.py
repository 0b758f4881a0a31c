"""Checkpoints of the ``tabpfn`` package: telling one from another, and loading them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from scff.backbones.known.tabpfn import SPECS
from scff.backbones.spec import Task
from scff.backbones.weights.reading import load_torch, safetensors_header

__all__ = ["architecture", "load", "recognises"]


def architecture(path: Path) -> str | None:
    """Name of the architecture a checkpoint states, ``"tabpfn_v2"`` for those from before it was stated."""
    if path.suffix == ".safetensors":
        stated = safetensors_header(path)[1].get("architecture_name")
        return None if stated is None else str(json.loads(stated))
    payload = load_torch(path)
    if not isinstance(payload, dict) or not isinstance(payload.get("state_dict"), dict):
        return None
    if "architecture_name" in payload:
        return {"base": "tabpfn_v2_5"}.get(payload["architecture_name"], str(payload["architecture_name"]))
    keys = payload["state_dict"].keys()
    return "tabpfn_v2" if any(key.startswith("transformer_encoder.layers.") for key in keys) else None


def is_regressor(path: Path) -> bool:
    """Whether a checkpoint of a single task is a regressor: it has no classes."""
    config = load_torch(path).get("config", {})
    return int(config.get("max_num_classes") or 0) < 2


def recognises(path: Path, *, named: str, task: Task) -> bool:
    """Whether a checkpoint states an architecture and is for a task."""
    if architecture(path) != named:
        return False
    return named == "tabpfn_v3_5" or is_regressor(path) == (task == "regression")


def load(path: Path, device: torch.device, *, name: str) -> Any:
    """Load a checkpoint as the backbone of a name."""
    from scff.backbones.tabpfn import v2, v3  # here, because it imports the package

    spec = next(spec for spec in SPECS if spec.name == name)
    return (v3 if spec.kind == "row" else v2).load(path, device, spec=spec)
