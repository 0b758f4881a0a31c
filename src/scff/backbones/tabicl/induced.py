"""A layer of TabICL's column embedding: inducing points read the support, and every row reads them.

Few points meet all tokens of a block of columns at once: what the tokens are made of is turned into scores of all heads
in one product, and what a point has to tell goes through the output layer before it is told, so neither queries nor
values of any token are ever made. Many points go a column at a time, as the row interaction does.

Shape legend: ``R`` columns in a block, ``T`` rows, ``I`` inducing points, ``C`` of all heads, ``K`` numbers that tell a
token, ``E`` embedding width, ``H`` heads of ``d``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tabicl._model.kv_cache import KVCacheEntry

from scff.backbones.tabicl.attention import Attention, gather, softened, split
from scff.backbones.tabicl.blocks import Block, Reading, normed
from scff.backbones.tabicl.room import Room

__all__ = ["Induced"]


@dataclass(frozen=True, eq=False)
class Induced:
    """One layer, packed."""

    points_IE: torch.Tensor
    first: Block
    second: Block
    reading: Reading  # of many points: queries of the second block, keys and values of the first
    telling: Reading  # keys and values of the second
    scalable: Any
    few: bool

    @classmethod
    def of(cls, layer: Any) -> Induced:
        """Pack one of TabICL's."""
        first, second = Block.of(layer.multihead_attn1), Block.of(layer.multihead_attn2)
        return cls(
            layer.ind_vectors - layer.ind_vectors.mean(dim=-1, keepdim=True),
            first,
            second,
            Reading.together(second.query, first.key, first.value.with_ones(first.heads)),
            Reading.together(second.key, second.value),
            layer.multihead_attn1.attn.ssmax_layer,
            first.heads * len(layer.ind_vectors) <= 2 * layer.ind_vectors.shape[1],
        )

    def meet(
        self, x_RTE: torch.Tensor, told_RKT: torch.Tensor, made_KE: torch.Tensor, entry: KVCacheEntry, room: Room
    ) -> torch.Tensor:
        """Few points: every token reads them; ``x`` is written over.

        Parameters
        ----------
        x_RTE : Tensor
        told_RKT : Tensor
            The same tokens, normed.
        made_KE : Tensor
            What they would be in the embedding; a layer's weights go behind it.
        entry : KVCacheEntry
            What the support taught each column; filled by `learn`.
        room : Room
        """
        (n, _, size), block = x_RTE.shape, self.second
        heads = block.heads
        ask_HdK = room.once((self, "ask", id(made_KE)), lambda: (made_KE @ block.query.by_head(heads)).transpose(1, 2))
        out_HdE = block.out.weight.view(heads, -1, size)
        met_RCK, tell_RCE = _each(entry.key, ask_HdK), _each(entry.value, out_HdE)
        score = room.empty("met", n, met_RCK.shape[1], told_RKT.shape[2])
        by_head = score.view(n, heads, -1, score.shape[2])
        by_head *= softened(met_RCK, told_RKT, score, by_head, 2)
        x_RTE.baddbmm_(score.transpose(1, 2), tell_RCE)
        x_RTE += block.out.bias
        return block.feed(x_RTE, room)

    def learn(self, told_RKT: torch.Tensor, made_KE: torch.Tensor, room: Room) -> KVCacheEntry:
        """Few points: what they take from the support of each column, as keys and values; `meet` says of what."""
        block, n_rows = self.first, told_RKT.shape[2]
        met, value = room.once(
            (self, "met", id(made_KE)), lambda: (self._met(made_KE, n_rows), made_KE @ block.value.weight)
        )
        attended = gather(met[None], told_RKT, told_RKT.transpose(1, 2), value, block.heads, room)
        return self._told(attended, room)

    def pass_many(
        self, x_RTE: torch.Tensor, entry: KVCacheEntry | None, room: Room
    ) -> tuple[torch.Tensor, KVCacheEntry]:
        """Many points, a column at a time: tokens, written over, and what the support taught, if that was asked for."""
        (n, n_tokens, size), second = x_RTE.shape, self.second
        tokens = normed(x_RTE.view(-1, size), second.eps[0], room)
        if entry is None:
            read = room.empty("read", len(tokens), self.reading.weight.shape[1])
            asked = self.reading.into(tokens, read).view(n, n_tokens, -1)
            k, v = split(asked[..., size : 2 * size], self.first.heads), split(asked[..., 2 * size :], self.first.heads)
            q = room.once((self, "queries"), lambda: self._ask(n_tokens))
            attention = room.view((self, n, n_tokens), lambda: Attention.of(q, k, v, room))
            entry = self._told(attention(), room)
        else:
            asked = second.query.into(tokens, room.empty("asked", len(tokens), size)).view(n, n_tokens, -1)
        key = room.empty("key", *entry.key.shape).copy_(entry.key)
        value = room.empty("value", *entry.value.shape[:-1], size // second.heads + 1, fill=1.0)
        value[..., :-1] = entry.value
        attention = room.view(
            ("second", n, n_tokens, asked.shape),
            partial(Attention.of, split(asked[..., :size], second.heads), key, value, room),
        )
        return second.finish(x_RTE, attention(), room), entry

    def _told(self, attended_RIE: torch.Tensor, room: Room) -> KVCacheEntry:
        """Keys and values of points that attended."""
        n, second, size = len(attended_RIE), self.second, self.points_IE.shape[1]
        hidden = room.empty("induced", n, *self.points_IE.shape).copy_(self.points_IE)
        hidden = self.first.finish(hidden, attended_RIE, room)
        read = normed(hidden.view(-1, size), second.eps[0], room)
        told = self.telling(read, "told", room).view(n, -1, 2, second.heads, size // second.heads)
        key, value = told.permute(2, 0, 3, 1, 4).contiguous()
        return KVCacheEntry(key=key, value=value)

    def _met(self, made_KE: torch.Tensor, n_rows: int) -> torch.Tensor:
        """Queries_CK of all heads, as they meet tokens; what the keys' bias adds is alike for all of a query."""
        key_HKd = made_KE @ self.first.key.by_head(self.first.heads)
        return torch.bmm(self._ask(n_rows)[0], key_HKd.transpose(1, 2)).flatten(0, 1)

    def _ask(self, n_rows: int) -> torch.Tensor:
        """Queries of the points, the same for all columns."""
        block = self.first
        q = split(block.query(normed(self.points_IE, block.eps[0], Room()), "asked", Room())[None], block.heads)
        if self.scalable is None:
            return q
        # TabICL scales what it projects, before the root of the width and the logarithm do.
        root = q.shape[-1] ** -0.5 * math.log2(math.e)
        asked: torch.Tensor = self.scalable(q / root, n_rows) * root
        return asked


def _each(x_RHId: torch.Tensor, weight_HdK: torch.Tensor) -> torch.Tensor:
    """Every head's numbers by its own weights, heads one after the other; a cache of other heads is an error."""
    n, heads = len(x_RHId), len(weight_HdK)
    weight = weight_HdK.expand(n, -1, -1, -1).reshape(n * heads, *weight_HdK.shape[1:])
    return torch.bmm(x_RHId.flatten(0, 1), weight).view(n, -1, weight.shape[2])
