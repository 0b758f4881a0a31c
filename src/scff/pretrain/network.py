"""The backbone under training, its loss, and its file format."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scff.atomic import write_atomically
from scff.pretrain.config import ModelConfig
from scff.pretrain.tables import MAX_CLASSES, UNSEEN, TableBatch


def build(config: ModelConfig, seed: int) -> nn.Module:
    """Build the network with weights that depend on the seed alone.

    Parameters
    ----------
    config : ModelConfig
        Layout.
    seed : int
        Seed of the initial weights.

    Returns
    -------
    Module
        A TabICL network in training mode.
    """
    from tabicl._model.tabicl import TabICL

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: nn.Module = TabICL(**dataclasses.asdict(config))
    return model.train()


def load(path: Path) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Read a checkpoint in TabICL's format.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    config : ModelConfig
        Layout.
    state_dict : dict
        Weights.
    """
    stored = torch.load(path, map_location="cpu", weights_only=True)
    return ModelConfig(**stored["config"]), stored["state_dict"]


def deepen(layout: ModelConfig, weights: dict[str, Tensor], deeper: ModelConfig, seed: int) -> dict[str, Tensor]:
    """Give trained weights more row and context blocks, which at first change nothing.

    New blocks stand before the last one of their stack and add zero to what passes through them.

    Parameters
    ----------
    layout, weights : ModelConfig, dict
        What was trained.
    deeper : ModelConfig
        The same layout but for ``row_num_blocks`` and ``icl_num_blocks``, each at least as large.
    seed : int
        Seed of the new blocks.

    Returns
    -------
    dict
        Weights of the deeper network, which computes what the trained one does.
    """
    stacks = {"row_num_blocks": "row_interactor.tf_row.blocks.", "icl_num_blocks": "icl_predictor.tf_icl.blocks."}
    depths = {stack: (getattr(layout, key), getattr(deeper, key)) for key, stack in stacks.items()}
    same = dataclasses.replace(layout, **{key: getattr(deeper, key) for key in stacks})
    if same != deeper or any(new < old for old, new in depths.values()):
        raise ValueError("the checkpoint to begin from has another layout than the recipe, not only fewer blocks")
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


def save(path: Path, config: ModelConfig, state_dict: dict[str, Tensor]) -> None:
    """Write a checkpoint in TabICL's format, atomically.

    Parameters
    ----------
    path : Path
        The file.
    config : ModelConfig
        Layout.
    state_dict : dict
        Weights.
    """
    write(path, {"config": dataclasses.asdict(config), "state_dict": state_dict})


def write(path: Path, content: dict[str, Any]) -> None:
    """Save tensors so that a kill leaves the old file or the new one, never half of one.

    Parameters
    ----------
    path : Path
        The file.
    content : dict
        What ``torch.save`` takes.
    """

    def fill(temporary: Path) -> None:
        # An open file, not its path: torch would write the temporary name into the archive, and so into its hash.
        with temporary.open("wb") as file:
            torch.save(content, file)

    write_atomically(path, fill)


def query_logits(model: nn.Module, batch: TableBatch) -> Tensor:
    """Run the network and silence the classes a table does not have.

    Parameters
    ----------
    model : Module
        The network, in training mode.
    batch : TableBatch
        Tables.

    Returns
    -------
    Tensor
        Logits of the query rows, ``(B, Q, MAX_CLASSES)``.
    """
    logits: Tensor = model(batch.x_BTD, batch.y_support_BN.float())
    absent = torch.arange(MAX_CLASSES) >= batch.n_classes_B[:, None, None]
    return logits[..., :MAX_CLASSES].masked_fill(absent, -1e4)


def cross_entropy(logits_BQK: Tensor, batch: TableBatch) -> Tensor:
    """Mean loss over the query rows that can be predicted.

    Parameters
    ----------
    logits_BQK : Tensor
        Logits of the query rows.
    batch : TableBatch
        Tables.

    Returns
    -------
    Tensor
        A scalar.
    """
    return F.cross_entropy(logits_BQK.flatten(0, 1), batch.y_query_BQ.flatten(), ignore_index=UNSEEN)


def baseline(batch: TableBatch) -> float:
    """Loss of one who knows the class frequencies of the support and nothing else.

    Parameters
    ----------
    batch : TableBatch
        Tables.

    Returns
    -------
    float
        The loss a network must beat to have learned anything from the columns.
    """
    counts = F.one_hot(batch.y_support_BN, MAX_CLASSES).sum(1).float()
    log_prior = torch.log(counts / counts.sum(1, keepdim=True) + 1e-9)
    return float(cross_entropy(log_prior[:, None].expand(-1, batch.y_query_BQ.shape[1], -1), batch))
