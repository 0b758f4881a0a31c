"""Large products of a packed encoder, by the faster of the two libraries that torch carries.

torch multiplies single precision with MKL, which stays with AVX2 on processors that are not Intel's. oneDNN, which is
built into torch too, takes AVX-512 wherever the processor has it, and there a large product takes less than half the
time (``benchmarks/roofline.py`` measures both). Both compute in single precision; the results differ by rounding.

Shape legend: ``M`` tokens of all, ``K`` inner numbers, ``N`` outputs.
"""

from __future__ import annotations

from functools import cache

import torch

__all__ = ["is_worth_it", "linear"]

# Multiplications from which on the faster product makes up for the dearer call.
_LEAST = 1 << 20


@cache
def _has_onednn() -> bool:
    """Whether oneDNN is faster here and computes what is asked of it."""
    built = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not built or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    x_MK, weight_NK, bias_N = torch.linspace(-1, 1, 48).view(6, 8), torch.linspace(1, -1, 32).view(4, 8), torch.ones(4)
    try:  # an operator that torch keeps for its compiler: another release may have another
        close = torch.allclose(linear(x_MK, weight_NK, bias_N), x_MK @ weight_NK.T + bias_N, atol=1e-5)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return close


def is_worth_it(x_MK: torch.Tensor, n_outputs: int) -> bool:
    """Whether `linear` is the faster way to multiply tokens by a weight of so many outputs."""
    return x_MK.numel() * n_outputs >= _LEAST and _has_onednn()


def linear(
    x_MK: torch.Tensor, weight_NK: torch.Tensor, bias_N: torch.Tensor | None = None, gelu: bool = False
) -> torch.Tensor:
    """A linear layer, and the exact GELU behind it where that is wanted, in a tensor of its own."""
    layer = torch.ops.mkldnn._linear_pointwise.default
    out: torch.Tensor = layer(x_MK, weight_NK, bias_N, *(("gelu", [], "none") if gelu else ("none", [], "")))
    return out
