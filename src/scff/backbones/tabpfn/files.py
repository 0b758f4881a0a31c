"""Names, files and licences of the TabPFN family on the ``tabpfn`` package; nothing here imports the package."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from scff.backbones.base import BackboneSpec, Limits, Task, Weights
from scff.backbones.tabpfn.package import REQUIRES
from scff.backbones.weights.reading import load_torch, safetensors_header

__all__ = ["SPECS", "architecture"]

_V2_LICENCE = "Prior Labs, Apache-2.0 with attribution"


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


def _recognises(path: Path, *, named: str, task: Task) -> bool:
    if architecture(path) != named:
        return False
    return named == "tabpfn_v3_5" or is_regressor(path) == (task == "regression")


def _load(path: Path, device: torch.device, *, name: str) -> Any:
    from scff.backbones.tabpfn import v2, v3  # here, because it imports the package

    spec = _BY_NAME[name]
    return (v3 if spec.kind == "row" else v2).load(path, device, spec=spec)


def _spec(
    version: str,
    summary: str,
    weights: Weights,
    *,
    kind: Literal["row", "token"],
    task: Task = "classification",
    licence: str = "Prior Labs, non-commercial",
    limits: Limits | None = None,
) -> BackboneSpec:
    """One released model; people also call TabPFN v3 TabPFN-3, and so on."""
    end = "-regressor" if task == "regression" else ""
    name = f"tabpfn-v{version}{end}"
    return BackboneSpec(
        name=name,
        kind=kind,
        summary=summary,
        load=partial(_load, name=name),
        weights=weights,
        code_licence="Apache-2.0",
        weights_licence=licence,
        limits=limits or Limits(),
        requires=REQUIRES,
        recognises=partial(_recognises, named=f"tabpfn_v{version.replace('.', '_')}", task=task),
        task=task,
        aliases=(f"tabpfn-{version}{end}",) if end else (f"tabpfn-{version}", f"tabpfnv{version}"),
    )


_V3, _V35 = "Prior-Labs/tabpfn_3", "Prior-Labs/tabpfn_3_5"

SPECS = (
    # The number of classes of TabPFN-3 and 3.5 is in the checkpoint and read when it is loaded.
    _spec(
        "3",
        "TabPFN-3, a backbone of the paper",
        Weights(
            "tabpfn-v3-classifier-v3_default.ckpt",
            _V3,
            "d0d865d54dfbc524f5703104be90620182dca7e5fb2c16de72e9959ea18f3988",
        ),
        kind="row",
    ),
    _spec("3.5", "TabPFN-3.5", Weights("tabpfn-v3.5-20260909.safetensors", _V35), kind="row"),
    _spec(
        "3",
        "TabPFN-3 for numbers",
        Weights("tabpfn-v3-regressor-v3_default.ckpt", _V3),
        kind="row",
        task="regression",
    ),
    _spec(
        "3.5",
        "TabPFN-3.5 for numbers; the same file as tabpfn-v3.5",
        Weights("tabpfn-v3.5-20260909.safetensors", _V35),
        kind="row",
        task="regression",
    ),
    _spec(
        "2",
        "TabPFN v2, the paper's representation boundary",
        Weights("tabpfn-v2-classifier-finetuned-zk73skhh.ckpt", "Prior-Labs/TabPFN-v2-clf"),
        kind="token",
        licence=_V2_LICENCE,
        limits=Limits(classes=10, rows=10_000),
    ),
    *(
        _spec(
            version,
            f"TabPFN-{version}",
            Weights(
                f"tabpfn-v{version}-classifier-v{version}_default.ckpt",
                f"Prior-Labs/tabpfn_{version.replace('.', '_')}",
            ),
            kind="token",
            limits=Limits(classes=10, rows=50_000),
        )
        for version in ("2.5", "2.6")
    ),
    _spec(
        "2",
        "TabPFN v2 for numbers; real weights from PyPI",
        Weights(
            "tabpfn-v2-regressor-2noar4o2.ckpt",
            sha256="e2d4a06eeb4521dee71fc68d819e277ffb97614cc3695dc9ac3030dd9da36c21",
            fetch="pypi:tabpfn-time-series==0.1.3/tabpfn-v2-regressor-2noar4o2.ckpt",
        ),
        kind="token",
        task="regression",
        licence=_V2_LICENCE,
        limits=Limits(rows=10_000),
    ),
)
_BY_NAME = {spec.name: spec for spec in SPECS}
