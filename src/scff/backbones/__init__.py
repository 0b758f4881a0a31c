"""Backbones: frozen tabular foundation models, each behind the same small protocol."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scff.backbones.loaded import load_backbone
from scff.backbones.registry import get_spec, register, specs
from scff.backbones.spec import BackboneSpec, Limits, Weights

if TYPE_CHECKING:
    from scff.backbones.base import Backbone, LeafCache, RowView, TokenView, Views

__all__ = [
    "Backbone",
    "BackboneSpec",
    "LeafCache",
    "Limits",
    "RowView",
    "TokenView",
    "Views",
    "Weights",
    "get_spec",
    "load_backbone",
    "register",
    "specs",
]


def __getattr__(name: str) -> Any:
    # Lazily: which backbones there are can be said without torch, what they do cannot.
    if name not in __all__:
        raise AttributeError(f"module 'scff.backbones' has no attribute {name!r}")
    return getattr(import_module("scff.backbones.base"), name)
