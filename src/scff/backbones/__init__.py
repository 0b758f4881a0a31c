"""Backbones: frozen tabular foundation models, each behind the same small protocol."""

from scff.backbones.base import BackboneSpec, LeafCache, Limits, RowBackbone, RowView, Weights
from scff.backbones.registry import get_spec, load_backbone, register, specs

__all__ = [
    "BackboneSpec",
    "LeafCache",
    "Limits",
    "RowBackbone",
    "RowView",
    "Weights",
    "get_spec",
    "load_backbone",
    "register",
    "specs",
]
