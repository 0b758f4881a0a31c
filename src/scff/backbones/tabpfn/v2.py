"""TabPFN v2, 2.5 and 2.6 through the ``tabpfn`` package: the paper's representation boundary.

These models keep one token per group of columns through their whole context encoder, so there is no row representation
to merge; the token adapter serves them as an extension of the paper. A leaf is tokenised by the model's own embedding
without its column embedding, which is a matter of position and is added to the folded tokens. They are handed to the
model's own ``forward`` by a shallow copy whose embedding returns them; targets, blocks, caches and head are the
package's code.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.base import BackboneSpec, IntArray, Limits, Views
from scff.backbones.tabpfn.package import REQUIRES, Member, Package, Task
from scff.errors import BackboneError
from scff.tables.table import Table

__all__ = ["TabPFN2Backbone", "TabPFN2View", "load"]

# The plain one of the package's two default members; the other appends principal components, which mix columns.
_TRANSFORM = "none"


class TabPFN2Backbone:
    """A loaded TabPFN v2, 2.5 or 2.6."""

    def __init__(self, spec: BackboneSpec, path: Path, package: Package) -> None:
        if package.task == "classification":
            spec = replace(spec, limits=Limits(classes=package.max_classes, rows=spec.limits.rows))
        self.spec = spec
        self.path = path
        self.device = package.device
        self._package = package
        self._seam = _Seam(package.model)
        self._temperature = 0.9

    def views(
        self, support: Table, y: npt.NDArray[Any], *, n_estimators: int, cache: bool, random_state: int
    ) -> Views[TabPFN2View]:
        """The package's views of a support table; with one there is no shift of columns or classes."""
        members = self._package.fit(
            support, y, _TRANSFORM, n_estimators=n_estimators, random_state=random_state, temperature=self._temperature
        )
        return Views(len(members), lambda i: TabPFN2View(self._seam, members.view(i), self._package.task, cache))

    def combine(self, outputs: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Class probabilities as the package averages them, after the softmax; mean predictions of a regressor."""
        if self._package.task == "regression":
            mean: npt.NDArray[np.float64] = np.mean(np.stack(outputs), axis=0, dtype=np.float64)
            return mean
        proba = torch.softmax(torch.from_numpy(np.stack(outputs)) / self._temperature, dim=-1).mean(dim=0).double()
        out: npt.NDArray[np.float64] = (proba / proba.sum(dim=1, keepdim=True)).numpy()
        return out


class TabPFN2View:
    """One member's view of one support table."""

    def __init__(self, seam: _Seam, member: Member, task: Task, cache: bool) -> None:
        self.columns = member.columns
        self.group: int = seam.model.features_per_group
        self._seam = seam
        self._member = member
        self._task = task
        self._cache = cache

    def native_bytes(self, width: int, n_query: int) -> int:
        """Tokens of all rows, a dozen activations of them, and the keys and values of the support."""
        model, n_support = self._seam.model, len(self._member.y_S)
        token = 4 * model.embedding_dim
        cached = 2 * len(model.blocks) * n_support if self._cache else 0
        return int((-(-width // self.group) + 1) * token * (12 * (n_support + n_query) + cached))

    def n_tokens(self, leaf: IntArray) -> int:
        """Number of tokens of a leaf; its last group may be incomplete."""
        return -(-len(self._member.positions(leaf)) // self.group)

    def prepare(self, rows: Table) -> torch.Tensor:
        """Query rows as the model sees them, once for all leaves."""
        return self._member.prepare(rows)

    def tokenize_support(self, leaf: IntArray) -> tuple[torch.Tensor, Any]:
        """Tokens of the support rows, and the statistics of the model's own scaling."""
        with self._member.inference():
            return self._seam.tokens(self._member.x_SD[:, self._member.positions(leaf)], len(self._member.y_S), None)

    def tokenize_query(self, leaf: IntArray, state: Any, rows: torch.Tensor) -> torch.Tensor:
        """Tokens of query rows, scaled as the support was."""
        with self._member.inference():
            return self._seam.tokens(rows[:, self._member.positions(leaf)], 0, state)[0]

    def build_context(self, tokens_SBE: torch.Tensor) -> Any:
        """The package's key-value cache, or the folded support where nothing is to be kept."""
        if not self._cache:
            return tokens_SBE
        with self._member.inference():
            return self._seam.forward(tokens_SBE, self._member.y_S, return_kv_cache=True)[1]

    def predict(self, context: Any, tokens_QBE: torch.Tensor) -> torch.Tensor:
        """Column embedding, context encoder and head: logits in the order of the class codes, or predictions_Q1."""
        y_S = self._member.y_S
        with self._member.inference():
            if self._cache:
                out = self._seam.forward(tokens_QBE, y_S, kv_cache=context, x_is_test_only=True)
            else:
                out = self._seam.forward(torch.cat([context, tokens_QBE]), y_S)
        return self._decode(out[:, 0])

    def compile_native(self, columns: IntArray) -> Any:
        """The positions of these columns, and the package's key-value cache of them."""
        positions = self._member.positions(columns)
        if not self._cache:
            return positions, None
        with self._member.inference():
            x_S1D = self._member.x_SD[:, positions][:, None]
            return positions, self._seam.model(x_S1D.clone(), self._member.y_S, return_kv_cache=True)[1]

    def native(self, compiled: Any, rows: Table) -> torch.Tensor:
        """The package's own inference on all these columns at once."""
        positions, kv_cache = compiled
        x_QD = self.prepare(rows)[:, positions]
        y_S = self._member.y_S
        with self._member.inference():
            if kv_cache is not None:
                out = self._seam.model(x_QD[:, None], y_S, kv_cache=kv_cache, x_is_test_only=True)
            else:
                out = self._seam.model(torch.cat([self._member.x_SD[:, positions], x_QD])[:, None], y_S)
        return self._decode(out[:, 0])

    def _decode(self, out_QK: torch.Tensor) -> torch.Tensor:
        estimator = self._member.estimator
        out_QK = out_QK.float()
        if self._task == "classification":
            permutation = self._member.class_permutation
            return out_QK[:, : estimator.n_classes_] if permutation is None else out_QK[:, permutation]
        mean: torch.Tensor = estimator.raw_space_bardist_.mean(out_QK / estimator.softmax_temperature_)
        return mean[:, None].float()


class _Seam:
    """Every private name of the package that folding needs; v2 and its successors differ in names, not in kind."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._old = hasattr(model, "add_column_embeddings")
        self._embed = "_embed_features" if self._old else "_preprocess_and_embed_features"
        self._position = "add_column_embeddings" if self._old else "_add_column_embeddings"
        if not hasattr(model, self._embed) or not hasattr(model, self._position):
            raise BackboneError(f"The installed tabpfn does not embed its tokens where it did; use {REQUIRES}.")
        kind = type(model)
        self._bare = type("_Bare", (kind,), {self._position: lambda self, tokens: tokens})
        self._given = type("_Given", (kind,), {self._embed: _hand_out})

    def tokens(self, x_TW: torch.Tensor, n_support: int, state: Any) -> tuple[torch.Tensor, Any]:
        """Tokens of one leaf without a position, and the statistics they were scaled with."""
        bare = copy.copy(self.model)
        bare.__class__ = self._bare
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
        given = copy.copy(self.model)
        given.__class__ = self._given
        embedded = getattr(self.model, self._position)(tokens_TBE.clone()[None])
        # What the package would keep of its own embedding: it is not asked for when tokens are given.
        object.__setattr__(given, "given", (embedded, {}) if self._old else (embedded, {}, {}))
        return given(tokens_TBE.new_zeros(len(tokens_TBE), 1, self.model.features_per_group), y_S, **options)


def _hand_out(self: Any, *args: Any, **options: Any) -> Any:
    return self.given


def load(path: Path, device: torch.device, *, spec: BackboneSpec, task: Task) -> TabPFN2Backbone:
    """Load a checkpoint and probe the seam on a tiny table."""
    backbone = TabPFN2Backbone(spec, path, Package(path, device, task))
    rng = np.random.default_rng(0)
    support, query = (Table(rng.normal(size=(n, 5))) for n in (8, 2))
    y = np.arange(8, dtype=np.int64) % 2 if task == "classification" else rng.normal(size=8)
    try:
        view, joint = (
            backbone.views(support, y, n_estimators=1, cache=cache, random_state=0).view(0) for cache in (True, False)
        )
        tokens, state = view.tokenize_support(view.columns)
        queries = view.tokenize_query(view.columns, state, view.prepare(query))
        folded = view.predict(view.build_context(tokens), queries)
        native = joint.native(joint.compile_native(joint.columns), query)
    except (AttributeError, TypeError, KeyError, ImportError) as error:
        raise BackboneError(f"The installed tabpfn is not one this version knows ({error}); use {REQUIRES}.") from error
    # Mixed precision on accelerators is coarser; a changed seam is wrong by far more than that.
    if not torch.allclose(folded, native, atol=1e-3 if device.type == "cpu" else 5e-2, rtol=1e-3):
        raise BackboneError(f"Folding no longer reproduces the installed tabpfn's own numbers; use {REQUIRES}.")
    return backbone
