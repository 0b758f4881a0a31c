"""Large products of a packed encoder, by the faster of the two libraries that torch carries.

torch multiplies single precision with MKL, which stays with AVX2 on processors that are not Intel's. oneDNN, which is
built into torch too, takes AVX-512 wherever the processor has it, and there a large product takes less than half the
time (``benchmarks/roofline.py`` measures both). Both compute in single precision; the results differ by rounding.

Shape legend: ``M`` tokens of all, ``K`` inner numbers, ``N`` outputs.
"""

from __future__ import annotations

from functools import cache

import torch

__all__ = ["is_worth_it", "linear", "spare"]

# Tokens below which the faster product does not make up for the dearer call.
_LEAST = 1024

# For every number of tokens oneDNN makes code of its own, which takes half a millisecond and half a megabyte and stays:
# so it is asked for multiples of this, and what it says of the tokens behind the last one nobody reads.
_STEP = 512


@cache
def _has_onednn() -> bool:
    """Whether oneDNN is faster here and computes what is asked of it."""
    built = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not built or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    x_MK, weight_NK = torch.linspace(-1, 1, 8 * _STEP).view(-1, 8), torch.linspace(1, -1, 32).view(4, 8)
    try:  # an operator that torch keeps for its compiler: another release may have another
        close = torch.allclose(linear(x_MK, weight_NK), x_MK @ weight_NK.T, atol=1e-5)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return close


def spare(n: int) -> int:
    """Rows that a tensor of so many tokens has behind them, for `linear`."""
    return -n % _STEP


def is_worth_it(x_MK: torch.Tensor) -> bool:
    """Whether `linear` is the faster way to multiply tokens, and possible: with enough room behind the last."""
    if x_MK.ndim != 2 or len(x_MK) < _LEAST or not x_MK.is_contiguous() or not _has_onednn():
        return False
    wanted = x_MK.storage_offset() + (len(x_MK) + spare(len(x_MK))) * x_MK.shape[1]
    return x_MK.untyped_storage().nbytes() >= wanted * x_MK.element_size()


def linear(x_MK: torch.Tensor, weight_NK: torch.Tensor, gelu: bool = False) -> torch.Tensor:
    """A product, and the exact GELU of it where that is wanted, in a tensor of its own with `spare` rows."""
    n, size = x_MK.shape
    wide = x_MK.as_strided((n + spare(n), size), (size, 1))
    layer = torch.ops.mkldnn._linear_pointwise.default
    out: torch.Tensor = layer(wide, weight_NK, None, *(("gelu", [], "none") if gelu else ("none", [], "")))
    return out[:n]
