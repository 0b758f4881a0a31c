"""Attention of TabICL's feature encoder, packed for a CPU.

Many queries go a row (or a column) at a time, keys before queries, their scores in the processor's cache, with one
power of two (logarithms go into the queries' weights) and no search for the largest score where none overflowed; the
sums that a softmax divides by are one column of ones more. Few queries meet all rows of a block at once.

Shape legend: ``R`` rows or columns in a block, ``T`` tokens of each, ``E`` embedding width, ``H`` heads of ``d``, ``I``
queries, ``C`` of all heads, ``K`` numbers that keys are made of; a letter with ``1`` behind it is one wider, for the
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from scff.backbones.tabicl.room import Room

__all__ = ["Attention", "apart", "gather", "softened", "split"]

# Inverse sums of exponentials that neither overflowed nor vanished in float32.
_LEAST, _MOST = 1e-37, 1e30


@dataclass(frozen=True, eq=False)
class Attention:
    """Everything that attention of one shape reads and writes in a room, as views."""

    steps: Sequence[tuple[torch.Tensor, ...]]  # keys, queries, values, scores and sums of a row, all heads
    total_RH1T: torch.Tensor
    share_RH1T: torch.Tensor
    sums_RHdT: torch.Tensor
    out_RHdT: torch.Tensor
    out_RTE: torch.Tensor

    @classmethod
    def of(
        cls, q_RHTd: torch.Tensor, k_RHTd: torch.Tensor, v_RHTd1: torch.Tensor, room: Room, asked: int | None = None
    ) -> Attention:
        """Of queries, keys and values that the room keeps; one query of all ``R`` may stand for each.

        Where only so many of the queries are ``asked``, the others may be anything.
        """
        n, heads, n_keys, size = k_RHTd.shape
        n_queries = q_RHTd.shape[2]
        out = room.empty("attended", n, heads * size, n_queries)
        sums = room.empty("sums", n, heads, size + 1, n_queries)
        score = room.empty("scores", heads, n_keys, n_queries)
        queries = q_RHTd.transpose(2, 3).expand(n, -1, -1, -1).unbind()
        values = v_RHTd1.transpose(2, 3).unbind()
        steps = list(zip(k_RHTd.unbind(), queries, values, [score] * n, sums.unbind(), strict=True))
        by_head = out.view(n, heads, size, n_queries)
        total = sums[:, :, size:, :asked]
        return cls(
            steps,
            total,
            room.empty("share", *total.shape),
            sums[:, :, :size, :asked],
            by_head[..., :asked],
            out[..., :asked].transpose(1, 2),
        )

    def __call__(self) -> torch.Tensor:
        """Values by the softmax of the scores, heads side by side."""
        for k, q, v, score, to in self.steps:
            torch.bmm(v, torch.bmm(k, q, out=score).exp2_(), out=to)
        share = torch.reciprocal(self.total_RH1T, out=self.share_RH1T)
        if _beyond(share):  # large scores: the usual way round
            for k, q, v, score, to in self.steps:
                torch.bmm(k, q, out=score)
                score -= score.amax(dim=1, keepdim=True)
                torch.bmm(v, score.exp2_(), out=to)
            torch.reciprocal(self.total_RH1T, out=share)
        torch.mul(self.sums_RHdT, share, out=self.out_RHdT)
        return self.out_RTE


def _beyond(share: torch.Tensor) -> bool:
    """Whether a sum, of which this is the inverse, overflowed or vanished."""
    least, most = torch.aminmax(share)
    return not _LEAST < float(least) <= float(most) < _MOST


def apart(asked_RIE: torch.Tensor, heads: int, room: Room) -> torch.Tensor:
    """Queries_RCE of every head, with noughts where a number is another head's."""
    n, n_asked, size = asked_RIE.shape
    out = room.empty("apart", n, heads, n_asked, heads, size // heads, fill=0.0)
    out.diagonal(dim1=1, dim2=3).copy_(asked_RIE.view(n, n_asked, heads, -1).permute(0, 1, 3, 2))
    return out.view(n, -1, size)


def gather(
    met_RCK: torch.Tensor,
    key_RKT: torch.Tensor,
    told_RTK: torch.Tensor,
    value_KE: torch.Tensor,
    heads: int,
    room: Room,
) -> torch.Tensor:
    """What few queries take from many tokens, all ``R`` at once: attended_RIE, for ``I`` queries of every head.

    Queries meet what the keys of all heads are made of (`apart`; one matrix may stand for each ``R``), and values are
    made of means of tokens instead of means of all tokens' values: more arithmetic, but a few large products instead
    of two small ones for every row.
    """
    n, n_asked, _ = shape = (len(key_RKT), *met_RCK.shape[1:])
    score = room.empty("met", n, n_asked, key_RKT.shape[2])
    share = softened(met_RCK.expand(shape), key_RKT, score, score, 2)
    mean = torch.bmm(score, told_RTK).mul_(share)
    size = value_KE.shape[1]
    value = torch.mm(mean.view(-1, len(value_KE)), value_KE, out=room.empty("gathered", n * n_asked, size))
    by_head = value.view(n, heads, -1, heads, size // heads).diagonal(dim1=1, dim2=3)
    return by_head.permute(0, 1, 3, 2).reshape(n, -1, size)


def softened(
    met_RCK: torch.Tensor, key_RKT: torch.Tensor, score_RCT: torch.Tensor, grouped: torch.Tensor, dim: int
) -> torch.Tensor:
    """Write powers of two of scores; the inverse of their sums over one dimension of ``grouped``, a view of them."""
    torch.bmm(met_RCK, key_RKT, out=score_RCT).exp2_()
    share = grouped.sum(dim=dim, keepdim=True).reciprocal_()
    if _beyond(share):
        torch.bmm(met_RCK, key_RKT, out=score_RCT)
        grouped -= grouped.amax(dim=dim, keepdim=True)
        share = grouped.exp2_().sum(dim=dim, keepdim=True).reciprocal_()
    return share


def split(x_RTE: torch.Tensor, heads: int) -> torch.Tensor:
    """Heads of what stands side by side."""
    return x_RTE.view(*x_RTE.shape[:2], heads, -1).transpose(1, 2)
