"""Native inference beside the paper's method and the default, as users get them: memory, CPU and wall time.

    python benchmarks/width.py                                              # full-size TabICLv2, 192 rows; an hour
    python benchmarks/width.py --columns 512 --threads 1 0                  # one width; 0 threads is torch's default
    python benchmarks/width.py --model nano --rows 2048 --queries 1024 --columns 1000
    python benchmarks/width.py --model nano --rows 10000 --queries 1024 --columns 500

Arms: ``native`` with its own key-value cache, which is what ``method="native"`` gives; ``native, nothing kept``;
``scff``; ``scff, Tail in``, which lets the Tail in without a question; ``auto``. Full-size architectures have seeded
random weights: time and memory do not depend on what weights know, but what held-back rows choose does, so that
``auto`` is best read on ``nano``. Every arm runs in a fresh process, arms alternate, each figure is the least of all
rounds, and only ratios within one run mean anything.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ARMS: dict[str, dict[str, Any]] = {
    "native": {"method": "native"},
    "native, nothing kept": {"method": "native", "cache": False},
    "scff": {"method": "scff"},
    "scff, Tail in": {"method": "scff", "tail": "raw-residual"},
    "auto": {},
}
HEADER = (
    "| model | rows | columns | threads | arm | added MiB | fit cpu-s | wall | predict cpu-s | wall "
    "| again cpu-s | wall |\n" + "|---" * 12 + "|"
)
FIGURES = ("fit_cpu", "fit_wall", "predict_cpu", "predict_wall", "again_cpu", "again_wall")


def build(model: str, path: Path) -> None:
    """Write a full-size checkpoint of random weights in the model's own format."""
    if model == "tabpfn-v3":
        return build_tabpfn(path)
    import torch
    from tabicl._model.tabicl import TabICL

    v2 = {"row_rope_interleaved": False, "zero_init": False}
    v1 = {
        "zero_init": False,
        "col_affine": True,
        "col_feature_group": False,
        "col_target_aware": False,
        "col_ssmax": False,
        "icl_ssmax": False,
        "col_nhead": 4,
        "icl_nhead": 4,
    }
    config = {"tabicl-v2": v2, "tabicl-v1": v1}[model]
    torch.manual_seed(0)
    return torch.save({"config": config, "state_dict": TabICL(**config).state_dict()}, path)


def build_tabpfn(path: Path) -> None:
    """The same for TabPFN-3, at the sizes its configuration has by default."""
    from dataclasses import asdict

    import torch
    from tabpfn.architectures import ARCHITECTURES
    from tabpfn.inference_config import InferenceConfig
    from tabpfn.preprocessing import PreprocessorConfig

    module = ARCHITECTURES["tabpfn_v3"]
    config, _ = module.parse_config({"max_num_classes": 10, "num_buckets": 50})
    torch.manual_seed(0)
    model = module.get_architecture(config)
    inference = InferenceConfig(
        PREPROCESS_TRANSFORMS=[PreprocessorConfig("none")], MAX_NUMBER_OF_CLASSES=10, SOFTMAX_TEMPERATURE=0.9
    )
    payload = {"state_dict": model.state_dict(), "config": asdict(config), "inference_config": asdict(inference)}
    torch.save(payload | {"architecture_name": "tabpfn_v3"}, path)


def make_table(rows: int, queries: int, columns: int, classes: int) -> tuple[Any, Any, Any]:
    """A tenth of the columns informative, so that the Core is about a tenth of the table."""
    import numpy as np

    rng = np.random.default_rng(0)
    y = np.arange(rows + queries) % classes
    X = rng.normal(size=(len(y), columns)).astype(np.float32)
    X[:, : columns // 10] += 0.7 * rng.normal(size=(classes, columns // 10)).astype(np.float32)[y]
    return X[:rows], y[:rows], X[rows:]


def run_arm(args: argparse.Namespace) -> dict[str, Any]:
    """Measure one arm in this process."""
    import torch

    if args.threads[0]:
        torch.set_num_threads(args.threads[0])
    from scff import FoldedClassifier
    from scff.memory.meter import PeakMemory

    X, y, Q = make_table(args.rows, args.queries, args.columns[0], args.classes)
    clf = FoldedClassifier(args.checkpoint, **ARMS[args.arm])
    small = slice(0, 40)
    FoldedClassifier(args.checkpoint, method="raw-core").fit(X[small, :2], y[small]).predict(
        Q[:2, :2]
    )  # imports, weights
    resource.setrlimit(resource.RLIMIT_DATA, (args.limit, args.limit))
    steps = [
        ("fit", lambda: clf.fit(X, y)),
        ("predict", lambda: clf.predict_proba(Q)),
        ("again", lambda: clf.predict_proba(Q)),
    ]
    result: dict[str, Any] = {}
    try:
        with PeakMemory() as memory:
            for name, call in steps:
                cpu, wall = time.process_time(), time.perf_counter()
                call()
                result |= {f"{name}_cpu": time.process_time() - cpu, f"{name}_wall": time.perf_counter() - wall}
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error).lower() and not isinstance(error, MemoryError):
            raise
        return {"died": f"needs more than {args.limit / 2**30:.0f} GiB"}
    return result | {"added": memory.added}


def spawn(arm: str, checkpoint: str, columns: int, threads: int, args: argparse.Namespace) -> dict[str, Any]:
    """Run one arm in a fresh process."""
    command = [sys.executable, __file__, "--arm", arm, "--checkpoint", checkpoint, "--columns", columns]
    command += ["--classes", args.classes, "--rows", args.rows, "--queries", args.queries]
    command += ["--threads", threads, "--limit", args.limit]
    env = os.environ | {"MALLOC_ARENA_MAX": "2"}
    if threads:
        env["OMP_NUM_THREADS"] = str(threads)
    else:
        env.pop("OMP_NUM_THREADS", None)
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        return {"died": f"exit code {done.returncode}: {' '.join(done.stderr.strip().splitlines()[-1:])}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def line(model: str, columns: int, threads: int, arm: str, runs: list[dict[str, Any]], args: argparse.Namespace) -> str:
    """One line of the table."""
    shown = f"| {model} | {args.rows} + {args.queries} | {columns} | {threads or 'default'} | {arm} |"
    died = next((run["died"] for run in runs if "died" in run), None)
    if died is not None:
        return f"{shown} {died} |" + " |" * 6
    figures = (min(run[name] for run in runs) for name in FIGURES)
    return (
        f"{shown} {min(run['added'] for run in runs) / 2**20:.0f} | " + " | ".join(f"{x:.2f}" for x in figures) + " |"
    )


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tabicl-v2", help="tabicl-v2, tabicl-v1, tabpfn-v3 at full size; or nano")
    parser.add_argument("--rows", type=int, default=192, help="labelled rows")
    parser.add_argument("--queries", type=int, default=64)
    parser.add_argument("--columns", nargs="+", type=int, default=[256, 1024, 4096])
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 0], help="0 is torch's default")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--limit", type=int, default=16 << 30, help="bytes a process may allocate before it dies")
    parser.add_argument("--out", type=Path, help="file to append the table to")
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    parser.add_argument("--checkpoint", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.arm:
        print(json.dumps(run_arm(args)))
        return
    show(f"`python benchmarks/width.py {' '.join(sys.argv[1:])}`\n\n{HEADER}", args.out)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = args.model
        if args.model != "nano":
            checkpoint = str(Path(folder) / f"{args.model}.ckpt")
            build(args.model, Path(checkpoint))
        for columns in args.columns:
            for threads in args.threads:
                rounds = [
                    {arm: spawn(arm, checkpoint, columns, threads, args) for arm in args.arms}
                    for _ in range(args.repeats)
                ]
                for arm in args.arms:
                    show(line(args.model, columns, threads, arm, [one[arm] for one in rounds], args), args.out)


def show(text: str, out: Path | None) -> None:
    """Print, and keep."""
    print(text, flush=True)
    if out is not None:
        with out.open("a") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
