"""Tensors that a packed encoder writes into, block after block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

__all__ = ["Room"]

T = TypeVar("T")


class Room:
    """Tensors that the blocks of one leaf write into, one after the other; those of two threads are two rooms.

    Between two blocks the processor's caches hold neither torch's code nor the tensors' descriptions, and then a view
    costs as much as a thousand numbers: views are made once, too.
    """

    def __init__(self) -> None:
        self._whole: dict[object, torch.Tensor] = {}
        self._views: dict[object, Any] = {}
        self._once: dict[object, Any] = {}

    def empty(self, name: object, *shape: int, fill: float | None = None) -> torch.Tensor:
        """A tensor of that shape: what the last block left in it, or at first ``fill`` where that is given."""
        return self.view((name, *shape), lambda: self._part(name, shape, fill))

    def _part(self, name: object, shape: tuple[int, ...], fill: float | None) -> torch.Tensor:
        key = (name, *shape[1:])
        found = self._whole.get(key)
        if found is None or len(found) < shape[0]:
            self._views.clear()  # some are of the smaller one
            found = self._whole[key] = torch.empty(shape) if fill is None else torch.full(shape, fill)
        return found[: shape[0]]

    def view(self, name: object, make: Callable[[], T]) -> T:
        """A view, or several, of tensors of this room: ``make`` asks for nothing larger than there was before."""
        found = self._views.get(name)
        if found is None:
            found = self._views[name] = make()
        return cast("T", found)

    def once(self, name: object, make: Callable[[], T]) -> T:
        """What is the same for all blocks."""
        found = self._once.get(name)
        if found is None:
            found = self._once[name] = make()
        return cast("T", found)
