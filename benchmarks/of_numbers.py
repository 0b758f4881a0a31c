"""Numbers: the default and the paper's method with TabPFN v2's released regressor, beside what a user would pick.

    python benchmarks/of_numbers.py FOLDER [FOLDER ...]                       # Parquet files with numbers in ``target``
    python benchmarks/of_numbers.py FOLDER --genes ../shared/data/hdlss       # and genes told from all other genes
    python benchmarks/of_numbers.py FOLDER --table                            # only print what is recorded

Every table is split by a seed: at most so many labelled rows (70 % of a short table), the next 120 are asked, the same
for everybody. With ``--genes`` every table of a folder of gene tables gives three more, in each of which one of its
more variable genes is the target. Errors are mean squared errors as shares of the variance of the rows that are asked;
the last columns say on how many splits the default has the lower one. Records are resumable.

Rivals choose by four folds of the labelled rows: ridge its penalty, the elastic net penalty and mixture, the support
vector machine its cost, partial least squares its components, LightGBM its trees and rate.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import ElasticNetCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from scff import FoldedRegressor
from scff.bench.worker import source_hash

QUERIES, GENES, FOLDS = 120, 3, 4
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def chosen(model: Any, grid: dict[str, list[Any]]) -> Any:
    """A model that chooses by squared error on inner folds."""
    return GridSearchCV(model, grid, cv=FOLDS, scoring="neg_mean_squared_error")


def scaled(model: Any) -> Any:
    """Holes filled, every column with mean 0 and variance 1."""
    return make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), model)


BOOSTED = {"min_child_samples": 5, "subsample": 0.8, "subsample_freq": 1, "colsample_bytree": 0.3, "n_jobs": 1}
ARMS: dict[str, Callable[[], Any]] = {
    "auto": lambda: FoldedRegressor("tabpfn-v2-regressor"),
    "scff": lambda: FoldedRegressor("tabpfn-v2-regressor", method="scff"),
    "ridge": lambda: scaled(RidgeCV(np.logspace(-1, 6, 15))),
    "elastic net": lambda: scaled(ElasticNetCV(l1_ratio=[0.1, 0.5, 0.9], alphas=15, cv=FOLDS, tol=1e-3)),
    "support vectors": lambda: chosen(scaled(SVR()), {"svr__C": [0.3, 1, 10, 100]}),
    "partial least squares": lambda: chosen(scaled(PLSRegression()), {"plsregression__n_components": [1, 2, 4, 8, 12]}),
    "random forest": lambda: scaled(RandomForestRegressor(300, max_features=1 / 3, random_state=0)),
    "LightGBM": lambda: chosen(
        LGBMRegressor(verbose=-1, random_state=0, **BOOSTED),
        {"n_estimators": [50, 150, 400], "learning_rate": [0.03, 0.1]},
    ),
}


def tables(folders: list[Path], genes: Path | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, columns and numbers of every table."""
    for folder in folders:
        for file in sorted(folder.glob("*.parquet")):
            frame = pd.read_parquet(file)
            y = frame.pop("target").to_numpy(np.float64)
            yield file.stem, frame.to_numpy(np.float32), y
    for file in sorted(genes.glob("*.parquet")) if genes else ():
        X = pd.read_parquet(file).drop(columns="target").to_numpy(np.float32)
        spread = X.std(axis=0)
        some = np.random.default_rng(0).permutation(np.flatnonzero(spread > np.median(spread)))[:GENES]
        for number, gene in enumerate(some):
            yield f"{file.stem}, gene {number + 1}", np.delete(X, gene, axis=1), X[:, gene].astype(np.float64)


def split(X: np.ndarray, y: np.ndarray, rows: int, seed: int, smaller: int) -> Split | None:
    """Labelled and asked rows; None where a smaller size has shown all that may be labelled."""
    order, n = np.random.default_rng([seed, 7]).permutation(len(y)), min(rows, int(0.7 * len(y)))
    if n <= smaller:
        return None
    s, q = order[:n], order[n : n + QUERIES]
    return X[s], y[s], X[q], y[q]


def measure(arm: str, parts: Split) -> dict[str, Any]:
    """Error and CPU seconds of a fit and its prediction."""
    X, y, Q, q = parts
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = np.ravel(ARMS[arm]().fit(X, y).predict(Q))
    error = float(((said - q) ** 2).mean() / q.var())
    return {
        "error": error,
        "cpu_seconds": round(time.process_time() - began, 2),
        "labelled": len(y),
        "columns": X.shape[1],
    }


def report(frame: pd.DataFrame) -> None:
    """Print a table for every number of rows, then every table's own."""
    for rows, part in frame.groupby("rows"):
        errors = part.pivot_table(index=["table", "seed"], columns="arm", values="error").dropna()
        seconds = part.groupby("arm")["cpu_seconds"].mean()
        n_tables = errors.index.get_level_values("table").nunique()
        print(f"\n{rows} labelled rows, {n_tables} tables, {len(errors)} splits\n")
        print("| arm | mean error | geometric mean | CPU seconds | auto is ahead |\n|---|---|---|---|---|")
        by_table = errors.groupby("table").mean()
        for arm in sorted(errors, key=lambda arm: by_table[arm].mean()):
            ahead = "" if arm == "auto" else f"{int((errors['auto'] < errors[arm]).sum())} of {len(errors)}"
            figures = f"{by_table[arm].mean():.3f} | {np.exp(np.log(by_table[arm]).mean()):.3f} | {seconds[arm]:.1f}"
            print(f"| {arm} | {figures} | {ahead} |")
        print("\n" + by_table.round(3).to_string())


def main() -> None:
    """Parse, run what is missing, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--genes", type=Path, help="folder of gene tables")
    parser.add_argument("--rows", nargs="+", type=int, default=[64, 150])
    parser.add_argument("--seeds", nargs="+", type=int, default=[2, 3])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--records", type=Path, default=Path(__file__).parent / "results" / "of_numbers.jsonl")
    parser.add_argument("--again", action="store_true", help="run again what other code than the present recorded")
    parser.add_argument("--table", action="store_true", help="only print")
    asked = parser.parse_args()
    lines = asked.records.read_text().splitlines() if asked.records.exists() else []
    known = {(one["table"], one["rows"], one["seed"], one["arm"]): one for one in map(json.loads, lines)}
    for seed in () if asked.table else asked.seeds:
        for place, rows in enumerate(asked.rows):
            smaller = max(asked.rows[:place], default=0)
            for name, X, y in tables(asked.folders, asked.genes):
                parts = split(X, y, rows, seed, smaller)
                for arm in asked.arms if parts is not None else ():
                    key = (name, rows, seed, arm)
                    if key in known and not (asked.again and known[key].get("source") != source_hash()):
                        continue
                    record = {"table": name, "rows": rows, "seed": seed, "arm": arm} | measure(arm, parts)
                    known[key] = record = record | {"source": source_hash()}
                    with asked.records.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(record) + "\n")
                    print(f"{name} {rows} {seed} {arm}: {record['error']:.3f} ({record['cpu_seconds']} s)", flush=True)
    report(pd.DataFrame(known.values()))


if __name__ == "__main__":
    main()
