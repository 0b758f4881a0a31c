"""Mitra, one token a column, on its architecture in the ``tabtune`` package; the token adapter with g = 1.

Mitra has no column embedding: columns are told apart by their content alone. Folded tokens go through the model's own
``forward`` by exchanging its two tokeniser modules in a shallow copy. Zero-shot: what its estimators do besides, tuning
the weights on the support, is no frozen model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.base import IntArray
from scff.backbones.known.others import MITRA
from scff.backbones.shared.given import constant, exchanged, same
from scff.backbones.shared.joint import JointBackbone, JointTokenView, Step, fill_means
from scff.backbones.shared.probe import not_installed, probed
from scff.backbones.weights.reading import beside, fitting

__all__ = ["MitraView", "load"]


class MitraView(JointTokenView):
    """Mitra's zero-shot view of one support table: every column, unmirrored and in file order."""

    group = 1

    def fit(self, block: npt.NDArray[np.floating]) -> Step:
        """Filling with means; the quantiles of the support are taken inside the model."""
        return fill_means(block)

    def run(self, x_TD: torch.Tensor, columns: IntArray) -> torch.Tensor:
        """Mitra's own forward pass."""
        return self._forward(self.model, x_TD)

    def row_bytes(self, width: int) -> int:
        """A dozen activations of every token."""
        return 12 * 4 * int(self.model.dim) * (width + 1)

    def tokens(self, x_TW: torch.Tensor) -> torch.Tensor:
        """Quantiles of the support, then one linear map a cell."""
        n_support = len(self.y_S)
        # Quantiles are looked up for query rows too; a support alone brings one of its own.
        query = x_TW[n_support:] if len(x_TW) > n_support else x_TW[:1]
        no_rows, no_columns = (
            torch.zeros(1, n, dtype=torch.bool, device=self.device) for n in (n_support, x_TW.shape[1])
        )
        support_1SW, query_1QW = self.model.x_quantile(
            x_TW[None, :n_support].clone(), query[None].clone(), no_rows, no_columns
        )
        parts = [self.model.x_embedding(support_1SW)[0]]
        if len(x_TW) > n_support:
            parts.append(self.model.x_embedding(query_1QW)[0])
        return torch.cat(parts)

    def head(self, tokens_TBE: torch.Tensor) -> torch.Tensor:
        """Mitra's own forward pass from given tokens on."""
        parts = tokens_TBE[None, : len(self.y_S)], tokens_TBE[None, len(self.y_S) :]
        given = exchanged(self.model, x_quantile=constant(parts), x_embedding=same)
        return self._forward(given, tokens_TBE.new_zeros(tokens_TBE.shape[:2]))

    def _forward(self, model: Any, x_TD: torch.Tensor) -> torch.Tensor:
        n_support = len(self.y_S)
        n_rows, n_columns = x_TD.shape
        none = [
            torch.zeros(1, n, dtype=torch.bool, device=self.device) for n in (n_columns, n_support, n_rows - n_support)
        ]
        x_1TD = x_TD[None].clone()  # Mitra writes into its input
        out: torch.Tensor = model(x_1TD[:, :n_support], self.y_S.long()[None].clone(), x_1TD[:, n_support:], *none)
        return out[0].float()


def load(path: Path, device: torch.device) -> JointBackbone:
    """Load a checkpoint."""
    try:
        from tabtune.models.mitra.tab2d import Tab2D
    except ImportError as error:
        raise not_installed("Mitra", error, MITRA.requires, "einx") from error
    from safetensors.torch import load_file

    config = json.loads(beside(path, "config.json").read_text())
    sizes = {key: config[key] for key in ("dim", "dim_output", "n_layers", "n_heads", "task")}
    with fitting(path):
        model = Tab2D(**sizes, use_pretrained_weights=False, path_to_weights="", device=str(device))
        model.load_state_dict(load_file(path))
    return probed(JointBackbone(MITRA, path, model, device, MitraView, temperature=1.0))
