"""How long a saved model takes to its first prediction, with and without its caches in the file.

Each figure is of a fresh process of one thread, in seconds of the processor so that others on the machine do not
count, after the packages are imported (their time is printed apart): `scff.load` and one prediction of five rows. The
support has 150 rows and 10,000 columns: in one table hundreds of columns go with the class and the default reads its
Core, in the other few and faint ones do and it reads summaries; there the paper's gate lets the Tail in.

    python benchmarks/load.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

os.environ["OMP_NUM_THREADS"] = "1"  # here too: products of several threads round differently

import numpy as np

from scff import FoldedClassifier

CHILD = """
import json, sys, time
started = time.process_time()
import numpy as np
import scff.models.file
import scff.backbones.tabicl.files
imported = time.process_time()
model = scff.load(sys.argv[1])
read = time.process_time()
proba = model.predict_proba(np.load(sys.argv[2]))
done = time.process_time()
model.predict_proba(np.load(sys.argv[2]))
again = time.process_time() - done
print(json.dumps([imported - started, read - imported, done - read, again, proba.tolist()]))
"""


def fresh(model: Path, rows: Path, repeats: int) -> tuple[list[float], list[list[float]]]:
    """Medians of import, reading, first and second prediction over fresh processes, and the probabilities."""
    runs = []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(model), str(rows)],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        runs.append(json.loads(done.stdout))
    return [median(run[i] for run in runs) for i in range(4)], runs[0][4]


def tables(rows: int, columns: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Labelled rows by the name of their kind."""
    y = np.arange(rows) % 2
    out = {}
    for kind in ("many", "faint"):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(rows, columns)).astype(np.float32)
        if kind == "many":
            X[:, : columns // 160] += 0.8 * y[:, None]
            X[:, columns // 160 : columns // 5] += 0.7 * X[:, :1]
        else:
            X[:, : columns // 100] += 0.5 * y[:, None]
        out[kind] = X, y
    return out


def main() -> None:
    """Fit, save twice, and time both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="nano")
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--columns", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    known = tables(options.rows, options.columns)
    print("| table | method | reads | file | MiB | load s | first prediction s | second s | load and first: ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        rows, model = Path(folder) / "rows.npy", Path(folder) / "model.scff"
        for kind, method in (("many", "auto"), ("faint", "auto"), ("faint", "scff")):
            X, y = known[kind]
            np.save(rows, X[:5])
            clf = FoldedClassifier(options.backbone, method=method).fit(X, y)
            expected = clf.predict_proba(X[:5])
            reads = ", ".join(choice.presentation.name for choice in clf.fitted_.choices[:2])
            plain = 0.0
            for caches in (False, True):
                clf.save(model, caches=caches)
                (imported, read, first, second), proba = fresh(model, rows, options.repeats)
                assert np.array_equal(np.array(proba), expected), "a saved model predicts what it did"
                plain = plain or read + first
                print(
                    f"| {kind} | {method} | {reads} | {'with caches' if caches else 'plain'} "
                    f"| {model.stat().st_size / 2**20:.1f} | {read:.2f} | {first:.2f} | {second:.2f} "
                    f"| {plain / (read + first):.1f}x |",
                    flush=True,
                )
    print(f"Importing the packages took {imported:.2f} s of each process.")


if __name__ == "__main__":
    main()
