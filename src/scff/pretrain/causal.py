"""Synthetic tables of cause and effect, drawn a whole batch at once.

Values spread through layers of a random network with noise of its own in every node. Columns and label are nodes of it:
some columns are causes of the label, some its effects, some neither. The label cuts its node into ranges, and a class
may own several of them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from scff.pretrain.draws import Draw, class_counts, class_logits
from scff.pretrain.synthetic import marginals
from scff.pretrain.table_batch import MAX_CLASSES

__all__ = ["causal_tasks"]


def causal_tasks(draw: Draw, n_tables: int, n_rows: int, n_columns: int) -> tuple[Tensor, Tensor]:
    """Draw tables whose columns and label are nodes of one random network. A `Family`."""
    b, t, d = n_tables, n_rows, n_columns
    n_layers = draw.integer(2, 4)
    width = max(6, math.ceil((d + 2) / n_layers * float(draw.uniform(1.0, 1.6, 1))))
    h = draw.normal(b, t, draw.integer(2, 12))
    nodes = []
    for _ in range(n_layers):
        n_in = h.shape[2]
        kept = torch.rand(b, n_in, width, generator=draw.generator) < draw.log_uniform(1.5 / n_in, 1.0, b, 1, 1)
        h = _bent(draw, h @ (draw.normal(b, n_in, width) * kept) + 0.5 * draw.normal(b, 1, width))
        h = h / (h.std(1, keepdim=True) + 1e-3)
        h = h + draw.normal(b, t, width) * draw.log_uniform(0.01, 0.6, b, 1, 1) * draw.uniform(0.2, 1.0, b, 1, width)
        nodes.append(h)
    x = torch.cat(nodes, 2)
    order = torch.randperm(x.shape[2], generator=draw.generator)
    y = _label(draw, x[..., order[0]])
    x = x[..., order[1 : d + 1]]
    return torch.where(draw.flag(0.4, b, 1, 1), marginals(draw, x), x), y


def _bent(draw: Draw, h: Tensor) -> Tensor:
    """One bend for every table, or none."""
    kind = torch.rand(len(h), 1, 1, generator=draw.generator)
    out = torch.where(kind < 0.35, torch.tanh(h), h)
    out = torch.where((kind >= 0.35) & (kind < 0.6), torch.relu(h), out)
    out = torch.where((kind >= 0.6) & (kind < 0.7), torch.sin(1.5 * h), out)
    out = torch.where((kind >= 0.7) & (kind < 0.8), h.abs(), out)
    return torch.where((kind >= 0.8) & (kind < 0.87), (h > 0).float(), out)


def _label(draw: Draw, node_BT: Tensor) -> Tensor:
    """Ranges of a node, each owned by a class."""
    b, t = node_BT.shape
    n_classes_B = class_counts(draw, b, MAX_CLASSES)
    rank_BT = node_BT.argsort(1).argsort(1).float() / t
    n_ranges_B1 = n_classes_B[:, None] * (1 + draw.flag(0.25, b, 1).long())
    uneven = draw.uniform(0.7, 1.4, b, 1)
    piece_BT = (rank_BT**uneven * n_ranges_B1).long().clamp_max(2 * MAX_CLASSES - 1)
    weight_BK = class_logits(draw, n_classes_B)
    owner_B2K = (weight_BK[:, None] + draw.gumbel(b, 2 * MAX_CLASSES, MAX_CLASSES)).argmax(-1)
    # The first ranges go round the classes, so that each owns one.
    turn = torch.arange(2 * MAX_CLASSES)[None] % n_classes_B[:, None]
    owner_B2K = torch.where(torch.arange(2 * MAX_CLASSES)[None] < n_classes_B[:, None], turn, owner_B2K)
    return owner_B2K.gather(1, piece_BT)
