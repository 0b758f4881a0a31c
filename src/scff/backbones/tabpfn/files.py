"""Names, files and licences of the TabPFN family on the ``tabpfn`` package; nothing here imports the package."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch

from scff.backbones.base import BackboneSpec, Limits, Weights
from scff.backbones.tabpfn.package import REQUIRES, Task
from scff.backbones.weights import checkpoints

__all__ = ["SPECS", "architecture"]

_LICENCE = "Prior Labs, non-commercial"
_V2_LICENCE = "Prior Labs, Apache-2.0 with attribution"


def architecture(path: Path) -> str | None:
    """Name of the architecture a checkpoint states, ``"tabpfn_v2"`` for those from before it was stated."""
    if path.suffix == ".safetensors":
        stated = checkpoints.safetensors_header(path)[1].get("architecture_name")
        return None if stated is None else str(json.loads(stated))
    payload = checkpoints.load_torch(path)
    if not isinstance(payload, dict) or not isinstance(payload.get("state_dict"), dict):
        return None
    if "architecture_name" in payload:
        return {"base": "tabpfn_v2_5"}.get(payload["architecture_name"], str(payload["architecture_name"]))
    keys = payload["state_dict"].keys()
    return "tabpfn_v2" if any(key.startswith("transformer_encoder.layers.") for key in keys) else None


def is_regressor(path: Path) -> bool:
    """Whether a checkpoint of a single task is a regressor: it has no classes."""
    config = checkpoints.load_torch(path).get("config", {})
    return int(config.get("max_num_classes") or 0) < 2


def _recognises(path: Path, *, named: str, task: Task) -> bool:
    if architecture(path) != named:
        return False
    return named == "tabpfn_v3_5" or is_regressor(path) == (task == "regression")


def _load_v3(path: Path, device: torch.device, *, name: str, task: Task) -> Any:
    from scff.backbones.tabpfn import v3

    return v3.load(path, device, spec=_BY_NAME[name], task=task)


def _v3(name: str, summary: str, weights: Weights, named: str, task: Task) -> BackboneSpec:
    return BackboneSpec(
        name=name,
        kind="row",
        summary=summary,
        load=partial(_load_v3, name=name, task=task),
        weights=weights,
        code_licence="Apache-2.0",
        weights_licence=_LICENCE,
        limits=Limits(),  # the number of classes is in the checkpoint and read when it is loaded
        requires=REQUIRES,
        recognises=partial(_recognises, named=named, task=task),
        task=task,
    )


def _load_v2(path: Path, device: torch.device, *, name: str, task: Task) -> Any:
    from scff.backbones.tabpfn import v2

    return v2.load(path, device, spec=_BY_NAME[name], task=task)


def _v2(name: str, summary: str, weights: Weights, named: str, task: Task, licence: str = _LICENCE) -> BackboneSpec:
    rows = 10_000 if named == "tabpfn_v2" else 50_000
    return BackboneSpec(
        name=name,
        kind="token",
        summary=summary,
        load=partial(_load_v2, name=name, task=task),
        weights=weights,
        code_licence="Apache-2.0",
        weights_licence=licence,
        limits=Limits(classes=10 if task == "classification" else None, rows=rows),
        requires=REQUIRES,
        recognises=partial(_recognises, named=named, task=task),
        task=task,
    )


_V3, _V35 = "Prior-Labs/tabpfn_3", "Prior-Labs/tabpfn_3_5"

SPECS = (
    _v3(
        "tabpfn-3",
        "TabPFN-3, a backbone of the paper",
        Weights(
            "tabpfn-v3-classifier-v3_default.ckpt",
            _V3,
            "d0d865d54dfbc524f5703104be90620182dca7e5fb2c16de72e9959ea18f3988",
        ),
        "tabpfn_v3",
        "classification",
    ),
    _v3("tabpfn-3.5", "TabPFN-3.5", Weights("tabpfn-v3.5-20260909.safetensors", _V35), "tabpfn_v3_5", "classification"),
    _v3(
        "tabpfn-3-regressor",
        "TabPFN-3 for numbers",
        Weights("tabpfn-v3-regressor-v3_default.ckpt", _V3),
        "tabpfn_v3",
        "regression",
    ),
    _v3(
        "tabpfn-3.5-regressor",
        "TabPFN-3.5 for numbers; the same file as tabpfn-3.5",
        Weights("tabpfn-v3.5-20260909.safetensors", _V35),
        "tabpfn_v3_5",
        "regression",
    ),
    _v2(
        "tabpfn-v2",
        "TabPFN v2, the paper's representation boundary",
        Weights("tabpfn-v2-classifier-finetuned-zk73skhh.ckpt", "Prior-Labs/TabPFN-v2-clf"),
        "tabpfn_v2",
        "classification",
        _V2_LICENCE,
    ),
    _v2(
        "tabpfn-2.5",
        "TabPFN-2.5",
        Weights("tabpfn-v2.5-classifier-v2.5_default.ckpt", "Prior-Labs/tabpfn_2_5"),
        "tabpfn_v2_5",
        "classification",
    ),
    _v2(
        "tabpfn-2.6",
        "TabPFN-2.6",
        Weights("tabpfn-v2.6-classifier-v2.6_default.ckpt", "Prior-Labs/tabpfn_2_6"),
        "tabpfn_v2_6",
        "classification",
    ),
    _v2(
        "tabpfn-v2-regressor",
        "TabPFN v2 for numbers; real weights from PyPI",
        Weights(
            "tabpfn-v2-regressor-2noar4o2.ckpt",
            sha256="e2d4a06eeb4521dee71fc68d819e277ffb97614cc3695dc9ac3030dd9da36c21",
            fetch="pypi:tabpfn-time-series==0.1.3/tabpfn-v2-regressor-2noar4o2.ckpt",
        ),
        "tabpfn_v2",
        "regression",
        _V2_LICENCE,
    ),
)
_BY_NAME = {spec.name: spec for spec in SPECS}
