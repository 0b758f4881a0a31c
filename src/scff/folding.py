"""Algorithm 1: compile the support once, then predict queries alone.

    leaves -> messages -> running mean -> Tail gate -> context -> logits

Support rows never look at query rows inside a feature encoder, so everything up to the context is done at `fold`.
Messages are summed as they come: two representations are alive, not one per leaf.

Shape legend: ``S`` support rows, ``Q`` query rows, ``E`` representation width, ``K`` classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import torch
from tqdm.auto import tqdm

from scff import tail as tail_
from scff.backbones.base import IntArray, RowView, TokenView
from scff.caches import CacheStore
from scff.plan import FoldPlan
from scff.tables import Table

__all__ = ["Compiled", "FoldOptions", "Folded", "Native", "fold"]


@dataclass(frozen=True)
class FoldOptions:
    """How a fold is run; nothing here changes a prediction beyond float noise.

    Attributes
    ----------
    leaf_batch : int
        Leaves of equal width encoded in one call. Pays on accelerators, not on a CPU.
    query_chunk : int
        Query rows encoded in one call.
    pass_rows : int
        Query rows taken through all leaves before the context sees them: each leaf's cache is fetched once a pass.
    encode_unused_tail : bool
        Encode the Tail even where the gate cannot let it in, as the paper literally does; for audits.
    progress : bool
        Show a progress bar.
    """

    leaf_batch: int = 1
    query_chunk: int = 256
    pass_rows: int = 8192
    encode_unused_tail: bool = False
    progress: bool = False

    @classmethod
    def on(
        cls,
        device: torch.device,
        leaf_batch: int | Literal["auto"],
        query_chunk: int | Literal["auto"],
        encode_unused_tail: bool,
        progress: bool,
    ) -> FoldOptions:
        """Fill in what the device suggests for every ``"auto"``."""
        accelerated = device.type != "cpu"
        return cls(
            leaf_batch=(8 if accelerated else 1) if leaf_batch == "auto" else leaf_batch,
            query_chunk=(1024 if accelerated else 256) if query_chunk == "auto" else query_chunk,
            encode_unused_tail=encode_unused_tail,
            progress=progress,
        )


class Compiled(Protocol):
    """A compiled support."""

    @property
    def gate(self) -> tail_.TailGate | None:
        """What was decided about the Tail; None where nothing was folded."""
        ...

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows."""
        ...


def fold(
    view: RowView,
    plan: FoldPlan,
    y: IntArray,
    store: CacheStore,
    *,
    rule: tail_.TailRule | None = None,
    gate: tail_.TailGate | None = None,
    options: FoldOptions | None = None,
) -> Compiled:
    """Compile a support table.

    Parameters
    ----------
    view : RowView
        The backbone's view of the support.
    plan : FoldPlan
        Which columns go where.
    y : ndarray of int
        Class codes of the support.
    store : CacheStore
        Where leaf caches go.
    rule : TailRule, optional
        What lets the Tail in; None leaves it out (the paper's Bounded Core).
    gate : TailGate, optional
        A decision taken earlier on the same support, to be reused.
    options : FoldOptions, optional

    Returns
    -------
    Compiled
    """
    options = FoldOptions() if options is None else options
    if len(plan.leaves) == 1 and len(plan.core) == len(view.columns):
        return Native(view, view.columns)  # one leaf holds everything: there is nothing to fold
    core = _encode_support(view, plan.core_leaves, store, options, "Core leaves")
    if gate is None:
        gate, tail_side = _decide(view, plan, y, core.mean_SE, store, rule, options)
    else:
        tail_side = _encode_support(view, plan.tail_leaves, store, options, "Tail leaves") if gate.accepted else None
    h_SE = core.mean_SE
    if gate.support_update is not None:
        h_SE = h_SE + torch.from_numpy(gate.support_update).to(h_SE)
    return Folded(view, store, options, core, tail_side, gate, view.build_context(h_SE))


class Native:
    """The backbone's own inference on some columns at once: all of them, or the Core (the paper's Raw Core)."""

    gate: tail_.TailGate | None = None

    def __init__(self, view: RowView | TokenView, columns: IntArray) -> None:
        self.view = view
        self._compiled = view.compile_native(columns)

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows, in one native call."""
        return self.view.native(self._compiled, rows)


@dataclass
class _Stratum:
    """The leaves of Core or Tail after their support was encoded."""

    groups: list[tuple[tuple[IntArray, ...], int]] = field(default_factory=list)
    n_leaves: int = 0
    mean_SE: torch.Tensor = field(default_factory=lambda: torch.empty(0))


@dataclass
class Folded:
    """A folded support, ready for queries."""

    view: RowView
    store: CacheStore
    options: FoldOptions
    core: _Stratum
    tail: _Stratum | None
    gate: tail_.TailGate
    context: Any

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows; one call of context encoder and head per pass."""
        step = self.options.pass_rows
        parts = [self._predict_pass(rows.rows(i, i + step)) for i in range(0, rows.n_rows, step)]
        return torch.cat(parts)

    def core_alone(self) -> Folded:
        """The same support without its Tail, for comparison: a context of its own, the Core's messages shared."""
        return replace(self, tail=None, context=self.view.build_context(self.core.mean_SE))

    def _predict_pass(self, rows: Table) -> torch.Tensor:
        step = self.options.query_chunk
        chunks = [self.view.prepare(rows.rows(i, i + step)) for i in range(0, rows.n_rows, step)]
        h_QE = self._encode_query(self.core, chunks)
        if self.tail is not None:
            t_QE = self._encode_query(self.tail, chunks)
            update = self.gate.update(h_QE.cpu().numpy(), t_QE.cpu().numpy())
            h_QE = h_QE + torch.from_numpy(update).to(h_QE)
        return self.view.predict(self.context, h_QE)

    def _encode_query(self, stratum: _Stratum, chunks: Sequence[Any]) -> torch.Tensor:
        """Mean message of the query rows over a stratum's leaves."""
        sums: list[torch.Tensor | None] = [None] * len(chunks)
        for leaves, key in _bar(stratum.groups, "leaves", self.options):
            cache = self.store.get(key)
            for i, rows in enumerate(chunks):
                sums[i] = _add(sums[i], self.view.encode_query(leaves, cache, rows))
        return torch.cat([total for total in sums if total is not None]) / stratum.n_leaves


def _decide(
    view: RowView,
    plan: FoldPlan,
    y: IntArray,
    c_SE: torch.Tensor,
    store: CacheStore,
    rule: tail_.TailRule | None,
    options: FoldOptions,
) -> tuple[tail_.TailGate, _Stratum | None]:
    """Run the Tail gate; the Tail's leaves are kept only if it lets them in."""
    if rule is None:
        return tail_.TailGate(0.0, None, "the Tail is switched off", n_tail_leaves=len(plan.tail_leaves)), None
    # A task the rule turns away whatever the Tail says (multiclass, too few rows) need not encode it at all.
    refusal = tail_.refuse(y, n_tail_leaves=len(plan.tail_leaves), rule=rule)
    if refusal is not None and not (options.encode_unused_tail and plan.tail_leaves):
        return refusal, None
    side = _encode_support(view, plan.tail_leaves, store, options, "Tail leaves")
    decision = tail_.gate(
        c_SE.cpu().numpy(), side.mean_SE.cpu().numpy(), y, n_tail_leaves=len(plan.tail_leaves), rule=rule
    )
    if decision.accepted is not None:
        return decision, side
    for _, key in side.groups:
        store.drop(key)
    return decision, None


def _encode_support(
    view: RowView, leaves: Sequence[IntArray], store: CacheStore, options: FoldOptions, label: str
) -> _Stratum:
    total: torch.Tensor | None = None
    stratum = _Stratum(n_leaves=len(leaves))
    for group in _bar(list(_equal_width(leaves, options.leaf_batch)), label, options):
        message_GSE, cache = view.encode_support(group)
        total = _add(total, message_GSE)
        stratum.groups.append((group, store.put(cache)))
    assert total is not None
    stratum.mean_SE = total / stratum.n_leaves
    return stratum


def _equal_width(leaves: Sequence[IntArray], most: int) -> Iterator[tuple[IntArray, ...]]:
    """Neighbouring leaves of equal width, at most ``most`` together."""
    group: list[IntArray] = []
    for leaf in leaves:
        if group and (len(group) == most or len(group[0]) != len(leaf)):
            yield tuple(group)
            group = []
        group.append(leaf)
    yield tuple(group)


def _add(total: torch.Tensor | None, message_GTE: torch.Tensor) -> torch.Tensor:
    for message in message_GTE:  # one at a time, so that the sum does not depend on how leaves were grouped
        total = message.clone() if total is None else total.add_(message)
    assert total is not None
    return total


def _bar(items: Sequence[Any], label: str, options: FoldOptions) -> Any:
    # `delay`: whatever is done within a second needs no bar.
    return tqdm(items, desc=label, disable=not options.progress, leave=False, delay=1.0)
