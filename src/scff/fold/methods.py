"""The methods of the paper by name, and what they run in: engine, caches and blocks within a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scff.backbones.base import IntArray, RowView, TokenView
from scff.backbones.spec import BackboneSpec
from scff.errors import BackboneError, DataError
from scff.fold.algorithm import fold
from scff.fold.budget import settle
from scff.fold.caches import MEMORY_BYTES, CacheMode, CacheStore
from scff.fold.encode import Engine, FoldOptions, LocalEngine
from scff.fold.mass_huber import MassHuber
from scff.fold.native import Compiled, Native, OneLeaf
from scff.fold.tokens import FoldedTokens
from scff.gate.record import TailGate, TailRule
from scff.memory.device import free_bytes, leaves_that_fit
from scff.names import ENGINES, METHODS, EngineName, Method
from scff.plan.plan import FoldPlan

__all__ = ["ENGINES", "METHODS", "EngineName", "Method", "Runtime", "compile_view", "refuse_row_folding"]


@dataclass(frozen=True)
class Runtime:
    """What the views of one support are compiled in.

    Attributes
    ----------
    method : str
    options : FoldOptions
        Blocks, settled.
    store : CacheStore
    engine : Engine
    leaf_bytes : int or None
        What each view's blocks must shrink to, under a memory limit.
    """

    method: Method
    options: FoldOptions
    store: CacheStore
    engine: Engine
    leaf_bytes: int | None = None

    @classmethod
    def of(
        cls,
        view: RowView | TokenView,
        plan: FoldPlan | None,
        n_support: int,
        method: Method,
        options: FoldOptions,
        *,
        cache: CacheMode = True,
        limit: int | None = None,
        engine: EngineName = "local",
    ) -> Runtime:
        """Settle blocks for a view that stands for all of its ensemble.

        Parameters
        ----------
        view : RowView or TokenView
        plan : FoldPlan or None
            None for native inference.
        n_support : int
            Labelled rows.
        method : str
            One of `METHODS`.
        options : FoldOptions
            What was asked for.
        cache : bool or "disk"
        limit : int, optional
            Budget of added bytes.
        engine : {"local", "ray"}
            Where leaves are encoded.
        """
        if not getattr(view, "thread_safe", False):
            options = replace(options, workers=1)
        if options.leaf_batch is None:
            widest = 1 if plan is None else max(map(len, plan.leaves))
            leaf_bytes = view.native_bytes(widest, options.query_chunk)
            options = replace(options, leaf_batch=leaves_that_fit(free_bytes(options.device), leaf_bytes))
        blocks, cache_bytes = None, MEMORY_BYTES
        if limit is not None:
            blocks, options, cache_bytes = settle(limit, view, plan, n_support, method == "raw-core", options)
        store = CacheStore(cache, cache_bytes)
        if engine == "local":
            return cls(method, options, store, LocalEngine(store, options), blocks)
        if plan is None or method not in ("scff", "bounded-core") or isinstance(view, TokenView):
            raise DataError('engine="ray" is for the leaves of a row backbone; leave engine at "local" here.')
        from scff.fold.ray import RayEngine

        where = RayEngine(options) if limit is None else RayEngine(options, most=options.leaf_batch or 1)
        return cls(method, options, store, where, blocks)


def compile_view(
    view: RowView | TokenView,
    plan: FoldPlan | None,
    y: IntArray,
    runtime: Runtime,
    *,
    rule: TailRule | None = None,
    gate: TailGate | None = None,
    narrow: bool = False,
) -> Compiled:
    """Compile one view of a support table with one of the paper's methods; `fold` has the parameters.

    Without a plan a ``narrow`` table is read as one leaf, any other by the backbone's own inference, call for call.
    """
    method, options = runtime.method, runtime.options
    if plan is None and narrow and not isinstance(view, TokenView):
        return OneLeaf(view, options.query_chunk)
    if plan is None:
        return Native(view, view.columns)
    if method == "raw-core":
        return Native(view, np.sort(plan.core))
    if isinstance(view, TokenView):
        # One leaf holds everything: there is nothing to fold.
        return Native(view, view.columns) if len(plan.leaves) == 1 else FoldedTokens(view, plan, options.query_chunk)
    if runtime.leaf_bytes is not None:
        view.shrink_blocks(runtime.leaf_bytes)
    if method == "mass-huber":
        return MassHuber(view, plan, runtime.store, options.query_chunk)
    if len(plan.leaves) == 1 and len(plan.core) == len(view.columns):
        return Native(view, view.columns)
    return fold(view, plan, y, runtime.engine, rule=rule if method == "scff" else None, gate=gate)


def refuse_row_folding(spec: BackboneSpec, method: str) -> None:
    """Raise where a method of row representations is asked of a token backbone.

    Raises
    ------
    BackboneError
        With the reason, and what to use instead.
    """
    if spec.kind == "token" and method in ("bounded-core", "mass-huber"):
        raise BackboneError(
            f"{spec.name} keeps a feature-token axis through its whole context encoder, so there is no row "
            f'representation to merge and method="{method}" has no meaning for it. Use method="scff", which folds '
            'its tokens, or method="native".'
        )
