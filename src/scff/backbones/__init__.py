"""Backbones: frozen tabular foundation models, each behind the same small protocol."""

from scff.backbones.base import Backbone, BackboneSpec, LeafCache, Limits, RowView, TokenView, Views, Weights
from scff.backbones.registry import get_spec, load_backbone, register, specs

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
