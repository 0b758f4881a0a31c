"""Where support caches live between `fit` and `predict`: in memory while they are small, then in a temporary file.

A leaf's cache can be far larger than the leaf: full-size TabICL keeps 0.4 MB a column. Past the limit each cache is
written to a private temporary directory and read back one at a time, so their sum never counts against memory. Such a
file is a convenience: where it is gone, the leaf is encoded again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from scff.backbones.base import LeafCache
from scff.memory.pages import return_freed
from scff.memory.scratch import Scratch

__all__ = ["MEMORY_BYTES", "CacheMode", "CacheStore"]

logger = logging.getLogger(__name__)

CacheMode = bool | Literal["disk"]

MEMORY_BYTES = 16 << 20


class CacheStore:
    """Keeps leaf caches.

    A process that was forked reads its parent's files and removes none of them; what it puts goes into its own.

    Parameters
    ----------
    mode : bool or "disk"
        True keeps up to ``memory_bytes`` in memory and the rest on disk, "disk" everything on disk, False nothing
        but the fitted preprocessing.
    memory_bytes : int
        Most bytes of caches in memory.
    """

    def __init__(self, mode: CacheMode = True, memory_bytes: int = MEMORY_BYTES) -> None:
        self._room = memory_bytes if mode is True else 0
        self._scratch: list[Scratch] = []
        self._kept: dict[int, LeafCache | _Spilled] = {}
        self._lent: set[int] = set()
        self._next = 0
        self._lock = threading.Lock()

    def put(self, cache: LeafCache) -> int:
        """Take a cache over; returns the key to get it back. Several threads may do so at once."""
        with self._lock:
            key, self._next = self._next, self._next + 1
        self._put(key, cache)
        return key

    def lend(self, cache: LeafCache) -> int:
        """Take a cache that lies in a file already, or in somebody else's memory: it is used where it is."""
        with self._lock:
            key, self._next = self._next, self._next + 1
            self._lent.add(key)
            self._kept[key] = cache
        return key

    def get(self, key: int, anew: Callable[[], LeafCache]) -> LeafCache:
        """Give a cache back, from disk if it went there; made anew where the file is gone."""
        kept = self._kept[key]
        if isinstance(kept, LeafCache):
            return kept
        try:
            return kept.read()
        except (OSError, ValueError) as error:
            logger.info("a cache on disk is gone (%s): its leaf is encoded again", error)
        cache = anew()
        self._put(key, cache)
        return cache

    def drop(self, key: int) -> None:
        """Forget a cache and free its room."""
        kept = self._kept.pop(key)
        if key in self._lent:
            self._lent.remove(key)
        elif isinstance(kept, LeafCache):
            self._room += kept.nbytes
        elif kept.scratch.is_mine:
            kept.path.unlink(missing_ok=True)

    def _put(self, key: int, cache: LeafCache) -> None:
        with self._lock:
            spill = cache.nbytes > self._room
            if not spill:
                self._room -= cache.nbytes
            elif not self._scratch or not self._scratch[-1].is_mine or not self._scratch[-1].path.is_dir():
                self._scratch.append(Scratch())
        if spill:
            self._kept[key] = _Spilled.write(cache, self._scratch[-1], str(key))
            return_freed()  # a cache that size comes from a model whose activations leave holes that size
        else:
            self._kept[key] = cache


@dataclass(frozen=True)
class _Spilled:
    """A cache whose tensors lie in a file, one after the other.

    Written straight from the tensors' memory: a serialiser that first gathers them would double the peak.
    """

    scratch: Scratch
    path: Path
    shapes: dict[str, tuple[torch.Size, torch.dtype, torch.device]]
    state: Any

    @classmethod
    def write(cls, cache: LeafCache, scratch: Scratch, name: str) -> _Spilled:
        path = scratch.path / name
        with path.open("wb") as file:
            for tensor in cache.tensors.values():
                tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tofile(file)
        shapes = {name: (t.shape, t.dtype, t.device) for name, t in cache.tensors.items()}
        return cls(scratch, path, shapes, cache.state)

    def read(self) -> LeafCache:
        # Mapped, not copied: pages come in as they are used, and go with the tensors. Copy on write keeps the file as
        # it is whatever is done to them.
        pages = np.memmap(self.path, dtype=np.uint8, mode="c")
        tensors, start = {}, 0
        if len(pages) != sum(shape.numel() * dtype.itemsize for shape, dtype, _ in self.shapes.values()):
            raise ValueError("cut off")
        for name, (shape, dtype, device) in self.shapes.items():
            stop = start + shape.numel() * dtype.itemsize
            tensors[name] = torch.from_numpy(pages[start:stop]).view(dtype).view(shape).to(device)
            start = stop
        return LeafCache(tensors, self.state)
