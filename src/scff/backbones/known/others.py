"""LimiX, Orion-MSP, Mitra, TabDPT, TabFM and GeneICL: names, files and licences."""

from __future__ import annotations

from scff.backbones.spec import BackboneSpec, Limits, Weights, deferred

__all__ = ["LIMIX_2M", "LIMIX_16M", "MITRA", "ORION_MSP", "SPECS", "TABDPT", "TABFM"]

_TABTUNE = "tabtune>=0.2,<0.3"


def _limix(name: str, size: str) -> BackboneSpec:
    return BackboneSpec(
        name=name,
        kind="token",
        summary=f"LimiX-{size}, folded by tokens; the paper uses leaf_width=512",
        load=deferred("scff.backbones.limix:load"),
        weights=Weights(f"LimiX-{size}.ckpt", f"stableai-org/LimiX-{size}"),
        code_licence="Apache-2.0",
        weights_licence="LimiX Model License (research; commercial by agreement)",
        limits=Limits(classes=10, views=1),
        requires=_TABTUNE,
        recognises=deferred("scff.backbones.limix:recognises"),
    )


LIMIX_2M, LIMIX_16M = _limix("limix-2m", "2M"), _limix("limix-16m", "16M")

ORION_MSP = BackboneSpec(
    name="orion-msp",
    kind="row",
    summary="Orion-MSP, a multi-scale relative of TabICL v1",
    load=deferred("scff.backbones.orion_msp:load"),
    weights=Weights("Orion-MSP-v1.0.ckpt", "Lexsi/Orion-MSP"),
    code_licence="MIT",
    weights_licence="MIT",
    requires=_TABTUNE,
    recognises=deferred("scff.backbones.orion_msp:recognises"),
)

MITRA = BackboneSpec(
    name="mitra",
    kind="token",
    summary="Mitra, zero-shot, folded by tokens of one column",
    load=deferred("scff.backbones.mitra:load"),
    weights=Weights("model.safetensors", "autogluon/mitra-classifier", beside=("config.json",)),
    code_licence="Apache-2.0",
    weights_licence="Apache-2.0",
    limits=Limits(classes=10, rows=8192, views=1),
    requires=_TABTUNE,
    recognises=deferred("scff.backbones.weights.reading:has_tensors", prefix="x_embedding."),
)

TABDPT = BackboneSpec(
    name="tabdpt",
    kind="row",
    summary="TabDPT 1.3, whose slots folding extends",
    load=deferred("scff.backbones.tabdpt:load"),
    weights=Weights("tabdpt1_3.safetensors", "Layer6/TabDPT"),
    code_licence="Apache-2.0",
    weights_licence="Apache-2.0",
    limits=Limits(classes=10, views=1),
    requires="tabdpt>=1.3,<1.4",
    recognises=deferred("scff.backbones.tabdpt:recognises"),
)

TABFM = BackboneSpec(
    name="tabfm",
    kind="row",
    summary="TabFM 1.0",
    load=deferred("scff.backbones.tabfm:load"),
    weights=Weights(
        "classification/model.safetensors", "google/tabfm-1.0.0-pytorch", beside=("classification/config.json",)
    ),
    code_licence="Apache-2.0",
    weights_licence="TabFM Non-Commercial License v1.0",
    limits=Limits(classes=10, views=1),
    requires="tabfm>=1.0,<1.1",
    recognises=deferred("scff.backbones.weights.reading:has_tensors", prefix="cell_embedder."),
)

GENEICL = BackboneSpec(
    name="geneicl",
    kind="row",
    summary="GeneICL 1.0 for gene expression, which reads principal components; real weights in its package",
    load=deferred("scff.backbones.geneicl:load"),
    weights=Weights(
        "trm_segmented8_s0.pt",
        sha256="52609d58f5bb71850998bce8623404166cd651fcac1d450516cbd4eda7c858da",
        package="geneicl/checkpoints",
    ),
    code_licence="MIT",
    weights_licence="MIT",
    limits=Limits(classes=10, views=1),
    requires="geneicl>=1.0,<1.1",
    recognises=deferred("scff.backbones.geneicl:recognises"),
)

SPECS = (LIMIX_2M, LIMIX_16M, ORION_MSP, MITRA, TABDPT, TABFM, GENEICL)
