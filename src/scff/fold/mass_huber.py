"""The earlier merge of the paper's fixed-memory study: an all-feature, mass-weighted Huber average.

The paper names it and gives no formula. This is ours, and why:

- *mass*: a leaf weighs as much as the evidence in it, the sum of ``log(1 + F)`` over its columns. The logarithm keeps
  one very strong column from silencing every other leaf, and every weight stays positive, which the paper audits.
- *Huber*: for every row the leaf messages are averaged by Huber's estimator of location, a few reweighting steps from
  the weighted mean. A leaf whose message lies further than the threshold from the row's centre is drawn in. The
  threshold is 1.345 (95 % efficiency under normality) times the median distance over all support rows and leaves, so
  queries change nothing in it.

There is no Core, no Tail and no gate: every column speaks through its leaf. The estimator needs the messages of all
leaves of a row at once, so memory grows with the number of leaves, as the paper says of its own code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from scff.backbones.base import IntArray, LeafCache, RowView
from scff.fold.caches import CacheStore
from scff.gate.record import TailGate
from scff.plan.compile import deal
from scff.plan.plan import FoldPlan
from scff.tables.table import Table

__all__ = ["MassHuber"]

_THRESHOLD = 1.345
_STEPS = 5


class MassHuber:
    """A support compiled with the mass-weighted Huber merge."""

    gate: TailGate | None = None

    def __init__(self, view: RowView, plan: FoldPlan, store: CacheStore, query_chunk: int) -> None:
        self.view, self._store, self._query_chunk = view, store, query_chunk
        ranked = np.concatenate([plan.core, plan.tail])
        self._leaves: list[IntArray] = list(deal(ranked, plan.leaf_width))
        # log1p of a perfect separation is infinite; no finite F is larger than the largest float.
        evidence = np.log1p(np.minimum(plan.f, np.finfo(np.float64).max))
        mass = np.array([evidence[leaf].sum() for leaf in self._leaves]) + np.finfo(np.float32).eps
        self._mass = torch.from_numpy(mass / mass.sum()).float()
        messages, self._keys = [], []
        for leaf in self._leaves:
            message_1SE, cache = view.encode_support([leaf])
            messages.append(message_1SE[0])
            self._keys.append(store.put(cache))
        m_GSE = torch.stack(messages)
        self._mass = self._mass.to(m_GSE.device)
        centre = torch.einsum("g,gse->se", self._mass, m_GSE)
        self._delta = float(_THRESHOLD * (m_GSE - centre).norm(dim=2).median())
        self._context: Any = view.build_context(self._merge(m_GSE))

    def predict(self, rows: Table) -> torch.Tensor:
        """Logits_QK of query rows."""
        parts = []
        for part in rows.chunks(self._query_chunk):
            chunk = self.view.prepare(part)
            messages = [
                self.view.encode_query([leaf], self._cache(leaf, key), chunk)[0]
                for leaf, key in zip(self._leaves, self._keys, strict=True)
            ]
            parts.append(self._merge(torch.stack(messages)))
        return self.view.predict(self._context, torch.cat(parts))

    def _cache(self, leaf: IntArray, key: int) -> LeafCache:
        return self._store.get(key, lambda: self.view.encode_support([leaf])[1])

    def _merge(self, m_GTE: torch.Tensor) -> torch.Tensor:
        weights = self._mass[:, None].expand(-1, m_GTE.shape[1])
        for _ in range(_STEPS):
            centre = torch.einsum("gt,gte->te", weights / weights.sum(0), m_GTE)
            distance = (m_GTE - centre).norm(dim=2)
            pull = torch.where(distance <= self._delta, 1.0, self._delta / distance)
            weights = self._mass[:, None] * pull
        return torch.einsum("gt,gte->te", weights / weights.sum(0), m_GTE)
