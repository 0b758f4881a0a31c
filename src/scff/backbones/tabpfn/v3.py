"""TabPFN-3 and TabPFN-3.5, classifiers and regressors, through the ``tabpfn`` package.

The seam is one method of the package's models: ``_stages_0_to_2`` is the feature encoder, everything after it context
encoder and head. Leaves go through that method as they are; the merged representation is handed to the model's own
``forward`` by a shallow copy whose ``_stages_0_to_2`` returns it, so label embedding, context, caches and head are the
package's code on both sides.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from scff.backbones.base import IntArray, LeafCache
from scff.backbones.known.tabpfn import REQUIRES
from scff.backbones.shared.given import constant, exchanged
from scff.backbones.shared.probe import probed
from scff.backbones.spec import BackboneSpec, Task
from scff.backbones.tabpfn.package import Package, PackageSupport
from scff.backbones.tabpfn.view import PackageBackbone, PackageView
from scff.errors import BackboneError
from scff.memory.budget import Footprint

__all__ = ["TabPFN3Backbone", "TabPFN3View", "load"]

_CACHES = {"tabpfn_v3": "TabPFNV3Cache", "tabpfn_v3_5": "TabPFNV3p5Cache"}


class TabPFN3Backbone(PackageBackbone["TabPFN3View"]):
    """A loaded TabPFN-3 or 3.5."""

    transform = "quantile_uni"  # the paper's single view

    def __init__(self, spec: BackboneSpec, path: Path, package: Package) -> None:
        super().__init__(spec, path, package)
        self._seam = _Seam(package.model, package.config, package.task)

    def _view(self, support: PackageSupport, cache: bool) -> TabPFN3View:
        return TabPFN3View(self._seam, support, self._package, cache)


class TabPFN3View(PackageView):
    """One of the package's views of one support table."""

    def __init__(self, seam: _Seam, support: PackageSupport, package: Package, cache: bool) -> None:
        super().__init__(package.model, seam.extra, support, package.task, cache)
        self._seam = seam

    def footprint(self, width: int) -> Footprint:
        """A dozen activations of the cells the package takes at a time, and its inducing states of each column."""
        return self._seam.footprint(width, len(self._support.y_S))

    def shrink_blocks(self, limit: int) -> None:
        """Nothing: the package chooses its own blocks."""

    def native_bytes(self, width: int, n_query: int) -> int:
        """As one leaf of all columns, with the context over its rows."""
        leaf = self.footprint(width)
        rows = len(self._support.y_S) + n_query
        return leaf.scratch + leaf.cache + rows * (leaf.support_row + leaf.summary_row)

    def encode_support(self, leaves: Sequence[IntArray]) -> tuple[torch.Tensor, LeafCache]:
        """Feature encoder on the support rows of equal-width leaves."""
        positions = tuple(self._support.positions(leaf) for leaf in leaves)
        messages: list[torch.Tensor] = []
        tensors: dict[str, torch.Tensor] = {}
        for i, batch in enumerate(_batches(positions)):
            with self._support.inference():
                message, kept = self._seam.encode(_stack(self._support.x_SD, batch), self._support.y_S)
            messages.append(message)
            tensors |= {f"{i}/{key}": tensor for key, tensor in kept.items()}
        return torch.cat(messages), LeafCache(tensors if self._cache else {}, positions)

    def encode_query(self, leaves: Sequence[IntArray], cache: LeafCache, rows: torch.Tensor) -> torch.Tensor:
        """Feature encoder on query rows, from the support's cache or beside the support."""
        y_S = self._support.y_S
        messages = []
        for i, batch in enumerate(_batches(cache.state)):
            with self._support.inference():
                if self._cache:
                    kept = {key.partition("/")[2]: t for key, t in cache.tensors.items() if key.startswith(f"{i}/")}
                    messages.append(self._seam.encode_from(_stack(rows, batch), y_S, kept))
                else:
                    both = torch.cat([self._support.x_SD, rows])
                    messages.append(self._seam.encode(_stack(both, batch), y_S)[0][:, len(y_S) :])
        return torch.cat(messages)

    def build_context(self, h_SE: torch.Tensor) -> Any:
        """The package's key-value cache, or the merged support where nothing is to be kept."""
        if not self._cache:
            return h_SE
        with self._support.inference():
            return self._seam.build_cache(h_SE, self._support.y_S)

    def predict(self, context: Any, h_QE: torch.Tensor) -> torch.Tensor:
        """Context encoder and head: logits in the order of the class codes, or predictions_Q1."""
        y_S = self._support.y_S
        with self._support.inference():
            if self._cache:
                out = self._seam.predict_from(h_QE, y_S, context)
            else:
                out = self._seam.predict(torch.cat([context, h_QE]), y_S)
        return self._decode(out)


class _Seam:
    """Every private name of the package that folding needs."""

    def __init__(self, model: Any, config: Any, task: Task) -> None:
        self.model = model
        self._config = config
        module = importlib.import_module(type(model).__module__)
        architecture = type(model).__module__.rpartition(".")[2]
        if architecture not in _CACHES or not hasattr(model, "_stages_0_to_2"):
            raise BackboneError(f"The installed tabpfn has no row representation where it was; use {REQUIRES}.")
        self._cache_type = getattr(module, _CACHES[architecture])
        self._entry_type = importlib.import_module("tabpfn.architectures.kv_cache").KVCacheEntry
        # TabPFN-3.5 has both tasks in one model and is told which; it also ranks cells among the support's.
        self._ranks: str | None = getattr(module, "_ECDF_CONTEXT_KEY", None)
        task_type = "multiclass" if task == "classification" else "regression"
        self.extra: dict[str, Any] = {"task_type": task_type} if self._ranks else {}

    def encode(self, x_GTW: torch.Tensor, y_S: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Representations of rows that begin with the support, and what queries need of it."""
        message, hidden, statistics = self._stages(x_GTW, y_S, None)
        tensors = {f"hidden/{i}": h for i, h in enumerate(hidden or ())}
        tensors |= {f"statistics/{name}": value for name, value in statistics.items()}
        return message, tensors

    def encode_from(self, x_GQW: torch.Tensor, y_S: torch.Tensor, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Representations of query rows alone."""
        statistics = {key.partition("/")[2]: t for key, t in tensors.items() if key.startswith("statistics/")}
        hidden = [tensors[f"hidden/{i}"] for i in range(len(tensors) - len(statistics))]
        extra = {"ecdf_context": statistics.pop(self._ranks)} if self._ranks else {}
        nothing = torch.empty(0, device=x_GQW.device)
        cache = self._cache_type(
            kv={0: self._entry_type(key=nothing, value=nothing)},  # the package asks whether there is any entry
            inducing_hidden=hidden,
            scaler_cache=statistics,
            train_shape=(len(x_GQW), len(y_S)),
            **extra,
        )
        return self._stages(x_GQW, y_S, cache)[0]

    def footprint(self, width: int, n_support: int) -> Footprint:
        """Estimated from the sizes of the model; the package works through at most a fixed number of cells at once."""
        config = self._config
        size = 4 * config.embed_dim
        cells = min(width * n_support, self.model.inference_chunk_cells)
        hidden = config.dist_embed_num_blocks * config.dist_embed_num_inducing_points * size
        row = config.feat_agg_num_cls_tokens * size
        return Footprint(
            scratch=12 * size * cells,
            cache=width * hidden,
            support_row=8 * width + row,
            query_row=12 * size * width,
            summary_row=row * (2 * config.nlayers + 12),
        )

    def build_cache(self, h_SE: torch.Tensor, y_S: torch.Tensor) -> Any:
        """Key-value cache of the context over a merged support."""
        return self._forward(h_SE, y_S, return_kv_cache=True)[1]

    def predict(self, h_TE: torch.Tensor, y_S: torch.Tensor) -> torch.Tensor:
        """Context encoder and head on merged support and query rows."""
        out: torch.Tensor = self._forward(h_TE, y_S)[:, 0]
        return out

    def predict_from(self, h_QE: torch.Tensor, y_S: torch.Tensor, kv_cache: Any) -> torch.Tensor:
        """Context encoder and head on merged query rows."""
        out: torch.Tensor = self._forward(h_QE, y_S, kv_cache=kv_cache, x_is_test_only=True)[:, 0]
        return out

    def _stages(self, x_GTW: torch.Tensor, y_S: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any, Any]:
        y_SG = y_S[:, None].expand(-1, len(x_GTW)).contiguous()
        representation, hidden, statistics = self.model._stages_0_to_2(
            x_GTW.transpose(0, 1),
            y_SG,
            *self.extra.values(),
            performance_options=self.model.get_default_performance_options(),
            return_inducing_hidden=cache is None,
            kv_cache=cache,
            x_is_test_only=cache is not None,
        )
        return representation.flatten(-2), hidden, statistics

    def _forward(self, h_TE: torch.Tensor, y_S: torch.Tensor, **options: Any) -> Any:
        """The model's own forward pass from a representation on."""
        nothing = torch.empty(0, device=h_TE.device)
        statistics = {name: nothing for name in ("mean", "std", self._ranks) if name is not None}
        # Cloned, because the package adds the labels in place.
        given = exchanged(self.model, _stages_0_to_2=constant((h_TE.clone()[None, :, :, None], [], statistics)))
        return given(h_TE.new_zeros(len(h_TE), 1, 1), y_S, **options, **self.extra)


def _stack(x_TD: torch.Tensor, positions: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([x_TD[:, p] for p in positions])


def _batches(positions: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, ...]]:
    """Leaves that can be encoded in one call: a date among the columns makes its leaf wider for the model."""
    if len({len(p) for p in positions}) == 1:
        return [tuple(positions)]
    return [(p,) for p in positions]


def load(path: Path, device: torch.device, *, spec: BackboneSpec) -> TabPFN3Backbone:
    """Load a checkpoint and probe the seam on a tiny table."""
    return probed(TabPFN3Backbone(spec, path, Package(path, device, spec.task)))
