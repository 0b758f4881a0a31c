"""TabICL's feature encoder on leaves: which upstream calls are made, in which blocks.

TabICL treats columns independently in its column embedding and rows independently in its row interaction, but on a
CPU it pushes the whole table through each of their layers at once. Here a leaf goes through in blocks, a few columns
and then a few rows at a time, so that the working set stays in the processor's cache and memory holds one embedded
leaf, and through layers packed for it (:mod:`scff.backbones.tabicl.kernels`). The arithmetic is the same. On
accelerators TabICL's own calls are used: it batches by free memory there.

Shape legend: ``G`` leaves, ``S``/``Q``/``T`` support/query/all rows, ``W`` columns, ``E`` embedding width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tabicl._model.kv_cache import KVCache, KVCacheEntry
from tabicl._model.tabicl import TabICL

from scff.backbones.tabicl.kernels import Kernels
from scff.backbones.tabicl.room import Room
from scff.memory.budget import Footprint
from scff.memory.pages import own_pages

__all__ = ["LeafEncoder", "columns_in_token", "label_digits", "pack", "unpack"]

Tensors = dict[str, torch.Tensor]

# One activation of a block: with the handful alive at a time it fits a core's share of the last-level cache.
BLOCK_BYTES = 1 << 20
# Activations of one block alive at the peak, measured in fresh processes on v2 and nano.
_ALIVE = 14
# TabICL's own pass keeps about this many activations of the whole table alive; measured the same way.
_ALIVE_NATIVE = 11


class LeafEncoder:
    """The feature encoder for one support's labels.

    Parameters
    ----------
    model : TabICL
    config : InferenceConfig
        TabICL's own inference configuration.
    y_1S : Tensor
        Labels of the support, as floats.
    keep : bool
        Whether to keep what the support taught each column, so that queries can be encoded without it.
    block_bytes : int
        Size of one activation of a block.
    """

    def __init__(
        self, model: TabICL, config: Any, y_1S: torch.Tensor, keep: bool, block_bytes: int | None = None
    ) -> None:
        self._columns, self._rows = model.col_embedder, model.row_interactor
        self._config = config
        self.keep = keep
        self._block_bytes = BLOCK_BYTES if block_bytes is None else block_bytes
        self._size = model.embed_dim
        self._kept_per_column = 8 * model.col_num_blocks * model.col_num_inds * model.embed_dim
        self._group = columns_in_token(model)
        self._upstream = torch.device(config.COL_CONFIG.device).type != "cpu"
        self._kernels = None if self._upstream else Kernels.of(model)
        # Above the model's classes a target-aware embedding averages over the digits of the label.
        many = int(y_1S.max()) + 1 > model.max_classes > 0
        self._labels = label_digits(model, y_1S) if many and self._columns.target_aware else [y_1S]

    def shrink_blocks(self, limit: int) -> None:
        """Make the blocks smaller where a budget is tight."""
        self._block_bytes = max(64 << 10, min(self._block_bytes, limit // (4 * _ALIVE)))

    def footprint(self, width: int) -> Footprint:
        """What encoding a leaf costs."""
        tokens = self._rows.num_cls
        read = -(-width // self._group)
        embedded = 4 * self._size * (read + tokens)
        # The user's numbers pass through a handful of float64 copies in TabICL's preprocessing.
        row = embedded + 5 * 8 * width
        # Blocks hold at least one column of the support, however long it is.
        block = max(self._block_bytes, 4 * self._size * self._labels[0].shape[1])
        return Footprint(
            scratch=_ALIVE * block,
            cache=self._kept_per_column * read * len(self._labels),
            support_row=row,
            query_row=row,
            summary_row=6 * 4 * self._size * tokens,
        )

    def native_bytes(self, width: int, n_rows: int) -> int:
        """Estimate of what TabICL's own pass over a whole table adds."""
        width = -(-width // self._group)
        embedded = 4 * self._size * (width + self._rows.num_cls)
        kept = self._kept_per_column * width if self.keep else 0
        return int(_ALIVE_NATIVE * n_rows * embedded + kept)

    def support(self, x_GSW: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        """Messages of the support rows, and, if they are to be kept, the tensors `query` needs."""
        if self._upstream:
            embedded, tensors = self._learn_upstream(x_GSW)
            return self._rows(embedded, mgr_config=self._config.ROW_CONFIG), tensors if self.keep else {}
        messages, tensors = [], {}
        for leaf, x_SW in enumerate(x_GSW):
            caches = [KVCache() for _ in self._labels]
            embedded = self._embed(x_SW, caches, self._labels, fill=self.keep)
            messages.append(self._aggregate(embedded))
            tensors |= _pack_leaf(caches, leaf) if self.keep else {}
        return torch.stack(messages), tensors

    def learn(self, x_GSW: torch.Tensor) -> Tensors:
        """Only the tensors `query` needs, for a support whose messages are known."""
        if self._upstream:
            return self._learn_upstream(x_GSW)[1]
        tensors: Tensors = {}
        for leaf, x_SW in enumerate(x_GSW):
            caches = [KVCache() for _ in self._labels]
            self._embed(x_SW, caches, self._labels, fill=True)
            tensors |= _pack_leaf(caches, leaf)
        return tensors

    def query(self, x_GQW: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        """Messages of query rows from the support's tensors."""
        if self._upstream:
            caches = [unpack(tensors, digit) for digit in range(len(self._labels))]
            embedded = self._embed_upstream(x_GQW, caches, None)
            message: torch.Tensor = self._rows(embedded, mgr_config=self._config.ROW_CONFIG)
            return message
        messages = []
        for leaf, x_QW in enumerate(x_GQW):
            caches = [unpack(tensors, f"{leaf}.{digit}") for digit in range(len(self._labels))]
            messages.append(self._aggregate(self._embed(x_QW, caches, None)))
        return torch.stack(messages)

    def _embed(
        self,
        x_TW: torch.Tensor,
        caches: Sequence[KVCache],
        labels: Sequence[torch.Tensor] | None,
        fill: bool = False,
    ) -> torch.Tensor:
        """Column embedding of one leaf behind the class tokens, a block of columns at a time."""
        n_rows = len(x_TW)
        tokens = self._rows.cls_tokens if self._kernels is None else self._kernels.class_tokens
        n_cls, size = tokens.shape
        features_WTg = self._features(x_TW)
        width = len(features_WTg)  # of a model that reads columns in groups: as many tokens
        out = own_pages(n_rows, n_cls + width, size)
        out[:, :n_cls] = tokens
        step = max(1, self._block_bytes // (4 * size * max(n_rows, 1)))
        embed = self._their_block if self._kernels is None else self._kernels.embed
        room = Room()
        for start in range(0, width, step):
            block = features_WTg[start : start + step]
            total: torch.Tensor | None = None
            for digit, whole in enumerate(caches):
                part = KVCache() if labels is not None else whole[start : start + step]
                embedded = embed(
                    block, part, None if labels is None else labels[digit], room
                )  # written over by the next
                if fill:
                    _fill(whole, part, start, width)
                if len(caches) > 1:
                    embedded = embedded / len(caches)
                total = embedded if total is None else total + embedded
            assert total is not None
            out[:, n_cls + start : n_cls + start + len(block)] = total.transpose(0, 1)
        return out

    def _their_block(
        self, features_WTg: torch.Tensor, kv: KVCache, y: torch.Tensor | None, _room: Room
    ) -> torch.Tensor:
        """TabICL's own embedding of a block of columns; `Kernels.embed` says what they are."""
        embedded: torch.Tensor = self._columns._compute_embeddings_with_cache(
            features_WTg,
            col_cache=kv,
            train_size=None if y is None else features_WTg.shape[1],
            y_train=None if y is None else y.expand(len(features_WTg), -1),
            use_cache=y is None,
            store_cache=y is not None,
        )
        return embedded

    def _features(self, x_TW: torch.Tensor) -> torch.Tensor:
        if self._columns.feature_group:
            grouped: torch.Tensor = self._columns.feature_grouping(x_TW[None])[0]
            return grouped.transpose(0, 1)
        return x_TW.T.unsqueeze(-1)

    def _aggregate(self, e_TWE: torch.Tensor) -> torch.Tensor:
        """Row interaction, a block of rows at a time."""
        step = max(1, self._block_bytes // (4 * e_TWE[0].numel()))
        if self._kernels is not None:
            return self._kernels.aggregate(e_TWE, step, Room())
        blocks = [e_TWE[i : i + step] for i in range(0, len(e_TWE), step)]
        return torch.cat([self._rows._aggregate_embeddings(block[None])[0] for block in blocks])

    def _learn_upstream(self, x_GSW: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        caches = [KVCache() for _ in self._labels]
        embedded = self._embed_upstream(x_GSW, caches, self._labels)
        return embedded, {k: t for digit, kv in enumerate(caches) for k, t in pack(kv, digit).items()}

    def _embed_upstream(
        self, x_GTW: torch.Tensor, caches: Sequence[KVCache], labels: Sequence[torch.Tensor] | None
    ) -> torch.Tensor:
        """TabICL's own cached column embedding of a batch of leaves."""
        total: torch.Tensor | None = None
        for digit, kv in enumerate(caches):
            part = self._columns.forward_with_cache(
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


def columns_in_token(model: TabICL) -> int:
    """How many columns one token stands for; neighbours that only lend their values do not count."""
    columns = model.col_embedder
    return int(columns.feature_group_size) if columns.feature_group == "valid" else 1


def label_digits(model: TabICL, y_1S: torch.Tensor) -> list[torch.Tensor]:
    """The digits of the labels in TabICL's own mixed radix, each within the model's classes."""
    embedder = model.col_embedder
    bases = embedder._compute_mixed_radix_bases(int(y_1S.max()) + 1)
    return [embedder._extract_mixed_radix_digit(y_1S, digit, bases).float() for digit in range(len(bases))]


def pack(kv: KVCache, label: object = "") -> Tensors:
    """Flatten a cache into named tensors."""
    return {
        f"{label}/{block}/{part}": getattr(entry, part) for block, entry in kv.kv.items() for part in ("key", "value")
    }


def unpack(tensors: Tensors, label: object = "") -> KVCache:
    """Rebuild the cache that `pack` flattened."""
    kv = KVCache()
    for name, tensor in tensors.items():
        which, block, part = name.split("/")
        if which == str(label):
            setattr(kv.kv.setdefault(int(block), KVCacheEntry()), part, tensor)
    return kv


def _pack_leaf(caches: Sequence[KVCache], leaf: int) -> Tensors:
    return {k: t for digit, kv in enumerate(caches) for k, t in pack(kv, f"{leaf}.{digit}").items()}


def _fill(whole: KVCache, part: KVCache, start: int, width: int) -> None:
    """Write the cache of a block of columns into the leaf's."""
    for index, entry in part.kv.items():
        if index not in whole.kv:
            shape = (width, *entry.key.shape[1:])
            whole.kv[index] = KVCacheEntry(own_pages(*shape), own_pages(*shape))
        stop = start + len(entry.key)
        whole.kv[index].key[start:stop] = entry.key
        whole.kv[index].value[start:stop] = entry.value
