"""TabPFN v1's real weights on wide tables: native, best 100 columns, folded Core, the paper's method, the default.

    python benchmarks/tabpfn_v1.py DIRECTORY --out benchmarks/results/tabpfn_v1.csv

DIRECTORY holds one parquet file a table with a column ``target``. Each table gives one stratified split of 512
support and 256 query rows. Tables with more than 10 classes on the support are left out: the model knows 10.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scff import FoldedClassifier, compile_plan


def split(frame: pd.DataFrame, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """512 support and 256 query rows, or two thirds and one third of a smaller table."""
    X = frame.drop(columns="target").to_numpy(dtype=np.float32)
    y = frame["target"].to_numpy()
    counts = pd.Series(y).value_counts()
    keep = pd.Series(y).isin(counts[counts >= 4].index).to_numpy()
    X, y = X[keep], y[keep]
    n_query = min(256, len(y) // 3)
    n_support = min(512, len(y) - n_query)
    Xs, Xq, ys, yq = train_test_split(X, y, train_size=n_support, test_size=n_query, stratify=y, random_state=seed)
    seen = np.isin(yq, ys)
    return Xs, ys, Xq[seen], yq[seen]


def run(name: str, frame: pd.DataFrame, seed: int) -> list[dict[str, object]]:
    """Every method on one table."""
    Xs, ys, Xq, yq = split(frame, seed)
    classes = np.unique(ys)
    if len(classes) > 10:
        return []
    plan = compile_plan(Xs, ys)
    best = np.sort(np.concatenate([plan.core, plan.tail])[:100])
    everything = np.arange(Xs.shape[1])
    runs = {
        "native (100 drawn columns)": (FoldedClassifier("tabpfn-v1", method="native"), everything),
        "native on the best 100": (FoldedClassifier("tabpfn-v1", method="native"), best),
        "bounded Core": (FoldedClassifier("tabpfn-v1", method="bounded-core"), everything),
        "scff": (FoldedClassifier("tabpfn-v1", method="scff"), everything),
        "auto": (FoldedClassifier("tabpfn-v1"), everything),
        "logistic regression": (make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), everything),
    }
    rows: list[dict[str, object]] = []
    for method, (model, columns) in runs.items():
        fill = np.nan_to_num if method == "logistic regression" else np.asarray
        started = time.perf_counter()
        proba = model.fit(fill(Xs[:, columns]), ys).predict_proba(fill(Xq[:, columns]))
        seconds = time.perf_counter() - started
        accuracy = float((classes[proba.argmax(axis=1)] == yq).mean())
        proba = np.clip(proba.astype(np.float64), 1e-7, 1)
        nll = float(log_loss(yq, proba / proba.sum(axis=1, keepdims=True), labels=classes))
        rows.append(
            {
                "table": name,
                "columns": Xs.shape[1],
                "core": len(plan.core),
                "method": method,
                "accuracy": round(accuracy, 4),
                "nll": round(nll, 4),
                "seconds": round(seconds, 2),
            }
        )
    return rows


def main() -> None:
    """Run every table and write the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--out", type=Path, default=Path("tabpfn_v1.csv"))
    parser.add_argument("--only", nargs="*", help="names of tables")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    records = []
    for path in sorted(options.directory.glob("*.parquet")):
        if options.only and path.stem not in options.only:
            continue
        new = run(path.stem, pd.read_parquet(path), options.seed)
        if not new:
            print(f"{path.stem}: more than 10 classes", flush=True)
            continue
        records += new
        pd.DataFrame(records).to_csv(options.out, index=False)
        print(pd.DataFrame(new).to_string(index=False, header=False), flush=True)
    summary = pd.DataFrame(records).groupby("method", sort=False)[["accuracy", "nll"]].mean()
    print(summary.round(4).to_string())


if __name__ == "__main__":
    main()
