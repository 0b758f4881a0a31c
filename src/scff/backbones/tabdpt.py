"""TabDPT through its own package, a capacity extension like TabPFN v1: folding reads more columns than it has slots.

The seam: clipping, scaling, one linear map of the slots and a norm are the feature encoder, the layers over rows the
context encoder and head. A leaf takes the first slots, the rest is zero. Native inference on more columns than slots
is the package's own: their leading principal components. Its randomised solver follows torch's global state, which is
seeded here and put back. Merged representations go through the model's own ``forward`` by exchanging its encoder in a
shallow copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.preprocessing import StandardScaler

from scff.backbones.base import IntArray
from scff.backbones.known.others import TABDPT
from scff.backbones.shared.given import constant, exchanged, same
from scff.backbones.shared.joint import JointBackbone, JointRowView, Step, fill_means
from scff.backbones.shared.probe import not_installed, probed
from scff.backbones.spec import Limits
from scff.backbones.weights.reading import fitting, safetensors_header

__all__ = ["TabDPTView", "load", "recognises"]


class TabDPTView(JointRowView):
    """TabDPT's view of one support table: full context, columns in file order."""

    def fit(self, block: npt.NDArray[np.floating]) -> Step:
        """The package's mean imputer and standard scaler."""
        return fill_means(block, StandardScaler())

    def run(self, x_TD: torch.Tensor, columns: IntArray) -> torch.Tensor:
        """The package's own forward pass, behind its principal components where the columns are too many."""
        if x_TD.shape[1] > self.model.num_features:
            n_support = len(self.y_S)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                rank = min(n_support, self.model.num_features)
                _, _, projection = torch.pca_lowrank(x_TD[:n_support], q=rank)
            x_TD = x_TD @ projection
        return self._forward(self.model, self._padded(x_TD[None]))

    def row_bytes(self, width: int) -> int:
        """Some copies of the slots, and a dozen activations of the representation."""
        return 4 * (4 * width + 4 * int(self.model.num_features) + 12 * int(self.model.encoder.out_features))

    def encode(self, x_GTW: torch.Tensor, leaves: Sequence[IntArray]) -> torch.Tensor:
        """Clip and scale by the support, then the linear encoder and its norm."""
        from tabdpt.utils import clip_outliers, normalize_data

        model, n_support = self.model, len(self.y_S)
        x_TGF = self._padded(x_GTW).transpose(0, 1)
        x_TGF = clip_outliers(x_TGF, n_support, n_sigma=model.clip_sigma)
        x_TGF = clip_outliers(normalize_data(x_TGF, n_support), n_support, n_sigma=model.clip_sigma)
        x_TGF = torch.nan_to_num(x_TGF, nan=0.0, posinf=0.0, neginf=0.0)
        h_TGE: torch.Tensor = model.enc_norm(model.encoder(x_TGF))
        return h_TGE.transpose(0, 1)

    def head(self, h_TE: torch.Tensor) -> torch.Tensor:
        """The package's own forward pass from given representations on."""
        given = exchanged(self.model, encoder=constant(h_TE[:, None]), enc_norm=same)
        return self._forward(given, h_TE.new_zeros(1, len(h_TE), int(self.model.num_features)))

    def _forward(self, model: Any, x_1TF: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = model(x_src=x_1TF, y_src=self.y_S[None], is_cls=True)
        return out[:, 0].float()

    def _padded(self, x_GTW: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(x_GTW, (0, int(self.model.num_features) - x_GTW.shape[-1]))


def load(path: Path, device: torch.device) -> JointBackbone:
    """Load a checkpoint."""
    try:
        from tabdpt import TabDPTClassifier
    except ImportError as error:
        raise not_installed("TabDPT", error, TABDPT.requires) from error
    with fitting(path, Exception):  # the package raises many types for a file that does not fit
        model = TabDPTClassifier(model_weight_path=str(path), device=str(device), verbose=False).model
    limits = Limits(leaf_width=int(model.num_features), classes=int(model.n_out), views=1)
    return probed(JointBackbone(replace(TABDPT, limits=limits), path, model, device, TabDPTView, temperature=1.0))


def recognises(path: Path) -> bool:
    """Whether a checkpoint has this layout."""
    return "cfg" in safetensors_header(path)[1]
