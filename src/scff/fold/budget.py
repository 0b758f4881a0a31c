"""From a memory limit to blocks: what a plan costs a view, and how much of the limit caches may take."""

from __future__ import annotations

from dataclasses import replace

from scff.backbones.base import RowView, TokenView
from scff.errors import MemoryBudgetError
from scff.fold.caches import MEMORY_BYTES
from scff.fold.encode import FoldOptions
from scff.memory.budget import format_bytes, keep_within
from scff.plan.plan import FoldPlan

__all__ = ["least_bytes", "settle"]


def least_bytes(view: RowView | TokenView, plan: FoldPlan, n_support: int) -> int:
    """What folding a plan takes with the smallest blocks there are, to which those of the view are set."""
    widest = max(map(len, plan.leaves))
    if isinstance(view, TokenView):
        return view.native_bytes(widest, 1)
    view.shrink_blocks(0)
    return view.footprint(widest).least(n_support)


def settle(
    limit: int,
    view: RowView | TokenView,
    plan: FoldPlan | None,
    n_support: int,
    at_once: bool,
    options: FoldOptions,
) -> tuple[int | None, FoldOptions, int]:
    """Block sizes within a budget of added bytes.

    Parameters
    ----------
    limit : int
    view : RowView or TokenView
        Its own blocks are shrunk.
    plan : FoldPlan or None
        None for native inference.
    n_support : int
        Labelled rows.
    at_once : bool
        Whether the Core goes through in one leaf.
    options : FoldOptions
        What was asked for.

    Returns
    -------
    leaf_bytes : int or None
        What the blocks of the other views must shrink to as well.
    options : FoldOptions
        What fits.
    cache_bytes : int
        Most bytes of caches in memory.

    Raises
    ------
    MemoryBudgetError
        If even the smallest blocks do not fit; the message says what would.
    """
    if plan is None or at_once:
        width = len(view.columns if plan is None else plan.core)
        needed = view.native_bytes(width, 1)
        if needed > limit:
            raise MemoryBudgetError(
                f"memory_limit is {format_bytes(limit)}, and one pass over {width} columns takes about "
                f'{format_bytes(needed, up=True)} beside the weights; use method="scff", which folds them, or raise '
                "the limit to that."
            )
        return None, options, min(limit, MEMORY_BYTES)
    widest = max(map(len, plan.leaves))
    if isinstance(view, TokenView):
        # Folded tokens cost the context what a table of one leaf's columns would.
        per_row = view.native_bytes(widest, 1) // (n_support + 1)
        chunk = max(1, min(options.query_chunk, limit // per_row - n_support))
        if view.native_bytes(widest, chunk) > limit:
            raise MemoryBudgetError(
                f"memory_limit is {format_bytes(limit)}, and the context of {n_support} support rows takes about "
                f"{format_bytes(view.native_bytes(widest, 1), up=True)} beside the weights; raise the limit to that, "
                "lower leaf_width, or fit fewer rows."
            )
        return None, replace(options, query_chunk=chunk), 0
    batch = options.leaf_batch or 1
    most = batch * options.workers
    blocks = limit // most
    view.shrink_blocks(blocks)
    try:
        settled = keep_within(limit, view.footprint(widest), n_support, options.query_chunk, options.pass_rows, most)
    except MemoryBudgetError:
        # Blocks grow with the limit. The smallest there are do not: what a refusal names for them is enough.
        blocks = 0
        view.shrink_blocks(blocks)
        settled = keep_within(limit, view.footprint(widest), n_support, options.query_chunk, options.pass_rows, most)
    leaves, chunk, rows, cache_bytes = settled
    batch = min(batch, leaves)
    options = replace(options, leaf_batch=batch, workers=leaves // batch, query_chunk=chunk, pass_rows=rows)
    return blocks, options, min(cache_bytes, MEMORY_BYTES)
