"""Where leaves are encoded: the engine takes leaves and rows, and gives back mean messages.

Messages are summed as they come, in the order of the leaves: two representations are alive, not one per leaf. This
module has the engine of one process; `scff.fold.ray` has the one of a Ray cluster.

Shape legend: ``G`` leaves of a group, ``S`` support rows, ``Q`` query rows, ``E`` representation width.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch

from scff.backbones.base import IntArray, LeafCache, RowView
from scff.fold.caches import CacheStore
from scff.fold.threads import default_workers, in_order
from scff.progress import Steps
from scff.tables.table import Table

__all__ = ["Engine", "FoldOptions", "LocalEngine", "Queries", "Stratum", "add_messages", "equal_width"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FoldOptions:
    """How a fold is run; nothing here changes a prediction beyond float noise.

    Attributes
    ----------
    leaf_batch : int or None
        Leaves of equal width encoded in one call. Pays on accelerators, not on a CPU. None is as many as the device has
        room for, which is settled when the leaves are known.
    query_chunk : int
        Query rows encoded in one call.
    pass_rows : int
        Query rows taken through all leaves before the context sees them: each leaf's cache is fetched once a pass.
    audits : bool
        Encode the Tail even where the gate cannot let it in, as the paper literally does.
    progress : bool
        Show a progress bar.
    workers : int
        Groups of leaves encoded side by side, each in a thread of its own; for a CPU.
    device : torch.device
        Where the model is.
    """

    leaf_batch: int | None = 1
    query_chunk: int = 256
    pass_rows: int = 8192
    audits: bool = False
    progress: bool = False
    workers: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def on(
        cls,
        device: torch.device,
        leaf_batch: int | Literal["auto"],
        query_chunk: int | Literal["auto"],
        progress: bool,
    ) -> FoldOptions:
        """Fill in what the device suggests for every ``"auto"``."""
        accelerated = device.type != "cpu"
        return cls(
            leaf_batch=(None if accelerated else 1) if leaf_batch == "auto" else leaf_batch,
            query_chunk=(1024 if accelerated else 256) if query_chunk == "auto" else query_chunk,
            progress=progress,
            workers=1 if accelerated else default_workers(),
            device=device,
        )


class Stratum(Protocol):
    """The leaves of Core or Tail after their support was encoded.

    Attributes
    ----------
    mean_SE : Tensor
        Mean message of the support rows.
    """

    mean_SE: torch.Tensor

    def query(self, queries: Any) -> torch.Tensor:
        """Mean message_QE of query rows, as `Engine.queries` prepared them."""
        ...

    def drop(self) -> None:
        """Forget what was kept for queries."""
        ...


class Engine(Protocol):
    """Encodes leaves.

    Attributes
    ----------
    pass_rows : int
        Query rows taken through all leaves before the context sees them.
    audits : bool
        Whether to encode a Tail that cannot be let in.
    """

    pass_rows: int
    audits: bool

    def encode(self, view: RowView, leaves: Sequence[IntArray], label: str) -> Stratum:
        """Encode the support rows of all leaves of a stratum."""
        ...

    def queries(self, view: RowView, rows: Table) -> Any:
        """Prepare query rows once, for all leaves."""
        ...


class LocalEngine:
    """Encodes leaves in this process, some of them side by side."""

    def __init__(self, store: CacheStore, options: FoldOptions) -> None:
        self._store = store
        self._options = options
        self.pass_rows, self.audits = options.pass_rows, options.audits

    def encode(self, view: RowView, leaves: Sequence[IntArray], label: str) -> LocalStratum:
        """Encode the support rows of all leaves of a stratum."""
        store, options = self._store, self._options

        def encode(group: tuple[IntArray, ...]) -> tuple[torch.Tensor, int]:
            message_GSE, cache = view.encode_support(group)
            # Put away here: whoever holds the result would keep this cache alive beside the next one.
            return message_GSE, store.put(cache)

        total: torch.Tensor | None = None
        kept = []
        groups = self.groups(leaves)
        # The widest leaf is the first of a stratum.
        ordered = in_order(encode, groups, options.workers, first_alone=True)
        with ordered as results, Steps(label, len(groups), shown=options.progress) as steps:
            for group, (message_GSE, key) in zip(groups, results, strict=True):
                total = add_messages(total, message_GSE)
                kept.append((group, key))
                steps.done()
        assert total is not None
        return LocalStratum(store, options, kept, len(leaves), total / len(leaves))

    def groups(self, leaves: Sequence[IntArray]) -> list[tuple[IntArray, ...]]:
        """Leaves that are encoded together."""
        return list(equal_width(leaves, self._options.leaf_batch))

    def recall(self, leaves: Sequence[IntArray], caches: Sequence[LeafCache], mean_SE: torch.Tensor) -> LocalStratum:
        """A stratum whose leaves were encoded before: a cache for each group, and the mean message."""
        keys = [self._store.lend(cache) for cache in caches]
        kept = list(zip(self.groups(leaves), keys, strict=True))
        return LocalStratum(self._store, self._options, kept, len(leaves), mean_SE)

    def queries(self, view: RowView, rows: Table) -> Queries:
        """Prepare query rows in chunks."""
        return Queries(view, rows, self._options.query_chunk)


@dataclass
class LocalStratum:
    """Encoded leaves whose caches are in this process, or in its files."""

    _store: CacheStore
    _options: FoldOptions
    _kept: list[tuple[tuple[IntArray, ...], int]]
    _n_leaves: int
    mean_SE: torch.Tensor

    @property
    def leaves(self) -> list[IntArray]:
        """The leaves, in order."""
        return [leaf for group, _ in self._kept for leaf in group]

    def caches(self, view: RowView) -> Iterator[LeafCache]:
        """The cache of each group, one after the other."""
        return (self._cache(view, kept) for kept in self._kept)

    def _cache(self, view: RowView, kept: tuple[tuple[IntArray, ...], int]) -> LeafCache:
        leaves, key = kept
        return self._store.get(key, lambda: view.encode_support(leaves)[1])

    def query(self, queries: Queries) -> torch.Tensor:
        """Mean message_QE of query rows."""

        def encode(kept: tuple[tuple[IntArray, ...], int]) -> torch.Tensor:
            return queries.encode(kept[0], self._cache(queries.view, kept))

        total: torch.Tensor | None = None
        options = self._options
        leaves = Steps("leaves", len(self._kept), shown=options.progress)
        with in_order(encode, self._kept, options.workers) as results, leaves as steps:
            for message_GQE in results:
                total = add_messages(total, message_GQE)
                steps.done()
        assert total is not None
        return total / self._n_leaves

    def drop(self) -> None:
        """Free the caches."""
        for _, key in self._kept:
            self._store.drop(key)
        self._kept = []


class Queries:
    """Query rows in chunks, which are halved when an accelerator runs out of memory.

    Only these are: support rows are encoded together or not at all, and no row is ever left out.
    """

    def __init__(self, view: RowView, rows: Table, chunk: int) -> None:
        self.view, self._rows = view, rows
        self._cut(chunk)

    def encode(self, leaves: Sequence[IntArray], cache: LeafCache) -> torch.Tensor:
        """Messages_GQE of all rows."""
        while True:
            try:
                parts = [self.view.encode_query(leaves, cache, chunk) for chunk in self._chunks]
                return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
            except torch.cuda.OutOfMemoryError:  # the same class as torch.OutOfMemoryError, under its older name
                if self.chunk == 1:
                    raise
            logger.info("out of device memory: query rows go on in chunks of %d", self.chunk // 2)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            self._cut(self.chunk // 2)

    def _cut(self, chunk: int) -> None:
        self.chunk = min(chunk, self._rows.n_rows)
        self._chunks = [self.view.prepare(part) for part in self._rows.chunks(self.chunk)]


def equal_width(leaves: Sequence[IntArray], most: int | None) -> Iterator[tuple[IntArray, ...]]:
    """Neighbouring leaves of equal width, at most ``most`` together."""
    group: list[IntArray] = []
    for leaf in leaves:
        if group and (len(group) == (most or 1) or len(group[0]) != len(leaf)):
            yield tuple(group)
            group = []
        group.append(leaf)
    yield tuple(group)


def add_messages(total: torch.Tensor | None, message_GTE: torch.Tensor) -> torch.Tensor:
    """Add the messages of a group to a running sum, one at a time: the sum does not depend on the grouping."""
    for message in message_GTE:
        total = message.clone() if total is None else total.add_(message)
    assert total is not None
    return total
