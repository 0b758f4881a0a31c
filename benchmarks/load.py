"""How long a saved model takes to its first prediction, with and without its caches in the file.

Each figure is of a fresh process, after the packages are imported (their time is printed apart): `scff.load` and one
prediction of five rows. The support has 150 rows and 10,000 columns.

    python benchmarks/load.py
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

CHILD = """
import json, sys, time
started = time.perf_counter()
import numpy as np
import scff.models.file
from scff.backbones.registry import specs
specs()
imported = time.perf_counter()
model = scff.load(sys.argv[1])
read = time.perf_counter()
proba = model.predict_proba(np.load(sys.argv[2]))
done = time.perf_counter()
model.predict_proba(np.load(sys.argv[2]))
again = time.perf_counter() - done
print(json.dumps([imported - started, read - imported, done - read, again, proba.tolist()]))
"""


def fresh(model: Path, rows: Path, repeats: int) -> tuple[list[float], list[list[float]]]:
    """Medians of import, reading, first and second prediction over fresh processes, and the probabilities."""
    runs = []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(model), str(rows)], check=True, capture_output=True, text=True
        )
        runs.append(json.loads(done.stdout))
    return [median(run[i] for run in runs) for i in range(4)], runs[0][4]


def main() -> None:
    """Fit, save twice, and time both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="nano")
    parser.add_argument("--methods", nargs="+", default=["auto", "scff"])
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--columns", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()

    import numpy as np

    from scff import FoldedClassifier

    rng = np.random.default_rng(0)
    y = np.arange(options.rows) % 2
    X = rng.normal(size=(options.rows, options.columns)).astype(np.float32)
    X[:, : options.columns // 100] += 0.5 * y[:, None]
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npy"
        np.save(rows, X[:5])
        print("| method | file | MiB | import s | load s | first prediction s | second s | load and first, ratio |")
        print("|---|---|---|---|---|---|---|---|")
        for method in options.methods:
            started = time.perf_counter()
            clf = FoldedClassifier(options.backbone, method=method).fit(X, y)
            expected = clf.predict_proba(X[:5])
            print(f"<!-- {method}: fitted in {time.perf_counter() - started:.1f} s, {clf.plan_}, {clf.gate_} -->")
            plain = 0.0
            for caches in (False, True):
                model = Path(folder) / f"{method}-{caches}.scff"
                clf.save(model, caches=caches)
                (imported, read, first, second), proba = fresh(model, rows, options.repeats)
                assert np.array_equal(np.array(proba), expected), "a saved model predicts what it did"
                plain = plain or read + first
                print(
                    f"| {method} | {'with caches' if caches else 'plain'} | {model.stat().st_size / 2**20:.1f} "
                    f"| {imported:.2f} | {read:.2f} | {first:.2f} | {second:.2f} | {plain / (read + first):.1f}x |"
                )


if __name__ == "__main__":
    main()
