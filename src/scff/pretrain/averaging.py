"""Average the weights of checkpoints of one line: a run, its continuation, and so on.

Checkpoints that descend from each other lie in one basin, and their mean is often better than each of them on tables
that chose none of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from scff.backbones.weights.checkpoints import sha256
from scff.errors import PretrainError
from scff.pretrain import network
from scff.pretrain.card import write_card
from scff.pretrain.validation import validate

__all__ = ["average"]


def average(
    checkpoints: Sequence[Path],
    out: Path,
    temperature: float = 0.9,
    half: bool = False,
    components: int | None = None,
) -> Path:
    """Write the mean of several checkpoints, validated, with a card that holds theirs.

    Parameters
    ----------
    checkpoints : sequence of Path
        Files of one layout, oldest first; each with its card beside it.
    out : Path
        The file to write.
    temperature : float
        Divides the logits in the validation.
    half : bool
        Store matrices in half precision.
    components : int or None
        Most principal components the checkpoint is to ask for behind the columns of a leaf; as many as the newest was
        trained with when None.

    Returns
    -------
    Path
        ``out``; the card lies beside it.
    """
    if not checkpoints:
        raise PretrainError("Name at least one checkpoint.")
    loaded = [network.load(path) for path in checkpoints]
    layout = loaded[0][0]
    if any(other != layout for other, _ in loaded):
        raise PretrainError("Only checkpoints of the same layout can be averaged.")
    cards: list[dict[str, Any]] = []
    for path in checkpoints:
        card = path.with_suffix(".json")
        if not card.exists():
            raise PretrainError(f"{path} has no card beside it; a run writes one as {card.name}.")
        cards.append(json.loads(card.read_text()))
        if cards[-1]["sha256"] != sha256(path):
            raise PretrainError(f"The card beside {path} is another checkpoint's.")
    weights = {
        name: torch.stack([state[name] for _, state in loaded]).mean(0) if value.is_floating_point() else value
        for name, value in loaded[-1][1].items()
    }
    newest = cards[-1]
    trained_with = int(newest["recipe"].get("components") or 0)
    components = trained_with if components is None else components
    made_by = "the weights of one checkpoint"
    if len(cards) > 1:
        made_by = f"the mean of the weights of {len(cards)} checkpoints, oldest first"
    if components != trained_with:
        made_by += f"; reads up to {components} principal components behind a leaf, trained with {trained_with}"
    network.save(out, layout, weights, half=half, components=components)
    weights = network.load(out)[1]  # as they will be read
    write_card(
        out,
        {
            "made_by": made_by,
            "average_of": [{"sha256": card["sha256"], "steps": card.get("steps")} for card in cards],
            "view": {"components": components},
            "recipe": newest["recipe"],
            "steps": newest["steps"],
            "tables_seen": newest["tables_seen"],
            "cpu_hours": newest["cpu_hours"],
            "best": validate(network.build(layout, 0), weights, temperature, components).to_dict(),
            "origin": newest,
        },
    )
    return out
