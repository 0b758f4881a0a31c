"""From views to compiled members: which method runs, in which blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from scff.backbones.base import IntArray, RowView, TokenView, Views
from scff.errors import DataError, MemoryBudgetError
from scff.fold.algorithm import Compiled, FoldOptions, Native, fold
from scff.fold.caches import MEMORY_BYTES, CacheMode, CacheStore
from scff.fold.encode import Engine, LocalEngine
from scff.fold.mass_huber import MassHuber
from scff.fold.tokens import fold_tokens
from scff.gate.decide import TailGate, TailRule
from scff.gate.record import Rehearsed
from scff.memory.budget import format_bytes, keep_within
from scff.memory.device import free_bytes, leaves_that_fit
from scff.plan.plan import FoldPlan
from scff.trials.links import link
from scff.trials.trial import Rehearsal

__all__ = ["ENGINES", "METHODS", "EngineName", "Method", "choose_core", "compile_members"]

Method = Literal["scff", "native", "raw-core", "bounded-core", "mass-huber"]
EngineName = Literal["local", "ray"]
ENGINES = ("local", "ray")
METHODS = ("scff", "native", "raw-core", "bounded-core", "mass-huber")


def compile_members(
    views: Views[RowView | TokenView],
    plan: FoldPlan | None,
    y: IntArray,
    method: Method,
    rule: TailRule | None,
    gates: Sequence[TailGate | None] | None,
    cache: CacheMode,
    options: FoldOptions,
    limit: int | None,
    engine: EngineName = "local",
    rehearsal: Rehearsal | None = None,
) -> list[Compiled]:
    """Compile every ensemble view of a support table.

    Parameters
    ----------
    views : Views of RowView or TokenView
    plan : FoldPlan or None
        None for native inference.
    y : ndarray of int
        Class codes of the support.
    method : str
        One of `METHODS`.
    rule : TailRule or None
        What lets the Tail in; None leaves it out.
    gates : sequence of TailGate, optional
        Decisions taken earlier on the same support, one per view.
    cache : bool or "disk"
    options : FoldOptions
    limit : int, optional
        Budget of added bytes.
    engine : {"local", "ray"}
        Where leaves are encoded.
    rehearsal : Rehearsal, optional
        How to try the Tail on held-back support rows, where the rule asks for it.

    Returns
    -------
    list of Compiled
    """
    cache_bytes = MEMORY_BYTES
    first = views.view(0)
    if not getattr(first, "thread_safe", False):
        options = replace(options, workers=1)
    if options.leaf_batch is None:
        widest = 1 if plan is None else max(map(len, plan.leaves))
        leaf_bytes = first.native_bytes(widest, options.query_chunk)
        options = replace(options, leaf_batch=leaves_that_fit(free_bytes(options.device), leaf_bytes))
    if limit is not None:
        options, cache_bytes = _within(limit, first, plan, len(y), method, options)
    store = CacheStore(cache, cache_bytes)
    where: Engine = LocalEngine(store, options)
    if engine == "ray":
        if plan is None or method not in ("scff", "bounded-core") or isinstance(first, TokenView):
            raise DataError(
                'engine="ray" spreads the leaves of a row backbone over a cluster; use it with method="scff" or '
                '"bounded-core", or leave engine at "local".'
            )
        from scff.fold.ray import RayEngine

        where = RayEngine(options) if limit is None else RayEngine(options, most=options.leaf_batch or 1)
    members: list[Compiled] = []
    for i in range(len(views)):
        view = first if i == 0 else views.view(i)
        if plan is None:
            members.append(Native(view, view.columns))
        elif method == "raw-core":
            members.append(Native(view, np.sort(plan.core)))
        elif isinstance(view, TokenView):
            members.append(fold_tokens(view, plan, options))
        elif method == "mass-huber":
            members.append(MassHuber(view, plan, store, options))
        else:
            gate = gates[i] if gates else None
            play = None if rehearsal is None else replace(rehearsal, member=i)
            members.append(
                fold(view, plan, y, store, rule=rule, gate=gate, options=options, engine=where, rehearsal=play)
            )
    return members


def choose_core(plan: FoldPlan, rehearsal: Rehearsal, options: FoldOptions) -> tuple[FoldPlan, Rehearsed | None]:
    """Choose between the paper's Core and the same with the columns linked to it.

    Parameters
    ----------
    plan : FoldPlan
        As the paper routes.
    rehearsal : Rehearsal
        The support, and the backbone that is asked.
    options : FoldOptions

    Returns
    -------
    plan : FoldPlan
        The linked plan where it predicts held-back rows better, otherwise the one given.
    said : Rehearsed or None
        What the rehearsal said; None where nothing is linked.
    """
    if len(plan.core) >= plan.leaf_width:
        return plan, None  # no room: a table of text and categories need not be made numbers once more
    linked = link(plan, rehearsal.support.numeric())
    if not len(linked.linked):
        return plan, None

    def compile_half(view: RowView | TokenView, core: FoldPlan, codes: IntArray) -> Compiled:
        views = Views(1, lambda _: view)
        return compile_members(views, core, codes, "bounded-core", None, None, False, options, rehearsal.limit)[0]

    said = rehearsal.choose(plan, linked, compile_half)
    return linked if said.passed else plan, said


def _within(
    limit: int, view: RowView | TokenView, plan: FoldPlan | None, n_support: int, method: Method, options: FoldOptions
) -> tuple[FoldOptions, int]:
    """Block sizes within a budget, and how much of it caches may take."""
    if plan is None or method == "raw-core":
        width = len(view.columns if plan is None else plan.core)
        needed = view.native_bytes(width, 1)
        if needed > limit:
            raise MemoryBudgetError(
                f"memory_limit is {format_bytes(limit)}, and one pass over {width} columns takes about "
                f'{format_bytes(needed)}; use method="scff", which folds them, or raise the limit.'
            )
        return options, min(limit, MEMORY_BYTES)
    if isinstance(view, TokenView):
        # Folded tokens cost the context what a table of one leaf's columns would.
        widest = max(map(len, plan.leaves))
        per_row = view.native_bytes(widest, 1) // (n_support + 1)
        chunk = max(1, min(options.query_chunk, limit // per_row - n_support))
        if view.native_bytes(widest, chunk) > limit:
            raise MemoryBudgetError(
                f"memory_limit is {format_bytes(limit)}, and the context of {n_support} support rows takes about "
                f"{format_bytes(view.native_bytes(widest, 1))}; raise the limit, lower leaf_width, or fit fewer rows."
            )
        return replace(options, query_chunk=chunk), 0
    batch = options.leaf_batch or 1
    most = batch * options.workers
    view.shrink_blocks(limit // most)
    leaf = view.footprint(max(map(len, plan.leaves)))
    blocks = keep_within(limit, leaf, n_support, options.query_chunk, options.pass_rows, most)
    batch = min(batch, blocks.leaf_batch)
    options = replace(
        options,
        leaf_batch=batch,
        workers=blocks.leaf_batch // batch,
        query_chunk=blocks.query_chunk,
        pass_rows=blocks.pass_rows,
    )
    return options, min(blocks.cache_bytes, MEMORY_BYTES)
