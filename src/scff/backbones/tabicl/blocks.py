"""Transformer blocks of TabICL's feature encoder, packed for a CPU.

What TabICL does in passes over memory is done by the products themselves. Every norm is blind to the mean of a token,
so the weights keep that mean at nought and a norm is one length and one multiplication; its scales and shifts go into
the weights behind it. Biases, and the sums that a softmax divides by, are one column of ones more. Attention goes a row
(or a column) at a time, keys before queries, its scores in the processor's cache, with one exponential and no search
for the largest score where none overflowed. What is written on the way goes into the same few tensors block after
block.

Shape legend: ``R`` rows or columns in a block, ``T`` tokens of each, ``M`` tokens of all, ``E`` embedding width, ``H``
heads of ``d``; a letter with ``1`` behind it is one wider, for the ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Block", "Room", "attend", "centred", "normed", "split", "times"]

# Sums of exponentials that neither overflowed nor vanished in float32.
_LEAST, _MOST = 1e-30, 1e37


class Room:
    """Tensors that the blocks of one leaf write into, one after the other; those of two threads are two rooms."""

    def __init__(self) -> None:
        self._kept: dict[object, torch.Tensor] = {}

    def empty(self, name: object, *shape: int, fill: float | None = None) -> torch.Tensor:
        """A tensor of that shape: what the last block left in it, or at first ``fill`` where that is given."""
        key = (name, *shape[1:])
        found = self._kept.get(key)
        if found is None or len(found) < shape[0]:
            found = self._kept[key] = torch.empty(shape) if fill is None else torch.full(shape, fill)
        return found[: shape[0]]

    def once(self, name: object, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What is the same for all blocks."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]


def _widened(weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A layer as one matrix for tokens that end in a one."""
    return torch.cat([weight.T, bias[None]]).contiguous()


def centred(weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A layer whose outputs have no mean."""
    return weight - weight.mean(dim=0), bias - bias.mean()


def _folded(norm: Any, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A linear layer that takes the norm's scales and shifts upon itself."""
    shift = 0.0 if norm.bias is None else weight @ norm.bias
    return weight * norm.weight, bias + shift


@dataclass(frozen=True, eq=False)
class Block:
    """A transformer block that normalises first, packed."""

    heads: int
    eps: tuple[float, float]
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor  # a one behind the values of every head
    out: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor

    @classmethod
    def of(cls, block: Any, pairs: torch.Tensor | None = None) -> Block:
        """Pack one of TabICL's; ``pairs`` reorders the parts of every query and key."""
        attention = block.attn
        size, heads = attention.embed_dim, attention.num_heads
        weight, bias = _folded(block.norm1, attention.in_proj_weight, attention.in_proj_bias)
        query, key, value = (_widened(w, b) for w, b in zip(weight.chunk(3), bias.chunk(3), strict=True))
        if pairs is not None:
            order = (torch.arange(0, size, size // heads)[:, None] + pairs).flatten()
            query, key = query[:, order], key[:, order]
        ones = torch.zeros(size + 1, heads, 1)
        ones[size] = 1.0
        value = torch.cat([value.view(size + 1, heads, -1), ones], dim=-1).flatten(1)
        return cls(
            heads,
            (block.norm1.eps, block.norm2.eps),
            query * (size // heads) ** -0.5,  # scores come out scaled
            key,
            value,
            _widened(*centred(attention.out_proj.weight, attention.out_proj.bias)),
            _widened(*_folded(block.norm2, block.linear1.weight, block.linear1.bias)),
            _widened(*centred(block.linear2.weight, block.linear2.bias)),
        )

    def finish(self, x_RTE: torch.Tensor, attended_RTE1: torch.Tensor, room: Room) -> torch.Tensor:
        """Add what was attended to, then what the two layers make of it; ``x`` is written over."""
        x_RTE.baddbmm_(attended_RTE1, self.out.expand(len(x_RTE), -1, -1))
        flat = x_RTE.view(-1, x_RTE.shape[-1])
        hidden = times(normed(flat, self.eps[1], room), self.up, "hidden", room)
        torch.ops.aten.gelu_(hidden[:, :-1])
        flat.addmm_(hidden, self.down)
        return x_RTE


def normed(x_ME: torch.Tensor, eps: float, room: Room) -> torch.Tensor:
    """Tokens without a mean, scaled to unit variance, each with a one behind it."""
    n, size = x_ME.shape
    out = room.empty("normed", n, size + 1, fill=1.0)
    length = torch.linalg.vector_norm(x_ME, dim=-1, keepdim=True)
    torch.mul(x_ME, length.square_().mul_(1 / size).add_(eps).rsqrt_(), out=out[:, :size])
    return out


def times(x_ME1: torch.Tensor, weight: torch.Tensor, name: str, room: Room) -> torch.Tensor:
    """A product; ones stand behind it too, and one number more where that makes rows an even number long."""
    width = weight.shape[1]
    out = room.empty(name, len(x_ME1), width + 2 - width % 2, fill=1.0)
    torch.mm(x_ME1, weight, out=out[:, :width])
    return out[:, : width + 1]


def attend(q_RHTd: torch.Tensor, k_RHTd: torch.Tensor, v_RHTd1: torch.Tensor, room: Room) -> torch.Tensor:
    """Values by the softmax of the scores, heads side by side; one query of all ``R`` may stand for each."""
    n, heads, n_keys, size = k_RHTd.shape
    n_queries = q_RHTd.shape[2]
    sums = room.empty("sums", n, heads, size + 1, n_queries)
    score = room.empty("scores", heads, n_keys, n_queries)
    queries = q_RHTd.transpose(2, 3).unbind()
    parts = (k_RHTd.unbind(), queries if len(queries) == n else queries * n, v_RHTd1.transpose(2, 3).unbind())
    for k, q, v, to in zip(*parts, sums.unbind(), strict=True):
        torch.bmm(v, torch.bmm(k, q, out=score).exp_(), out=to)
    total = sums[:, :, size:]
    least, most = torch.aminmax(total)
    if not _LEAST < float(least) <= float(most) < _MOST:  # large scores: the usual way round
        for k, q, v, to in zip(*parts, sums.unbind(), strict=True):
            torch.bmm(k, q, out=score)
            score -= score.amax(dim=1, keepdim=True)
            torch.bmm(v, score.exp_(), out=to)
    out = room.empty("attended", n, heads * size + 1, n_queries, fill=1.0)
    torch.div(sums[:, :, :size], total, out=out[:, :-1].view(n, heads, size, n_queries))
    return out.transpose(1, 2)


def split(x_RTE: torch.Tensor, heads: int) -> torch.Tensor:
    """Heads of what stands side by side."""
    return x_RTE.view(*x_RTE.shape[:2], heads, -1).transpose(1, 2)
