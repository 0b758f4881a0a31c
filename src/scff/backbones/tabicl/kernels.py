"""TabICL's feature encoder for a CPU: the same arithmetic in fewer and larger products.

Layers that read the same tokens are one product of packed weights (:mod:`scff.backbones.tabicl.blocks`), queries of
inducing points are made once for all columns, and rotary positions are one multiplication of complex numbers. A message
differs from TabICL's by rounding. What a checkpoint has that is not provided for here goes through TabICL itself.

Shape legend: ``R`` rows or columns in a block, ``T`` tokens of each, ``E`` embedding width.
"""

from __future__ import annotations

import weakref
from functools import partial

import torch
import torch.nn.functional as F
from tabicl._model.kv_cache import KVCache
from tabicl._model.tabicl import TabICL

from scff.backbones.tabicl.attention import Attention, apart, gather, split
from scff.backbones.tabicl.blocks import Block, Reading, normed
from scff.backbones.tabicl.entry import Entry
from scff.backbones.tabicl.induced import Induced
from scff.backbones.tabicl.room import Room

__all__ = ["Kernels"]

# Numbers in a vector register.
_LANES = 8

_PACKED: weakref.WeakKeyDictionary[TabICL, Kernels | None] = weakref.WeakKeyDictionary()


class Kernels:
    """The feature encoder of one model, packed.

    Parameters
    ----------
    model : TabICL
    """

    def __init__(self, model: TabICL) -> None:
        columns, rows = model.col_embedder, model.row_interactor
        self._in = columns.in_linear
        self._labels, self._classes = (columns.y_encoder if columns.target_aware else None), columns.max_classes
        self._unlabelled = self._entry(None)
        self._induced = [Induced.of(block) for block in columns.tf_col.blocks]
        encoder = rows.tf_row
        size = model.embed_dim // encoder.blocks[0].attn.num_heads
        # A rotation turns pairs of numbers: they must stand side by side to be complex ones.
        half = torch.arange(size // 2)
        pairs = torch.arange(size) if encoder.rope.interleaved else torch.stack([half, half + size // 2], 1).flatten()
        self._turned = [Block.of(block, pairs) for block in encoder.blocks]
        self._together = [Reading.together(b.query, b.key, b.value.with_ones(b.heads)) for b in self._turned[:-1]]
        self._frequency = encoder.rope.freqs
        self._turns = torch.empty(0, 0)
        self._out_norm = rows.out_ln
        self.class_tokens = rows.cls_tokens - rows.cls_tokens.mean(dim=-1, keepdim=True)

    @classmethod
    def of(cls, model: TabICL) -> Kernels | None:
        """Those of a model, packed once; None where TabICL's own code is needed."""
        if model not in _PACKED:
            with torch.no_grad():
                _PACKED[model] = cls(model) if _provided_for(model) else None
        return _PACKED[model]

    def embed(self, features_RTg: torch.Tensor, kept: KVCache, y_1T: torch.Tensor | None, room: Room) -> torch.Tensor:
        """Column embedding of a block of columns, but for the mean of every token, which nobody reads.

        Parameters
        ----------
        features_RTg : Tensor
        kept : KVCache
            What the support taught each column: filled by the support, read by queries.
        y_1T : Tensor or None
            Labels of the support, the same for each column; None for query rows.
        room : Room
            That of the leaf.
        """
        entry = self._unlabelled
        if y_1T is not None:  # whose place in memory is its own as long as the room keeps it
            entry = room.once(("entry", id(y_1T)), partial(self._entry, y_1T))
        along, x_RTE = entry(features_RTg, room)
        for index, layer in enumerate(self._induced):
            if not layer.few:
                x_RTE, kept.kv[index] = layer.pass_many(x_RTE, None if y_1T is not None else kept.kv[index], room)
                continue
            if index:
                told = normed(x_RTE.view(-1, x_RTE.shape[-1]), layer.second.eps[0], room, "tokens")
                told = told.view(x_RTE.shape).transpose(1, 2)
                made = room.once("as they are", partial(torch.eye, x_RTE.shape[-1]))
            else:
                told, made = entry.normed(along, layer.second.eps[0], room), entry.told_KE
            if y_1T is not None:
                kept.kv[index] = layer.learn(told, made, room)
            x_RTE = layer.meet(x_RTE, told, made, kept.kv[index], room)
        return x_RTE

    def _entry(self, y_1T: torch.Tensor | None) -> Entry:
        return Entry.of(self._in, self._labels, self._classes, y_1T)

    def aggregate(self, e_RTE: torch.Tensor, step: int, room: Room) -> torch.Tensor:
        """Row interaction, so many rows at a time; tokens without a mean, class tokens first, are written over."""
        n, n_tokens, size = e_RTE.shape
        n_class_tokens, block = len(self.class_tokens), self._turned[-1]
        read = torch.empty(n, n_class_tokens, size)
        for start in range(0, n, step):
            part = slice(start, start + step)
            read[part] = self._read(e_RTE[part], room)
        step = max(1, step * n_tokens // n_class_tokens)
        out = torch.empty(n, n_class_tokens * size)
        for start in range(0, n, step):
            part = slice(start, start + step)
            first = block.finish(e_RTE[part, :n_class_tokens].clone(), read[part], room)
            out[part] = self._out_norm(first).flatten(-2)
        return out

    def _read(self, e_RTE: torch.Tensor, room: Room) -> torch.Tensor:
        """All blocks of the row interaction but the end of the last: what the class tokens attend to there."""
        n, n_tokens, size = e_RTE.shape
        turn = self._turn(n_tokens)
        heads = self._turned[0].heads
        for block, layer in zip(self._turned[:-1], self._together, strict=True):
            read = normed(e_RTE.view(-1, size), block.eps[0], room)
            qkv, turning, attention = room.view(("rows", n, n_tokens), partial(_rows, n, n_tokens, size, heads, room))
            layer.into(read, qkv)
            turning *= turn
            e_RTE = block.finish(e_RTE, attention(), room)
        block = self._turned[-1]  # only the class tokens ask here
        n_asked = len(self.class_tokens)
        tokens = normed(e_RTE.view(-1, size), block.eps[0], room)
        tokens_RTE = tokens.view(n, n_tokens, size)
        asked = block.query(tokens_RTE[:, :n_asked].flatten(0, 1), "asked", room).view(n, n_asked, size)
        key_RTE = block.key(tokens, "last", room).view(n, n_tokens, size)
        _pairs(asked).mul_(turn[:n_asked, : size // 2])
        _pairs(key_RTE).mul_(turn[:, : size // 2])
        met = apart(asked, block.heads, room)
        return gather(met, key_RTE.transpose(1, 2), tokens_RTE, block.value.weight, block.heads, room)

    def _turn(self, n_tokens: int) -> torch.Tensor:
        """Rotations of queries and keys at every position, as complex numbers; those of the widest leaf are kept."""
        turns = self._turns  # read once: another thread may replace them by those of another width
        if len(turns) < n_tokens:
            angle = torch.arange(n_tokens)[:, None] * self._frequency
            turns = self._turns = torch.polar(torch.ones_like(angle), angle).repeat(1, 2 * self._turned[0].heads)
        return turns[:n_tokens]


def _rows(n: int, n_tokens: int, size: int, heads: int, room: Room) -> tuple[torch.Tensor, torch.Tensor, Attention]:
    """Queries, keys and values of a block of rows, what rotary positions turn of them, and their attention.

    Products with whole vector registers of queries are faster by a seventh than with a few less: a row's queries go on
    into the next row's tokens, up to a multiple of eight, and what these are told nobody reads.
    """
    width = 3 * size + heads
    wide = -(-n_tokens // _LANES) * _LANES
    spare = room.empty("read", n * n_tokens + _LANES, width, fill=0.0)
    qkv = spare[: n * n_tokens].view(n, n_tokens, width)
    q = spare.as_strided((n, heads, wide, size // heads), (n_tokens * width, size // heads, width, 1))
    k, v = split(qkv[..., size : 2 * size], heads), split(qkv[..., 2 * size :], heads)
    return qkv.view(-1, width), _pairs(qkv[..., : 2 * size]), Attention.of(q, k, v, room, n_tokens)


def _pairs(x_RTE: torch.Tensor) -> torch.Tensor:
    """Pairs of numbers as complex ones."""
    return torch.view_as_complex(x_RTE.view(*x_RTE.shape[:-1], -1, 2))


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
