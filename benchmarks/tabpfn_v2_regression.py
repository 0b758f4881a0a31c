"""TabPFN v2's real regressor weights: native at full width, native at equal memory, and folded tokens.

    python benchmarks/tabpfn_v2_regression.py DIRECTORY --out benchmarks/results/tabpfn_v2_regression.csv

DIRECTORY holds one parquet file a table with a column ``target``. Every table is also read beside products of its
columns, shuffled and cut off at a given width. "Equal memory" is native inference on the best columns, as many as a
leaf has: its row of tokens is as long as the folded one.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scff import FoldedRegressor, compile_plan
from scff.memory.meter import PeakMemory


def with_products(X: np.ndarray, width: int) -> np.ndarray:
    """The table beside products of its standardised columns, ``width`` columns in all."""
    rng = np.random.default_rng(0)
    Z = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-12)
    pairs = rng.permutation(list(combinations(range(X.shape[1]), 2)))[: width - X.shape[1]]
    wide = np.hstack([X, Z[:, pairs[:, 0]] * Z[:, pairs[:, 1]]])
    return wide[:, rng.permutation(wide.shape[1])]


def fit_and_predict(model: Any, Xs: np.ndarray, ys: np.ndarray, Xq: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Predictions, seconds and MiB added, the model being loaded already."""
    model.fit(Xs[:20, :4], ys[:20]).predict(Xq[:2, :4])
    started = time.perf_counter()
    with PeakMemory() as memory:
        predicted = model.fit(Xs, ys).predict(Xq)
    return predicted, time.perf_counter() - started, memory.added / 2**20


def main() -> None:
    """Run every table, width and fold, and write the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--out", type=Path, default=Path("tabpfn_v2_regression.csv"))
    parser.add_argument("--width", type=int, default=800)
    parser.add_argument("--leaf-width", type=int, default=64)
    parser.add_argument("--folds", type=int, default=3)
    options = parser.parse_args()
    records = []
    for path in sorted(options.directory.glob("*.parquet")):
        frame = pd.read_parquet(path)
        plain, y = frame.drop(columns="target").to_numpy(np.float64), frame["target"].to_numpy(np.float64)
        for X in (plain, with_products(plain, options.width)):
            folds = KFold(options.folds, shuffle=True, random_state=0).split(X)
            for fold, (support, query) in enumerate(folds):
                plan = compile_plan(X[support], y[support], options.leaf_width, routing="linear")
                best = np.sort(np.concatenate([plan.core, plan.tail])[: options.leaf_width])
                everything = np.arange(X.shape[1])
                runs = {
                    "native, full width": (FoldedRegressor("tabpfn-v2", method="native"), everything),
                    "native, equal memory": (FoldedRegressor("tabpfn-v2", method="native"), best),
                    "scff": (FoldedRegressor("tabpfn-v2", leaf_width=options.leaf_width), everything),
                    "ridge": (make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 5, 15))), everything),
                }
                for method, (model, columns) in runs.items():
                    arrays = X[np.ix_(support, columns)], y[support], X[np.ix_(query, columns)]
                    # A process of its own: freed memory stays with the process and would hide the next peak.
                    with ProcessPoolExecutor(1, get_context("spawn")) as process:
                        predicted, seconds, added = process.submit(fit_and_predict, model, *arrays).result()
                    records.append(
                        {
                            "table": path.stem,
                            "columns": X.shape[1],
                            "core": len(plan.core),
                            "fold": fold,
                            "method": method,
                            "r2": round(r2_score(y[query], predicted), 4),
                            "seconds": round(seconds, 2),
                            "added_mib": round(added, 1),
                        }
                    )
                    print(records[-1], flush=True)
    table = pd.DataFrame(records)
    table.to_csv(options.out, index=False)
    means = table.groupby(["table", "columns", "method"], sort=False)[["r2", "seconds", "added_mib"]]
    print(means.mean().round(3).to_string())


if __name__ == "__main__":
    main()
