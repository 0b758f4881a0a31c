"""What TabICL is told about the support rows, and how its output is read: classes or numbers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from sklearn.preprocessing import StandardScaler
from tabicl._model.tabicl import TabICL

from scff.backbones.base import IntArray

__all__ = ["Classes", "Numbers", "Target"]


class Target(Protocol):
    """What the model is told about the support rows, and how its output is read."""

    n_classes: int
    y_1S: torch.Tensor

    def decode(self, model: TabICL, out_QK: torch.Tensor) -> torch.Tensor:
        """The model's output in the user's terms."""
        ...


class Classes:
    """Class codes, told to the model in an order of its own and brought back into the user's."""

    def __init__(self, y: IntArray, order: IntArray) -> None:
        self.n_classes = len(order)
        self.y_1S = torch.from_numpy(order[y]).float()[None]
        self._order = torch.from_numpy(order)

    def decode(self, model: TabICL, out_QK: torch.Tensor) -> torch.Tensor:
        """Logits in the order of the class codes."""
        return out_QK[:, self._order.to(out_QK.device)]


class Numbers:
    """A target scaled as TabICL scales it, in single precision, and brought back into its own units."""

    n_classes = 1

    def __init__(self, y: npt.NDArray[np.float64]) -> None:
        scaler = StandardScaler()
        scaled = scaler.fit_transform(y.astype(np.float32)[:, None])[:, 0]
        self.y_1S = torch.from_numpy(scaled).float()[None]
        self._mean, self._scale = float(scaler.mean_[0]), float(scaler.scale_[0])

    def decode(self, model: TabICL, out_QK: torch.Tensor) -> torch.Tensor:
        """Mean of the predicted quantiles, predictions_Q1."""
        mean_Q: torch.Tensor = model.quantile_dist(out_QK.float()[None]).quantiles[0].mean(dim=-1)
        return mean_Q[:, None] * self._scale + self._mean
