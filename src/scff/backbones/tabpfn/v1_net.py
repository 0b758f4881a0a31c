"""The network of TabPFN v1: one linear map of a row's 100 slots, post-norm attention over rows, an MLP head.

Written from the published architecture, so that the released weights need no old package. Module names are those of the
released state dict.

Shape legend: ``S`` support rows, ``Q`` query rows, ``E`` representation width, ``K`` outputs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["TabPFNv1Net"]


class _Layer(nn.Module):
    """Attention from any rows to the support rows, then a feed-forward block; normalised after each residual."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(width, heads)
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, rows_TE: torch.Tensor, support_SE: torch.Tensor) -> torch.Tensor:
        # Without weights torch takes its fused kernel: the S x S matrix never exists.
        seen_TE, _ = self.self_attn(rows_TE, support_SE, support_SE, need_weights=False)
        h_TE: torch.Tensor = self.norm1(rows_TE + seen_TE)
        out: torch.Tensor = self.norm2(h_TE + self.linear2(nn.functional.gelu(self.linear1(h_TE))))
        return out


class TabPFNv1Net(nn.Module):
    """TabPFN v1.

    Parameters
    ----------
    config : dict
        The released configuration; ``num_features``, ``emsize``, ``nhead``, ``nhid_factor``, ``nlayers`` and
        ``max_num_classes`` are read.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, hidden = config["emsize"], config["emsize"] * config["nhid_factor"]
        self.slots: int = config["num_features"]
        self.max_classes: int = config["max_num_classes"]
        self.encoder = nn.Linear(self.slots, width)
        self.y_encoder = nn.Linear(1, width)
        layers = [_Layer(width, config["nhead"], hidden) for _ in range(config["nlayers"])]
        self.transformer_encoder = nn.ModuleDict({"layers": nn.ModuleList(layers)})
        self.decoder = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, self.max_classes))

    def encode(self, x_GTF: torch.Tensor) -> torch.Tensor:
        """Feature encoder: rows of scaled and padded slots to representations; a missing value is zero."""
        out: torch.Tensor = self.encoder(torch.nan_to_num(x_GTF, nan=0.0))
        return out

    def support_states(self, h_SE: torch.Tensor, y_S: torch.Tensor) -> torch.Tensor:
        """What each layer shows of the support to the rows that attend to it: states_LSE."""
        h_SE = h_SE + self.y_encoder(y_S[:, None])
        states = []
        for layer in self._layers:
            states.append(h_SE)
            h_SE = layer(h_SE, h_SE)
        return torch.stack(states)

    def predict(self, states_LSE: torch.Tensor, h_QE: torch.Tensor) -> torch.Tensor:
        """Context encoder and head for query rows: logits_QK."""
        for layer, state_SE in zip(self._layers, states_LSE, strict=True):
            h_QE = layer(h_QE, state_SE)
        logits: torch.Tensor = self.decoder(h_QE)
        return logits

    @property
    def _layers(self) -> nn.ModuleList:
        layers = self.transformer_encoder["layers"]
        assert isinstance(layers, nn.ModuleList)
        return layers
