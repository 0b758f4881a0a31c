"""What a compiled support learned, as tensors by name, and a compiled support from them: the model is not asked again.

For caches that outlive their process. The fitted preprocessing of a leaf is no tensor; it is fitted anew, which costs
little. Views that do not say how (`KeepingView`), and compiled supports of other kinds, are compiled again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from scff.backbones.base import IntArray, LeafCache, RowView, TokenView
from scff.backbones.keeping import KeepingView
from scff.fold.algorithm import Folded
from scff.fold.encode import LocalEngine, LocalStratum
from scff.fold.methods import Runtime
from scff.fold.native import Compiled, Native, OneLeaf
from scff.gate.record import TailGate
from scff.plan.plan import FoldPlan

__all__ = ["Kept", "keep", "restore"]

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Kept:
    """What one view of a support was taught.

    Attributes
    ----------
    layout : str
        Digest of the kind of compiled support and of its leaves; it is of use for no other.
    tensors : dict of str to Tensor
    """

    layout: str
    tensors: Tensors


def keep(compiled: Compiled) -> Kept | None:
    """The tensors of a compiled support; None where it is cheaper, or the only way, to compile it again."""
    view = compiled.view
    if not isinstance(view, KeepingView):
        return None
    if isinstance(compiled, Native):
        tensors = view.native_tensors(compiled.kept)
        return None if tensors is None else Kept(_layout("native", [[compiled.columns]]), tensors)
    if isinstance(compiled, OneLeaf):
        cache, context = compiled.kept
        tensors = _named("leaf", cache.tensors) | _named("context", context)
        return Kept(_layout("leaf", [[compiled.view.columns]]), tensors)
    if not isinstance(compiled, Folded) or not isinstance(compiled.core, LocalStratum):
        return None
    tensors = _named("context", compiled.context)
    strata = {"core": compiled.core, "tail": compiled.tail}
    for name, stratum in strata.items():
        if isinstance(stratum, LocalStratum):
            tensors[f"{name}/mean"] = stratum.mean_SE
            for i, cache in enumerate(stratum.caches(compiled.view)):
                tensors |= _named(f"{name}/{i}", cache.tensors)
    leaves = [s.leaves for s in strata.values() if isinstance(s, LocalStratum)]
    return Kept(_layout("folded", leaves), tensors)


def restore(
    kept: Kept,
    view: RowView | TokenView,
    plan: FoldPlan | None,
    runtime: Runtime,
    gate: TailGate | None,
    *,
    narrow: bool,
) -> Compiled | None:
    """The compiled support that `keep` was given; None where this is another one.

    Parameters
    ----------
    kept : Kept
    view, plan, runtime, gate, narrow
        As for `scff.fold.methods.compile_view`, which is the other way to it.
    """
    if not isinstance(view, KeepingView) or isinstance(view, TokenView) or not isinstance(runtime.engine, LocalEngine):
        return None
    device = runtime.options.device
    tensors = {name: tensor.to(device) for name, tensor in kept.tensors.items()}
    if plan is None and narrow:
        if kept.layout != _layout("leaf", [[view.columns]]):
            return None
        cache = LeafCache(_under("leaf", tensors), view.fitted([view.columns]))
        return OneLeaf(view, runtime.options.query_chunk, (cache, _context(tensors)))
    columns = view.columns if plan is None else np.sort(plan.core)
    if kept.layout == _layout("native", [[columns]]):
        return Native(view, columns, view.native_from(columns, tensors))
    if plan is None or gate is None:
        return None
    if runtime.leaf_bytes is not None:
        view.shrink_blocks(runtime.leaf_bytes)
    parts = {"core": plan.core_leaves} | ({"tail": plan.tail_leaves} if gate.accepted is not None else {})
    if kept.layout != _layout("folded", list(parts.values())):
        return None
    strata = {}
    for name, leaves in parts.items():
        groups = runtime.engine.groups(leaves)
        caches = [LeafCache(_under(f"{name}/{i}", tensors), view.fitted(group)) for i, group in enumerate(groups)]
        strata[name] = runtime.engine.recall(leaves, caches, tensors[f"{name}/mean"])
    return Folded(view, runtime.engine, strata["core"], strata.get("tail"), gate, _context(tensors))


def _layout(kind: str, strata: Sequence[Sequence[IntArray]]) -> str:
    digest = hashlib.sha256(kind.encode())
    for leaves in strata:
        digest.update(b"stratum")
        for leaf in leaves:
            digest.update(b"leaf" + np.asarray(leaf, dtype="<i8").tobytes())
    return digest.hexdigest()


def _named(prefix: str, tensors: Tensors | torch.Tensor) -> Tensors:
    if isinstance(tensors, torch.Tensor):
        return {prefix: tensors}
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _under(prefix: str, tensors: Tensors) -> Tensors:
    return {name[len(prefix) + 1 :]: t for name, t in tensors.items() if name.startswith(f"{prefix}/")}


def _context(tensors: Tensors) -> Any:
    return tensors["context"] if "context" in tensors else _under("context", tensors)
