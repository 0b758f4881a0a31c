"""TabICL's feature encoder for a CPU: the same arithmetic in fewer and larger products.

The scales of a layer norm go into the weights behind it, queries of inducing points are made once for all columns,
rotary positions are one multiplication of complex numbers, and attention goes a row (or a column) at a time, its scores
in the processor's cache, with one exponential and no search for the largest score where none overflowed. A message
differs from TabICL's by rounding. What a checkpoint has that is not provided for here goes through TabICL itself.

Shape legend: ``R`` rows or columns in a block, ``T`` tokens of each, ``I`` inducing points, ``E`` embedding width,
``H`` heads of ``d``.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from tabicl._model.kv_cache import KVCache, KVCacheEntry
from tabicl._model.tabicl import TabICL

__all__ = ["Kernels"]

# Sums of exponentials that neither overflowed nor vanished in float32.
_LEAST, _MOST = 1e-30, 1e37

_PACKED: weakref.WeakKeyDictionary[TabICL, Kernels | None] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class _Block:
    """A transformer block that normalises first, its layer norms folded into its weights."""

    heads: int
    eps: tuple[float, float]
    into: tuple[torch.Tensor, torch.Tensor]
    out: tuple[torch.Tensor, torch.Tensor]
    up: tuple[torch.Tensor, torch.Tensor]
    down: tuple[torch.Tensor, torch.Tensor]

    @classmethod
    def of(cls, block: Any, pairs: torch.Tensor | None = None) -> _Block:
        """Pack one of TabICL's; ``pairs`` reorders the parts of every query and key."""
        attention = block.attn
        size, heads = attention.embed_dim, attention.num_heads
        weight, bias = _folded(block.norm1, attention.in_proj_weight, attention.in_proj_bias)
        if pairs is not None:
            one = (torch.arange(0, size, size // heads)[:, None] + pairs).flatten()
            order = torch.cat([one, size + one, torch.arange(2 * size, 3 * size)])
            weight, bias = weight[order], bias[order]
        # Scores come out scaled.
        root = (size // heads) ** -0.5
        weight, bias = weight.clone(), bias.clone()
        weight[:size] *= root
        bias[:size] *= root
        return cls(
            heads,
            (block.norm1.eps, block.norm2.eps),
            (weight, bias),
            (attention.out_proj.weight, attention.out_proj.bias),
            _folded(block.norm2, block.linear1.weight, block.linear1.bias),
            (block.linear2.weight, block.linear2.bias),
        )

    def normed(self, x_RTE: torch.Tensor) -> torch.Tensor:
        """What queries, keys and values are made of."""
        return F.layer_norm(x_RTE, x_RTE.shape[-1:], eps=self.eps[0])

    def project(self, normed_RTE: torch.Tensor, parts: slice) -> torch.Tensor:
        """Queries, keys, values: those that ``parts`` names, side by side."""
        size = normed_RTE.shape[-1]
        rows = slice(parts.start * size, parts.stop * size)
        return F.linear(normed_RTE, self.into[0][rows], self.into[1][rows])

    def finish(self, x_RTE: torch.Tensor, attended_RTE: torch.Tensor) -> torch.Tensor:
        """Add what was attended to, then what the two layers make of it; ``x`` is written over."""
        flat = x_RTE.view(-1, x_RTE.shape[-1])
        flat.addmm_(attended_RTE.view(flat.shape), self.out[0].T).add_(self.out[1])
        hidden = F.linear(F.layer_norm(flat, flat.shape[-1:], eps=self.eps[1]), *self.up)
        flat.addmm_(torch.ops.aten.gelu_(hidden), self.down[0].T).add_(self.down[1])
        return x_RTE


def _folded(norm: Any, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A linear layer that takes the norm's scales and shifts upon itself."""
    shift = 0.0 if norm.bias is None else weight @ norm.bias
    return weight * norm.weight, bias + shift


def _attend(q_RHTd: torch.Tensor, k_RHTd: torch.Tensor, v_RHTd: torch.Tensor) -> torch.Tensor:
    """Values by the softmax of the scores, heads side by side; one query of all ``R`` may stand for each."""
    n, heads, n_keys, size = k_RHTd.shape
    n_queries = q_RHTd.shape[2]
    out = torch.empty(n, n_queries, heads * size)
    score = torch.empty(heads, n_queries, n_keys)
    queries = q_RHTd.unbind() if len(q_RHTd) == n else q_RHTd.unbind() * n
    by_head = out.view(n, n_queries, heads, size).transpose(1, 2).unbind()
    for q, k, v, to in zip(queries, k_RHTd.transpose(2, 3).unbind(), v_RHTd.unbind(), by_head, strict=True):
        torch.bmm(q, k, out=score)
        total = score.exp_().sum(dim=-1, keepdim=True)
        if not _LEAST < float(total.min()) <= float(total.max()) < _MOST:  # large scores: the usual way round
            torch.bmm(q, k, out=score)
            score -= score.amax(dim=-1, keepdim=True)
            total = score.exp_().sum(dim=-1, keepdim=True)
        torch.div(torch.bmm(score, v), total, out=to)
    return out


def _split(x_RTE: torch.Tensor, heads: int, parts: int) -> tuple[torch.Tensor, ...]:
    """Heads of what stands side by side."""
    n, n_tokens, width = x_RTE.shape
    return tuple(x_RTE.view(n, n_tokens, parts, heads, width // parts // heads).permute(2, 0, 3, 1, 4))


class Kernels:
    """The feature encoder of one model, packed.

    Parameters
    ----------
    model : TabICL
    """

    def __init__(self, model: TabICL) -> None:
        columns, rows = model.col_embedder, model.row_interactor
        self._in, self._classes = columns.in_linear, columns.max_classes
        self._labels = columns.y_encoder if columns.target_aware else None
        self._induced = [
            (block.ind_vectors, _Block.of(block.multihead_attn1), _Block.of(block.multihead_attn2), block)
            for block in columns.tf_col.blocks
        ]
        encoder = rows.tf_row
        size = model.embed_dim // encoder.blocks[0].attn.num_heads
        # A rotation turns pairs of numbers: they must stand side by side to be complex ones.
        half = torch.arange(size // 2)
        pairs = torch.arange(size) if encoder.rope.interleaved else torch.stack([half, half + size // 2], 1).flatten()
        self._turned = [_Block.of(block, pairs) for block in encoder.blocks]
        self._frequency = encoder.rope.freqs
        self._turns = torch.empty(0, 0)
        self._out_norm, self._n_class_tokens = rows.out_ln, rows.num_cls

    @classmethod
    def of(cls, model: TabICL) -> Kernels | None:
        """Those of a model, packed once; None where TabICL's own code is needed."""
        if model not in _PACKED:
            _PACKED[model] = cls(model) if _provided_for(model) else None
        return _PACKED[model]

    def embed(self, features_RTg: torch.Tensor, kept: KVCache, y_RT: torch.Tensor | None) -> torch.Tensor:
        """Column embedding of a block of columns.

        Parameters
        ----------
        features_RTg : Tensor
        kept : KVCache
            What the support taught each column: filled by the support, read by queries.
        y_RT : Tensor or None
            Labels of the support, the same for each column; None for query rows.
        """
        x_RTE = F.linear(features_RTg, self._in.weight, self._in.bias)
        if self._labels is not None and y_RT is not None:
            x_RTE += self._labels(y_RT[:1].float() if self._classes > 0 else y_RT[:1, :, None])
        for index, (induced_IE, first, second, upstream) in enumerate(self._induced):
            normed = second.normed(x_RTE)
            if y_RT is not None:
                hidden_RIE = self._induce(x_RTE, induced_IE, first, upstream)
                key, value = _split(second.project(second.normed(hidden_RIE), slice(1, 3)), second.heads, 2)
                kept.kv[index] = KVCacheEntry(key=key.contiguous(), value=value.contiguous())
            entry = kept.kv[index]
            (q,) = _split(second.project(normed, slice(0, 1)), second.heads, 1)
            x_RTE = second.finish(x_RTE, _attend(q, entry.key, entry.value))
        return x_RTE

    def _induce(self, x_RTE: torch.Tensor, induced_IE: torch.Tensor, block: _Block, upstream: Any) -> torch.Tensor:
        """What the inducing points take from the support of each column; their queries are the same for all."""
        (q,) = _split(block.project(block.normed(induced_IE[None]), slice(0, 1)), block.heads, 1)
        scalable = upstream.multihead_attn1.attn.ssmax_layer
        if scalable is not None:
            # TabICL scales what it projects before the root of the width does.
            root = q.shape[-1] ** -0.5
            q = scalable(q / root, x_RTE.shape[1]) * root
        k, v = _split(block.project(block.normed(x_RTE), slice(1, 3)), block.heads, 2)
        return block.finish(induced_IE.expand(len(x_RTE), -1, -1).clone(), _attend(q, k, v))

    def aggregate(self, e_RTE: torch.Tensor) -> torch.Tensor:
        """Row interaction of a block of rows, class tokens first; the embedding is written over."""
        turn = self._turn(e_RTE.shape[1])
        for block in self._turned[:-1]:
            qkv = block.project(block.normed(e_RTE), slice(0, 3))
            _rotate(qkv, turn.repeat(1, 2))
            e_RTE = block.finish(e_RTE, _attend(*_split(qkv, block.heads, 3)))
        block, n = self._turned[-1], self._n_class_tokens  # only the class tokens ask here
        normed = block.normed(e_RTE)
        q, kv = block.project(normed[:, :n], slice(0, 1)), block.project(normed, slice(1, 3))
        _rotate(q, turn[:n])
        _rotate(kv, turn)
        attended = _attend(*_split(q, block.heads, 1), *_split(kv, block.heads, 2))
        out: torch.Tensor = self._out_norm(block.finish(e_RTE[:, :n].clone(), attended)).flatten(-2)
        return out

    def _turn(self, n_tokens: int) -> torch.Tensor:
        """Rotations of one projection at every position, as complex numbers; those of the widest leaf are kept."""
        if len(self._turns) < n_tokens:
            angle = torch.arange(n_tokens)[:, None] * self._frequency
            self._turns = torch.polar(torch.ones_like(angle), angle).repeat(1, self._turned[0].heads)
        return self._turns[:n_tokens]


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
    return bool(plain and turned and unscaled and not columns.affine)
