"""`nano` here and in another checkout: CPU seconds on the same tables, in fresh processes by turns.

    python benchmarks/nano_speed.py OTHER/src             # the source folder of another checkout
    python benchmarks/nano_speed.py OTHER/src --rounds 5

Each reads the weights that its checkout carries, on one thread. Three ways through the model: the paper's method, its
Core alone, and TabICL's own calls on the Core. Rounds alternate and each figure is the least of all rounds. The last
column is the largest difference of a probability, where the weights are the same. Two of the tables are those of
``scff demo``.
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


def child(out: str) -> None:
    """Every table and method with whichever checkout is imported."""
    import torch

    import scff
    from scff import FoldedClassifier

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    (weights,) = Path(scff.__file__).parent.rglob("nano.ckpt")
    known = FoldedClassifier("nano").get_params()
    found: dict[str, np.ndarray] = {"weights": np.array(hashlib.sha256(weights.read_bytes()).hexdigest())}
    given = tables()
    FoldedClassifier("nano", method="raw-core").fit(*table(*SIZES[0])[:2])  # what is loaded once
    for method, options in METHODS.items():
        # Once the paper's method had no name of its own: it was these two options.
        more = {"routing": "anova", "tail": "paper"} if known["tail"] == "gated" else {}
        for name, (X, y, Q) in given.items():
            started = time.process_time()
            model = FoldedClassifier("nano", **{**more, **options}).fit(X, y)
            fitted = time.process_time()
            probabilities = model.predict_proba(Q)
            spent = np.array([fitted - started, time.process_time() - fitted])
            found[f"{method} {name}"] = probabilities
            found[f"{method} {name} seconds"] = spent
    np.savez(out, **found)


def run(source: Path, folder: str) -> dict[str, Any]:
    """One fresh process over the sources of a checkout."""
    target = Path(folder) / "out.npz"
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, __file__, "--child", str(target)], env=environment, check=True, cwd=folder)
    with np.load(target) as found:
        return dict(found)


def main() -> None:
    """Run both by turns and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="source folder of the other checkout")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    sources = (Path(__file__).resolve().parents[1] / "src", asked.other.resolve())
    best: list[dict[str, Any]] = [{}, {}]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(asked.rounds):
            for source, kept in zip(sources, best, strict=True):
                for name, value in run(source, folder).items():
                    kept[name] = np.minimum(kept.get(name, value), value) if name.endswith("seconds") else value
    here, there = best
    same = here["weights"] == there["weights"]
    print("the same weights" if same else "weights of their own")
    print(f"{'':<14}{'table':<18}{'there: fit, predict':>22}{'here: fit, predict':>22}{'ratio':>8}{'difference':>12}")
    ratios: dict[str, dict[str, float]] = {}
    for method in METHODS:
        sums = {kind: np.zeros(2) for kind in ("drawn", "demo")}
        for shape in NAMES:
            name = f"{method} {shape}"
            a, b = there[f"{name} seconds"], here[f"{name} seconds"]
            sums["demo" if shape in DEMO else "drawn"] += a.sum(), b.sum()
            difference = float(np.abs(here[name] - there[name]).max()) if same else float("nan")
            figures = "".join(f"{f'{one[0]:.2f} {one[1]:.2f}':>22}" for one in (a, b))
            print(f"{method:<14}{shape:<18}{figures}{a.sum() / b.sum():>7.2f}x{difference:>12.1e}")
        ratios[method] = {kind: round(float(both[0] / both[1]), 2) for kind, both in sums.items()}
    print(json.dumps({"fit and prediction": ratios}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        main()
