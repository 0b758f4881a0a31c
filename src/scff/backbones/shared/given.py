"""Handing a folded representation to a model's own ``forward``.

What comes before the seam is exchanged in a shallow copy; labels, context, caches and head stay the package's code.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["constant", "exchanged", "same"]


def exchanged(model: Any, **parts: Callable[..., Any]) -> Any:
    """A shallow copy of a model in which some methods or submodules are other functions.

    Parameters
    ----------
    model : torch.nn.Module
        Not changed; the copy shares its weights.
    **parts : callable
        What stands in for the method or submodule of that name.

    Raises
    ------
    AttributeError
        If the model has no such part.
    """
    other = copy.copy(model)
    other._modules = dict(model._modules)
    for name, function in parts.items():
        if name in other._modules:
            other._modules[name] = _Function(function)
        elif hasattr(model, name):
            object.__setattr__(other, name, function)
        else:
            raise AttributeError(f"{type(model).__name__} has no {name}")
    return other


def constant(value: Any) -> Callable[..., Any]:
    """A function that returns the given value, whatever it is called with."""
    return lambda *_, **__: value


def same(value: Any) -> Any:
    """A function that returns what it gets."""
    return value


class _Function(torch.nn.Module):
    """A function where a module stood."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)
