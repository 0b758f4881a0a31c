"""One of TabICL's ensemble views of a support table: every call of the model.

The seam: ``col_embedder`` and ``row_interactor`` are the feature encoder, ``icl_predictor`` is context encoder and
head. All three are public attributes of the model and are called as TabICL itself calls them, so a plan of one leaf
reproduces it bit for bit: ``cache=True`` is TabICL's ``kv_cache=True``, ``cache=False`` its default. More classes than
the model has go through TabICL's own mixed-radix embedding and class hierarchy.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tabicl._model.kv_cache import KVCache
from tabicl._model.tabicl import TabICL
from tabicl._sklearn.preprocessing import TransformToNumerical

from scff.backbones.base import IntArray, LeafCache
from scff.backbones.tabicl.encoder import LeafEncoder, pack, unpack
from scff.backbones.tabicl.preprocessing import LeafPreprocessing, fit_leaf
from scff.backbones.tabicl.target import Target
from scff.memory.budget import Footprint
from scff.memory.device import to_device
from scff.tables.table import Table

__all__ = ["Deal", "Source", "TabICLView"]


@dataclass(frozen=True)
class Deal:
    """What TabICL deals to one of its views."""

    norm: str
    position: IntArray  # rank of each of the user's columns in this view's order
    classes: IntArray


#: Above the model's classes TabICL writes a tree of them into the model, which all threads share, and reads it again.
_HIERARCHY = threading.Lock()


@dataclass(frozen=True)
class Source:
    """The support as numbers, and how query rows become such numbers."""

    numbers: Table
    where: IntArray
    encoder: TransformToNumerical | None


class TabICLView:
    """One of TabICL's ensemble views of one support table."""

    thread_safe = True  # TabICL's calls share rotary tables, which the widest leaf fills, and what `_HIERARCHY` guards

    def __init__(
        self,
        model: TabICL,
        config: Any,
        deal: Deal,
        source: Source,
        columns: IntArray,
        target: Target,
        cache: bool,
    ) -> None:
        self.columns = np.sort(columns)
        self._model = model
        self._config = config
        self._deal = deal
        self._source = source
        self._target = target
        self._device = config.COL_CONFIG.device
        self._y_1S = target.y_1S.to(self._device)
        self._encoder = LeafEncoder(model, config, self._y_1S, keep=cache)
        # Above the model's classes TabICL's class hierarchy runs the context encoder per node: nothing to keep.
        self._cache_context = cache and not target.n_classes > model.max_classes > 0

    def footprint(self, width: int) -> Footprint:
        """Cost of a leaf."""
        return self._encoder.footprint(width)

    def shrink_blocks(self, limit: int) -> None:
        """Encode leaves in blocks that fit a budget."""
        self._encoder.shrink_blocks(limit)

    def native_bytes(self, width: int, n_query: int) -> int:
        """Estimate of what TabICL's own inference adds."""
        n_support = self._y_1S.shape[1]
        # With its cache TabICL takes support and queries one after the other.
        rows = max(n_support, n_query) if self._cache_context else n_support + n_query
        return self._encoder.native_bytes(width, rows)

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
        """Context encoder and head: logits in the order of the class codes, or predictions_Q1."""
        with torch.no_grad():
            icl = self._model.icl_predictor
            if self._cache_context:
                out = icl.forward_with_cache(
                    h_QE[None],
                    icl_cache=unpack(context),
                    num_classes=self._target.n_classes,
                    use_cache=True,
                    store_cache=False,
                    mgr_config=self._config.ICL_CONFIG,
                )
            else:
                h_1TE = torch.cat([context["h"], h_QE])[None]  # a copy, which TabICL may write into
                with _HIERARCHY:
                    out = icl(h_1TE, y_train=self._y_1S, mgr_config=self._config.ICL_CONFIG)
            return self._target.decode(self._model, out[0])

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
                with _HIERARCHY:
                    out = model(x_1TD, self._y_1S, inference_config=config)
                return self._target.decode(model, out[0])
            kv, context = kept
            embedded = model.col_embedder.forward_with_cache(
                x_1QD, col_cache=kv, use_cache=True, store_cache=False, mgr_config=config.COL_CONFIG
            )
            return self.predict(context, model.row_interactor(embedded, mgr_config=config.ROW_CONFIG)[0])

    def fitted(self, leaves: Sequence[IntArray]) -> tuple[LeafPreprocessing, ...]:
        """The fitted steps of leaves."""
        return tuple(self._fit(leaf)[0] for leaf in leaves)

    def native_tensors(self, compiled: Any) -> dict[str, torch.Tensor] | None:
        """TabICL's caches of columns and context, where it keeps them."""
        if compiled[1] is None:
            return None
        kv, context = compiled[1]
        return pack(kv, "columns") | {f"context{name}": tensor for name, tensor in context.items()}

    def native_from(self, columns: IntArray, tensors: dict[str, torch.Tensor]) -> Any:
        """What `compile_native` keeps, from its tensors."""
        context = {name.removeprefix("context"): t for name, t in tensors.items() if name.startswith("context")}
        return self._fit(columns)[0], (unpack(tensors, "columns"), context)

    def _fit(self, leaf: IntArray) -> tuple[LeafPreprocessing, npt.NDArray[np.floating]]:
        """Fit the native steps on a leaf, in this view's column order; also the transformed support."""
        source, deal = self._source, self._deal
        where = source.where[leaf[np.argsort(deal.position[leaf], kind="stable")]]
        impute = source.encoder is None
        return fit_leaf(source.numbers, where, impute=impute, norm=deal.norm)

    def _tensor(self, blocks: Sequence[npt.NDArray[np.floating]]) -> torch.Tensor:
        return to_device(torch.from_numpy(np.stack(blocks)).float(), self._device)
