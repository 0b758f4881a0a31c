"""Growing a trained network: more blocks, groups of columns, more class tokens.

What was learned is kept: new parts are silent at first, and training teaches them to speak. So a small network can be
trained quickly, and a larger one from where it stopped. A block that stays silent can be replaced by a copy of one that
speaks.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from scff.errors import PretrainError
from scff.pretrain.config import ModelConfig
from scff.pretrain.network import build

__all__ = ["CONTEXT", "grow", "restack"]

#: Where the context blocks are in a TabICL network.
CONTEXT = "icl_predictor.tf_icl.blocks."

#: Parts of the context that add to the row representation (the class tokens side by side), scale it, or read it.
_ADDS_TO_ROWS = ("out_proj.", "linear2.", "y_encoder.")
_SCALES_ROWS = ("norm1.", "norm2.", "icl_predictor.ln.")
_READS_ROWS = ("in_proj_weight", "linear1.weight", "decoder.0.weight")


def grow(layout: ModelConfig, weights: dict[str, Tensor], larger: ModelConfig, seed: int) -> dict[str, Tensor]:
    """Give trained weights a larger layout, which at first computes nearly what the smaller one does.

    More row or context blocks and feature grouping change nothing at first, class tokens little: the new ones stand
    before the old, and what they say is not yet read by anything.

    Parameters
    ----------
    layout, weights : ModelConfig, dict
        What was trained.
    larger : ModelConfig
        The same layout but for ``row_num_blocks``, ``icl_num_blocks``, ``col_feature_group`` and ``row_num_cls``, each
        at least as large; heads of the context must keep their width.
    seed : int
        Seed of what is new.

    Returns
    -------
    dict
        Weights of the larger network.
    """
    growing = ("row_num_blocks", "icl_num_blocks", "col_feature_group", "row_num_cls", "icl_nhead")
    same = dataclasses.replace(layout, **{key: getattr(larger, key) for key in growing})
    shrinks = any(getattr(larger, key) < getattr(layout, key) for key in ("row_num_blocks", "icl_num_blocks"))
    heads = layout.icl_nhead * larger.row_num_cls == larger.icl_nhead * layout.row_num_cls
    if same != larger or shrinks or larger.row_num_cls < layout.row_num_cls or not heads:
        raise PretrainError("The checkpoint to begin from has another layout than the recipe, not only a smaller one.")
    deeper = dataclasses.replace(layout, row_num_blocks=larger.row_num_blocks, icl_num_blocks=larger.icl_num_blocks)
    weights = _deepen(layout, weights, deeper, seed)
    fresh = build(larger, seed).state_dict()
    if larger.col_feature_group and not layout.col_feature_group:
        alone = torch.zeros_like(fresh["col_embedder.in_linear.weight"])
        alone[:, :1] = weights["col_embedder.in_linear.weight"]
        weights = {**weights, "col_embedder.in_linear.weight": alone}
    return _set_into(weights, fresh)


def restack(weights: dict[str, Tensor], order: tuple[int, ...]) -> dict[str, Tensor]:
    """Set the context blocks of trained weights in another order, some more than once, some not at all.

    Deep in a network what passes through is large beside what a silent block learns to add: it may stay without effect.
    A copy of a block that has an effect is heard from the first step, and hardly disturbs.

    Parameters
    ----------
    weights : dict
        What was trained.
    order : tuple of int
        For each place the block that is to stand there; empty changes nothing.

    Returns
    -------
    dict
        Weights of a network of ``len(order)`` context blocks.
    """
    if not order:
        return weights
    blocks: dict[int, dict[str, Tensor]] = {}
    for name in (name for name in weights if name.startswith(CONTEXT)):
        block, part = name.removeprefix(CONTEXT).split(".", 1)
        blocks.setdefault(int(block), {})[part] = weights[name]
    if not set(order) <= set(blocks):
        raise PretrainError(f"The checkpoint has {len(blocks)} context blocks, and block {max(order)} is asked for.")
    rest = {name: value for name, value in weights.items() if not name.startswith(CONTEXT)}
    places = {
        f"{CONTEXT}{place}.{part}": value.clone()
        for place, block in enumerate(order)
        for part, value in blocks[block].items()
    }
    return {**rest, **places}


def _deepen(layout: ModelConfig, weights: dict[str, Tensor], deeper: ModelConfig, seed: int) -> dict[str, Tensor]:
    """Put new blocks before the last one of their stack; they add zero to what passes through them."""
    stacks = {"row_num_blocks": "row_interactor.tf_row.blocks.", "icl_num_blocks": CONTEXT}
    depths = {stack: (getattr(layout, key), getattr(deeper, key)) for key, stack in stacks.items()}
    grown: dict[str, Tensor] = {}
    for name, value in build(deeper, seed).state_dict().items():
        stack = next((prefix for prefix in depths if name.startswith(prefix)), None)
        if stack is None:
            grown[name] = weights[name]
            continue
        old, new = depths[stack]
        block, part = name.removeprefix(stack).split(".", 1)
        place = int(block)
        if place < old - 1 or place == new - 1:
            grown[name] = weights[f"{stack}{min(place, old - 1)}.{part}"]
        else:
            silent = part.startswith(("attn.out_proj.", "linear2."))
            grown[name] = torch.zeros_like(value) if silent else value
    return grown


def _set_into(weights: dict[str, Tensor], fresh: dict[str, Tensor]) -> dict[str, Tensor]:
    """Set trained weights into wider ones: new heads and units are silent, old ones do not hear what is new."""
    extra = fresh["icl_predictor.ln.weight"].numel() - weights["icl_predictor.ln.weight"].numel()
    grown: dict[str, Tensor] = {}
    for name, value in fresh.items():
        old = weights[name]
        if old.shape == value.shape:
            grown[name] = old
            continue
        new = value.clone()
        if name == "row_interactor.cls_tokens":
            # Near an old token from the start: a token the blocks have never met says little.
            nearby = old.repeat(len(new) // len(old) + 1, 1)[: len(new)]
            new = nearby + old.std() * new / new.std()
            new[-len(old) :] = old
        else:
            outputs = extra if any(part in name for part in (*_ADDS_TO_ROWS, *_SCALES_ROWS)) else 0
            inputs = extra if any(part in name for part in _READS_ROWS) else 0
            if any(part in name for part in (*_ADDS_TO_ROWS, "decoder.2.")):
                new.zero_()
            thirds = 3 if "in_proj" in name else 1  # queries, keys and values
            for mine, theirs in zip(new.chunk(thirds), old.chunk(thirds), strict=True):
                rows = slice(outputs, outputs + len(theirs))
                if theirs.ndim == 1:
                    mine[rows] = theirs
                    continue
                mine[rows] = 0.0
                mine[rows, inputs : inputs + theirs.shape[1]] = theirs
        grown[name] = new
    return grown
