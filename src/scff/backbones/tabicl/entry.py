"""Tokens as the column embedding begins with them: a few numbers each, however wide the embedding is.

A token of the first layer is a linear layer of a cell and its neighbours, plus what stands for the row's label. All
tokens lie in a space of as many directions as there are numbers and labels: half a dozen instead of 48 or 128. In an
orthonormal basis of that space lengths, scores and means are what they are in the embedding, for a tenth of the
arithmetic.

Shape legend: ``R`` columns in a block, ``T`` rows, ``g`` numbers a token is made of, ``L`` numbers that stand for a
label, ``K`` directions, ``E`` embedding width; a letter with ``1`` behind it is one wider, for the ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from scff.backbones.tabicl.blocks import centred
from scff.backbones.tabicl.room import Room

__all__ = ["Entry"]


@dataclass(frozen=True, eq=False)
class Entry:
    """What makes tokens of numbers, for rows whose labels are known or for rows without."""

    y_1T: torch.Tensor | None
    label_LT: torch.Tensor
    turn_KG: torch.Tensor  # numbers and labels to directions
    embedding_KE: torch.Tensor  # directions to tokens, but for their mean
    told_KE: torch.Tensor  # directions and a one to what `normed` makes of tokens

    @classmethod
    def of(cls, layer: Any, labels: Any, classes: int, y_1T: torch.Tensor | None) -> Entry:
        """Those of TabICL's own layers; without ``labels`` or ``y`` all rows are alike.

        Parameters
        ----------
        layer : Linear
        labels : Module or None
            What makes a token of a label.
        classes : int
            How many there are, nought for numbers.
        y_1T : Tensor or None
        """
        weight, bias = centred(layer.weight, layer.bias)
        if labels is None or y_1T is None:
            label_LT, label_LE = torch.ones(1, 1), torch.zeros(1, len(bias))
        elif classes:
            known, code = torch.unique(y_1T[0], return_inverse=True)
            label_LT = (code == torch.arange(len(known))[:, None]).float()
            label_LE = labels(known[None].float())[0]
        else:  # a linear layer: what nought is, and what one is more
            label_LT = torch.cat([torch.ones_like(y_1T), y_1T])
            label_LE = labels(torch.tensor([[0.0], [1.0]]))
            label_LE = torch.stack([label_LE[0], label_LE[1] - label_LE[0]])
        label_LE = label_LE - label_LE.mean(dim=-1, keepdim=True)
        # The bias goes with whatever is one in every row: each of the classes, or the ones.
        label_LE[: 1 if label_LT.shape[1] == 1 or not classes else None] += bias
        basis_EK, turn_KG = torch.linalg.qr(torch.cat([weight.T, label_LE]).T.double())
        embedding_KE = basis_EK.T.float()
        told_KE = torch.zeros(len(embedding_KE) + 1, embedding_KE.shape[1])
        told_KE[:-1, :-1] = embedding_KE[:, :-1]
        told_KE[-1, -1] = 1.0
        return cls(y_1T, label_LT, turn_KG.float(), embedding_KE, told_KE)

    def __call__(self, features_RTg: torch.Tensor, room: Room) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens along the directions, and tokens_RTE but for their mean."""
        n, n_rows, group = features_RTg.shape
        given = room.empty("given", n, self.turn_KG.shape[1], n_rows)
        given[:, :group] = features_RTg.transpose(1, 2)
        given[:, group:] = self.label_LT
        along = room.empty("along", n, len(self.turn_KG), n_rows)
        torch.bmm(self.turn_KG.expand(n, -1, -1), given, out=along)
        x = room.empty("embedded", n, n_rows, self.embedding_KE.shape[1])
        torch.bmm(along.transpose(1, 2), self.embedding_KE.expand(n, -1, -1), out=x)
        return along, x

    def normed(self, along_RKT: torch.Tensor, eps: float, room: Room) -> torch.Tensor:
        """Tokens along the directions, scaled to unit variance, and a one."""
        n, size, n_rows = along_RKT.shape
        out = room.empty("basis", n, size + 1, n_rows, fill=1.0)
        variance = torch.mul(along_RKT, along_RKT, out=out[:, :-1]).sum(dim=1, keepdim=True)
        variance /= self.embedding_KE.shape[1]
        torch.mul(along_RKT, variance.add_(eps).rsqrt_(), out=out[:, :-1])
        return out
