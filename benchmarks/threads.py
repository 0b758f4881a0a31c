"""Two ways to use two threads on the leaves of a table: in every matrix product, or a leaf each.

    python benchmarks/threads.py                       # nano
    python benchmarks/threads.py --model tabicl-v2     # full-size architecture, random weights

Arms alternate in one process, so that a busy minute hits all of them. Writes JSON beside the other results.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from width import build


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--leaves", type=int, default=8)
    parser.add_argument("--leaf-width", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "threads")
    args = parser.parse_args()

    import numpy as np
    import torch

    from scff.backbones import load_backbone
    from scff.fold.threads import in_order
    from scff.tables.table import Table

    with tempfile.TemporaryDirectory() as folder:
        path = args.model
        if args.model != "nano":
            path = str(Path(folder) / "model.ckpt")
            build(args.model, Path(path))
        backbone = load_backbone(path, torch.device("cpu"))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((args.rows, args.leaves * args.leaf_width), dtype=np.float32)
    y = np.arange(args.rows) % 2
    view = backbone.views(Table(X), y, n_estimators=1, cache=True, random_state=0).view(0)
    leaves = [(leaf,) for leaf in np.split(np.arange(X.shape[1]), args.leaves)]
    # name: torch's threads, leaves side by side
    arms = {"one thread": (1, 1), "threads in every product": (args.threads, 1), "a leaf each": (args.threads,) * 2}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in arms}
    view.encode_support(leaves[0])  # imports and kernels
    reference = None
    for _ in range(args.repeats):
        for name, (threads, workers) in arms.items():
            torch.set_num_threads(threads)
            cpu, wall = time.process_time(), time.perf_counter()
            with in_order(view.encode_support, leaves, workers) as encoded:
                messages = [message for message, _ in encoded]
            runs[name].append({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall})
            stacked = torch.stack(messages)
            reference = stacked if reference is None else reference
            runs[name][-1]["difference"] = float((stacked - reference).abs().max())
    load = os.getloadavg()[0]
    print(f"{args.model}: {args.leaves} leaves of {args.leaf_width} columns x {args.rows} rows, load {load:.1f}")
    for name, measured in runs.items():
        wall, cpu = (statistics.median(run[key] for run in measured) for key in ("wall", "cpu"))
        worst = max(run["difference"] for run in measured)
        print(f"{name:26} {wall:7.2f} s wall {cpu:7.2f} s cpu, largest difference {worst}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    facts = {key: value for key, value in vars(args).items() if key != "out"}
    report = {**facts, "cores": os.cpu_count(), "load": load, "runs": runs}
    args.out.with_name(f"{args.out.name}_{args.model}.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
