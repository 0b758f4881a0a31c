"""Native against folded inference as tables get wider: added memory, CPU time, second predictions.

    python benchmarks/width.py                       # the whole study; hours
    python benchmarks/width.py --resume              # the cells that are missing
    python benchmarks/width.py --quick               # one model, two widths, once
    python benchmarks/width.py --columns 512 1024 2048 4096 --repeats 1 --model tabicl-v2

Full-size architectures with seeded random weights: time and memory do not depend on what weights know. Every arm runs
in a fresh process, arms alternate, and only ratios within one run mean anything. Writes JSON, a table and a plot.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SUPPORT, QUERY = 192, 64
ARMS = ("native", "folded")


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


def make_table(columns: int, classes: int):
    """A tenth of the columns informative, so that the Core is about a tenth of the table."""
    import numpy as np

    rng = np.random.default_rng(0)
    n = SUPPORT + QUERY
    y = np.arange(n) % classes
    X = rng.normal(size=(n, columns)).astype(np.float32)
    X[:, : columns // 10] += 2 * rng.normal(size=(classes, columns // 10)).astype(np.float32)[y]
    return X[:SUPPORT], y[:SUPPORT], X[SUPPORT:]


def run_arm(arm: str, checkpoint: Path, columns: int, classes: int, threads: int, limit: int | None) -> dict:
    """Measure one arm in this process."""
    import torch

    torch.set_num_threads(threads)
    from scff import FoldedClassifier
    from scff.memory.meter import PeakMemory

    X, y, Q = make_table(columns, classes)
    # The Tail on without a question: random weights would make the gate's answer a coin toss.
    method = (
        {"method": "native", "cache": False}
        if arm == "native"
        else {"method": "scff", "tail": "raw-residual" if classes == 2 else "paper"}
    )
    clf = FoldedClassifier(backbone=checkpoint, **method)
    clf.fit(X[:, :2], y).predict(Q[:, :2])  # weights, kernels and imports are the same for both arms
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    result: dict = {}
    try:
        with PeakMemory() as memory:
            cpu, wall = time.process_time(), time.perf_counter()
            clf.fit(X, y)
            fitted = time.process_time()
            clf.predict_proba(Q)
            result |= {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        result |= {"added": memory.added, "peak": memory.peak, "meter": memory.meter}
        if arm == "native":  # it keeps nothing, so that its second prediction is its first
            result["second_cpu"] = cpu + result["cpu"] - fitted
        else:
            cpu = time.process_time()
            clf.predict_proba(Q)
            result["second_cpu"] = time.process_time() - cpu
        if clf.plan_ is not None:
            result["leaves"] = [len(clf.plan_.core_leaves), len(clf.plan_.tail_leaves)]
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error).lower() and not isinstance(error, MemoryError):
            raise
        result["died"] = "out of memory"
    return result


def spawn(arm: str, checkpoint: Path, columns: int, classes: int, args: argparse.Namespace) -> dict:
    """Run one arm in a fresh process."""
    command = [sys.executable, __file__, "--arm", arm, "--checkpoint", checkpoint, "--columns", columns]
    command += ["--classes", classes, "--threads", args.threads, "--limit", args.limit]
    env = os.environ | {"OMP_NUM_THREADS": str(args.threads), "MALLOC_ARENA_MAX": "2"}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        return {"died": f"exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:] or ''}"}
    return json.loads(done.stdout.splitlines()[-1])


def study(args: argparse.Namespace) -> list[dict]:
    """Every cell of the study, repeats interleaved so that a noisy minute hits all arms alike."""
    stored = args.out.with_suffix(".json")
    cells = json.loads(stored.read_text())["cells"] if args.resume and stored.exists() else []
    known = {(cell["model"], cell["classes"], cell["columns"]) for cell in cells}
    with tempfile.TemporaryDirectory() as folder:
        for model in args.model:
            missing = [cell for cell in grid(model, args) if (model, *cell) not in known]
            if not missing:
                continue
            checkpoint = Path(folder) / f"{model}.ckpt"
            build(model, checkpoint)
            for classes, columns in missing:
                runs: dict[str, list[dict]] = {arm: [] for arm in ARMS}
                repeats = args.repeats if model == args.model[0] else args.other_repeats
                for repeat in range(1 if args.once_from and columns >= args.once_from else repeats):
                    for arm in ARMS if repeat % 2 == 0 else ARMS[::-1]:
                        if runs[arm] and "died" in runs[arm][-1]:
                            continue  # it will not fit the next time either
                        runs[arm].append(spawn(arm, checkpoint, columns, classes, args))
                cells.append({"model": model, "classes": classes, "columns": columns, "runs": runs})
                print(row(cells[-1]), flush=True)
                write(cells, args)  # a run of hours that breaks off is not lost
    return cells


def grid(model: str, args: argparse.Namespace) -> list[tuple[int, int]]:
    """Class counts and widths. With many classes native inference costs the same again, so fewer widths tell all."""
    cells = [(2, columns) for columns in args.columns if 2 in args.classes]
    if model == args.model[0]:
        cells += [(k, c) for k in args.classes if k != 2 for c in args.columns if c in args.many_class_columns]
    return cells


def middle(runs: list[dict], key: str) -> float | None:
    """Median over repeats; None where the arm died."""
    values = [run[key] for run in runs if key in run]
    return statistics.median(values) if values else None


def ratio(cell: dict, key: str, other: str | None = None) -> float | None:
    """Native over folded."""
    above, below = middle(cell["runs"]["native"], key), middle(cell["runs"]["folded"], other or key)
    return above / below if above is not None and below else None


HEADER = (
    "| model | classes | columns | native MiB | folded MiB | memory | native cpu-s | folded cpu-s | time "
    "| 2nd predict cpu-s | 2nd predict | spread of time |\n" + "|---" * 12 + "|"
)


def row(cell: dict) -> str:
    """One line of the table."""
    native, folded = cell["runs"]["native"], cell["runs"]["folded"]

    def show(value: float | None, form: str = "{:.1f}") -> str:
        return "died" if value is None else form.format(value)

    mib = [None if (v := middle(runs, "added")) is None else v / 2**20 for runs in (native, folded)]
    pairs = [a["cpu"] / b["cpu"] for a, b in zip(native, folded, strict=False) if "cpu" in a and "cpu" in b]
    spread = f"{min(pairs):.2f}-{max(pairs):.2f} of {len(pairs)}" if pairs else ""
    return (
        f"| {cell['model']} | {cell['classes']} | {cell['columns']} "
        f"| {show(mib[0], '{:.0f}')} | {show(mib[1], '{:.0f}')} "
        f"| {show(ratio(cell, 'added'), '{:.1f}x')} | {show(middle(native, 'cpu'))} | {show(middle(folded, 'cpu'))} "
        f"| {show(ratio(cell, 'cpu'), '{:.2f}x')} | {show(middle(folded, 'second_cpu'), '{:.2f}')} "
        f"| {show(ratio(cell, 'second_cpu'), '{:.1f}x')} | {spread} |"
    )


def exponents(cells: list[dict]) -> list[str]:
    """Growth of CPU time with width by a log-log fit, per model and class count."""
    import numpy as np

    lines = []
    for key in sorted({(cell["model"], cell["classes"]) for cell in cells}):
        for arm in ARMS:
            points = [
                (cell["columns"], middle(cell["runs"][arm], "cpu"))
                for cell in cells
                if (cell["model"], cell["classes"]) == key and cell["columns"] >= 512
            ]
            points = [point for point in points if point[1]]
            if len(points) > 1:
                slope = np.polyfit(*np.log(np.array(points)).T, 1)[0]
                span = f"{points[0][0]} to {points[-1][0]}"
                lines.append(f"- {key[0]}, {key[1]} classes, {arm}: CPU time grows as columns^{slope:.2f} ({span})")
    return lines


def plot(cells: list[dict], path: Path) -> None:
    """Memory and CPU time against width."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    keys = sorted({(cell["model"], cell["classes"]) for cell in cells})
    figure, axes = plt.subplots(len(keys), 2, figsize=(9, 3.2 * len(keys)), squeeze=False, layout="constrained")
    for axis_row, key in zip(axes, keys, strict=True):
        for axis, (measure, label, unit) in zip(
            axis_row, (("added", "added peak memory (MiB)", 2**20), ("cpu", "CPU seconds", 1)), strict=True
        ):
            for arm, colour in (("native", "#A3473F"), ("folded", "#2F6690")):
                points = [
                    (cell["columns"], value / unit)
                    for cell in cells
                    if (cell["model"], cell["classes"]) == key and (value := middle(cell["runs"][arm], measure))
                ]
                if points:
                    axis.plot(*zip(*points, strict=True), "o-", color=colour, label=arm)
            axis.set(xscale="log", yscale="log", xlabel="columns", ylabel=label, title=f"{key[0]}, {key[1]} classes")
            shown = sorted({cell["columns"] for cell in cells})
            axis.set_xticks(shown, labels=map(str, shown))
            axis.minorticks_off()
            axis.grid(alpha=0.3)
            axis.legend(frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=["tabicl-v2", "tabicl-v1", "tabpfn-v3"])
    parser.add_argument("--columns", nargs="+", type=int, default=[256, 512, 1024, 2048, 4096, 8192])
    parser.add_argument("--classes", nargs="+", type=int, default=[2, 10])
    parser.add_argument(
        "--many-class-columns",
        nargs="+",
        type=int,
        default=[1024, 4096],
        help="of the widths, those that the first model also sees with more than two classes",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--other-repeats", type=int, default=3, help="of the models after the first")
    parser.add_argument("--once-from", type=int, help="widths that are measured once: native takes many minutes there")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=int, default=16 << 30, help="bytes a process may allocate before it dies")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "width")
    parser.add_argument("--resume", action="store_true", help="keep the cells that are measured and go on")
    parser.add_argument("--quick", action="store_true", help="one model, two widths, one repeat: minutes")
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    parser.add_argument("--checkpoint", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.model, args.columns, args.classes, args.repeats = args.model[:1], [256, 512], [2], 1
        args.out = args.out.with_name(args.out.name + "_quick")
    if args.arm:
        found = run_arm(args.arm, args.checkpoint, args.columns[0], args.classes[0], args.threads, args.limit)
        print(json.dumps(found))
        return
    args.out.parent.mkdir(parents=True, exist_ok=True)
    print(HEADER, flush=True)
    cells = study(args)
    write(cells, args)
    print("\n".join(exponents(cells)))
    plot(cells, args.out.with_suffix(".png"))


def write(cells: list[dict], args: argparse.Namespace) -> None:
    """Keep every measurement as JSON, and the table as Markdown."""
    host = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "threads": args.threads}
    report = {"support": SUPPORT, "query": QUERY, "host": host, "cells": cells}
    args.out.with_suffix(".json").write_text(json.dumps(report, indent=1))
    command = "python benchmarks/width.py " + " ".join(sys.argv[1:])
    lines = [f"`{command.strip()}`", "", HEADER, *map(row, cells), "", *exponents(cells), ""]
    args.out.with_suffix(".md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
