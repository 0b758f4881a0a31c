"""TabPFN, from v1 to 3.5: names, files and licences."""

from __future__ import annotations

from typing import Literal

from scff.backbones.spec import BackboneSpec, Limits, Task, Weights, deferred

__all__ = ["REQUIRES", "SPECS", "V1"]

REQUIRES = "tabpfn>=9.2,<10"
_V2_LICENCE = "Prior Labs, Apache-2.0 with attribution"

V1 = BackboneSpec(
    name="tabpfn-v1",
    kind="row",
    summary="TabPFN v1, whose 100 slots folding extends; real weights from PyPI",
    load=deferred("scff.backbones.tabpfn.v1:load"),
    weights=Weights(
        "prior_diff_real_checkpoint_n_0_epoch_42.cpkt",
        sha256="3c9aadaeddbf51462af8c0ee4b3ca3c697890f77e92318abbb0821b75261c392",
        fetch="pypi:pfns==0.3.0/models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt",
    ),
    code_licence="Apache-2.0",
    weights_licence="Apache-2.0",
    limits=Limits(leaf_width=100, classes=10, rows=1024),
    recognises=deferred("scff.backbones.tabpfn.v1:recognises"),
    aliases=("tabpfn-1", "tabpfnv1"),
)


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
        load=deferred("scff.backbones.tabpfn.files:load", name=name),
        weights=weights,
        code_licence="Apache-2.0",
        weights_licence=licence,
        limits=limits or Limits(),
        requires=REQUIRES,
        recognises=deferred(
            "scff.backbones.tabpfn.files:recognises", named=f"tabpfn_v{version.replace('.', '_')}", task=task
        ),
        task=task,
        aliases=(f"tabpfn-{version}{end}",) if end else (f"tabpfn-{version}", f"tabpfnv{version}"),
    )


_V3, _V35 = "Prior-Labs/tabpfn_3", "Prior-Labs/tabpfn_3_5"

SPECS = (
    V1,
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
