"""TabFM 1.0 through its own package.

The seam: cell embedder, two column embedders and two row interactors are the feature encoder, ``icl_predictor`` context
encoder and head, called as the model itself calls them. Numbers are imputed with the support's mean, then scaled and
clipped by the package's own steps, fitted leaf by leaf; categories are marked as such for the cell embedder. Runs in
single precision on a CPU, where the package's bfloat16 would be slower and coarser.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.base import IntArray
from scff.backbones.known.others import TABFM
from scff.backbones.shared.joint import JointBackbone, JointRowView, Step, fill_means
from scff.backbones.shared.probe import not_installed, probed
from scff.backbones.weights.reading import beside, fitting

__all__ = ["TabFMView", "load"]

_QUERY = -100  # TabFM's own filler where a label is unknown


class TabFMView(JointRowView):
    """TabFM's plain view of one support table: no shuffle, no class shift, every column."""

    def fit(self, block: npt.NDArray[np.floating]) -> Step:
        """Filling with means, then the package's scaler and outlier clipping."""
        from tabfm.src.classifier_and_regressor import PreprocessingPipeline

        return fill_means(block, PreprocessingPipeline(normalization_method="none"))

    def run(self, x_TD: torch.Tensor, columns: IntArray) -> torch.Tensor:
        """The model's own forward pass."""
        y_1T, n_support = self._labels(1, len(x_TD))
        out: torch.Tensor = self.model(x_TD[None], y_1T, n_support, self._categorical([columns]))
        return out[0, len(self.y_S) :].float()

    def row_bytes(self, width: int) -> int:
        """A dozen activations of every column."""
        return 12 * 4 * int(self.model.cls_tokens.shape[-1]) * (width + 8)

    def encode(self, x_GTW: torch.Tensor, leaves: Sequence[IntArray]) -> torch.Tensor:
        """From cells to rows."""
        model = self.model
        y_GT, n_support = self._labels(*x_GTW.shape[:2])
        x_GTW = torch.nan_to_num(x_GTW, nan=-100.0).to(model.cls_tokens.dtype)
        cells = model.col_embedder(model.cell_embedder(x_GTW, y_GT, n_support, self._categorical(leaves)), n_support)
        tokens = model.cls_tokens.expand(*cells.shape[:2], -1, -1)
        rows = model.row_interactor(torch.cat([tokens, cells], dim=2))
        h_GTE: torch.Tensor = model.row_interactor_2(model.col_embedder_2(rows, n_support))
        return h_GTE

    def head(self, h_TE: torch.Tensor) -> torch.Tensor:
        """Context encoder and decoder."""
        y_1T, n_support = self._labels(1, len(h_TE))
        out: torch.Tensor = self.model.icl_predictor(h_TE[None], y_1T, n_support)
        return out[0, len(self.y_S) :].float()

    def _labels(self, n_tables: int, n_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        y_T = torch.full((n_rows,), _QUERY, dtype=torch.long, device=self.device)
        y_T[: len(self.y_S)] = self.y_S.long()
        return y_T.expand(n_tables, -1), torch.full((n_tables,), len(self.y_S), device=self.device)

    def _categorical(self, leaves: Sequence[IntArray]) -> torch.Tensor:
        known = np.array(sorted(self.codes.labels), dtype=np.int64)
        return torch.from_numpy(np.stack([np.isin(leaf, known) for leaf in leaves])).to(self.device)


def load(path: Path, device: torch.device) -> JointBackbone:
    """Load a checkpoint."""
    try:
        from tabfm.src.pytorch.tabfm_v1_0_0 import load
    except ImportError as error:
        raise not_installed("TabFM", error, TABFM.requires, "einx", "loguru") from error
    beside(path, "config.json")
    dtype: Any = None if device.type == "cpu" else torch.bfloat16
    with fitting(path, Exception):  # the package raises many types for a file that does not fit
        model = load("classification", str(path.parent), device=str(device), dtype=dtype, use_cache=False)
    return probed(JointBackbone(TABFM, path, model, device, TabFMView))
