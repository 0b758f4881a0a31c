"""Arms that only their predictions are asked of share what they have in common.

The controls of the Tail differ in what passes its gate. Where nothing does, each of them reads the same Core, and the
attention over its rows, nearly all of their arithmetic, would give the same numbers again. Here a layer stack is asked
once for one input and remembered. Time and memory of such an arm say nothing, and its record says that they are shared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from scff.backbones.tabpfn.v1_net import TabPFNv1Net

__all__ = ["remembering"]


@contextmanager
def remembering(backbone: Any) -> Iterator[None]:
    """Within, TabPFN v1's layer stack computes one input once; other backbones are left as they are."""
    net = getattr(backbone, "model", None)
    if not isinstance(net, TabPFNv1Net):
        yield
        return
    memory = _Memory(net)
    net.support_states, net.predict = memory.support_states, memory.predict  # type: ignore[method-assign]
    try:
        yield
    finally:
        del net.support_states, net.predict


class _Memory:
    """The two functions of a network that cost, by the bytes of what goes in."""

    def __init__(self, net: TabPFNv1Net) -> None:
        self._support_states, self._predict = net.support_states, net.predict
        self._states: dict[bytes, torch.Tensor] = {}
        self._logits: dict[bytes, torch.Tensor] = {}

    def support_states(self, h_SE: torch.Tensor, y_S: torch.Tensor) -> torch.Tensor:
        key = _digest(h_SE, y_S)
        if key not in self._states:
            self._states[key] = self._support_states(h_SE, y_S)
        return self._states[key].clone()  # whoever gets it may do with it what it likes

    def predict(self, states_LSE: torch.Tensor, h_QE: torch.Tensor) -> torch.Tensor:
        key = _digest(states_LSE, h_QE)
        if key not in self._logits:
            self._logits[key] = self._predict(states_LSE, h_QE)
        return self._logits[key].clone()


def _digest(*tensors: torch.Tensor) -> bytes:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype} {tensor.stride()}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.digest()
