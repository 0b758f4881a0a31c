"""Folding for backbones that keep a feature-token axis: the paper's LimiX adapter.

Leaves are tokenised one by one, Core leaves first. The first tokens stay as they are, the rest is averaged into a few
slots, and context encoder and head run once on the resulting short row of tokens. There is no row representation, so
there is no Tail gate either.

Shape legend: ``S`` support rows, ``Q`` query rows, ``F`` feature tokens, ``B`` slots, ``E`` token width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from scff.backbones.base import IntArray, TokenView
from scff.gate.record import TailGate
from scff.plan.plan import FoldPlan
from scff.tables.table import Table

__all__ = ["FoldedTokens", "Slots", "slots"]

_CORE_SHARE = 0.75


@dataclass(frozen=True)
class Slots:
    """Where every token goes.

    Attributes
    ----------
    core : int
        Leading tokens that keep a slot of their own.
    tail : int
        Slots that share the remaining tokens.
    of_token : ndarray of int
        Slot of every token, in order.
    """

    core: int
    tail: int
    of_token: IntArray

    @property
    def total(self) -> int:
        """The budget ``B``."""
        return self.core + self.tail

    @property
    def counts(self) -> IntArray:
        """Number of tokens in each slot."""
        return np.bincount(self.of_token, minlength=self.total).astype(np.int64)


def slots(n_tokens: int, widest_leaf: int, group: int) -> Slots:
    """The slot budget of the paper.

    ``B = min(T, ceil(w / g))``, of which ``min(T - 1, max(1, round(0.75 B)))`` go to the leading tokens and the rest
    to the others, split as evenly as they can be: the first slots get one token more where it does not come out.
    Halves round to even, as Python's ``round`` has it. Where the formula leaves no slot for tokens that remain (``B``
    of 1 or 2, which the paper's leaves never have), the last slot is theirs: no column is dropped.

    Parameters
    ----------
    n_tokens : int
        Tokens of all leaves, ``T``.
    widest_leaf : int
        Columns of the widest leaf, ``w``.
    group : int
        Columns in a token, ``g``.

    Examples
    --------
    >>> slots(600, 512, 2).core, slots(600, 512, 2).tail
    (192, 64)
    >>> slots(7, 8, 2).of_token
    array([0, 1, 2, 3, 3, 3, 3])
    """
    total = min(n_tokens, -(-widest_leaf // group))
    if n_tokens <= total:
        return Slots(n_tokens, 0, np.arange(n_tokens))
    core = min(n_tokens - 1, max(1, round(_CORE_SHARE * total)))
    core = min(core, total - 1)
    tail = total - core
    rest = np.array_split(np.arange(n_tokens - core), tail)
    shared = np.repeat(np.arange(tail), [len(part) for part in rest]) + core
    return Slots(core, tail, np.concatenate([np.arange(core), shared]).astype(np.int64))


class FoldedTokens:
    """A folded support of a token backbone, ready for queries.

    Parameters
    ----------
    view : TokenView
    plan : FoldPlan
        Which columns go where.
    query_chunk : int
        Query rows that go through the context together.

    Attributes
    ----------
    slots : Slots
    scale : Tensor of shape (B,)
        What gives an averaged slot the support RMS of the tokens in it.
    """

    def __init__(self, view: TokenView, plan: FoldPlan, query_chunk: int) -> None:
        reason = "a token backbone folds its Tail into slots and has no gate"
        self.gate: TailGate | None = TailGate(0.0, None, reason, n_tail_leaves=len(plan.tail_leaves))
        self.view = view
        self._leaves = plan.leaves
        self._query_chunk = query_chunk
        widest = max(len(leaf) for leaf in self._leaves)
        self.slots = slots(sum(view.n_tokens(leaf) for leaf in self._leaves), widest, view.group)
        self._states: list[Any] = []
        self.scale = torch.ones(self.slots.total)
        self._context = view.build_context(self._fold_support())

    def predict(self, rows: Table) -> torch.Tensor:
        """Outputs_QK of query rows; one call of context encoder and head per chunk of rows."""
        return torch.cat([self._predict(part) for part in rows.chunks(self._query_chunk)])

    def _predict(self, rows: Table) -> torch.Tensor:
        prepared = self.view.prepare(rows)
        total = _Sum(self.slots)
        for leaf, state in zip(self._leaves, self._states, strict=True):
            total.add(self.view.tokenize_query(leaf, state, prepared))
        return self.view.predict(self._context, total.mean() * self.scale[:, None].to(total.device))

    def _fold_support(self) -> torch.Tensor:
        total = _Sum(self.slots, squares=True)
        for leaf in self._leaves:
            tokens_SFE, state = self.view.tokenize_support(leaf)
            self._states.append(state)
            total.add(tokens_SFE)
        mean_SBE = total.mean()
        # The mean of unlike tokens is shorter than they are; the model was trained on tokens of their length.
        wanted = (total.squares / torch.from_numpy(self.slots.counts)).sqrt()
        found = mean_SBE.double().square().mean(dim=(0, 2)).sqrt().cpu()
        shared = torch.arange(self.slots.total) >= self.slots.core
        self.scale = torch.where(shared & (found > 0), wanted / found, torch.ones(())).float()
        return mean_SBE * self.scale[:, None].to(mean_SBE.device)


class _Sum:
    """Sums of tokens by slot, as leaves come."""

    def __init__(self, layout: Slots, *, squares: bool = False) -> None:
        self._layout = layout
        self._next = 0
        self._sum_TBE: torch.Tensor | None = None
        self.squares = torch.zeros(layout.total, dtype=torch.float64)
        self._with_squares = squares

    @property
    def device(self) -> torch.device:
        assert self._sum_TBE is not None
        return self._sum_TBE.device

    def add(self, tokens_TFE: torch.Tensor) -> None:
        n_tokens = tokens_TFE.shape[1]
        which = torch.from_numpy(self._layout.of_token[self._next : self._next + n_tokens])
        self._next += n_tokens
        if self._sum_TBE is None:
            shape = (len(tokens_TFE), self._layout.total, tokens_TFE.shape[2])
            self._sum_TBE = torch.zeros(shape, dtype=tokens_TFE.dtype, device=tokens_TFE.device)
        self._sum_TBE.index_add_(1, which.to(tokens_TFE.device), tokens_TFE)
        if self._with_squares:
            mean_F = tokens_TFE.double().square().mean(dim=(0, 2)).cpu()
            self.squares.index_add_(0, which, mean_F)

    def mean(self) -> torch.Tensor:
        assert self._sum_TBE is not None
        counts_B = torch.from_numpy(self._layout.counts).to(self._sum_TBE)
        return self._sum_TBE / counts_B[:, None]
