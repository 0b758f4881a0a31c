"""`nano` here and in another checkout: CPU seconds on the same tables, in fresh processes by turns.

    python benchmarks/nano_speed.py OTHER/src             # the source folder of another checkout
    python benchmarks/nano_speed.py OTHER/src --rounds 5
    python benchmarks/nano_speed.py OTHER/src --weights FILE --threads 0    # both read this file, on default threads

Each reads the weights that its checkout carries, or both read those of ``--weights``, without what its ``view`` asks
for, which only some commits understand; on one thread unless told otherwise. Three ways through the model that compute
the same in both: the paper's method, its Core alone, and TabICL's own calls on the Core; and what a user gets who says
nothing, which is another method in another commit. Rounds alternate and each figure is the least of all rounds. CPU
seconds are shown, ratios of them and of the clock. The last column is the largest difference of a probability, where
the weights are the same. Two of the tables are those of ``scff demo``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import PolynomialFeatures

#: Labelled rows, columns, classes; rows to predict.
SIZES = ((128, 200, 2), (128, 2000, 2), (256, 500, 2), (256, 1000, 5), (512, 200, 3), (512, 1000, 2), (512, 2000, 2))
QUERIES = 256
#: Tables of the demo, with their labelled rows and those to predict.
DEMO = {"breast cancer": (284, 285), "digits": (300, 150)}
#: What all of them are called in the output.
NAMES = (*(f"{n} x {d}, {k}" for n, d, k in SIZES), *DEMO)
METHODS = {
    "scff": {"method": "scff"},
    "raw-core": {"method": "raw-core"},
    "bounded-core": {"method": "bounded-core"},
    "default": {},
}


def table(n_rows: int, n_columns: int, n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A few factors behind all columns, some columns that tell the class, noise."""
    rng = np.random.default_rng([n_rows, n_columns])
    y = np.arange(n_rows + QUERIES) % n_classes
    factors = rng.normal(size=(len(y), 6))
    X = factors @ rng.normal(size=(6, n_columns)) + rng.normal(size=(len(y), n_columns))
    X[:, ::10] += 0.8 * (y[:, None] == rng.integers(0, n_classes, -(-n_columns // 10)))
    return X[:n_rows], y[:n_rows], X[n_rows:]


def of_the_demo(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table of scikit-learn, with all squares and products of its columns."""
    X, y = {"breast cancer": load_breast_cancer, "digits": load_digits}[name](return_X_y=True)
    X = PolynomialFeatures(2, include_bias=False).fit_transform(X).astype(np.float32)
    n, m = DEMO[name]
    X_S, X_Q, y_S, _ = train_test_split(X, y, train_size=n, test_size=m, stratify=y, random_state=0)
    return X_S, y_S, X_Q


def tables() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """All tables by their names."""
    return dict(zip(NAMES, [table(*size) for size in SIZES] + [of_the_demo(name) for name in DEMO], strict=True))


def child(out: str, threads: int, weights: str | None) -> None:
    """Every table and method with whichever checkout is imported."""
    import torch

    import scff
    from scff import FoldedClassifier

    if threads:
        torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    backbone = weights or "nano"
    (file,) = [Path(weights)] if weights else Path(scff.__file__).parent.rglob("nano.ckpt")
    known = FoldedClassifier(backbone).get_params()
    found: dict[str, np.ndarray] = {"weights": np.array(hashlib.sha256(file.read_bytes()).hexdigest())}
    given = tables()
    FoldedClassifier(backbone, method="raw-core").fit(*table(*SIZES[0])[:2])  # what is loaded once
    for method, options in METHODS.items():
        # Once the paper's method had no name of its own: it was these two options.
        more = {"routing": "anova", "tail": "paper"} if options and known["tail"] == "gated" else {}
        for name, (X, y, Q) in given.items():
            started = seconds()
            model = FoldedClassifier(backbone, **{**more, **options}).fit(X, y)
            fitted = seconds()
            probabilities = model.predict_proba(Q)
            found[f"{method} {name}"] = probabilities
            found[f"{method} {name} seconds"] = np.stack([fitted - started, seconds() - fitted])
    np.savez(out, **found)


def seconds() -> np.ndarray:
    """CPU time of this process and the clock."""
    return np.array([time.process_time(), time.perf_counter()])


def plain(weights: Path, folder: str) -> Path:
    """The same weights in a file that says no more than TabICL's own do."""
    import torch

    payload = torch.load(weights, weights_only=True, map_location="cpu")
    file = Path(folder) / "nano.ckpt"
    torch.save({name: payload[name] for name in ("config", "state_dict")}, file)
    return file


def run(source: Path, folder: str, threads: int, weights: Path | None) -> dict[str, Any]:
    """One fresh process over the sources of a checkout."""
    target = Path(folder) / "out.npz"
    environment = os.environ | {"PYTHONPATH": str(source)} | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
    command = [sys.executable, __file__, "--child", str(target), str(threads), *([str(weights)] if weights else [])]
    subprocess.run(command, env=environment, check=True, cwd=folder)
    with np.load(target) as found:
        return dict(found)


def main() -> None:
    """Run both by turns and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="source folder of the other checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="0: as many as torch takes by itself")
    parser.add_argument("--weights", type=Path, help="a checkpoint in TabICL's layout that both read")
    asked = parser.parse_args()
    sources = (Path(__file__).resolve().parents[1] / "src", asked.other.resolve())
    best: list[dict[str, Any]] = [{}, {}]
    with tempfile.TemporaryDirectory() as folder:
        weights = plain(asked.weights, folder) if asked.weights else None
        for _ in range(asked.rounds):
            for source, kept in zip(sources, best, strict=True):
                for name, value in run(source, folder, asked.threads, weights).items():
                    kept[name] = np.minimum(kept.get(name, value), value) if name.endswith("seconds") else value
    here, there = best
    same = here["weights"] == there["weights"]
    print("the same weights" if same else "weights of their own")
    titles = f"{'there: fit, predict':>22}{'here: fit, predict':>22}{'ratio':>8}{'clock':>8}{'difference':>12}"
    print(f"{'':<14}{'table':<18}{titles}")
    ratios: dict[str, dict[str, list[float]]] = {}
    for method in METHODS:
        sums = {kind: np.zeros((2, 2)) for kind in ("drawn", "demo")}
        for shape in NAMES:
            name = f"{method} {shape}"
            a, b = there[f"{name} seconds"], here[f"{name} seconds"]
            sums["demo" if shape in DEMO else "drawn"] += a.sum(axis=0), b.sum(axis=0)
            difference = float(np.abs(here[name] - there[name]).max()) if same else float("nan")
            figures = "".join(f"{f'{one[0, 0]:.2f} {one[1, 0]:.2f}':>22}" for one in (a, b))
            cpu, clock = a.sum(axis=0) / b.sum(axis=0)
            print(f"{method:<14}{shape:<18}{figures}{cpu:>7.2f}x{clock:>7.2f}x{difference:>12.1e}")
        ratios[method] = {kind: (both[0] / both[1]).round(2).tolist() for kind, both in sums.items()}
    print(json.dumps({"fit and prediction, CPU and clock": ratios}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else None)
    else:
        main()
