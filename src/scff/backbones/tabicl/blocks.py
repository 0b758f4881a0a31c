"""Transformer blocks of TabICL's feature encoder, packed for a CPU.

What TabICL does in passes over memory is done by the products themselves. Every norm is blind to the mean of a token,
so the weights keep that mean at nought and a norm is one length and one multiplication; its scales and shifts go into
the weights behind it. Without a mean the last number of a token is known from the others: a one stands in its place
behind a norm, and biases are a row of the weights. What is written on the way goes into the same few tensors block
after block, and every operand of a large product lies in one piece.

Shape legend: ``R`` rows or columns in a block, ``T`` tokens of each, ``M`` tokens of all, ``E`` embedding width, ``H``
heads of ``d``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from scff.backbones.tabicl.products import is_worth_it, linear, spare
from scff.backbones.tabicl.room import Room

__all__ = ["Block", "Reading", "centred", "normed"]


def centred(weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A layer whose outputs have no mean."""
    return weight - weight.mean(dim=0), bias - bias.mean()


@dataclass(frozen=True, eq=False)
class _Packed:
    """A linear layer, its weights as a product reads them."""

    weight: torch.Tensor

    @cached_property
    def _turned(self) -> torch.Tensor:
        return self.weight.T.contiguous()


@dataclass(frozen=True, eq=False)
class Layer(_Packed):
    """A linear layer whose outputs are added to tokens, without a mean."""

    bias: torch.Tensor

    @classmethod
    def of(cls, layer: Any) -> Layer:
        """Turn one of torch's."""
        weight, bias = centred(layer.weight, layer.bias)
        return cls(weight.T.contiguous(), bias)

    def add(self, x_RTE: torch.Tensor, to_RTE: torch.Tensor) -> None:
        """Add its outputs to what is there."""
        if not x_RTE.is_contiguous():
            to_RTE.baddbmm_(x_RTE, self.weight.expand(len(x_RTE), -1, -1))
        elif is_worth_it(x_RTE):
            to_RTE += linear(x_RTE, self._turned)
        else:
            to_RTE.view(-1, to_RTE.shape[-1]).addmm_(x_RTE.view(-1, x_RTE.shape[-1]), self.weight)
        to_RTE += self.bias


@dataclass(frozen=True, eq=False)
class Reading(_Packed):
    """A linear layer that reads normed tokens: the norm's scales and shifts and its own bias are in the weights."""

    @classmethod
    def of(cls, norm: Any, weight: torch.Tensor, bias: torch.Tensor) -> Reading:
        """Turn one of torch's, behind one of torch's norms."""
        if norm.bias is not None:
            bias = bias + weight @ norm.bias
        weight = (weight * norm.weight).T
        return cls(torch.cat([weight[:-1] - weight[-1], bias[None]]))

    @classmethod
    def together(cls, *layers: Reading) -> Reading:
        """One product for layers that read the same."""
        return cls(torch.cat([one.weight for one in layers], dim=1))

    def __call__(self, x_ME: torch.Tensor, name: str, room: Room) -> torch.Tensor:
        """Its outputs, in a tensor of that name or in one of their own."""
        if is_worth_it(x_ME):
            return linear(x_ME, self._turned)
        return torch.mm(x_ME, self.weight, out=room.empty(name, len(x_ME), self.weight.shape[1]))

    def into(self, x_ME: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Write its outputs where views of them look."""
        if is_worth_it(x_ME):
            return out.copy_(linear(x_ME, self._turned))
        return torch.mm(x_ME, self.weight, out=out)

    def gelu(self, x_ME: torch.Tensor, name: str, room: Room) -> torch.Tensor:
        """GELU of its outputs."""
        if is_worth_it(x_ME):
            return linear(x_ME, self._turned, gelu=True)
        out: torch.Tensor = torch.ops.aten.gelu_.default(self(x_ME, name, room))
        return out

    def by_head(self, heads: int) -> torch.Tensor:
        """Weights_HEd of every head."""
        return self.weight.view(len(self.weight), heads, -1).transpose(0, 1)

    def scaled(self, factor: float) -> Reading:
        """Outputs so many times as large."""
        return Reading(self.weight * factor)

    def ordered(self, order: torch.Tensor) -> Reading:
        """Outputs in another order."""
        return Reading(self.weight[:, order].contiguous())

    def with_ones(self, heads: int) -> Reading:
        """A one behind the outputs of every head."""
        weight = self.weight.view(len(self.weight), heads, -1)
        one = weight.new_zeros(*weight.shape[:2], 1)
        one[-1] = 1.0
        return Reading(torch.cat([weight, one], dim=-1).flatten(1))


@dataclass(frozen=True, eq=False)
class Block:
    """A transformer block that normalises first, packed."""

    heads: int
    eps: tuple[float, float]
    query: Reading  # scores come out scaled, in powers of two
    key: Reading
    value: Reading
    out: Layer
    up: Reading
    down: Layer

    @classmethod
    def of(cls, block: Any, pairs: torch.Tensor | None = None) -> Block:
        """Pack one of TabICL's; ``pairs`` reorders the parts of every query and key."""
        attention = block.attn
        size, heads = attention.embed_dim, attention.num_heads
        parts = zip(attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3), strict=True)
        query, key, value = (Reading.of(block.norm1, w, b) for w, b in parts)
        if pairs is not None:
            order = (torch.arange(0, size, size // heads)[:, None] + pairs).flatten()
            query, key = query.ordered(order), key.ordered(order)
        return cls(
            heads,
            (block.norm1.eps, block.norm2.eps),
            query.scaled((size // heads) ** -0.5 * math.log2(math.e)),
            key,
            value,
            Layer.of(attention.out_proj),
            Reading.of(block.norm2, block.linear1.weight, block.linear1.bias),
            Layer.of(block.linear2),
        )

    def finish(self, x_RTE: torch.Tensor, attended_RTE: torch.Tensor, room: Room) -> torch.Tensor:
        """Add what was attended to, then what the two layers make of it; ``x`` is written over."""
        self.out.add(attended_RTE, x_RTE)
        return self.feed(x_RTE, room)

    def feed(self, x_RTE: torch.Tensor, room: Room) -> torch.Tensor:
        """Add what the two layers make of it."""
        flat = x_RTE.view(-1, x_RTE.shape[-1])
        self.down.add(self.up.gelu(normed(flat, self.eps[1], room), "hidden", room), flat)
        return x_RTE


def normed(x_ME: torch.Tensor, eps: float, room: Room, name: str = "normed") -> torch.Tensor:
    """Tokens without a mean, scaled to unit variance, with a one in place of the last number."""
    n, size = x_ME.shape
    out, head, length, column = room.view((name, n, size, "normed"), lambda: _normed(n, size, name, room))
    least = room.once(("least", eps), lambda: torch.full((1,), eps))
    torch.linalg.vector_norm(x_ME, dim=1, out=length)
    torch.addcmul(least, length, length, value=1 / size, out=length).rsqrt_()
    torch.mul(x_ME[:, :-1], column, out=head)
    return out


def _normed(n: int, size: int, name: str, room: Room) -> tuple[torch.Tensor, ...]:
    out, length = room.empty(name, n + spare(n), size, fill=1.0)[:n], room.empty("lengths", n)
    return out, out[:, :-1], length, length[:, None]
