"""What is different on an accelerator: how much memory is free, how many leaves fit into it, how rows get there."""

from __future__ import annotations

import torch

from scff.errors import DataError

__all__ = ["free_bytes", "leaves_that_fit", "resolve_device", "to_device"]

_MOST_LEAVES = 64


def resolve_device(name: str) -> torch.device:
    """The device behind a name; ``"auto"`` is CUDA where there is one, otherwise the CPU.

    Raises
    ------
    DataError
        If this machine, or this build of torch, has no such device.

    Examples
    --------
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise DataError(f'device={name!r} names no device; use "auto", "cpu" or "cuda".') from error
    if device.type == "cpu":
        return device
    # The meta device holds shapes and no numbers; of any other kind a single number says whether it is there.
    try:
        if device.type == "meta":
            raise RuntimeError
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError, AttributeError) as error:
        raise DataError(f'There is no device {name!r} here that torch can use; use device="auto" or "cpu".') from error
    return device


def free_bytes(device: torch.device) -> int | None:
    """Memory an accelerator has left for this process; None where that cannot be asked."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What torch holds without using it is as good as free.
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
    return None


def leaves_that_fit(free: int | None, leaf_bytes: int) -> int:
    """How many leaves to encode in one call.

    Parameters
    ----------
    free : int or None
        Bytes left on the device; None gives a modest batch.
    leaf_bytes : int
        What one leaf takes at its peak. Half of the memory is left alone: estimates err, and queries come later.

    Examples
    --------
    >>> leaves_that_fit(8 << 30, 200 << 20)
    20
    >>> leaves_that_fit(100 << 20, 200 << 20)
    1
    """
    if free is None:
        return 8
    return max(1, min(_MOST_LEAVES, free // 2 // max(1, leaf_bytes)))


def to_device(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """Copy to the device; to a CUDA device through pinned memory, so that the copy runs beside the computation."""
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
