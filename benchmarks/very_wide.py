"""Fit and predict a table of 100,000 columns on the embedded model: added peak memory, CPU time, where it goes.

    python benchmarks/very_wide.py                       # 100,000 columns x 1,000 rows from Parquet and .npy
    python benchmarks/very_wide.py --columns 5000        # a minute

One process writes the files; every run is a fresh process that opens one of them. The paper's method with
the Tail let in unasked, so every column is encoded for support and queries: the most work it can be. Writes JSON and a
Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

QUERY = 0.2


def write(folder: Path, columns: int, rows: int) -> None:
    """Write support and query as float32 Parquet and .npy; one column in a hundred is informative."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    y = np.arange(rows) % 2
    X = rng.standard_normal((rows, columns), dtype=np.float32)
    X[:, ::100] += 0.5 * y[:, None].astype(np.float32)
    cut = rows - int(QUERY * rows)
    for name, part in (("support", slice(0, cut)), ("query", slice(cut, rows))):
        np.save(folder / f"{name}.npy", X[part])
        arrays = [pa.array(X[part, j]) for j in range(columns)]
        table = pa.Table.from_arrays(arrays, names=[f"g{j}" for j in range(columns)])
        # Random floats neither compress nor repeat: a dictionary would only cost time.
        pq.write_table(table, folder / f"{name}.parquet", use_dictionary=False, compression="none")
    np.save(folder / "y.npy", y[:cut])


def run(folder: Path, kind: str, cache: str, limit: str | None) -> dict:
    """Measure one fit and two predictions in this process."""
    import numpy as np
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    from scff import FoldedClassifier
    from scff.memory.meter import PeakMemory

    y = np.load(folder / "y.npy")
    settings = {"backbone": "nano", "method": "scff", "tail": "raw-residual", "memory_limit": limit}
    settings["cache"] = {"true": True, "disk": "disk", "false": False}[cache]
    small = np.random.default_rng(0).standard_normal((40, 4))
    FoldedClassifier(**settings).fit(small, np.arange(40) % 2).predict(small)  # weights, kernels and imports
    clf = FoldedClassifier(**settings)
    result: dict = {}
    for step, call in {
        "fit": lambda: clf.fit(folder / f"support.{kind}", y),
        "predict": lambda: clf.predict_proba(folder / f"query.{kind}"),
    }.items():
        cpu, wall = time.process_time(), time.perf_counter()
        with PeakMemory() as memory:
            call()
        result[step] = {
            "added": memory.added,
            "cpu": time.process_time() - cpu,
            "wall": time.perf_counter() - wall,
            "meter": memory.meter,
        }
    result["plan"], result["seconds"] = repr(clf.plan_), clf.seconds_
    result["core"], result["leaves"] = len(clf.plan_.core), len(clf.plan_.leaves)
    return result


HEADER = (
    "| source | cache | fit added MiB | predict added MiB | fit cpu-s | predict cpu-s | leaves |\n" + "|---" * 7 + "|"
)


def row(cell: dict) -> str:
    """One line of the table."""
    mib = [f"{cell[step]['added'] / 2**20:.0f}" for step in ("fit", "predict")]
    cpu = [f"{cell[step]['cpu']:.0f}" for step in ("fit", "predict")]
    return f"| {cell['source']} | {cell['cache']} | {' | '.join(mib)} | {' | '.join(cpu)} | {cell['leaves']} |"


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=1_000, help="a fifth of them are queries")
    parser.add_argument("--source", nargs="+", choices=["parquet", "npy"], default=["parquet", "npy"])
    parser.add_argument("--cache", nargs="+", choices=["true", "disk", "false"], default=["true"])
    parser.add_argument("--memory-limit", help="budget handed to the estimator, such as 512MiB")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "very_wide")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=["write", "run"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step == "write":
        return write(args.folder, args.columns, args.rows)
    if args.step == "run":
        return print(json.dumps(run(args.folder, args.source[0], args.cache[0], args.memory_limit)))
    env = os.environ | {"OMP_NUM_THREADS": str(args.threads), "MALLOC_ARENA_MAX": "2"}
    cells = []
    print(HEADER)
    with tempfile.TemporaryDirectory() as folder:
        base = [sys.executable, __file__, "--folder", folder]
        subprocess.run(
            [*base, "--step", "write", "--columns", str(args.columns), "--rows", str(args.rows)], check=True, env=env
        )
        sizes = {path.name: path.stat().st_size for path in Path(folder).iterdir()}
        for source in args.source:
            for cache in args.cache:
                command = [*base, "--step", "run", "--source", source, "--cache", cache]
                command += ["--memory-limit", args.memory_limit] if args.memory_limit else []
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
                cells.append({"source": source, "cache": cache, **json.loads(done.stdout.splitlines()[-1])})
                print(row(cells[-1]), flush=True)
                save(args, sizes, cells)  # after each: they take a while
    return None


def save(args: argparse.Namespace, sizes: dict, cells: list[dict]) -> None:
    """Write what there is so far."""
    args.out.parent.mkdir(parents=True, exist_ok=True)
    host = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "threads": args.threads}
    report = {"columns": args.columns, "rows": args.rows, "files": sizes, "host": host, "cells": cells}
    args.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    command = " ".join(["python benchmarks/very_wide.py", *sys.argv[1:]])
    size = f"{args.columns:,} columns x {args.rows:,} rows of float32, a fifth of them queries"
    plan = f"`nano`, {args.threads} thread(s), {cells[0]['plan']}"
    text = f"`{command}`\n\n{size}; {plan}.\n\n{HEADER}\n" + "\n".join(map(row, cells))
    args.out.with_suffix(".md").write_text(text + "\n")


if __name__ == "__main__":
    main()
