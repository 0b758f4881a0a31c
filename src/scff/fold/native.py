"""The backbone's own inference on some columns at once, and what every compiled support has in common."""

from __future__ import annotations

from typing import Protocol

import torch

from scff.backbones.base import IntArray, RowView, TokenView
from scff.gate.record import TailGate
from scff.tables.table import Table

__all__ = ["Compiled", "Native"]


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
