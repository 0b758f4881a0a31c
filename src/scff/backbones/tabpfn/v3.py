"""TabPFN-3 and TabPFN-3.5, classifiers and regressors, through the ``tabpfn`` package.

The seam is one method of the package's models: ``_stages_0_to_2`` is the feature encoder, everything after it context
encoder and head. Leaves go through that method as they are; the merged representation is handed to the model's own
``forward`` by a shallow copy whose ``_stages_0_to_2`` returns it, so label embedding, context, caches and head are the
package's code on both sides. ``cache=True`` is its key-value cache in full precision, ``cache=False`` its joint pass.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.base import BackboneSpec, IntArray, LeafCache, Limits, Views
from scff.backbones.tabpfn.package import REQUIRES, Member, Package, Task
from scff.errors import BackboneError
from scff.memory.budget import Footprint
from scff.tables.table import Table

__all__ = ["TabPFN3Backbone", "TabPFN3View", "load"]

# The paper's single view of TabPFN-3.
_TRANSFORM = "quantile_uni"
_TEMPERATURE = 0.9
_CACHES = {"tabpfn_v3": "TabPFNV3Cache", "tabpfn_v3_5": "TabPFNV3p5Cache"}


class TabPFN3Backbone:
    """A loaded TabPFN-3 or 3.5."""

    def __init__(self, spec: BackboneSpec, path: Path, package: Package) -> None:
        if package.task == "classification":
            spec = replace(spec, limits=Limits(classes=package.max_classes, rows=spec.limits.rows))
        self.spec = spec
        self.path = path
        self.device = package.device
        self._package = package
        self._seam = _Seam(package.model, package.config, package.task)

    def views(
        self, support: Table, y: npt.NDArray[Any], *, n_estimators: int, cache: bool, random_state: int
    ) -> Views[TabPFN3View]:
        """The package's views of a support table; with one there is no shift of columns or classes."""
        members = self._package.fit(
            support,
            y,
            _TRANSFORM,
            n_estimators=n_estimators,
            random_state=random_state,
            temperature=_TEMPERATURE if self._package.task == "classification" else None,
        )
        return Views(len(members), lambda i: TabPFN3View(self._seam, members.view(i), cache))

    def combine(self, outputs: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Class probabilities as the package averages them, after the softmax; mean predictions of a regressor."""
        if self._package.task == "regression":
            mean: npt.NDArray[np.float64] = np.mean(np.stack(outputs), axis=0, dtype=np.float64)
            return mean
        logits = torch.from_numpy(np.stack(outputs))
        proba = torch.softmax(logits / _TEMPERATURE, dim=-1).mean(dim=0).double()
        out: npt.NDArray[np.float64] = (proba / proba.sum(dim=1, keepdim=True)).numpy()
        return out


class TabPFN3View:
    """One member's view of one support table."""

    reads_labels = True

    def __init__(self, seam: _Seam, member: Member, cache: bool) -> None:
        self.columns = member.columns
        self._seam = seam
        self._member = member
        self._cache = cache

    def footprint(self, width: int) -> Footprint:
        """A dozen activations of the cells the package takes at a time, and its inducing states of each column."""
        return self._seam.footprint(width, len(self._member.y_S))

    def shrink_blocks(self, limit: int) -> None:
        """Nothing: the package chooses its own blocks."""

    def native_bytes(self, width: int, n_query: int) -> int:
        """As one leaf of all columns, with the context over its rows."""
        leaf = self.footprint(width)
        rows = len(self._member.y_S) + n_query
        return leaf.scratch + leaf.cache + rows * (leaf.support_row + leaf.summary_row)

    def prepare(self, rows: Table) -> torch.Tensor:
        """Query rows as the model sees them, once for all leaves."""
        return self._member.prepare(rows)

    def encode_support(self, leaves: Sequence[IntArray]) -> tuple[torch.Tensor, LeafCache]:
        """Feature encoder on the support rows of equal-width leaves."""
        positions = tuple(self._member.positions(leaf) for leaf in leaves)
        messages: list[torch.Tensor] = []
        tensors: dict[str, torch.Tensor] = {}
        for i, batch in enumerate(_batches(positions)):
            with self._member.inference():
                message, kept = self._seam.encode(_stack(self._member.x_SD, batch), self._member.y_S)
            messages.append(message)
            tensors |= {f"{i}/{key}": tensor for key, tensor in kept.items()}
        return torch.cat(messages), LeafCache(tensors if self._cache else {}, positions)

    def encode_query(self, leaves: Sequence[IntArray], cache: LeafCache, rows: torch.Tensor) -> torch.Tensor:
        """Feature encoder on query rows, from the support's cache or beside the support."""
        y_S = self._member.y_S
        messages = []
        for i, batch in enumerate(_batches(cache.state)):
            with self._member.inference():
                if self._cache:
                    kept = {key.partition("/")[2]: t for key, t in cache.tensors.items() if key.startswith(f"{i}/")}
                    messages.append(self._seam.encode_from(_stack(rows, batch), y_S, kept))
                else:
                    both = torch.cat([self._member.x_SD, rows])
                    messages.append(self._seam.encode(_stack(both, batch), y_S)[0][:, len(y_S) :])
        return torch.cat(messages)

    def build_context(self, h_SE: torch.Tensor) -> Any:
        """The package's key-value cache, or the merged support where nothing is to be kept."""
        if not self._cache:
            return h_SE
        with self._member.inference():
            return self._seam.build_cache(h_SE, self._member.y_S)

    def predict(self, context: Any, h_QE: torch.Tensor) -> torch.Tensor:
        """Context encoder and head: logits in the order of the class codes, or predictions_Q1."""
        y_S = self._member.y_S
        with self._member.inference():
            if self._cache:
                out = self._seam.predict_from(h_QE, y_S, context)
            else:
                out = self._seam.predict(torch.cat([context, h_QE]), y_S)
        return self._decode(out)

    def compile_native(self, columns: IntArray) -> Any:
        """The positions of these columns, and the package's key-value cache of them."""
        positions = self._member.positions(columns)
        if not self._cache:
            return positions, None
        with self._member.inference():
            x_S1D = self._member.x_SD[:, positions][:, None]
            _, kv_cache = self._seam.model(x_S1D, self._member.y_S, return_kv_cache=True, **self._seam.extra)
        return positions, kv_cache

    def native(self, compiled: Any, rows: Table) -> torch.Tensor:
        """The package's own inference on all these columns at once."""
        positions, kv_cache = compiled
        x_QD = self.prepare(rows)[:, positions]
        y_S = self._member.y_S
        with self._member.inference():
            if kv_cache is not None:
                out = self._seam.model(x_QD[:, None], y_S, kv_cache=kv_cache, x_is_test_only=True, **self._seam.extra)
            else:
                both = torch.cat([self._member.x_SD[:, positions], x_QD])
                out = self._seam.model(both[:, None], y_S, **self._seam.extra)
        return self._decode(out[:, 0])

    def _decode(self, out_QK: torch.Tensor) -> torch.Tensor:
        estimator = self._member.estimator
        out_QK = out_QK.float()
        if self._seam.task == "classification":
            permutation = self._member.class_permutation
            return out_QK[:, : estimator.n_classes_] if permutation is None else out_QK[:, permutation]
        out_QK = out_QK / estimator.softmax_temperature_
        mean: torch.Tensor = estimator.raw_space_bardist_.mean(out_QK)
        return mean[:, None].float()


class _Seam:
    """Every private name of the package that folding needs."""

    def __init__(self, model: Any, config: Any, task: Task) -> None:
        self.model = model
        self._config = config
        self.task = task
        module = importlib.import_module(type(model).__module__)
        architecture = type(model).__module__.rpartition(".")[2]
        if architecture not in _CACHES or not hasattr(model, "_stages_0_to_2"):
            raise BackboneError(f"The installed tabpfn has no row representation where it was; use {REQUIRES}.")
        self._cache_type = getattr(module, _CACHES[architecture])
        self._entry_type = importlib.import_module("tabpfn.architectures.kv_cache").KVCacheEntry
        # TabPFN-3.5 has both tasks in one model and is told which; it also ranks cells among the support's.
        self._ranks: str | None = getattr(module, "_ECDF_CONTEXT_KEY", None)
        self._task_type = "multiclass" if task == "classification" else "regression"
        self.extra: dict[str, Any] = {"task_type": self._task_type} if self._ranks else {}
        self._given = type("_Given", (type(model),), {"_stages_0_to_2": _hand_out})

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
        head = copy.copy(self.model)
        head.__class__ = self._given
        nothing = torch.empty(0, device=h_TE.device)
        statistics = {name: nothing for name in ("mean", "std", self._ranks) if name is not None}
        # Cloned, because the package adds the labels in place.
        object.__setattr__(head, "given", (h_TE.clone()[None, :, :, None], [], statistics))
        return head(h_TE.new_zeros(len(h_TE), 1, 1), y_S, **options, **self.extra)


def _hand_out(self: Any, *args: Any, **options: Any) -> Any:
    return self.given


def _stack(x_TD: torch.Tensor, positions: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([x_TD[:, p] for p in positions])


def _batches(positions: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, ...]]:
    """Leaves that can be encoded in one call: a date among the columns makes its leaf wider for the model."""
    if len({len(p) for p in positions}) == 1:
        return [tuple(positions)]
    return [(p,) for p in positions]


def load(path: Path, device: torch.device, *, spec: BackboneSpec, task: Task) -> TabPFN3Backbone:
    """Load a checkpoint and probe the seam on a tiny table."""
    backbone = TabPFN3Backbone(spec, path, Package(path, device, task))
    _probe(backbone, task)
    return backbone


def _probe(backbone: TabPFN3Backbone, task: Task) -> None:
    """Fold a tiny table as one leaf and natively; anything but the same numbers means the package changed."""
    rng = np.random.default_rng(0)
    support, query = (Table(rng.normal(size=(n, 3))) for n in (8, 2))
    y = np.arange(8, dtype=np.int64) % 2 if task == "classification" else rng.normal(size=8)
    try:
        view, joint = (
            backbone.views(support, y, n_estimators=1, cache=cache, random_state=0).view(0) for cache in (True, False)
        )
        message, cache = view.encode_support([view.columns])
        queries = view.encode_query([view.columns], cache, view.prepare(query))
        folded = view.predict(view.build_context(message[0]), queries[0])
        native = joint.native(joint.compile_native(joint.columns), query)
    except (AttributeError, TypeError, KeyError, ImportError) as error:
        raise BackboneError(f"The installed tabpfn is not one this version knows ({error}); use {REQUIRES}.") from error
    # Mixed precision on accelerators is coarser; a changed seam is wrong by far more than that.
    if not torch.allclose(folded, native, atol=1e-3 if backbone.device.type == "cpu" else 5e-2, rtol=1e-3):
        raise BackboneError(f"Folding no longer reproduces the installed tabpfn's own numbers; use {REQUIRES}.")
