"""Is the embedded backbone good enough? Prints every bar and whether it is met.

Three parts: scikit-learn's four small tables against logistic regression; wide tables folded (the default and the
paper's method), in one leaf and native; and accuracy as the support grows. The bars are the default's. Medians over
seeds of stratified 50/50 splits, support at most 512 rows.

    python benchmarks/nano_quality.py                      # the first part
    python benchmarks/nano_quality.py --data FOLDER        # all; FOLDER holds one parquet file a table and index.csv

Results are kept in ``results/nano_quality.jsonl`` under the hash of the checkpoint, so an interrupted run goes on, and
processes with different ``--tables`` can share the work; a last run of everything prints the whole.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scff
from scff import FoldedClassifier
from scff.bench.worker import source_hash

#: Points of accuracy a table may lose against logistic regression, and how much worse its log-loss may be.
SMALL = {"breast_cancer": 1.0, "wine": 2.0, "iris": 2.0, "digits": 4.0}
LOSS_FACTOR = 1.3
WIDE_MARGIN = 3.0
METHODS = ("auto", "scff", "raw-core", "native")
GROWING = ("scene", "jasmine", "gas-drift_8of10batches")
SUPPORTS = (128, 512, 2048)

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def split(x: np.ndarray, y: np.ndarray, seed: int, support: int, query: int, test_size: float = 0.5) -> Split:
    """Split in half, stratified, and bound both sides; a smaller support is part of a larger one."""
    x_s, x_q, y_s, y_q = train_test_split(x, y, test_size=test_size, stratify=y, random_state=seed)
    order_s = np.random.default_rng(seed).permutation(len(y_s))
    # One row of every class first, so that no support lacks a class.
    firsts = [order_s[y_s[order_s] == label][0] for label in np.unique(y_s)]
    order_s = np.concatenate([firsts, np.setdiff1d(order_s, firsts, assume_unique=True)])[:support]
    order_q = np.random.default_rng(seed).permutation(len(y_q))[:query]
    return x_s[order_s], y_s[order_s], x_q[order_q], y_q[order_q]


def plain_regression() -> Any:
    """Logistic regression as everybody would try it first."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=5_000))


def tuned_regression() -> Any:
    """Logistic regression with its penalty chosen by cross-validation on the support."""
    grid = {"logisticregression__C": np.logspace(-4, 1, 6)}
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, tol=1e-3))
    return GridSearchCV(model, grid, cv=3, scoring="neg_log_loss")


class Results:
    """Figures by (table, seed, method, bound on the query rows), kept on disk."""

    def __init__(self, path: Path, checkpoint: Path, backbone: str, max_query: int, again: bool = False) -> None:
        self.path, self.backbone, self.max_query = path, backbone, max_query
        self.digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()[:12]
        lines = path.read_text().splitlines() if path.exists() else []
        every = [json.loads(line) for line in lines]
        records = [record for record in every if not again or record.get("source") == source_hash()]
        self.known = {tuple(record["key"]): tuple(record["value"]) for record in records}

    def get(self, table: str, seed: int, method: str, data: Callable[[], Split]) -> tuple[float, float]:
        """Return accuracy in percent and log-loss."""
        regression = method.startswith("logistic")
        key = ("any" if regression else self.digest, table, seed, method, self.max_query)
        if key not in self.known:
            x_s, y_s, x_q, y_q = data()
            began = time.process_time()
            if regression:
                model = plain_regression() if method == "logistic" else tuned_regression()
            else:
                model = FoldedClassifier(backbone=self.backbone, method=method, random_state=0, cache=False)
            p = model.fit(x_s, y_s).predict_proba(x_q)
            hit = 100 * float(np.mean(model.classes_[p.argmax(1)] == y_q))
            value = (hit, float(log_loss(y_q, p, labels=model.classes_)))
            self.known[key] = value
            with self.path.open("a") as file:
                spent = round(time.process_time() - began, 2)
                record = {"key": key, "value": value, "cpu_seconds": spent, "source": source_hash()}
                file.write(json.dumps(record) + "\n")
        return self.known[key]


def bar(met: bool) -> str:
    """Word for a bar."""
    return "met" if met else "NOT MET"


def median(values: list[tuple[float, float]]) -> tuple[float, float]:
    """Median accuracy and median log-loss."""
    accuracy, loss = np.median(np.array(values), axis=0)
    return float(accuracy), float(loss)


def small_tables(results: Results, seeds: int) -> None:
    """Compare with plain logistic regression on scikit-learn's own tables; the bars are for the default method."""
    print("\n## Small tables, accuracy % / log-loss\n")
    print("| table | auto | native | logistic regression | accuracy bar | log-loss bar |\n|---|---|---|---|---|---|")
    for name, margin in SMALL.items():
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        pairs: dict[str, list[tuple[float, float]]] = {"auto": [], "native": [], "logistic": []}
        for seed in range(seeds):
            for method, values in pairs.items():
                values.append(
                    results.get(name, seed, method, lambda seed=seed, x=x, y=y: split(x, y, seed, 512, 10_000))
                )
        (a, loss), whole, (a_lr, loss_lr) = (median(values) for values in pairs.values())
        print(
            f"| {name} | {a:.1f} / {loss:.3f} | {whole[0]:.1f} / {whole[1]:.3f} | {a_lr:.1f} / {loss_lr:.3f} "
            f"| >= {a_lr - margin:.1f}: {bar(a >= a_lr - margin)} "
            f"| <= {LOSS_FACTOR * loss_lr:.3f}: {bar(loss <= LOSS_FACTOR * loss_lr)} |",
            flush=True,
        )


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read a table whose last column is the target."""
    frame = pd.read_parquet(path)
    target = "target" if "target" in frame else frame.columns[-1]
    y = frame.pop(target).to_numpy()
    return frame.to_numpy(dtype=np.float64), np.unique(y, return_inverse=True)[1]


def wide_tables(data: Path) -> Iterator[str]:
    """Names of the tables with at most ten classes."""
    index = pd.read_csv(data / "index.csv")
    yield from index.loc[index["classes"].astype(int) <= 10].sort_values("features")["name"]


def folding(results: Results, data: Path, seeds: int, query: int, tables: list[str]) -> None:
    """Compare the default with the paper's method, one leaf, native inference and tuned logistic regression."""
    columns = (*METHODS, "logistic-tuned")
    print("\n## Wide tables, accuracy % / log-loss\n")
    print("| table | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1))
    medians: dict[str, list[tuple[float, float]]] = {method: [] for method in columns}
    for name in tables:
        x, y = read(data / f"{name}.parquet")
        cells = []
        for method in columns:
            values = [
                results.get(name, seed, method, lambda seed=seed, x=x, y=y: split(x, y, seed, 512, query))
                for seed in range(seeds)
            ]
            medians[method].append(median(values))
            cells.append("{:.1f} / {:.3f}".format(*medians[method][-1]))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    macro = {method: np.mean(values, axis=0) for method, values in medians.items()}
    print("| **mean** | " + " | ".join("{:.2f} / {:.3f}".format(*macro[method]) for method in columns) + " |\n")
    folded, paper, raw, native, regression = (macro[method] for method in columns)
    print(f"- log-loss of auto at most that of scff: {bar(folded[1] <= paper[1])}")
    print(f"- accuracy of auto at least that of raw-core: {bar(folded[0] >= raw[0])}")
    print(f"- accuracy of auto above native: {bar(folded[0] > native[0])}")
    print(f"- log-loss of auto below native: {bar(folded[1] < native[1])}")
    within = folded[0] >= regression[0] - WIDE_MARGIN
    print(f"- accuracy of auto within {WIDE_MARGIN:g} points of logistic regression: {bar(within)}")


def growing(results: Results, data: Path, seeds: int, query: int) -> None:
    """Watch accuracy as the support grows."""
    print("\n## Growing support, auto, accuracy % / log-loss\n")
    print("| table | " + " | ".join(map(str, SUPPORTS)) + " | does not fall |\n|" + "---|" * (len(SUPPORTS) + 2))
    for name in GROWING:
        x, y = read(data / f"{name}.parquet")
        rest = min(0.5, 1 - max(SUPPORTS) / len(y) - 0.002)
        figures = []
        for support in SUPPORTS:
            values = [
                results.get(
                    f"{name}/{support}",
                    seed,
                    "auto",
                    lambda seed=seed, x=x, y=y, n=support, q=rest: split(x, y, seed, n, query, q),
                )
                for seed in range(seeds)
            ]
            figures.append(median(values))
        rising = all(b[0] >= a[0] for a, b in itertools.pairwise(figures))
        print(f"| {name} | " + " | ".join("{:.1f} / {:.3f}".format(*f) for f in figures) + f" | {bar(rising)} |")


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, help="another checkpoint than the embedded one")
    parser.add_argument("--data", type=Path, help="folder of wide tables")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--max-query", type=int, default=500, help="query rows of a wide table")
    parser.add_argument("--tables", nargs="*", help="only these wide tables")
    parser.add_argument("--parts", nargs="*", default=["small", "wide", "rows"])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "nano_quality.jsonl")
    parser.add_argument("--again", action="store_true", help="run again what other code than the present recorded")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    embedded = Path(scff.__file__).parent / "backbones" / "weights" / "nano.ckpt"
    checkpoint = args.checkpoint or embedded
    backbone = str(args.checkpoint) if args.checkpoint else "nano"
    results = Results(args.results, checkpoint, backbone, args.max_query, args.again)
    print(f"checkpoint {checkpoint.name} {results.digest}, {args.seeds} seeds")
    if "small" in args.parts:
        small_tables(results, args.seeds)
    if args.data is None:
        return
    if "wide" in args.parts:
        folding(results, args.data, args.seeds, args.max_query, args.tables or list(wide_tables(args.data)))
    if "rows" in args.parts:
        growing(results, args.data, args.seeds, args.max_query)


if __name__ == "__main__":
    main()
