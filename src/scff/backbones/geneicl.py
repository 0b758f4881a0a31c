"""GeneICL 1.0, a model of bulk gene expression, through its own package.

The seam: standardising, principal components of the columns, and the blocks that alternate between columns and rows are
the feature encoder; what a row's class tokens hold then, of one width whatever the table's, is its representation. The
recurrent stage over rows is context encoder and head. The model adds the labels to the support's representations at its
encoder's end; here that is put off until leaves are merged, so that the Tail's gate never reads a label it is to test.

The package reads a table of any width natively, by its principal components, at most as many as there are labelled
rows. A leaf is read by the components of its own columns. Its files are read without running any code from them, which
the package's own loader does not see to; they ship inside its wheel.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.arithmetic import Arithmetic
from scff.backbones.base import IntArray
from scff.backbones.known.others import GENEICL
from scff.backbones.shared.given import constant, exchanged
from scff.backbones.shared.joint import JointBackbone, JointRowView, Step
from scff.backbones.shared.probe import not_installed, probed
from scff.backbones.weights.reading import fitting, load_torch, payload_of
from scff.errors import CheckpointError

__all__ = ["GeneICLView", "load", "recognises"]


class GeneICLView(JointRowView):
    """GeneICL's view of one support table: one forward pass, no ensemble."""

    def fit(self, block: npt.NDArray[np.floating]) -> Step:
        """Nothing: filling, scaling and components are the model's own first steps."""
        return np.asarray

    def run(self, x_TD: torch.Tensor, columns: IntArray) -> torch.Tensor:
        """The model's own forward pass."""
        out: torch.Tensor = self.model(_by_columns(x_TD), self.y_S[None], is_cls=True)
        return out[0].float()

    def row_bytes(self, width: int) -> int:
        """The row itself, its share of the products among support rows, a dozen activations of every component."""
        tokens = min(width, len(self.y_S)) + int(self.model.n_cls_cols)
        return 4 * (4 * width + 3 * len(self.y_S) + 12 * tokens * int(self.model.x_embed.out_features))

    def encode(self, x_GTW: torch.Tensor, leaves: Sequence[IntArray]) -> torch.Tensor:
        """From cells to rows, a leaf at a time: in a batch, one leaf's components would number as another's."""
        encoder = exchanged(self.model, _y_icl=constant(0.0))
        y_1S = self.y_S[None]
        return torch.cat([encoder(_by_columns(x_TW), y_1S, is_cls=True, return_enc=True) for x_TW in x_GTW]).float()

    def head(self, h_TE: torch.Tensor) -> torch.Tensor:
        """Labels, then the recurrent stage and its head."""
        rows, n_support = h_TE[None].clone(), len(self.y_S)
        rows[:, :n_support] += self.model._y_icl(self.y_S[None], True)
        out: torch.Tensor = self.model._recurrent_icl(rows, n_support, True)
        return out[0].float()


def load(path: Path, device: torch.device) -> JointBackbone:
    """Load a checkpoint."""
    try:
        from geneicl.model import GeneICL
    except ImportError as error:
        raise not_installed("GeneICL", error, GENEICL.requires) from error
    parts = _arch_and_state(load_torch(path))
    if parts is None:
        raise CheckpointError(f"{path} is not a GeneICL checkpoint: it has no 'arch' and 'model'.")
    accepted = inspect.signature(GeneICL.__init__).parameters
    with fitting(path, KeyError, TypeError, RuntimeError, ValueError, AttributeError):
        model: Any = GeneICL(**{key: value for key, value in parts[0].items() if key in accepted})
        model.load_state_dict(parts[1])
    backbone = JointBackbone(GENEICL, path, model, device, GeneICLView, temperature=1.0)
    steps = [model.eqr_block] * int(model.loop_iters)
    backbone.arithmetic = Arithmetic.of(
        [model.x_embed, model.col_blocks, model.row_blocks], [*steps, model.out_mlp_cls]
    )
    return probed(backbone)


def _by_columns(x_TD: torch.Tensor) -> torch.Tensor:
    """A batch of one table, its columns one after the other in memory as the package has them.

    In another order sums round differently, and a principal component may come out with the other sign.
    """
    return x_TD.t().contiguous().t()[None]


def _arch_and_state(payload: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    if not isinstance(payload, dict):
        return None
    arch, state = payload.get("arch"), payload.get("model")
    if not (isinstance(arch, dict) and isinstance(state, dict) and "loop_iters" in arch):
        return None
    return arch, state


def recognises(path: Path) -> bool:
    """Whether a checkpoint has this layout."""
    return _arch_and_state(payload_of(path)) is not None
