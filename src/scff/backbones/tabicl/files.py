"""Checkpoints in TabICL's layout: names, reading, and the probe that the installed TabICL is the one we know."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tabicl._model.tabicl import TabICL

from scff.backbones.base import BackboneSpec, Limits, Weights
from scff.backbones.tabicl.model import TabICLBackbone
from scff.backbones.weights import checkpoints
from scff.errors import BackboneError, CheckpointError
from scff.tables.table import Table

__all__ = ["SPECS", "has_layout", "read"]

_REPO = "jingang/TabICL"
_REQUIRES = "tabicl>=2.1,<3"

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
    payload = checkpoints.load_torch(path)
    if not has_layout(payload):
        raise CheckpointError(f"{path} is not a TabICL checkpoint: it lacks `config` or a TabICL `state_dict`.")
    config = dict(payload["config"])
    if "col_target_aware" not in config and "col_embedder.y_encoder.weight" not in payload["state_dict"]:
        config = _V1_CONFIG | config
    with checkpoints.fitting(path):
        model = TabICL(**config)
        model.load_state_dict(payload["state_dict"])
    return model, int(payload.get("view", {}).get("components", 0))


def _load(path: Path, device: torch.device, *, name: str) -> TabICLBackbone:
    model, components = read(path)
    if model.max_classes == 0:
        raise CheckpointError(f"{path} is a TabICL regressor; a classifier needs a classification checkpoint.")
    backbone = TabICLBackbone(_BY_NAME[name], path, model, device, components)
    _probe(backbone)
    return backbone


def has_layout(payload: Any) -> bool:
    """Whether a checkpoint is in TabICL's layout."""
    return (
        isinstance(payload, dict)
        and isinstance(payload.get("config"), dict)
        and isinstance(payload.get("state_dict"), dict)
        and any(key.startswith("icl_predictor.") for key in payload["state_dict"])
    )


def _recognises(path: Path) -> bool:
    if path.suffix == ".safetensors":
        return False
    payload = checkpoints.load_torch(path)
    return has_layout(payload) and payload["config"].get("max_classes") != 0


def _probe(backbone: TabICLBackbone) -> None:
    """Fold a tiny table as one leaf and natively; anything but the same numbers means the upstream changed."""
    model = backbone.model
    needed = {"col_cache", "y_train", "use_cache", "store_cache", "mgr_config"}
    try:
        missing = needed - set(inspect.signature(model.col_embedder.forward_with_cache).parameters)
        if missing:
            raise AttributeError(f"col_embedder.forward_with_cache takes no {', '.join(sorted(missing))}")
        rng = np.random.default_rng(0)
        support, query = (Table(rng.normal(size=(n, 3))) for n in (6, 2))
        y = np.arange(6, dtype=np.int64) % 2
        view = backbone.views(support, y, n_estimators=1, cache=True, random_state=0).view(0)
        message, cache = view.encode_support([view.columns])
        folded = view.predict(view.build_context(message[0]), view.encode_query([view.columns], cache, query)[0])
        joint = backbone.views(support, y, n_estimators=1, cache=False, random_state=0).view(0)
        native = joint.native(joint.compile_native(joint.columns), query)
    except (AttributeError, TypeError, KeyError) as error:
        raise BackboneError(
            f"The installed tabicl is not one this version knows ({error}); use {_REQUIRES}."
        ) from error
    # Mixed precision on accelerators is coarser; a changed seam is wrong by far more than that.
    if not torch.allclose(folded.float(), native.float(), atol=1e-3 if backbone.device.type == "cpu" else 5e-2):
        raise BackboneError(f"Folding no longer reproduces the installed tabicl's own numbers; use {_REQUIRES}.")


def _spec(name: str, summary: str, weights: Weights | None, weights_licence: str = "BSD-3-Clause") -> BackboneSpec:
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
        requires=_REQUIRES,
        recognises=_recognises if weights is None else None,
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
    ),
    _spec("tabicl-v1.1", "TabICLv1.1", Weights("tabicl-classifier-v1.1-20250506.ckpt", _REPO)),
    _spec("tabicl-v1", "TabICLv1", Weights("tabicl-classifier-v1-20250208.ckpt", _REPO, "04c5c1d261c1")),
    _spec("nano", "a small TabICL inside this package", Weights("nano.ckpt", embedded=True), "Apache-2.0"),
    _spec("tabicl", "any checkpoint in TabICL's layout, by path", None, "as stated by its author"),
)
_BY_NAME = {spec.name: spec for spec in SPECS}
