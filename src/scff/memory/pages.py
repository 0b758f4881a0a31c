"""Large tensors on pages of their own, and freed heap given back."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap

import torch

__all__ = ["own_pages", "return_freed"]

# Below this the heap is faster, and its holes are small.
_PAGES_FROM = 1 << 20
# From here on the system is asked for large pages, where it has them: a fault for every 4 KiB takes longer than what is
# written there.
_LARGE_FROM = 4 << 20


def own_pages(*shape: int) -> torch.Tensor:
    """An uninitialised float32 tensor on pages of its own, which go back to the system with it.

    A leaf's embedding and cache are tens of megabytes, made and freed for every leaf between thousands of small
    activations. On the heap they leave holes that the next leaf does not fit into, and the process grows.

    Examples
    --------
    >>> own_pages(2, 3).shape
    torch.Size([2, 3])
    """
    count = math.prod(shape)
    if 4 * count < _PAGES_FROM:
        return torch.empty(shape)
    # Python's own default are pages to be shared with children, which are slower still; Windows knows no difference.
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    pages = mmap.mmap(-1, 4 * count, **private)
    if 4 * count >= _LARGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=torch.float32).view(shape)


def return_freed() -> None:
    """Give freed heap back to the system: holes do not add up, and a block that reuses them is not measured as free."""
    with contextlib.suppress(OSError, AttributeError):  # a C library other than glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
