"""TabICL's feature encoder for a CPU: the same arithmetic in fewer and larger products.

Layers that read the same tokens are one product of packed weights (:mod:`scff.backbones.tabicl.blocks`), queries of
inducing points are made once for all columns, and rotary positions are one multiplication of complex numbers. A message
differs from TabICL's by rounding. What a checkpoint has that is not provided for here goes through TabICL itself.

Shape legend: ``R`` rows or columns in a block, ``T`` tokens of each, ``I`` inducing points, ``E`` embedding width.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from tabicl._model.kv_cache import KVCache, KVCacheEntry
from tabicl._model.tabicl import TabICL

from scff.backbones.tabicl.blocks import Block, Room, attend, centred, normed, split, times

__all__ = ["Kernels"]

_PACKED: weakref.WeakKeyDictionary[TabICL, Kernels | None] = weakref.WeakKeyDictionary()


class Kernels:
    """The feature encoder of one model, packed.

    Parameters
    ----------
    model : TabICL
    """

    def __init__(self, model: TabICL) -> None:
        columns, rows = model.col_embedder, model.row_interactor
        self._size, self._classes = model.embed_dim, columns.max_classes
        self._in = centred(columns.in_linear.weight, columns.in_linear.bias)
        self._labels = columns.y_encoder if columns.target_aware else None
        self._induced = [_Induced.of(block) for block in columns.tf_col.blocks]
        encoder = rows.tf_row
        size = model.embed_dim // encoder.blocks[0].attn.num_heads
        # A rotation turns pairs of numbers: they must stand side by side to be complex ones.
        half = torch.arange(size // 2)
        pairs = torch.arange(size) if encoder.rope.interleaved else torch.stack([half, half + size // 2], 1).flatten()
        self._turned = [Block.of(block, pairs) for block in encoder.blocks]
        self._together = [torch.cat([b.query, b.key, b.value], dim=1) for b in self._turned[:-1]]
        self._last = torch.cat([self._turned[-1].key, self._turned[-1].value], dim=1)
        self._frequency = encoder.rope.freqs
        self._turns = torch.empty(0, 0)
        self._out_norm, self._n_class_tokens = rows.out_ln, rows.num_cls

    @classmethod
    def of(cls, model: TabICL) -> Kernels | None:
        """Those of a model, packed once; None where TabICL's own code is needed."""
        if model not in _PACKED:
            with torch.no_grad():
                _PACKED[model] = cls(model) if _provided_for(model) else None
        return _PACKED[model]

    def embed(self, features_RTg: torch.Tensor, kept: KVCache, y_RT: torch.Tensor | None, room: Room) -> torch.Tensor:
        """Column embedding of a block of columns, but for the mean of every token, which nobody reads.

        Parameters
        ----------
        features_RTg : Tensor
        kept : KVCache
            What the support taught each column: filled by the support, read by queries.
        y_RT : Tensor or None
            Labels of the support, the same for each column; None for query rows.
        room : Room
            That of the leaf.
        """
        x_RTE = F.linear(features_RTg, *self._in)
        if self._labels is not None and y_RT is not None:
            label = self._labels(y_RT[:1].float() if self._classes > 0 else y_RT[:1, :, None])
            x_RTE += label - label.mean(dim=-1, keepdim=True)
        n, n_tokens, size = x_RTE.shape
        for index, layer in enumerate(self._induced):
            second, tokens = layer.second, normed(x_RTE.view(-1, size), layer.second.eps[0], room)
            if y_RT is None:
                asked = times(tokens, second.query, "asked", room)[:, :-1].view(n, n_tokens, -1)
                key, value = kept.kv[index].key, F.pad(kept.kv[index].value, (0, 1), value=1.0)
            else:
                asked = times(tokens, layer.reading, "read", room)[:, :-1].view(n, n_tokens, -1)
                hidden_RIE = layer.learn(index, asked[..., size:], room)
                read = normed(hidden_RIE.view(-1, size), second.eps[0], room)
                learned = times(read, layer.telling, "told", room)[:, :-1].view(*hidden_RIE.shape[:2], -1)
                key, value = split(learned[..., :size], second.heads), split(learned[..., size:], second.heads)
                kept.kv[index] = KVCacheEntry(key=key.contiguous(), value=value[..., :-1].contiguous())
            x_RTE = second.finish(x_RTE, attend(split(asked[..., :size], second.heads), key, value, room), room)
        return x_RTE

    def aggregate(self, e_RTE: torch.Tensor, room: Room) -> torch.Tensor:
        """Row interaction of a block of rows, class tokens first; the embedding is written over."""
        n, n_tokens, size = e_RTE.shape
        first = e_RTE[:, : self._n_class_tokens]
        first -= first.mean(dim=-1, keepdim=True)
        turn = self._turn(n_tokens)
        for block, weight in zip(self._turned[:-1], self._together, strict=True):
            read = times(normed(e_RTE.view(-1, size), block.eps[0], room), weight, "read", room)
            qkv = read[:, :-1].view(n, n_tokens, -1)
            _rotate(qkv, turn)
            q, k, v = (split(qkv[..., i * size : j * size if j else None], block.heads) for i, j in _PARTS)
            e_RTE = block.finish(e_RTE, attend(q, k, v, room), room)
        block = self._turned[-1]  # only the class tokens ask here
        tokens = normed(e_RTE.view(-1, size), block.eps[0], room)
        kv = times(tokens, self._last, "last", room)[:, :-1].view(n, n_tokens, -1)
        _rotate(kv, turn[:, : size // 2])
        asking = tokens.view(n, n_tokens, -1)[:, : self._n_class_tokens]
        asked = asking @ block.query
        _rotate(asked, turn[: self._n_class_tokens, : size // 2])
        q, k, v = (split(part, block.heads) for part in (asked, kv[..., :size], kv[..., size:]))
        out: torch.Tensor = self._out_norm(block.finish(first.clone(), attend(q, k, v, room), room)).flatten(-2)
        return out

    def _turn(self, n_tokens: int) -> torch.Tensor:
        """Rotations of queries and keys at every position, as complex numbers; those of the widest leaf are kept."""
        turns = self._turns  # read once: another thread may replace them by those of another width
        if len(turns) < n_tokens:
            angle = torch.arange(n_tokens)[:, None] * self._frequency
            turns = self._turns = torch.polar(torch.ones_like(angle), angle).repeat(1, 2 * self._turned[0].heads)
        return turns[:n_tokens]


#: Where queries, keys and values begin and end, in embedding widths.
_PARTS = ((0, 1), (1, 2), (2, None))


@dataclass(frozen=True, eq=False)
class _Induced:
    """A layer of the column embedding: inducing points read the support, and every row reads them."""

    points_IE: torch.Tensor
    first: Block
    second: Block
    reading: torch.Tensor  # what both blocks make of the tokens: queries of the second, keys and values of the first
    telling: torch.Tensor  # keys and values of the second
    scalable: Any

    @classmethod
    def of(cls, layer: Any) -> _Induced:
        """Pack one of TabICL's."""
        first, second = Block.of(layer.multihead_attn1), Block.of(layer.multihead_attn2)
        return cls(
            layer.ind_vectors - layer.ind_vectors.mean(dim=-1, keepdim=True),
            first,
            second,
            torch.cat([second.query, first.key, first.value], dim=1),
            torch.cat([second.key, second.value], dim=1),
            layer.multihead_attn1.attn.ssmax_layer,
        )

    def learn(self, index: int, read_RTE: torch.Tensor, room: Room) -> torch.Tensor:
        """What the inducing points take from the support of each column; their queries are the same for all."""
        block, size = self.first, self.points_IE.shape[1]
        q = room.once(("queries", index), lambda: self._ask(read_RTE.shape[1]))
        k, v = split(read_RTE[..., :size], block.heads), split(read_RTE[..., size:], block.heads)
        hidden_RIE = room.empty("induced", len(read_RTE), *self.points_IE.shape)
        hidden_RIE.copy_(self.points_IE)
        return block.finish(hidden_RIE, attend(q, k, v, room), room)

    def _ask(self, n_rows: int) -> torch.Tensor:
        block = self.first
        q = split((normed(self.points_IE, block.eps[0], Room()) @ block.query)[None], block.heads)
        if self.scalable is None:
            return q
        # TabICL scales what it projects before the root of the width does.
        root = q.shape[-1] ** -0.5
        asked: torch.Tensor = self.scalable(q / root, n_rows) * root
        return asked


def _rotate(x_RTE: torch.Tensor, turn_Tc: torch.Tensor) -> None:
    """Turn the leading pairs of numbers in place."""
    n = turn_Tc.shape[1]
    pairs = torch.view_as_complex(x_RTE[..., : 2 * n].view(*x_RTE.shape[:-1], n, 2))
    pairs *= turn_Tc


def _provided_for(model: TabICL) -> bool:
    """Whether this is the layout that is packed here."""
    columns, rows = model.col_embedder, model.row_interactor
    blocks = [*rows.tf_row.blocks]
    for induced in columns.tf_col.blocks:
        blocks += [induced.multihead_attn1, induced.multihead_attn2]
    plain = all(
        block.norm_first and block.activation is F.gelu and block.attn.in_proj_bias is not None for block in blocks
    )
    rope = rows.tf_row.rope
    turned = rope is not None and not rope.use_xpos and rope.interpolate_factor == 1.0
    unscaled = all(block.attn.ssmax_layer is None for block in rows.tf_row.blocks)
    unscaled &= all(induced.multihead_attn2.attn.ssmax_layer is None for induced in columns.tf_col.blocks)
    # Both blocks of a layer of the column embedding read the same normed tokens.
    alike = all(one.multihead_attn1.norm1.eps == one.multihead_attn2.norm1.eps for one in columns.tf_col.blocks)
    return bool(plain and turned and unscaled and alike and not columns.affine)
