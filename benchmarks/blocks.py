"""What a leaf costs in TabICL's feature encoder, and how much the size of its blocks matters.

    python benchmarks/blocks.py

Full-size architecture with random weights, one thread, CPU seconds; block sizes alternate. "upstream" is TabICL's own
call on the leaf, which takes it through every layer at once. Writes JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from width import build


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tabicl-v2")
    parser.add_argument("--rows", type=int, default=192)
    parser.add_argument("--leaf-width", type=int, default=128)
    parser.add_argument("--kib", nargs="+", type=int, default=[256, 1024, 4096, 16384, 1 << 20])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "blocks.json")
    args = parser.parse_args()

    import numpy as np
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from scff.backbones import load_backbone
    from scff.memory.meter import PeakMemory
    from scff.tables.table import Table

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        build(args.model, Path(folder) / "model.ckpt")
        backbone = load_backbone(Path(folder) / "model.ckpt", torch.device("cpu"))
    X = np.random.default_rng(0).standard_normal((args.rows, args.leaf_width), dtype=np.float32)
    view = backbone.views(Table(X), np.arange(args.rows) % 2, n_estimators=1, cache=True, random_state=0).view(0)
    leaf = [np.arange(args.leaf_width)]
    backbone.model.requires_grad_(False)  # the counter follows gradients, and there are none
    with FlopCounterMode(display=False) as counter:
        view.encode_support(leaf)
    runs: dict[str, list[dict[str, float]]] = {}
    for _ in range(args.repeats):
        for kib in [*args.kib, None]:
            name = "upstream" if kib is None else f"{kib} KiB"
            view._encoder._upstream = kib is None
            view._encoder._block_bytes = (kib or 1) << 10
            started = time.process_time()
            with PeakMemory() as memory:
                view.encode_support(leaf)
            cpu = time.process_time() - started
            runs.setdefault(name, []).append({"cpu": cpu, "added": memory.added})
    gflop = counter.get_total_flops() / 1e9
    print(f"{args.model}: {args.leaf_width} columns x {args.rows} rows, {gflop:.1f} GFLOP a leaf")
    for name, measured in runs.items():
        cpus = [run["cpu"] for run in measured]
        added = statistics.median(run["added"] for run in measured) / 2**20
        print(
            f"{name:12} {statistics.median(cpus):6.2f} cpu-s ({min(cpus):.2f}-{max(cpus):.2f})  {added:6.0f} MiB added"
        )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    facts = {key: value for key, value in vars(args).items() if key != "out"}
    args.out.write_text(json.dumps({**facts, "gflop": gflop, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
