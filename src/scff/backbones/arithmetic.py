"""What a pass of a model costs, counted in multiplications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

__all__ = ["Arithmetic"]

_SMALL_PRODUCTS = 4.0


@dataclass(frozen=True)
class Arithmetic:
    """What a pass of the model costs, in multiplications: the same on every machine.

    Attributes
    ----------
    per_cell : float
        For every cell of a leaf, in the feature encoder.
    per_row : float
        For every row, in the context encoder and head.
    """

    per_cell: float
    per_row: float

    @classmethod
    def of(cls, cells: Sequence[torch.nn.Module], rows: Sequence[torch.nn.Module], group: int = 1) -> Arithmetic:
        """By the weights: each is multiplied once with every token that meets it.

        A weight that sees cells counts four times: cells also attend to each other, and their products are small,
        several times slower on any machine than those of rows.

        Parameters
        ----------
        cells, rows : sequence of Module
            What sees cells, and what sees rows.
        group : int
            Columns in a token.
        """
        count = [sum(p.numel() for module in modules for p in module.parameters()) for modules in (cells, rows)]
        return cls(_SMALL_PRODUCTS * count[0] / group, float(count[1]))

    def __call__(self, n_rows: int, width: int) -> float:
        """A pass over a table of that size."""
        return n_rows * (width * self.per_cell + self.per_row)
