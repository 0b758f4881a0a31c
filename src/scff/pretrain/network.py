"""The backbone under training, its loss, and its file format."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scff.errors import PretrainError
from scff.pretrain.config import ModelConfig
from scff.pretrain.table_batch import MAX_CLASSES, UNSEEN, TableBatch
from scff.tables.atomic import write_atomically


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

    Raises
    ------
    PretrainError
        If there is no such network.
    """
    from tabicl._model.tabicl import TabICL

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            model: nn.Module = TabICL(**dataclasses.asdict(config))
        except (TypeError, ValueError, AssertionError, RuntimeError, ZeroDivisionError) as error:
            raise PretrainError(f"No network can be built with this layout: {error}.") from error
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

    Raises
    ------
    PretrainError
        If there is no such file, or it holds something else.
    """
    if not path.is_file():
        raise PretrainError(f"There is no checkpoint at {path}.")
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
        return ModelConfig(**stored["config"]), {name: value.float() for name, value in stored["state_dict"].items()}
    except (RuntimeError, EOFError, UnpicklingError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].split(". ")[0][:160]
        raise PretrainError(f"{path} is no checkpoint of a network that is trained here ({reason}).") from error


def save(path: Path, config: ModelConfig, state_dict: dict[str, Tensor], *, half: bool = False) -> None:
    """Write a checkpoint in TabICL's format, atomically.

    Parameters
    ----------
    path : Path
        The file.
    config : ModelConfig
        Layout.
    state_dict : dict
        Weights.
    half : bool
        Store matrices in half precision: half the size, and networks read them as float32 again. Vectors (norms,
        biases, the frequencies of positions) stay as they are.
    """
    if half:
        state_dict = {name: value.half() if value.ndim > 1 else value for name, value in state_dict.items()}
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
    return silence_absent(logits[..., :MAX_CLASSES], batch)


def silence_absent(logits_BQK: Tensor, batch: TableBatch) -> Tensor:
    """Logits without the classes that a table's support does not hold."""
    absent = torch.arange(logits_BQK.shape[-1]) >= batch.n_classes_B[:, None, None]
    return logits_BQK.masked_fill(absent, -1e4)


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
