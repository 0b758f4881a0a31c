"""Checkpoints in TabICL's layout: names, and reading them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from tabicl._model.tabicl import TabICL

from scff.backbones.base import BackboneSpec, Limits, Task, Weights
from scff.backbones.shared.probe import probed
from scff.backbones.tabicl.model import TabICLBackbone, TabICLRegressorBackbone
from scff.backbones.weights.reading import config_and_state, fitting, load_torch, payload_of
from scff.errors import CheckpointError

__all__ = ["SPECS", "read"]

_REPO = "jingang/TabICL"

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


def read(path: Path) -> tuple[TabICL, int]:
    """Build the model of a checkpoint ``{"config", "state_dict"}``.

    Returns
    -------
    TabICL
        The model.
    int
        How many principal components it wants behind the columns of a leaf, at most: ``components`` of the file's
        ``view``, which TabICL itself does not know and passes over.

    Raises
    ------
    CheckpointError
        If the file is not in TabICL's layout or its weights do not fit its configuration.
    """
    payload = load_torch(path)
    found = _layout(payload)
    if found is None:
        raise CheckpointError(f"{path} is not a TabICL checkpoint: it lacks `config` or a TabICL `state_dict`.")
    config, state = found
    if "col_target_aware" not in config and "col_embedder.y_encoder.weight" not in state:
        config = _V1_CONFIG | config
    with fitting(path):
        model = TabICL(**config)
        model.load_state_dict(state)
    return model, int(payload.get("view", {}).get("components", 0))


def _load(path: Path, device: torch.device, *, name: str) -> TabICLBackbone:
    spec = _BY_NAME[name]
    model, components = read(path)
    is_regressor = model.max_classes == 0
    if is_regressor and spec.task == "classification":
        raise CheckpointError(f"{path} is a TabICL regressor; a classifier needs a classification checkpoint.")
    if not is_regressor and spec.task == "regression":
        raise CheckpointError(f"{path} is a TabICL classifier; a regressor needs a regression checkpoint.")
    backbone = TabICLRegressorBackbone if is_regressor else TabICLBackbone
    return probed(backbone(spec, path, model, device, components))


def _layout(payload: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    found = config_and_state(payload)
    return found if found is not None and any(key.startswith("icl_predictor.") for key in found[1]) else None


def _recognises(path: Path, *, task: Task) -> bool:
    found = _layout(payload_of(path))
    return found is not None and (found[0].get("max_classes") == 0) == (task == "regression")


def _spec(
    name: str,
    summary: str,
    weights: Weights | None,
    weights_licence: str = "BSD-3-Clause",
    *,
    task: Task = "classification",
    by_path: bool = False,
    aliases: tuple[str, ...] = (),
) -> BackboneSpec:
    return BackboneSpec(
        name=name,
        kind="row",
        summary=summary,
        load=partial(_load, name=name),
        weights=weights,
        code_licence="BSD-3-Clause",
        weights_licence=weights_licence,
        # No hard limit of rows or classes: above its 10 classes TabICL has a hierarchy of its own.
        limits=Limits(),
        requires="tabicl>=2.1,<3",
        # Files of one version look like those of another: by path a file is simply in TabICL's layout.
        recognises=partial(_recognises, task=task) if by_path else None,
        task=task,
        aliases=aliases,
    )


SPECS = (
    _spec(
        "tabicl-v2",
        "TabICLv2, the paper's strongest open backbone",
        Weights(
            "tabicl-classifier-v2-20260212.ckpt",
            _REPO,
            "bdc7dbd5e4ff21f8f0456fcf90c6b7cdf72dbea960f2d05b19bec19f9b3d4ed0",
        ),
        aliases=("tabiclv2",),
    ),
    _spec(
        "tabicl-v1.1",
        "TabICLv1.1",
        Weights("tabicl-classifier-v1.1-20250506.ckpt", _REPO),
        aliases=("tabiclv1.1",),
    ),
    _spec(
        "tabicl-v1",
        "TabICLv1",
        Weights("tabicl-classifier-v1-20250208.ckpt", _REPO, "04c5c1d261c1"),
        aliases=("tabiclv1",),
    ),
    _spec(
        "nano",
        "a small TabICL inside this package",
        Weights(
            "nano.ckpt",
            sha256="1a9c66e13bd367ee4b6c43c43625b3464d613c5afad3afe54d378e8a8e56d504",
            embedded=True,
        ),
        "Apache-2.0",
    ),
    _spec("tabicl", "any checkpoint in TabICL's layout, by path", None, "as stated by its author", by_path=True),
    _spec(
        "tabicl-v2-regressor",
        "TabICLv2 for numbers, and any regressor in its layout by path",
        Weights("tabicl-regressor-v2-20260212.ckpt", _REPO),
        task="regression",
        by_path=True,
    ),
)
_BY_NAME = {spec.name: spec for spec in SPECS}
