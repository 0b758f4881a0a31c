"""TabICL v1, v1.1 and v2, the embedded ``nano``, and any checkpoint in TabICL's layout.

The seam: ``col_embedder`` and ``row_interactor`` are the feature encoder, ``icl_predictor`` is context encoder and
head. All three are public attributes of the model and are called as TabICL itself calls them, so a plan of one leaf
reproduces it bit for bit: ``cache=True`` is TabICL's ``kv_cache=True``, ``cache=False`` its default. More classes than
the model has go through TabICL's own mixed-radix embedding and class hierarchy.

Preprocessing is TabICL's own, fitted leaf by leaf: every one of its steps treats columns independently, so the
preprocessed table never exists as a whole.
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
from tabicl._model.kv_cache import KVCache, KVCacheEntry
from tabicl._model.tabicl import TabICL
from tabicl._sklearn.preprocessing import EnsembleGenerator, PreprocessingPipeline, TransformToNumerical

from scff.backbones.base import BackboneSpec, IntArray, LeafCache
from scff.tables import Table

__all__ = ["TabICLBackbone", "TabICLView"]

# Columns per block when looking for constants: bounds the working copy on very wide tables.
_BLOCK = 1024
_NORMS = ("none", "power")  # TabICL's default normalisations, in the order it deals them to members


class TabICLBackbone:
    """A loaded TabICL model."""

    def __init__(self, spec: BackboneSpec, path: Path, model: TabICL, device: torch.device) -> None:
        self.spec = spec
        self.path = path
        self.model = model.eval().to(device)
        self.device = device

    def views(
        self, support: Table, y: IntArray, *, n_estimators: int, cache: bool, random_state: int
    ) -> list[TabICLView]:
        """TabICL's ensemble members on a support table."""
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
        return [TabICLView(self.model, config, member, source, order[varying], y, cache) for member in members]

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


@dataclass(frozen=True)
class _LeafPreprocessing:
    """TabICL's steps between the user's numbers and the model, fitted on the support rows of one leaf."""

    where: IntArray
    imputer: TransformToNumerical | None
    pipeline: PreprocessingPipeline

    def __call__(self, numbers: Table) -> npt.NDArray[np.floating]:
        block = numbers.columns(self.where)
        if self.imputer is not None:
            block = self.imputer.transform(block)
        return np.asarray(self.pipeline.transform(block))


class TabICLView:
    """One ensemble member's view of one support table."""

    def __init__(
        self,
        model: TabICL,
        config: Any,
        member: _Member,
        source: _Source,
        columns: IntArray,
        y: IntArray,
        cache: bool,
    ) -> None:
        self.columns = np.sort(columns)
        self._model = model
        self._config = config
        self._member = member
        self._source = source
        self._device = config.COL_CONFIG.device
        self._n_classes = int(y.max()) + 1
        self._y_1S = torch.from_numpy(member.class_shuffle[y]).float()[None].to(self._device)
        many = self._n_classes > model.max_classes
        self._cache = cache
        # TabICL keeps no cache above the model's classes: its class hierarchy runs the context encoder per node.
        self._cache_context = cache and not many
        # Above them its target-aware embedding averages over the digits of the label, each small enough to cache.
        self._labels = _label_digits(model, self._y_1S) if many and model.col_embedder.target_aware else [self._y_1S]

    def prepare(self, rows: Table) -> Table:
        """Encode categories, once for all leaves; numeric tables pass through."""
        encoder = self._source.encoder
        return rows if encoder is None else Table(np.asarray(encoder.transform(rows.values)))

    @torch.no_grad()
    def encode_support(self, leaves: Sequence[IntArray]) -> tuple[torch.Tensor, LeafCache]:
        """Feature encoder on the support rows of equal-width leaves."""
        fitted = [self._fit(leaf) for leaf in leaves]
        x_GSW = self._tensor([x for _, x in fitted])
        steps = tuple(step for step, _ in fitted)
        if not self._cache:
            return self._encode_beside(x_GSW), LeafCache({}, steps)
        caches = [KVCache() for _ in self._labels]
        embedded = self._embed_cached(x_GSW, caches, self._labels)
        message = self._model.row_interactor(embedded, mgr_config=self._config.ROW_CONFIG)
        tensors = {key: t for digit, kv in enumerate(caches) for key, t in _pack(kv, digit).items()}
        return message, LeafCache(tensors, steps)

    @torch.no_grad()
    def encode_query(self, leaves: Sequence[IntArray], cache: LeafCache, rows: Table) -> torch.Tensor:
        """Feature encoder on query rows, from the support's cache or beside the support."""
        x_GQW = self._tensor([step(rows) for step in cache.state])
        if not self._cache:
            x_GSW = self._tensor([step(self._source.numbers) for step in cache.state])
            return self._encode_beside(torch.cat([x_GSW, x_GQW], dim=1))[:, x_GSW.shape[1] :]
        caches = [_unpack(cache.tensors, digit) for digit in range(len(self._labels))]
        embedded = self._embed_cached(x_GQW, caches, None)
        message: torch.Tensor = self._model.row_interactor(embedded, mgr_config=self._config.ROW_CONFIG)
        return message

    @torch.no_grad()
    def build_context(self, h_SE: torch.Tensor) -> dict[str, torch.Tensor]:
        """Keys and values of the context encoder, or the merged support where they cannot be kept."""
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
        return _pack(kv)

    @torch.no_grad()
    def predict(self, context: dict[str, torch.Tensor], h_QE: torch.Tensor) -> torch.Tensor:
        """Context encoder and head: logits in the order of the class codes."""
        icl = self._model.icl_predictor
        if self._cache_context:
            logits = icl.forward_with_cache(
                h_QE[None],
                icl_cache=_unpack(context),
                num_classes=self._n_classes,
                use_cache=True,
                store_cache=False,
                mgr_config=self._config.ICL_CONFIG,
            )
        else:
            h_1TE = torch.cat([context["h"], h_QE])[None]  # a copy, which TabICL may write into
            logits = icl(h_1TE, y_train=self._y_1S, mgr_config=self._config.ICL_CONFIG)
        return self._unshuffle(logits[0])

    @torch.no_grad()
    def compile_native(self) -> Any:
        """TabICL's own key-value caches of the whole table, or its fitted preprocessing alone."""
        if not self._cache_context:
            return self._fit(self.columns)[0]
        message, cache = self.encode_support([self.columns])
        return cache, self.build_context(message[0])

    @torch.no_grad()
    def native(self, compiled: Any, rows: Table) -> torch.Tensor:
        """TabICL's own inference over all columns at once."""
        prepared = self.prepare(rows)
        if self._cache_context:
            cache, context = compiled
            return self.predict(context, self.encode_query([self.columns], cache, prepared)[0])
        x_1TD = torch.cat([self._tensor([compiled(part)]) for part in (self._source.numbers, prepared)], dim=1)
        return self._unshuffle(self._model(x_1TD, self._y_1S, inference_config=self._config)[0])

    def _fit(self, leaf: IntArray) -> tuple[_LeafPreprocessing, npt.NDArray[np.floating]]:
        """Fit the native steps on a leaf, in this member's column order; also the transformed support."""
        where = self._source.where[leaf[np.argsort(self._member.position[leaf], kind="stable")]]
        block = self._source.numbers.columns(where)
        imputer = None
        if self._source.encoder is None:
            imputer = TransformToNumerical().fit(block)
            block = imputer.transform(block)
        pipeline = PreprocessingPipeline(normalization_method=self._member.norm).fit(block)
        transformed = pipeline.X_transformed_
        del pipeline.X_transformed_  # otherwise every leaf would keep its part of the table
        return _LeafPreprocessing(where, imputer, pipeline), transformed

    def _tensor(self, blocks: Sequence[npt.NDArray[np.floating]]) -> torch.Tensor:
        return torch.from_numpy(np.stack(blocks)).float().to(self._device)

    def _encode_beside(self, x_GTW: torch.Tensor) -> torch.Tensor:
        """Rows encoded together with the support, which comes first: TabICL's uncached path."""
        y_GS = self._y_1S.expand(len(x_GTW), -1)
        embedded = self._model.col_embedder(x_GTW, y_train=y_GS, mgr_config=self._config.COL_CONFIG)
        message: torch.Tensor = self._model.row_interactor(embedded, mgr_config=self._config.ROW_CONFIG)
        return message

    def _embed_cached(
        self, x_GTW: torch.Tensor, caches: Sequence[KVCache], labels: Sequence[torch.Tensor] | None
    ) -> torch.Tensor:
        """Column embedding that fills the caches (labels given) or reads them."""
        total: torch.Tensor | None = None
        for digit, kv in enumerate(caches):
            part = self._model.col_embedder.forward_with_cache(
                x_GTW,
                col_cache=kv,
                y_train=None if labels is None else labels[digit].expand(len(x_GTW), -1),
                use_cache=labels is None,
                store_cache=labels is not None,
                mgr_config=self._config.COL_CONFIG,
            )
            total = part if total is None else total + part
        assert total is not None
        return total / len(caches) if len(caches) > 1 else total

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


def _label_digits(model: TabICL, y_1S: torch.Tensor) -> list[torch.Tensor]:
    embedder = model.col_embedder
    bases = embedder._compute_mixed_radix_bases(int(y_1S.max()) + 1)
    return [embedder._extract_mixed_radix_digit(y_1S, digit, bases).float() for digit in range(len(bases))]


def _pack(kv: KVCache, label: object = "") -> dict[str, torch.Tensor]:
    """Flatten a cache into named tensors."""
    return {
        f"{label}/{block}/{part}": getattr(entry, part) for block, entry in kv.kv.items() for part in ("key", "value")
    }


def _unpack(tensors: dict[str, torch.Tensor], label: object = "") -> KVCache:
    kv = KVCache()
    for name, tensor in tensors.items():
        which, block, part = name.split("/")
        if which == str(label):
            setattr(kv.kv.setdefault(int(block), KVCacheEntry()), part, tensor)
    return kv
