"""Checkpoints in TabICL's layout, the embedded one too: names, files and licences."""

from __future__ import annotations

from scff.backbones.spec import BackboneSpec, Limits, Task, Weights, deferred

__all__ = ["SPECS"]

_REPO = "jingang/TabICL"


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
        load=deferred("scff.backbones.tabicl.files:load", name=name),
        weights=weights,
        code_licence="BSD-3-Clause",
        weights_licence=weights_licence,
        # No hard limit of rows or classes: above its 10 classes TabICL has a hierarchy of its own.
        limits=Limits(),
        requires="tabicl>=2.1,<3",
        # Files of one version look like those of another: by path a file is simply in TabICL's layout.
        recognises=deferred("scff.backbones.tabicl.files:recognises", task=task) if by_path else None,
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
            sha256="7cab0fc051c483422e4de8be0f4617c098316b8486713106ee4a0eed2f843e7a",
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
