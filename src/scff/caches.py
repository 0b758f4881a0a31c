"""Where support caches live between `fit` and `predict`: in memory while they are small, then in a temporary file.

A leaf's cache can be far larger than the leaf: full-size TabICL keeps 0.4 MB a column. Past the limit each cache is
written to a private temporary directory and read back one at a time, so their sum never counts against memory.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from safetensors.torch import load_file, save_file

from scff.backbones.base import LeafCache

__all__ = ["MEMORY_BYTES", "CacheMode", "CacheStore"]

CacheMode = bool | Literal["disk"]

MEMORY_BYTES = 256 << 20


class CacheStore:
    """Keeps leaf caches.

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
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._kept: dict[int, tuple[LeafCache, Path | None]] = {}
        self._next = 0

    def put(self, cache: LeafCache) -> int:
        """Take a cache over; returns the key to get it back."""
        key, self._next = self._next, self._next + 1
        path = None
        if cache.nbytes > self._room:
            if self._directory is None:
                self._directory = tempfile.TemporaryDirectory(prefix="scff-")
            path = Path(self._directory.name) / f"{key}.safetensors"
            save_file({name: tensor.contiguous() for name, tensor in cache.tensors.items()}, path)
            cache = LeafCache({}, (cache.state, next(iter(cache.tensors.values())).device))
        else:
            self._room -= cache.nbytes
        self._kept[key] = (cache, path)
        return key

    def get(self, key: int) -> LeafCache:
        """Give a cache back, from disk if it went there."""
        cache, path = self._kept[key]
        if path is None:
            return cache
        state, device = cache.state
        return LeafCache(load_file(path, device=str(device)), state)

    def drop(self, key: int) -> None:
        """Forget a cache and free its room."""
        cache, path = self._kept.pop(key)
        self._room += cache.nbytes
        if path is not None:
            path.unlink(missing_ok=True)
