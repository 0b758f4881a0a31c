"""Small random-weight models of every backbone's real classes: they prove interfaces, never quality."""

from __future__ import annotations

import os
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


os.environ.setdefault("TABPFN_DISABLE_TELEMETRY", "1")
