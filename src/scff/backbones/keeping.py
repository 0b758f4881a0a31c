"""Caches that outlive their process: what a view can say about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch

from scff.backbones.base import IntArray

__all__ = ["KeepingView"]


@runtime_checkable
class KeepingView(Protocol):
    """A `RowView` whose caches outlive their process: with `fitted`, tensors are all there is to keep."""

    def fitted(self, leaves: Sequence[IntArray]) -> Any:
        """The `LeafCache.state` that `encode_support` gives for these leaves; the model is not asked."""
        ...

    def native_tensors(self, compiled: Any) -> dict[str, torch.Tensor] | None:
        """What `compile_native` kept, as tensors by name; None where it kept none."""
        ...

    def native_from(self, columns: IntArray, tensors: dict[str, torch.Tensor]) -> Any:
        """What `compile_native` gives for these columns, from its tensors."""
        ...
