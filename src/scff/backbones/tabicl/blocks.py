"""Transformer blocks of TabICL's feature encoder, packed for a CPU.

What TabICL does in passes over memory is done by the products themselves. Every norm is blind to the mean of a token,
so the weights keep that mean at nought and a norm is one length and one multiplication; its scales and shifts go into
the weights behind it. The sums that a softmax divides by are one column of ones more. Attention goes a row (or a
column) at a time, keys before queries, its scores in the processor's cache, with one power of two (logarithms go into
the queries' weights) and no search for the largest score where none overflowed. What is written on the way goes into
the same few tensors block after block, and every operand of a large product lies in one piece.

Shape legend: ``R`` rows or columns in a block, ``T`` tokens of each, ``M`` tokens of all, ``E`` embedding width, ``H``
heads of ``d``; a letter with ``1`` behind it is one wider, for the ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch

__all__ = ["Attention", "Block", "Layer", "Room", "apart", "centred", "gather", "normed", "split"]

T = TypeVar("T")

# Sums of exponentials that neither overflowed nor vanished in float32.
_LEAST, _MOST = 1e-30, 1e37


class Room:
    """Tensors that the blocks of one leaf write into, one after the other; those of two threads are two rooms.

    Between two blocks the processor's caches hold neither torch's code nor the tensors' descriptions, and then a view
    costs as much as a thousand numbers: views are made once, too.
    """

    def __init__(self) -> None:
        self._whole: dict[object, torch.Tensor] = {}
        self._views: dict[object, Any] = {}
        self._once: dict[object, torch.Tensor] = {}

    def empty(self, name: object, *shape: int, fill: float | None = None) -> torch.Tensor:
        """A tensor of that shape: what the last block left in it, or at first ``fill`` where that is given."""
        return self.view((name, *shape), lambda: self._part(name, shape, fill))

    def _part(self, name: object, shape: tuple[int, ...], fill: float | None) -> torch.Tensor:
        key = (name, *shape[1:])
        found = self._whole.get(key)
        if found is None or len(found) < shape[0]:
            self._views.clear()  # some are of the smaller one
            found = self._whole[key] = torch.empty(shape) if fill is None else torch.full(shape, fill)
        return found[: shape[0]]

    def view(self, name: object, make: Callable[[], T]) -> T:
        """A view, or several, of tensors of this room: ``make`` asks for nothing larger than there was before."""
        found = self._views.get(name)
        if found is None:
            found = self._views[name] = make()
        return cast("T", found)

    def once(self, name: object, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What is the same for all blocks."""
        found = self._once.get(name)
        if found is None:
            found = self._once[name] = make()
        return found


def centred(weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A layer whose outputs have no mean."""
    return weight - weight.mean(dim=0), bias - bias.mean()


def _folded(norm: Any, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A linear layer that takes the norm's scales and shifts upon itself."""
    shift = 0.0 if norm.bias is None else weight @ norm.bias
    return weight * norm.weight, bias + shift


@dataclass(frozen=True, eq=False)
class Layer:
    """A linear layer, its weights as the product reads them."""

    weight: torch.Tensor
    bias: torch.Tensor

    @classmethod
    def of(cls, weight: torch.Tensor, bias: torch.Tensor) -> Layer:
        """Turn one of torch's."""
        return cls(weight.T.contiguous(), bias.clone())

    @classmethod
    def together(cls, *layers: Layer) -> Layer:
        """One product for layers that read the same."""
        return cls(torch.cat([one.weight for one in layers], dim=1), torch.cat([one.bias for one in layers]))

    def __call__(self, x_ME: torch.Tensor, name: str, room: Room) -> torch.Tensor:
        """Its outputs, in a tensor of that name."""
        out = room.empty(name, len(x_ME), len(self.bias))
        return torch.addmm(self.bias, x_ME, self.weight, out=out)

    def add(self, x_ME: torch.Tensor, to_ME: torch.Tensor) -> None:
        """Add its outputs to what is there."""
        to_ME.addmm_(x_ME, self.weight)
        to_ME += self.bias

    def scaled(self, factor: float) -> Layer:
        """Outputs so many times as large."""
        return Layer(self.weight * factor, self.bias * factor)

    def ordered(self, order: torch.Tensor) -> Layer:
        """Outputs in another order."""
        return Layer(self.weight[:, order].contiguous(), self.bias[order])

    def with_ones(self, heads: int) -> Layer:
        """A one behind the outputs of every head."""
        weight, bias = self.weight.view(len(self.weight), heads, -1), self.bias.view(heads, -1)
        weight = torch.cat([weight, weight.new_zeros(*weight.shape[:2], 1)], dim=-1)
        return Layer(weight.flatten(1), torch.cat([bias, bias.new_ones(heads, 1)], dim=-1).flatten())


@dataclass(frozen=True, eq=False)
class Block:
    """A transformer block that normalises first, packed."""

    heads: int
    eps: tuple[float, float]
    query: Layer  # scores come out scaled, in powers of two
    key: Layer
    value: Layer  # a one behind the values of every head
    values: Layer  # the same without the ones
    out: Layer
    up: Layer
    down: Layer

    @classmethod
    def of(cls, block: Any, pairs: torch.Tensor | None = None) -> Block:
        """Pack one of TabICL's; ``pairs`` reorders the parts of every query and key."""
        attention = block.attn
        size, heads = attention.embed_dim, attention.num_heads
        weight, bias = _folded(block.norm1, attention.in_proj_weight, attention.in_proj_bias)
        query, key, value = (Layer.of(w, b) for w, b in zip(weight.chunk(3), bias.chunk(3), strict=True))
        if pairs is not None:
            order = (torch.arange(0, size, size // heads)[:, None] + pairs).flatten()
            query, key = query.ordered(order), key.ordered(order)
        return cls(
            heads,
            (block.norm1.eps, block.norm2.eps),
            query.scaled((size // heads) ** -0.5 * math.log2(math.e)),
            key,
            value.with_ones(heads),
            value,
            Layer.of(*centred(attention.out_proj.weight, attention.out_proj.bias)),
            Layer.of(*_folded(block.norm2, block.linear1.weight, block.linear1.bias)),
            Layer.of(*centred(block.linear2.weight, block.linear2.bias)),
        )

    def met(self, q_HId: torch.Tensor) -> torch.Tensor:
        """Queries as columns that meet tokens instead of keys; the keys' bias moves all scores of a query alike."""
        key_HEd = self.key.weight.view(len(self.key.weight), self.heads, -1).transpose(0, 1)
        return torch.bmm(key_HEd, q_HId.transpose(1, 2)).transpose(0, 1).flatten(1)[None]

    def finish(self, x_RTE: torch.Tensor, attended_RTE: torch.Tensor, room: Room) -> torch.Tensor:
        """Add what was attended to, then what the two layers make of it; ``x`` is written over."""
        x_RTE.baddbmm_(attended_RTE, self.out.weight.expand(len(x_RTE), -1, -1))
        x_RTE += self.out.bias
        flat = x_RTE.view(-1, x_RTE.shape[-1])
        hidden = self.up(normed(flat, self.eps[1], room), "hidden", room)
        self.down.add(torch.ops.aten.gelu_(hidden), flat)
        return x_RTE


def normed(x_ME: torch.Tensor, eps: float, room: Room) -> torch.Tensor:
    """Tokens without a mean, scaled to unit variance."""
    n, size = x_ME.shape
    out = room.empty("normed", n, size)
    share = room.once(("share", size), lambda: torch.full((size,), 1 / size))
    variance = torch.mv(torch.mul(x_ME, x_ME, out=out), share)
    return torch.mul(x_ME, variance.add_(eps).rsqrt_()[:, None], out=out)


@dataclass(frozen=True, eq=False)
class Attention:
    """Everything that attention of one shape reads and writes in a room, as views."""

    steps: Sequence[tuple[torch.Tensor, ...]]  # keys, queries, values, scores and sums of a row, all heads
    total_RH1T: torch.Tensor
    sums_RHdT: torch.Tensor
    out_RHdT: torch.Tensor
    out_RTE: torch.Tensor

    @classmethod
    def of(cls, q_RHTd: torch.Tensor, k_RHTd: torch.Tensor, v_RHTd1: torch.Tensor, room: Room) -> Attention:
        """Of queries, keys and values that the room keeps; one query of all ``R`` may stand for each."""
        n, heads, n_keys, size = k_RHTd.shape
        n_queries = q_RHTd.shape[2]
        out = room.empty("attended", n, heads * size, n_queries)
        sums = room.empty("sums", n, heads, size + 1, n_queries)
        score = room.empty("scores", heads, n_keys, n_queries)
        queries = q_RHTd.transpose(2, 3).expand(n, -1, -1, -1).unbind()
        values = v_RHTd1.transpose(2, 3).unbind()
        steps = list(zip(k_RHTd.unbind(), queries, values, [score] * n, sums.unbind(), strict=True))
        by_head = out.view(n, heads, size, n_queries)
        return cls(steps, sums[:, :, size:], sums[:, :, :size], by_head, out.transpose(1, 2))

    def __call__(self) -> torch.Tensor:
        """Values by the softmax of the scores, heads side by side."""
        for k, q, v, score, to in self.steps:
            torch.bmm(v, torch.bmm(k, q, out=score).exp2_(), out=to)
        if _beyond(self.total_RH1T):  # large scores: the usual way round
            for k, q, v, score, to in self.steps:
                torch.bmm(k, q, out=score)
                score -= score.amax(dim=1, keepdim=True)
                torch.bmm(v, score.exp2_(), out=to)
        torch.div(self.sums_RHdT, self.total_RH1T, out=self.out_RHdT)
        return self.out_RTE


def _beyond(total: torch.Tensor) -> bool:
    least, most = torch.aminmax(total)
    return not _LEAST < float(least) <= float(most) < _MOST


def apart(asked_RCE: torch.Tensor, heads: int, room: Room) -> torch.Tensor:
    """Queries as columns ``C`` of every head, with noughts where a number is another head's."""
    n, n_asked, size = asked_RCE.shape
    out = room.empty("apart", n, heads, size // heads, heads, n_asked, fill=0.0)
    by_head = asked_RCE.view(n, n_asked, heads, -1).permute(0, 3, 1, 2)
    out.diagonal(dim1=1, dim2=3).copy_(by_head)
    return out.view(n, size, -1)


def gather(
    met_REC: torch.Tensor, key_RTE: torch.Tensor, tokens_RTE: torch.Tensor, block: Block, room: Room
) -> torch.Tensor:
    """What few queries take from many tokens, all ``R`` at once.

    Queries meet the keys of all heads (`apart`; one matrix may stand for each ``R``), and values are made of means of
    tokens instead of means of all tokens' values: more arithmetic, but a few large products instead of two small ones
    for every row.
    """
    (n, n_tokens, size), heads = tokens_RTE.shape, block.heads
    score = room.empty("met", n, n_tokens, met_REC.shape[-1])
    met = met_REC.expand(n, -1, -1)
    torch.bmm(key_RTE, met, out=score).exp2_()
    total = score.sum(dim=1)
    if _beyond(total):
        torch.bmm(key_RTE, met, out=score)
        score -= score.amax(dim=1, keepdim=True)
        total = score.exp2_().sum(dim=1)
    mean = torch.bmm(score.transpose(1, 2), tokens_RTE).div_(total[..., None])
    value = block.values(mean.view(-1, size), "gathered", room).view(n, heads, -1, heads, size // heads)
    return value.diagonal(dim1=1, dim2=3).permute(0, 1, 3, 2).reshape(n, -1, size)


def split(x_RTE: torch.Tensor, heads: int) -> torch.Tensor:
    """Heads of what stands side by side."""
    return x_RTE.view(*x_RTE.shape[:2], heads, -1).transpose(1, 2)
