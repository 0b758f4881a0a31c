"""Small random-weight models of every backbone's real classes: they prove interfaces, never quality."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import torch


def perturb(model: torch.nn.Module, seed: int = 1, scale: float = 0.1) -> torch.nn.Module:
    """Move every parameter: upstream initialises residual outputs with zeros, which would hide most of a network."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * scale)
    return model.eval()


def tiny_tabpfn_v1(path: Path) -> Path:
    """A file in TabPFN v1's layout."""
    from scff.backbones.tabpfn_v1_net import TabPFNv1Net

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

os.environ.setdefault("TABPFN_DISABLE_TELEMETRY", "1")
