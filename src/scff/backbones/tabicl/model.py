"""TabICL v1, v1.1 and v2, the embedded ``nano``, and any checkpoint in TabICL's layout.

The seam: ``col_embedder`` and ``row_interactor`` are the feature encoder, ``icl_predictor`` is context encoder and
head. All three are public attributes of the model and are called as TabICL itself calls them, so a plan of one leaf
reproduces it bit for bit: ``cache=True`` is TabICL's ``kv_cache=True``, ``cache=False`` its default. More classes than
the model has go through TabICL's own mixed-radix embedding and class hierarchy.

Preprocessing is TabICL's own, fitted leaf by leaf (:mod:`scff.backbones.tabicl.preprocessing`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tabicl import TabICLClassifier
from tabicl._model.kv_cache import KVCache
from tabicl._model.tabicl import TabICL
from tabicl._sklearn.preprocessing import EnsembleGenerator, TransformToNumerical

from scff.backbones.base import BackboneSpec, IntArray, LeafCache, Views
from scff.backbones.tabicl.components import n_components
from scff.backbones.tabicl.encoder import LeafEncoder, pack, unpack
from scff.backbones.tabicl.preprocessing import LeafPreprocessing, fit_leaf
from scff.memory.budget import Footprint
from scff.memory.device import to_device
from scff.tables.table import Table

__all__ = ["TabICLBackbone", "TabICLView"]

# Columns per block when looking for constants: bounds the working copy on very wide tables.
_BLOCK = 1024
_NORMS = ("none", "power")  # TabICL's default normalisations, in the order it deals them to members


class TabICLBackbone:
    """A loaded TabICL model; `components` principal components, at most, stand behind the columns of a leaf."""

    def __init__(
        self, spec: BackboneSpec, path: Path, model: TabICL, device: torch.device, components: int = 0
    ) -> None:
        self.spec = spec
        self.components = components
        self.path = path
        self.model = model.eval().to(device)
        self.device = device

    def views(
        self, support: Table, y: IntArray, *, n_estimators: int, cache: bool, random_state: int
    ) -> Views[TabICLView]:
        """TabICL's ensemble views of a support table."""
        encoder = None
        order = np.arange(support.n_columns)
        numbers = support
        if not support.is_numeric:
            encoder = TransformToNumerical().fit(support.values)
            order = _column_order(encoder)
            numbers = Table(np.asarray(encoder.transform(support.values)))
        varying = _varying(numbers)
        # Where each of the user's columns stands in the numeric table.
        where = np.full(support.n_columns, -1, dtype=np.int64)
        where[order] = np.arange(len(order))
        source = _Source(numbers, where, encoder)
        config = self._inference_config(support)
        members = _members(order[varying], support.n_columns, int(y.max()) + 1, n_estimators, random_state)

        def build(i: int) -> TabICLView:
            return TabICLView(self.model, config, members[i], source, order[varying], y, cache, self.components)

        return Views(len(members), build)

    def combine(self, logits: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Mean logits, then softmax at TabICL's temperature."""
        mean = np.zeros_like(logits[0])
        for member in logits:
            mean += member
        mean /= len(logits)
        proba = TabICLClassifier.softmax(mean, axis=-1, temperature=0.9)
        out: npt.NDArray[np.float64] = proba / proba.sum(axis=1, keepdims=True)
        return out

    def _inference_config(self, support: Table) -> Any:
        """Mixed precision and offloading as TabICL itself decides them for a table of this size."""
        upstream = TabICLClassifier(device=self.device)
        upstream.device_ = self.device
        upstream.n_samples_in_, upstream.n_features_in_ = support.n_rows, support.n_columns
        upstream._build_inference_config()
        return upstream.inference_config_


@dataclass(frozen=True)
class _Member:
    """One member of TabICL's ensemble."""

    norm: str
    position: IntArray  # rank of each of the user's columns in this member's order
    class_shuffle: IntArray


@dataclass(frozen=True)
class _Source:
    """The support as numbers, and how query rows become such numbers."""

    numbers: Table
    where: IntArray
    encoder: TransformToNumerical | None


class TabICLView:
    """One ensemble member's view of one support table."""

    thread_safe = True  # TabICL's calls share nothing but rotary tables, which the widest leaf fills

    def __init__(
        self,
        model: TabICL,
        config: Any,
        member: _Member,
        source: _Source,
        columns: IntArray,
        y: IntArray,
        cache: bool,
        components: int,
    ) -> None:
        self.columns = np.sort(columns)
        self._model = model
        self._config = config
        self._member = member
        self._source = source
        self._components = components
        self._device = config.COL_CONFIG.device
        self.reads_labels = bool(getattr(model.col_embedder, "target_aware", False))
        self._n_classes = int(y.max()) + 1
        self._y_1S = torch.from_numpy(member.class_shuffle[y]).float()[None].to(self._device)
        self._encoder = LeafEncoder(model, config, self._y_1S, keep=cache)
        # Above the model's classes TabICL's class hierarchy runs the context encoder per node: nothing to keep.
        self._cache_context = cache and self._n_classes <= model.max_classes

    def footprint(self, width: int) -> Footprint:
        """Cost of a leaf."""
        return self._encoder.footprint(self._width_read(width))

    def shrink_blocks(self, limit: int) -> None:
        """Encode leaves in blocks that fit a budget."""
        self._encoder.shrink_blocks(limit)

    def native_bytes(self, width: int, n_query: int) -> int:
        """Estimate of what TabICL's own inference adds."""
        n_support = self._y_1S.shape[1]
        # With its cache TabICL takes support and queries one after the other.
        rows = max(n_support, n_query) if self._cache_context else n_support + n_query
        return self._encoder.native_bytes(self._width_read(width), rows)

    def _width_read(self, width: int) -> int:
        """Columns the model reads for so many of the user's."""
        return width + n_components(self._components, width, self._y_1S.shape[1])

    def prepare(self, rows: Table) -> Table:
        """Encode categories, once for all leaves; numeric tables pass through."""
        encoder = self._source.encoder
        return rows if encoder is None else Table(np.asarray(encoder.transform(rows.values)))

    def encode_support(self, leaves: Sequence[IntArray]) -> tuple[torch.Tensor, LeafCache]:
        """Feature encoder on the support rows of equal-width leaves."""
        with torch.no_grad():
            fitted = [self._fit(leaf) for leaf in leaves]
            message, tensors = self._encoder.support(self._tensor([x for _, x in fitted]))
            return message, LeafCache(tensors, tuple(step for step, _ in fitted))

    def encode_query(self, leaves: Sequence[IntArray], cache: LeafCache, rows: Table) -> torch.Tensor:
        """Feature encoder on query rows, from what the support left behind; without it, that is learned anew."""
        with torch.no_grad():
            tensors = cache.tensors
            if not self._encoder.keep:
                tensors = self._encoder.learn(self._tensor([step(self._source.numbers) for step in cache.state]))
            return self._encoder.query(self._tensor([step(rows) for step in cache.state]), tensors)

    def build_context(self, h_SE: torch.Tensor) -> dict[str, torch.Tensor]:
        """Keys and values of the context encoder, or the merged support where they cannot be kept."""
        with torch.no_grad():
            if not self._cache_context:
                return {"h": h_SE}
            kv = KVCache()
            self._model.icl_predictor.forward_with_cache(
                h_SE[None].clone(),  # TabICL adds the labels in place
                icl_cache=kv,
                y_train=self._y_1S,
                use_cache=False,
                store_cache=True,
                mgr_config=self._config.ICL_CONFIG,
            )
            return pack(kv)

    def predict(self, context: dict[str, torch.Tensor], h_QE: torch.Tensor) -> torch.Tensor:
        """Context encoder and head: logits in the order of the class codes."""
        with torch.no_grad():
            icl = self._model.icl_predictor
            if self._cache_context:
                logits = icl.forward_with_cache(
                    h_QE[None],
                    icl_cache=unpack(context),
                    num_classes=self._n_classes,
                    use_cache=True,
                    store_cache=False,
                    mgr_config=self._config.ICL_CONFIG,
                )
            else:
                h_1TE = torch.cat([context["h"], h_QE])[None]  # a copy, which TabICL may write into
                logits = icl(h_1TE, y_train=self._y_1S, mgr_config=self._config.ICL_CONFIG)
            return self._unshuffle(logits[0])

    def compile_native(self, columns: IntArray) -> Any:
        """TabICL's own key-value caches of a table of these columns, or its fitted preprocessing alone."""
        with torch.no_grad():
            step, x_SD = self._fit(columns)
            if not self._cache_context:
                return step, None
            kv, model, config = KVCache(), self._model, self._config
            embedded = model.col_embedder.forward_with_cache(
                self._tensor([x_SD]),
                col_cache=kv,
                y_train=self._y_1S,
                use_cache=False,
                store_cache=True,
                mgr_config=config.COL_CONFIG,
            )
            return step, (kv, self.build_context(model.row_interactor(embedded, mgr_config=config.ROW_CONFIG)[0]))

    def native(self, compiled: Any, rows: Table) -> torch.Tensor:
        """TabICL's own inference over all those columns at once, call for call."""
        with torch.no_grad():
            step, kept = compiled
            model, config = self._model, self._config
            x_1QD = self._tensor([step(self.prepare(rows))])
            if kept is None:
                x_1TD = torch.cat([self._tensor([step(self._source.numbers)]), x_1QD], dim=1)
                return self._unshuffle(model(x_1TD, self._y_1S, inference_config=config)[0])
            kv, context = kept
            embedded = model.col_embedder.forward_with_cache(
                x_1QD, col_cache=kv, use_cache=True, store_cache=False, mgr_config=config.COL_CONFIG
            )
            return self.predict(context, model.row_interactor(embedded, mgr_config=config.ROW_CONFIG)[0])

    def _fit(self, leaf: IntArray) -> tuple[LeafPreprocessing, npt.NDArray[np.floating]]:
        """Fit the native steps on a leaf, in this member's column order; also the transformed support."""
        source, member = self._source, self._member
        where = source.where[leaf[np.argsort(member.position[leaf], kind="stable")]]
        impute = source.encoder is None
        return fit_leaf(source.numbers, where, impute=impute, norm=member.norm, components=self._components)

    def _tensor(self, blocks: Sequence[npt.NDArray[np.floating]]) -> torch.Tensor:
        return to_device(torch.from_numpy(np.stack(blocks)).float(), self._device)

    def _unshuffle(self, logits_QK: torch.Tensor) -> torch.Tensor:
        return logits_QK[:, torch.from_numpy(self._member.class_shuffle).to(logits_QK.device)]


def _column_order(encoder: TransformToNumerical) -> IntArray:
    """The user's column behind each column of TabICL's numeric table: categories first, others dropped."""
    kept = [np.asarray(columns) for _, step, columns in encoder.tfm_.transformers_ if step != "drop"]
    return np.concatenate([np.asarray(columns, dtype=np.int64) for columns in kept])


def _varying(numbers: Table) -> npt.NDArray[np.bool_]:
    """Columns TabICL keeps: more than one value on the imputed support, or the first where none has."""
    keep = np.ones(numbers.n_columns, dtype=bool)
    if numbers.n_rows > 1:
        for start in range(0, numbers.n_columns, _BLOCK):
            block = numbers.columns(np.arange(start, min(start + _BLOCK, numbers.n_columns)))
            if np.isnan(block).any():
                block = TransformToNumerical().fit_transform(block)
            keep[start : start + _BLOCK] = block.min(axis=0) != block.max(axis=0)
    if not keep.any():
        keep[0] = True
    return keep


def _members(kept: IntArray, n_columns: int, n_classes: int, n_estimators: int, random_state: int) -> list[_Member]:
    """Column orders, class orders and normalisations as TabICL's own generator deals them."""
    generator = EnsembleGenerator(classification=True, n_estimators=n_estimators, random_state=random_state)
    # What its `fit` would set; calling `fit` would also preprocess the whole table.
    generator.norm_methods_ = list(_NORMS)
    generator.n_features_in_, generator.n_classes_ = len(kept), n_classes
    generator.rng_ = random.Random(random_state)
    configs, _, _ = generator._generate_ensemble()
    members = []
    for norm in _NORMS:  # the generator's own order follows string hashes and changes from run to run
        for columns, classes in configs.get(norm, ()):
            position = np.full(n_columns, -1, dtype=np.int64)
            position[kept[np.asarray(columns)]] = np.arange(len(kept))
            members.append(_Member(norm, position, np.asarray(classes, dtype=np.int64)))
    return members
