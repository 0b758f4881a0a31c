"""Cost of the fold plan beside one call of scikit-learn's ``f_classif`` on the same table.

    python benchmarks/routing.py [--rows 5000] [--columns 10000] [--repeats 5]

Each side in a fresh process, alternating; the table itself is not counted. Only the ratios of one run mean anything.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time


def measure(side: str, rows: int, columns: int, classes: int) -> dict[str, float]:
    """CPU seconds and added memory of one side, after a warm-up on a corner of the table."""
    import numpy as np
    from sklearn.feature_selection import f_classif

    from scff import compile_plan
    from scff.memory.meter import PeakMemory

    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns), dtype=np.float32)
    y = rng.integers(0, classes, rows)
    work = compile_plan if side == "plan" else f_classif
    work(X[:200, :50], y[:200])
    with PeakMemory() as memory:
        started = time.process_time()
        work(X, y)
        seconds = time.process_time() - started
    return {"cpu": seconds, "added_mib": memory.added / 2**20}


def main() -> None:
    """Run both sides and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--columns", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--side", choices=["plan", "f_classif"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(measure(args.side, args.rows, args.columns, args.classes)))
        return
    runs: dict[str, list[dict[str, float]]] = {"plan": [], "f_classif": []}
    for _ in range(args.repeats):
        for side, found in runs.items():
            command = [sys.executable, __file__, "--side", side, "--rows", str(args.rows)]
            command += ["--columns", str(args.columns), "--classes", str(args.classes)]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    for side, found in runs.items():
        cpu = [run["cpu"] for run in found]
        memory = statistics.median(run["added_mib"] for run in found)
        print(
            f"{side:10} {statistics.median(cpu):6.2f} cpu-s ({min(cpu):.2f} to {max(cpu):.2f}), {memory:6.0f} MiB added"
        )
    ratio = statistics.median(r["cpu"] for r in runs["plan"]) / statistics.median(r["cpu"] for r in runs["f_classif"])
    print(f"plan / f_classif: {ratio:.2f}x the CPU time")


if __name__ == "__main__":
    main()
