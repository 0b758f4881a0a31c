"""How much folding gives TabPFN v1 on madeline, over splits and support sizes.

    python benchmarks/tabpfn_v1_madeline.py madeline.parquet --out benchmarks/results/tabpfn_v1_madeline.csv

madeline has 259 columns, of which a dozen matter. How many of them the Benjamini-Hochberg count finds depends on the
number of labelled rows, and the gain with it: that is what the table shows, for the paper's method and for the default,
which asks held-back rows whether to read the columns linked to those found as well. Splits are the paper's (stratified
5-fold, seed 20260904) and, for 512 rows, six plain ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold, train_test_split

from scff import FoldedClassifier

ARMS = {
    "native": {"method": "native"},
    "scff": {"method": "scff"},
    "auto": {"method": "auto"},
}


def splits(y: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, support rows and query rows."""
    folds = list(StratifiedKFold(5, shuffle=True, random_state=20260904).split(y, y))
    for n_support in (512, 1024, 2048):
        for i, (support, query) in enumerate(folds):
            support, _ = train_test_split(support, train_size=n_support, stratify=y[support], random_state=20260904)
            query, _ = train_test_split(query, train_size=256, stratify=y[query], random_state=20260905)
            yield f"fold {i}", support, query
    for seed in range(6):
        support, query = train_test_split(
            np.arange(len(y)), train_size=512, test_size=256, stratify=y, random_state=seed
        )
        yield f"split {seed}", support, query


def main() -> None:
    """Run every split and write the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--out", type=Path, default=Path("tabpfn_v1_madeline.csv"))
    options = parser.parse_args()
    frame = pd.read_parquet(options.table)
    X, y = frame.drop(columns="target").to_numpy(np.float32), frame["target"].to_numpy()
    records = []
    for name, support, query in splits(y):
        accuracy = {}
        for arm, settings in ARMS.items():
            model = FoldedClassifier("tabpfn-v1", **settings).fit(X[support], y[support])
            accuracy[arm] = round(float((model.predict(X[query]) == y[query]).mean()), 4)
        core = {"discovered": model.plan_.discoveries, "core": len(model.plan_.core)}  # of the last arm, the default
        records.append({"support": len(support), "split": name, **core, **accuracy})
        print(records[-1], flush=True)
    table = pd.DataFrame(records)
    for arm in ("scff", "auto"):
        table[f"gain of {arm}"] = (100 * (table[arm] - table["native"])).round(1)
    table.to_csv(options.out, index=False)
    shown = table.groupby("support")[["native", "gain of scff", "gain of auto"]]
    print(shown.agg(["mean", "min", "max"]).round(3).to_string())


if __name__ == "__main__":
    main()
