"""Where the time of a leaf goes: the encoder beside the machine's own matrix products at the same shapes, in one run.

    python benchmarks/roofline.py                 # full-size TabICLv2 (random weights) and nano, one thread
    python benchmarks/roofline.py --rows 192 --columns 128 --repeats 7

The products that an encoded leaf makes are noted by shape; each shape is then multiplied alone, over and over, on
operands that lie as well as they can, by the faster of the two libraries that torch carries (MKL, and for a single
product oneDNN). The share of the encoder's CPU time that these products would take by
themselves is what is left to be gained from everything else: norms, exponentials, copies, calls. Where that rest is,
per operation, is torch's own profile of one leaf; products stand in it as they are among everything else, on operands
from the outer levels of the cache. The same leaf through TabICL's own layers, in the same blocks, stands beside it.
Rounds alternate, and each figure is the least of all rounds: on a shared machine only ratios within one run mean
anything.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from scff.backbones import load_backbone
from scff.backbones.tabicl.products import linear, spare
from scff.tables.table import Table
from width import build

Shape = tuple[int, int, int, int]

KINDS = {
    **dict.fromkeys(("mm", "addmm", "addmm_", "baddbmm", "baddbmm_", "bmm"), "products by MKL"),
    "mkldnn::_linear_pointwise": "products by oneDNN, GELU of some among them",
    **dict.fromkeys(("exp2_", "exp_", "exp"), "exponentials of scores"),
    **dict.fromkeys(("gelu_", "gelu"), "GELU"),
    **dict.fromkeys(
        ("mul", "linalg_vector_norm", "addcmul", "rsqrt_", "native_layer_norm"), "norms and shares of the softmax"
    ),
    **dict.fromkeys(("mul_",), "rotary positions and shares of few queries"),
    **dict.fromkeys(("reciprocal", "reciprocal_", "aminmax", "sum"), "sums of the softmax"),
    **dict.fromkeys(("add_",), "biases and labels added"),
    **dict.fromkeys(("copy_", "clone", "cat", "constant_pad_nd", "fill_"), "copies"),
}


class Products(TorchDispatchMode):
    """Notes the shape of every matrix product, as (batch, rows, inner, columns)."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: Counter[Shape] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note, then do."""
        name = func.overloadpacket.__name__
        if name in ("mm", "bmm"):
            self._note(args[0], args[1])
        elif name == "_linear_pointwise":
            self._note(args[0].flatten(0, -2), args[1].T)
        elif name in ("addmm", "addmm_", "baddbmm", "baddbmm_"):
            self._note(args[1], args[2])
        return func(*args, **(kwargs or {}))

    def _note(self, a: torch.Tensor, b: torch.Tensor) -> None:
        batch = a.shape[0] if a.ndim == 3 else 1
        self.shapes[batch, a.shape[-2], a.shape[-1], b.shape[-1]] += 1


def least(call: Callable[[], Any], repeats: int) -> float:
    """Least CPU seconds of a call."""
    call()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


def alone(shape: Shape, repeats: int) -> tuple[float, float]:
    """CPU seconds of one product of a shape, by itself: by MKL, and by oneDNN where it is one product."""
    batch, rows, inner, columns = shape
    a, b, out = (torch.randn(batch, *size) for size in ((rows, inner), (inner, columns), (rows, columns)))
    roomy, turned = torch.randn(rows + spare(rows), inner)[:rows], b[0].T.contiguous()
    times = max(1, int(2e7 / (batch * rows * inner * columns)))

    def mkl() -> None:
        for _ in range(times):
            torch.bmm(a, b, out=out)

    def onednn() -> None:
        for _ in range(times):
            linear(roomy, turned)

    single = batch == 1 and torch.backends.mkldnn.is_available()
    return least(mkl, repeats) / times, least(onednn, repeats) / times if single else float("inf")


def profiled(call: Callable[[], Any]) -> list[tuple[str, float]]:
    """Share of the time of a call that each kind of operation takes, the largest first."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        call()
    taken: Counter[str] = Counter()
    for event in found.key_averages():
        taken[KINDS.get(event.key.removeprefix("aten::"), "the rest: views, small tensors, calls")] += (
            event.self_cpu_time_total
        )
    return [(kind, time / taken.total()) for kind, time in taken.most_common()]


def measure(name: str, path: str | Path, n_rows: int, n_columns: int, repeats: int) -> None:
    """Print what a leaf costs."""
    backbone = load_backbone(path, torch.device("cpu"))
    X = np.random.default_rng(0).standard_normal((n_rows, n_columns), dtype=np.float32)
    views = backbone.views(Table(X), np.arange(n_rows) % 2, n_estimators=1, cache=True, random_state=0)
    ours, theirs = (views.view(0)._encoder for _ in range(2))  # type: ignore[union-attr]
    theirs._kernels = None
    x = torch.from_numpy(X)[None]
    with torch.no_grad():
        difference = float((ours.support(x)[0] - theirs.support(x)[0]).abs().max())
        with Products() as products:
            ours.support(x)
        encoder = upstream = float("inf")
        by_mkl = dict.fromkeys(products.shapes, float("inf"))
        by_onednn = dict(by_mkl)
        for _ in range(repeats):  # what is compared is measured side by side
            encoder = min(encoder, least(lambda: ours.support(x), 1))
            upstream = min(upstream, least(lambda: theirs.support(x), 1))
            for shape in products.shapes:
                for known, seconds in zip((by_mkl, by_onednn), alone(shape, 2), strict=True):
                    known[shape] = min(known[shape], seconds)
        shares = profiled(lambda: ours.support(x))
    pure = {shape: min(by_mkl[shape], by_onednn[shape]) for shape in by_mkl}
    total, slower = (sum(n * known[shape] for shape, n in products.shapes.items()) for known in (pure, by_mkl))
    flops = sum(2 * count * math.prod(shape) for shape, count in products.shapes.items())
    print(f"\n{name}: a leaf of {n_columns} columns x {n_rows} rows, {flops / 1e9:.1f} GFLOP in matrix products")
    print(f"  TabICL's own layers {upstream:.3f} s, ours {encoder:.3f} s: {upstream / encoder:.2f}x")
    print(f"  the products alone  {total:.3f} s: {total / encoder:.2f} of ours, {total / upstream:.2f} of TabICL's")
    print(f"  by MKL alone        {slower:.3f} s: {slower / encoder:.2f} of ours, {slower / upstream:.2f} of TabICL's")
    print(f"  {flops / encoder / 1e9:.0f} GFLOP/s in the encoder, {flops / total / 1e9:.0f} in the products alone")
    print(f"  largest difference of a message {difference:.1e}")
    print("  where a leaf's time goes: " + ", ".join(f"{kind} {share:.0%}" for kind, share in shares))
    print("  batch x rows x inner x columns   times   share of the encoder   GFLOP/s (MKL)")
    for shape, count in sorted(products.shapes.items(), key=lambda item: -item[1] * pure[item[0]])[:10]:
        rate, slow = (2 * math.prod(shape) / known[shape] / 1e9 for known in (pure, by_mkl))
        share = count * pure[shape] / encoder
        print(f"  {' x '.join(map(str, shape)):<32} {count:>6} {share:>18.1%} {rate:>13.0f} ({slow:.0f})")


def main() -> None:
    """Measure both models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=192)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        full = Path(folder) / "model.ckpt"
        build("tabicl-v2", full)
        measure("TabICLv2, full size", full, options.rows, options.columns, options.repeats)
    measure("nano", "nano", options.rows, options.columns, options.repeats)


if __name__ == "__main__":
    main()
