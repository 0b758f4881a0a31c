"""The backbone's own inference on some columns at once, and what every compiled support has in common."""

from __future__ import annotations

from typing import Protocol

import torch

from scff.backbones.base import IntArray, RowView, TokenView
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

    def __init__(self, view: RowView | TokenView, columns: IntArray) -> None:
        self.view = view
        self._compiled = view.compile_native(columns)

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows, in one native call."""
        return self.view.native(self._compiled, rows)


class OneLeaf:
    """All columns of a narrow table as one leaf: native inference but for rounding, a block of rows at a time.

    It goes the way of every other leaf, where an encoder may be quicker than its package.
    """

    gate: TailGate | None = None

    def __init__(self, view: RowView, query_chunk: int) -> None:
        self.view, self._query_chunk = view, query_chunk
        message_1SE, self._cache = view.encode_support([view.columns])
        self._context = view.build_context(message_1SE[0])

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows."""
        return torch.cat([self._predict(part) for part in self.view.prepare(rows).chunks(self._query_chunk)])

    def _predict(self, rows: Table) -> torch.Tensor:
        message_1QE = self.view.encode_query([self.view.columns], self._cache, rows)
        return self.view.predict(self._context, message_1QE[0])
