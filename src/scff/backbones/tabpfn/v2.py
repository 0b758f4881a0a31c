"""TabPFN v2, 2.5 and 2.6 through the ``tabpfn`` package: the paper's representation boundary.

These models keep one token per group of columns through their whole context encoder, so there is no row representation
to merge; the token adapter serves them as an extension of the paper. A leaf is tokenised by the model's own embedding
without its column embedding, which is a matter of position and is added to the folded tokens. They are handed to the
model's own ``forward`` by a shallow copy whose embedding returns them; targets, blocks, caches and head are the
package's code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from scff.backbones.arithmetic import Arithmetic
from scff.backbones.base import IntArray
from scff.backbones.known.tabpfn import REQUIRES
from scff.backbones.shared.given import constant, exchanged, same
from scff.backbones.shared.probe import probed
from scff.backbones.spec import BackboneSpec
from scff.backbones.tabpfn.package import Package, PackageSupport
from scff.backbones.tabpfn.view import PackageBackbone, PackageView
from scff.errors import BackboneError

__all__ = ["TabPFN2Backbone", "TabPFN2View", "load"]


class TabPFN2Backbone(PackageBackbone["TabPFN2View"]):
    """A loaded TabPFN v2, 2.5 or 2.6."""

    # The plain one of the package's two defaults; the other appends principal components, which mix columns.
    transform = "none"
    regressor_temperature = 0.9

    def __init__(self, spec: BackboneSpec, path: Path, package: Package) -> None:
        super().__init__(spec, path, package)
        self.arithmetic = Arithmetic.of([package.model], [], package.model.features_per_group)
        self._seam = _Seam(package.model)

    def _view(self, support: PackageSupport, cache: bool) -> TabPFN2View:
        return TabPFN2View(self._seam, support, self._package, cache)


class TabPFN2View(PackageView):
    """One of the package's views of one support table."""

    def __init__(self, seam: _Seam, support: PackageSupport, package: Package, cache: bool) -> None:
        super().__init__(package.model, {}, support, package.task, cache)
        self.group: int = package.model.features_per_group
        self._seam = seam

    def native_bytes(self, width: int, n_query: int) -> int:
        """Tokens of all rows, a dozen activations of them, and the keys and values of the support."""
        model, n_support = self._model, len(self._support.y_S)
        token = 4 * model.embedding_dim
        cached = 2 * len(model.blocks) * n_support if self._cache else 0
        return int((-(-width // self.group) + 1) * token * (12 * (n_support + n_query) + cached))

    def n_tokens(self, leaf: IntArray) -> int:
        """Number of tokens of a leaf; its last group may be incomplete."""
        return -(-len(self._support.positions(leaf)) // self.group)

    def tokenize_support(self, leaf: IntArray) -> tuple[torch.Tensor, Any]:
        """Tokens of the support rows, and the statistics of the model's own scaling."""
        with self._support.inference():
            return self._seam.tokens(self._support.x_SD[:, self._support.positions(leaf)], len(self._support.y_S), None)

    def tokenize_query(self, leaf: IntArray, state: Any, rows: torch.Tensor) -> torch.Tensor:
        """Tokens of query rows, scaled as the support was."""
        with self._support.inference():
            return self._seam.tokens(rows[:, self._support.positions(leaf)], 0, state)[0]

    def build_context(self, tokens_SBE: torch.Tensor) -> Any:
        """The package's key-value cache, or the folded support where nothing is to be kept."""
        if not self._cache:
            return tokens_SBE
        with self._support.inference():
            return self._seam.forward(tokens_SBE, self._support.y_S, return_kv_cache=True)[1]

    def predict(self, context: Any, tokens_QBE: torch.Tensor) -> torch.Tensor:
        """Column embedding, context encoder and head: logits in the order of the class codes, or predictions_Q1."""
        y_S = self._support.y_S
        with self._support.inference():
            if self._cache:
                out = self._seam.forward(tokens_QBE, y_S, kv_cache=context, x_is_test_only=True)
            else:
                out = self._seam.forward(torch.cat([context, tokens_QBE]), y_S)
        return self._decode(out[:, 0])


class _Seam:
    """Every private name of the package that folding needs; v2 and its successors differ in names, not in kind."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._old = hasattr(model, "add_column_embeddings")
        self._embed = "_embed_features" if self._old else "_preprocess_and_embed_features"
        self._position = "add_column_embeddings" if self._old else "_add_column_embeddings"
        if not hasattr(model, self._embed) or not hasattr(model, self._position):
            raise BackboneError(f"The installed tabpfn does not embed its tokens where it did; use {REQUIRES}.")

    def tokens(self, x_TW: torch.Tensor, n_support: int, state: Any) -> tuple[torch.Tensor, Any]:
        """Tokens of one leaf without a position, and the statistics they were scaled with."""
        bare = exchanged(self.model, **{self._position: same})
        x_T1W = x_TW[:, None].clone()
        if self._old:
            x_TFG, n_groups, _, _ = bare._pad_and_group_features(x_T1W)
            tokens, state = bare._embed_features(
                x_TFG, num_train_labels=n_support, num_feature_groups=n_groups, batch_size=1, feature_cache=state
            )
        elif state is None:
            tokens, *state = bare._preprocess_and_embed_features(x_T1W, n_support, 1, return_state=True)
        else:
            tokens, _, _ = bare._preprocess_and_embed_features(
                x_T1W, n_support, 1, scaler_cache=state[0], feature_state=state[1]
            )
        return tokens[0], state

    def forward(self, tokens_TBE: torch.Tensor, y_S: torch.Tensor, **options: Any) -> Any:
        """The model's own forward pass from given tokens on, which get their column embedding first."""
        embedded = getattr(self.model, self._position)(tokens_TBE.clone()[None])
        # What the package would keep of its own embedding: it is not asked for when tokens are given.
        nothing: tuple[Any, ...] = ({},) if self._old else ({}, {})
        given = exchanged(self.model, **{self._embed: constant((embedded, *nothing))})
        return given(tokens_TBE.new_zeros(len(tokens_TBE), 1, self.model.features_per_group), y_S, **options)


def load(path: Path, device: torch.device, *, spec: BackboneSpec) -> TabPFN2Backbone:
    """Load a checkpoint and probe the seam on a tiny table."""
    return probed(TabPFN2Backbone(spec, path, Package(path, device, spec.task)))
