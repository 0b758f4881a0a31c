"""Small random-weight models of every backbone's real classes: they prove interfaces, never quality."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

Array = np.ndarray


def perturb(model: torch.nn.Module, seed: int = 1, scale: float = 0.1) -> torch.nn.Module:
    """Move every parameter: upstream initialises residual outputs with zeros, which would hide most of a network."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * scale)
    return model.eval()


def tiny_tabpfn_v1(path: Path) -> Path:
    """A file in TabPFN v1's layout."""
    from scff.backbones.tabpfn.v1_net import TabPFNv1Net

    config = {"num_features": 100, "emsize": 32, "nhead": 2, "nhid_factor": 2, "nlayers": 2, "max_num_classes": 10}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = perturb(TabPFNv1Net(config), scale=0.05)
    state = {f"module.{key}": value for key, value in model.state_dict().items()}
    torch.save((state | {"module.criterion.weight": torch.ones(10)}, None, config), path)
    return path


def tiny_tabpfn(architecture: str, path: Path, task: str = "classification") -> Path:
    """A checkpoint of the tabpfn package's own classes, as it writes them."""
    from tabpfn.architectures import ARCHITECTURES
    from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution
    from tabpfn.inference_config import InferenceConfig
    from tabpfn.preprocessing import PreprocessorConfig

    module = ARCHITECTURES[architecture]
    config, _ = module.parse_config(_TABPFN[architecture] | {"max_num_classes": 10 if task != "regression" else 0})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = perturb(module.get_architecture(config))
    inference = InferenceConfig(
        PREPROCESS_TRANSFORMS=[PreprocessorConfig("none")], MAX_NUMBER_OF_CLASSES=10, SOFTMAX_TEMPERATURE=0.9
    )
    state = model.state_dict()
    if task == "regression" and not any("borders" in key for key in state):
        criterion = FullSupportBarDistribution(torch.linspace(-4, 4, config.num_buckets + 1))
        state |= {f"criterion.{key}": value for key, value in criterion.state_dict().items()}
    payload = {"state_dict": state, "config": asdict(config), "inference_config": asdict(inference)}
    torch.save(payload | {"architecture_name": architecture}, path)
    return path


def tiny_tabicl_regressor(path: Path) -> Path:
    """A regressor of TabICL's own class."""
    from tabicl._model.tabicl import TabICL

    config = {
        "max_classes": 0,
        "num_quantiles": 19,
        "embed_dim": 16,
        "col_num_blocks": 2,
        "col_nhead": 2,
        "col_num_inds": 8,
        "row_num_blocks": 2,
        "row_nhead": 2,
        "row_num_cls": 2,
        "row_rope_interleaved": False,
        "icl_num_blocks": 2,
        "icl_nhead": 2,
        "zero_init": False,
        "bias_free_ln": True,
        "col_target_aware": True,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TabICL(**config)
    torch.save({"config": config, "state_dict": model.state_dict()}, path)
    return path


_ROW = {
    "num_buckets": 50,
    "embed_dim": 16,
    "dist_embed_num_blocks": 2,
    "dist_embed_num_heads": 2,
    "dist_embed_num_inducing_points": 8,
    "feat_agg_num_blocks": 2,
    "feat_agg_num_heads": 2,
    "feat_agg_num_cls_tokens": 2,
    "nlayers": 2,
    "icl_num_heads": 2,
    "decoder_head_dim": 8,
    "decoder_num_heads": 2,
}
_TOKEN = {"num_buckets": 50, "emsize": 48, "nlayers": 2, "nhead": 3}
_TABPFN = {
    "tabpfn_v2": _TOKEN | {"features_per_group": 2},
    "tabpfn_v2_5": _TOKEN | {"features_per_group": 3, "num_thinking_rows": 4},
    "tabpfn_v2_6": _TOKEN | {"features_per_group": 3, "num_thinking_rows": 4},
    "tabpfn_v3": _ROW,
    "tabpfn_v3_5": _ROW,
}


def tiny_tabicl(config: dict[str, Any], path: Path) -> Path:
    """A classifier of TabICL's own class."""
    from tabicl._model.tabicl import TabICL

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TabICL(**config)
    torch.save({"config": config, "state_dict": model.state_dict()}, path)
    return path


def _tabicl(version: str) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        from conftest import ARCHITECTURES

        return tiny_tabicl(ARCHITECTURES[version], folder / "tabicl.ckpt")

    return build


def _tabicl_proba(path: Path, Xs: Array, ys: Array, Xq: Array) -> Array:
    from tabicl import TabICLClassifier

    model = TabICLClassifier(n_estimators=1, model_path=path, allow_auto_download=False, device="cpu")
    return model.fit(Xs, ys).predict_proba(Xq)


def _tabpfn(architecture: str) -> Callable[[Path], Path]:
    return lambda folder: tiny_tabpfn(architecture, folder / "tabpfn.ckpt")


def _tabpfn_proba(transform: str) -> Callable[[Path, Array, Array, Array], Array]:
    def proba(path: Path, Xs: Array, ys: Array, Xq: Array) -> Array:
        return tabpfn_classifier(path, transform).fit(Xs, ys).predict_proba(Xq)

    return proba


def tabpfn_classifier(path: Path, transform: str, n_estimators: int = 1, shift: str | None = None) -> Any:
    """The package's own classifier on one view."""
    import tabpfn
    from tabpfn.base import ModelSpecs
    from tabpfn.model_loading import load_model
    from tabpfn.preprocessing import PreprocessorConfig

    model, _, config, inference = load_model(path=path, estimator_type="classifier")
    view = PreprocessorConfig(
        transform, categorical_name="numeric", append_original=False, max_features_per_estimator=10**6
    )
    return tabpfn.TabPFNClassifier(
        model_path=ModelSpecs(model, config, inference),
        device="cpu",
        n_estimators=n_estimators,
        softmax_temperature=0.9,
        inference_precision=torch.float32,
        ignore_pretraining_limits=True,
        inference_config={
            "PREPROCESS_TRANSFORMS": [view],
            "FEATURE_SHIFT_METHOD": shift,
            "CLASS_SHIFT_METHOD": shift,
            "FINGERPRINT_FEATURE": False,
            "POLYNOMIAL_FEATURES": "no",
            "SUBSAMPLE_SAMPLES": None,
        },
    )


def tiny_limix(path: Path) -> Path:
    """A LimiX of the tabtune package's own class."""
    from tabtune.models.limix.transformer import FeaturesTransformer

    size, group = 24, 2
    config = {
        "preprocess_config_x": {
            "num_features": group,
            "nan_handling_enabled": True,
            "normalize_on_train_only": True,
            "normalize_x": True,
            "remove_outliers": True,
            "normalize_by_used_features": True,
        },
        "encoder_config_x": {
            "num_features": group,
            "embedding_size": size,
            "mask_embedding_size": size,
            "encoder_use_bias": True,
            "numeric_embed_type": "linear",
        },
        "encoder_config_y": {
            "num_inputs": 1,
            "embedding_size": size,
            "nan_handling_y_encoder": True,
            "max_num_classes": 10,
        },
        "decoder_config": {"num_classes": 10},
        "feature_positional_embedding_type": "subortho",
        "nlayers": 2,
        "nhead": 2,
        "embed_dim": size,
        "hid_dim": 48,
        "features_per_group": group,
        "dropout": 0.0,
        "recompute_attn": False,
        "layer_arch": "smf",
        "pre_norm": True,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = perturb(FeaturesTransformer(**config))
    torch.save({"config": config, "state_dict": model.state_dict()}, path)
    return path


def _limix_proba(path: Path, Xs: Array, ys: Array, Xq: Array) -> Array:
    # The package's estimator fetches from the hub and runs in half precision: its model, seeded as it seeds it.
    from tabtune.models.limix.transformer import FeaturesTransformer

    payload = torch.load(path, weights_only=True)
    model = FeaturesTransformer(**payload["config"]).eval()
    model.load_state_dict(payload["state_dict"])
    x, y = torch.from_numpy(np.vstack([Xs, Xq])).float()[None], torch.from_numpy(ys).float()[None]
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        logits = model(x=x, y=y, eval_pos=len(ys), task_type="cls")[0, :, : ys.max() + 1]
    return torch.softmax(logits / 0.9, dim=-1).numpy()


def tiny_orion(path: Path) -> Path:
    """An Orion-MSP of the tabtune package's own class."""
    from tabtune.models.orion_msp.model.orion_msp import OrionMSP

    config = {
        "max_classes": 10,
        "embed_dim": 16,
        "col_num_blocks": 1,
        "col_nhead": 2,
        "col_num_inds": 8,
        "row_num_blocks": 3,
        "row_nhead": 2,
        "row_num_cls": 2,
        "icl_num_blocks": 2,
        "icl_nhead": 2,
        "perc_num_latents": 4,
        "perc_layers": 1,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = perturb(OrionMSP(**config))
    torch.save({"config": config, "state_dict": model.state_dict()}, path)
    return path


def _orion_proba(path: Path, Xs: Array, ys: Array, Xq: Array) -> Array:
    # The package's estimator always shuffles columns (its "none" raises): its steps and its model, in file order.
    from tabtune.models.orion_msp.model.orion_msp import OrionMSP
    from tabtune.models.orion_msp.sklearn.preprocessing import PreprocessingPipeline

    payload = torch.load(path, weights_only=True)
    model = OrionMSP(**payload["config"]).eval()
    model.load_state_dict(payload["state_dict"])
    steps = PreprocessingPipeline(normalization_method="none").fit(Xs)
    x = torch.from_numpy(np.vstack([steps.transform(Xs), steps.transform(Xq)])).float()[None]
    with torch.no_grad():
        logits = model(x, torch.from_numpy(ys).float()[None])[0, :, : ys.max() + 1]
    return torch.softmax(logits / 0.9, dim=-1).numpy()


def tiny_mitra(folder: Path) -> Path:
    """A Mitra of the tabtune package's own class, in the two files it is published as."""
    from safetensors.torch import save_file
    from tabtune.models.mitra.tab2d import Tab2D

    config = {"dim": 16, "dim_output": 10, "n_layers": 2, "n_heads": 2, "task": "CLASSIFICATION"}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = perturb(Tab2D(**config, use_pretrained_weights=False, path_to_weights="", device="cpu"))
    (folder / "config.json").write_text(json.dumps(config))
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, folder / "model.safetensors")
    return folder / "model.safetensors"


def _mitra_proba(path: Path, Xs: Array, ys: Array, Xq: Array) -> Array:
    from safetensors.torch import load_file
    from tabtune.models.mitra.tab2d import Tab2D

    config = json.loads((path.parent / "config.json").read_text())
    model = Tab2D(**config, use_pretrained_weights=False, path_to_weights="", device="cpu").eval()
    model.load_state_dict(load_file(path))
    masks = [torch.zeros(1, n, dtype=torch.bool) for n in (Xs.shape[1], len(Xs), len(Xq))]
    support, query = (torch.from_numpy(X).float()[None] for X in (Xs, Xq))
    with torch.no_grad():
        logits = model(support, torch.from_numpy(ys).long()[None], query, *masks)[0, :, : ys.max() + 1]
    return torch.softmax(logits.float(), dim=-1).numpy()


def tiny_tabdpt(path: Path) -> Path:
    """A TabDPT of its package's own class, with 40 slots."""
    from safetensors.torch import save_file
    from tabdpt.model import TabDPTModel

    sizes = {"enc_cell_dim": 0, "nhead": 2, "nlayers": 2, "y_encoder_dim": 8, "n_thinking_rows": 2}
    bins = {"regression_bin_count": 8, "regression_bin_min": -3.0, "regression_bin_max": 3.0}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TabDPTModel(
            **sizes, **bins, dropout=0.0, n_out=10, nhid=32, ninp=32, num_features=40, base_len=128, max_len=1024,
            use_flash=False,
        )  # fmt: skip
        perturb(model)
    config = {
        "training": {"dropout": 0.0},
        "env": {"device": "cpu"},
        "model": sizes
        | bins
        | {
            "max_num_classes": 10,
            "ff_dim": 32,
            "emsize": 32,
            "max_num_features": 40,
            "min_eval_context": 128,
            "max_eval_context": 1024,
            "num_col_attn_layers": 2,
        },
    }
    state = {key: value.contiguous() for key, value in model.state_dict().items()}
    save_file(state, path, metadata={"cfg": json.dumps(config)})
    return path


def _tabdpt_proba(path: Path, Xs: Array, ys: Array, Xq: Array) -> Array:
    from tabdpt import TabDPTClassifier

    model = TabDPTClassifier(model_weight_path=str(path), device="cpu", verbose=False)
    model.fit(Xs, ys)
    return model.predict_proba(Xq)


def tiny_tabfm(folder: Path) -> Path:
    """A TabFM of its package's own class, in the two files it is published as."""
    from tabfm.src.pytorch.tabfm_v1_0_0 import TabFM_HF

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TabFM_HF(
            embed_dim=16, max_classes=10, col_num_blocks=1, col_nhead=2, col_num_inds=8, row_num_blocks=1, row_nhead=2,
            row_num_cls=2, icl_num_blocks=2, icl_nhead=2, is_classifier=True,
        )  # fmt: skip
        perturb(model)
    model.save_pretrained(folder)
    return folder / "model.safetensors"


def _tabfm_proba(path: Path, Xs: Array, ys: Array, Xq: Array) -> Array:
    from tabfm import TabFMClassifier
    from tabfm.src.pytorch.tabfm_v1_0_0 import load

    model = TabFMClassifier(
        load("classification", str(path.parent), dtype=None, use_cache=False),
        n_estimators=1,
        feat_shuffle_method="none",
        class_shift=False,
        max_num_features=None,
        norm_methods=["none"],
    )
    model.fit(Xs, ys)
    return np.asarray(model.predict_proba(Xq))


def tiny_geneicl(path: Path) -> Path:
    """A GeneICL of its package's own class."""
    from geneicl.model import GeneICL

    arch = {"embed_dim": 16, "n_blocks": 2, "nhead": 2, "n_think_rows": 2, "n_cls_cols": 2, "loop_iters": 3}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = perturb(GeneICL(**arch), scale=0.05)
    torch.save({"arch": arch | {"loop": True}, "model": model.state_dict()}, path)
    return path


def geneicl_proba(path: Path, Xs: Array, ys: Array, Xq: Array) -> Array:
    """The package's own estimator; its loader runs code that a file brings along, so it is told not to."""
    import geneicl

    load = torch.load
    with mock.patch("torch.load", lambda *args, **options: load(*args, **{**options, "weights_only": True})):
        model = geneicl.GeneICL(ckpt=path, device="cpu")
    return model.fit(Xs, ys).predict_proba(Xq)


@dataclass(frozen=True)
class Adapter:
    """One adapter for the contract suite.

    Attributes
    ----------
    build : callable
        Writes a checkpoint into a folder and returns its path.
    package : str
        Import name of the package it needs.
    upstream : callable or None
        Probabilities of the package's own estimator on the same view.
    parity : float
        How far ours may be from them.
    many_classes : bool
        Whether it takes more classes than its head has.
    no_upstream : str
        Why there is nothing to compare with.
    rows_meet : str
        Why a prediction may depend on the other query rows of the call; empty where it may not.
    """

    build: Callable[[Path], Path]
    package: str = ""
    upstream: Callable[[Path, Array, Array, Array], Array] | None = None
    parity: float = 1e-6
    many_classes: bool = False
    no_upstream: str = ""
    rows_meet: str = ""


ADAPTERS = {
    "tabicl-v1": Adapter(_tabicl("v1"), "tabicl", _tabicl_proba, many_classes=True),
    "tabicl-v2": Adapter(_tabicl("v2"), "tabicl", _tabicl_proba, many_classes=True),
    "tabpfn-v1": Adapter(
        lambda folder: tiny_tabpfn_v1(folder / "v1.cpkt"),
        no_upstream="tabpfn 0.1.11 has an environment of its own (make parity-tabpfn-v1); see the golden file",
    ),
    "tabpfn-v3": Adapter(_tabpfn("tabpfn_v3"), "tabpfn", _tabpfn_proba("quantile_uni")),
    "tabpfn-v3.5": Adapter(_tabpfn("tabpfn_v3_5"), "tabpfn", _tabpfn_proba("quantile_uni")),
    "tabpfn-v2": Adapter(_tabpfn("tabpfn_v2"), "tabpfn", _tabpfn_proba("none")),
    "tabpfn-v2.5": Adapter(_tabpfn("tabpfn_v2_5"), "tabpfn", _tabpfn_proba("none")),
    "tabpfn-v2.6": Adapter(_tabpfn("tabpfn_v2_6"), "tabpfn", _tabpfn_proba("none")),
    "limix": Adapter(lambda folder: tiny_limix(folder / "limix.ckpt"), "tabtune", _limix_proba),
    "orion-msp": Adapter(
        lambda folder: tiny_orion(folder / "orion.ckpt"),
        "tabtune",
        _orion_proba,
        many_classes=True,
        rows_meet="Orion-MSP's memory lets query rows attend to each other, natively too",
    ),
    "mitra": Adapter(tiny_mitra, "tabtune", _mitra_proba),
    "tabdpt": Adapter(lambda folder: tiny_tabdpt(folder / "tabdpt.safetensors"), "tabdpt", _tabdpt_proba),
    "tabfm": Adapter(tiny_tabfm, "tabfm", _tabfm_proba),
    "geneicl": Adapter(lambda folder: tiny_geneicl(folder / "geneicl.pt"), "geneicl", geneicl_proba),
}

os.environ.setdefault("TABPFN_DISABLE_TELEMETRY", "1")
