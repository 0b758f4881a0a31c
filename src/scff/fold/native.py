"""The backbone's own inference on some columns at once, and what every compiled support has in common."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from scff.backbones.base import IntArray, LeafCache, RowView, TokenView
from scff.gate.record import TailGate
from scff.tables.table import Table

__all__ = ["Compiled", "Native", "OneLeaf"]


class Compiled(Protocol):
    """A compiled support."""

    @property
    def view(self) -> RowView | TokenView:
        """The backbone's view of the support."""
        ...

    @property
    def gate(self) -> TailGate | None:
        """What was decided about the Tail; None where nothing was folded."""
        ...

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows."""
        ...


class Native:
    """The backbone's own inference: on all columns, or on the Core (the paper's Raw Core)."""

    gate: TailGate | None = None

    def __init__(self, view: RowView | TokenView, columns: IntArray, kept: Any = None) -> None:
        self.view, self.columns = view, columns
        self.kept = view.compile_native(columns) if kept is None else kept

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows, in one native call."""
        return self.view.native(self.kept, rows)


class OneLeaf:
    """All columns of a narrow table as one leaf: native inference but for rounding, a block of rows at a time.

    It goes the way of every other leaf, where an encoder may be quicker than its package.
    """

    gate: TailGate | None = None

    def __init__(self, view: RowView, query_chunk: int, kept: tuple[LeafCache, Any] | None = None) -> None:
        self.view, self._query_chunk = view, query_chunk
        if kept is None:
            message_1SE, cache = view.encode_support([view.columns])
            kept = cache, view.build_context(message_1SE[0])
        self.kept = kept

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows."""
        return torch.cat([self._predict(part) for part in rows.chunks(self._query_chunk)])

    def _predict(self, rows: Table) -> torch.Tensor:
        cache, context = self.kept
        message_1QE = self.view.encode_query([self.view.columns], cache, self.view.prepare(rows))
        return self.view.predict(context, message_1QE[0])
