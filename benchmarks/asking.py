"""What the default costs beside native inference: full-size TabICLv2, few rows, many columns.

    python benchmarks/asking.py                         # 2,048 columns
    python benchmarks/asking.py --columns 2048 8192     # an hour or so: native inference is slow

Random weights: time does not depend on what they know. Every arm fits 96 labelled rows and predicts 32 in a fresh
process with torch's own number of threads; only ratios within one run mean anything. ``auto`` asks held-back rows and
answers, ``scff`` is the paper's method, which encodes the Tail to refuse it, ``bounded-core`` the Core alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

SUPPORT, QUERY = 96, 32
ARMS = ("auto", "bounded-core", "scff", "native")


def run(arm: str, checkpoint: Path, columns: int) -> dict[str, float | str]:
    """Fit and predict once; CPU and wall seconds, the import and the loading of weights apart."""
    import torch

    from scff import FoldedClassifier
    from scff.backbones import load_backbone

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    y = np.arange(SUPPORT + QUERY) % 2
    X = rng.normal(size=(len(y), columns)).astype(np.float32)
    X[:, : columns // 16] += 0.8 * y[:, None]  # a Core of about a sixteenth of the columns
    kept = load_backbone(checkpoint, torch.device("cpu"))
    wall, cpu = time.perf_counter(), time.process_time()
    model = FoldedClassifier(checkpoint, method=arm, device="cpu").fit(X[:SUPPORT], y[:SUPPORT])
    model.predict_proba(X[SUPPORT:])
    out: dict[str, float | str] = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    out["backbone"] = kept.spec.name
    if arm == "auto":
        verdict = model.verdicts_[0]
        out["asked"] = f"{verdict.n_rows} rows in {verdict.n_splits} parts"
        out["read"] = ", ".join(f"{one.name} {one.weight:.2f}" for one in verdict.tried if one.weight > 0)
    if model.plan_ is not None:
        out["core"] = len(model.plan_.core)
    return out


def main() -> None:
    """Run every arm in a process of its own and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, nargs="+", default=[2048])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    parser.add_argument("--one", nargs=3, metavar=("ARM", "CHECKPOINT", "COLUMNS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(run(arguments.one[0], Path(arguments.one[1]), int(arguments.one[2]))))
        return
    from width import build

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "tabicl-v2.ckpt"
        build("tabicl-v2", checkpoint)
        for columns in arguments.columns:
            found = {}
            for arm in arguments.arms:
                command = [sys.executable, __file__, "--one", arm, str(checkpoint), str(columns)]
                found[arm] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                print(columns, arm, found[arm], flush=True)
            if "native" in found:
                for arm in arguments.arms:
                    ratio = found["native"]["cpu"] / found[arm]["cpu"]
                    print(f"{columns} columns: native / {arm} = {ratio:.1f}x CPU time")


if __name__ == "__main__":
    main()
