"""Whatever a user would pick, on the same splits of real wide tables: accuracy, log-loss, AUC and CPU seconds.

    python benchmarks/rivals.py --data FOLDER                      # what is not recorded yet, then the tables
    python benchmarks/rivals.py --data FOLDER --arms logistic lightgbm --rows 64 --seeds 2
    python benchmarks/rivals.py --data FOLDER --hdlss              # the 30 published folds of four tables
    python benchmarks/rivals.py --data FOLDER --hdlss --dealt-by 1 # 30 others of them, dealt in the same way
    python benchmarks/rivals.py --data FOLDER --table              # run nothing, print what is recorded

FOLDER holds one parquet file a table (label column ``target``) and ``index.csv``, and the same in ``FOLDER/hdlss``. At
most 70 % of a table's rows are labelled, and no more than ``--rows``; the next 256 are asked. Every result is a line
of ``results/rivals.jsonl`` (``--records``), appended as it is done: an interrupted run goes on, and processes with
different arms may share a file. What is recorded is not run again, unless it failed and ``--retry`` is given, or other
code than the present recorded it and ``--again`` is; the last line counts.

Tables of more than ten classes take part where they are named or with ``--many``; means are over the others. GeneICL
needs its package (``pip install 'scff[geneicl]'``). ``rivals_arms.py`` says what each arm does. All of them run on one
thread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import resource
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold
from threadpoolctl import threadpool_limits

from rivals_arms import Arm, arms
from scff.bench.folds import get_protocol, make_split
from scff.bench.worker import source_hash

SIZES = (64, 256, 512)
SEEDS = (0, 1, 2)
QUERIES = 256
MAX_CLASSES = 10
#: Tables with published folds, and how many of those there are.
PUBLISHED = ("colon", "leukemia", "Prostate_GE", "ALLAML")
FOLDS = 30
#: Packages whose version decides what an arm answers.
PACKAGES = {
    **dict.fromkeys(("lightgbm", "lightgbm-default"), ("lightgbm",)),
    **dict.fromkeys(("native", "subsets", "kbest"), ("scff", "torch")),
    "geneicl": ("geneicl", "torch"),
}

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Key = tuple[str, int | str, int, str]


def tables(data: Path, at_most: int = MAX_CLASSES) -> list[str]:
    """Names of all tables with at most so many classes: those of the folder, then those of hdlss."""
    names = []
    for folder in (data, data / "hdlss"):
        index = pd.read_csv(folder / "index.csv")
        names += [name for name, k in zip(index["name"], index["classes"], strict=True) if k <= at_most]
    return names


@lru_cache(maxsize=2)
def load(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns and labels of one table."""
    path = data / f"{name}.parquet"
    if not path.exists():
        path = data / "hdlss" / f"{name}.parquet"
    frame = pd.read_parquet(path)
    y = pd.factorize(frame.pop("target"), sort=True)[0]
    return frame.to_numpy(np.float32), y


def split(data: Path, name: str, rows: int, seed: int) -> Split | None:
    """Support X, y and query X, y; None where the table is no longer than the size before this one allows.

    At most 70 % of the table are labelled, the next 256 rows are asked. Classes with fewer than four labelled rows are
    left out of both, so that every class can stand in every fold of a rival's inner cross-validation.
    """
    X, y = load(data, name)
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(rows, int(0.7 * len(y)))
    if any(n <= size < rows for size in SIZES):
        return None  # a smaller size has shown the whole of this table already
    s, q = order[:n], order[n : n + QUERIES]
    kept = np.flatnonzero(np.bincount(y[s]) >= 4)
    s, q = s[np.isin(y[s], kept)], q[np.isin(y[q], kept)]
    return X[s], np.searchsorted(kept, y[s]), X[q], np.searchsorted(kept, y[q])


def published_fold(data: Path, name: str, fold: int) -> Split:
    """Return one of the folds on which the authors of TabPFN-Wide recorded their results."""
    X, y = load(data, name)
    cut = make_split(y, name, fold, get_protocol("tabpfn-wide"))
    return X[cut.support], y[cut.support], X[cut.query], y[cut.query]


def dealt_fold(data: Path, name: str, fold: int, seed: int) -> Split:
    """Return a fold of as many rows as those, dealt by another seed."""
    X, y = load(data, name)
    dealt = RepeatedStratifiedKFold(n_splits=3, n_repeats=FOLDS // 3, random_state=seed).split(X, y)
    s, q = next(itertools.islice(dealt, fold, None))
    return X[s], y[s], X[q], y[q]


def scores(y: np.ndarray, p: np.ndarray) -> dict[str, float | None]:
    """Accuracy, log-loss and AUC; no AUC where a class is not among the rows that are asked."""
    k = p.shape[1]
    p = np.clip(p.astype(np.float64), 1e-12, None)
    p /= p.sum(1, keepdims=True)
    area = None
    if len(np.unique(y)) == k:
        area = float(roc_auc_score(y, p[:, 1]) if k == 2 else roc_auc_score(y, p, multi_class="ovr"))
    return {
        "accuracy": float(np.mean(p.argmax(1) == y)),
        "log_loss": float(log_loss(y, p, labels=np.arange(k))),
        "auc": area,
    }


def cpu_seconds() -> float:
    """CPU time of this process, its threads and the children it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def one_thread() -> None:
    """CPU seconds of several threads would include their waiting for each other."""
    import torch

    torch.set_num_threads(1)
    threadpool_limits(1)


def measure(arm: Arm, name: str, parts: Split) -> dict[str, Any]:
    """Fit, ask, score: one record without its key. What goes wrong is a record too."""
    X, y, Q, q = parts
    began = cpu_seconds()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p, facts = arm(X, y, Q)
        spent = facts.pop("cpu_seconds", None) or cpu_seconds() - began
        if p.shape != (len(Q), y.max() + 1) or not np.isfinite(p).all():
            raise ValueError(f"{name} gave probabilities of shape {p.shape}, or some that are not finite")
        result = {**scores(q, p), "cpu_seconds": round(spent, 3), **({"chosen": facts} if facts else {})}
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}", "cpu_seconds": round(cpu_seconds() - began, 3)}
    shape = {"support": len(y), "query": len(q), "columns": X.shape[1], "classes": int(y.max()) + 1}
    return {**result, **shape, "versions": versions(name)}


def versions(name: str) -> dict[str, str]:
    """Versions of the packages behind an arm, and the digest of our sources, as in the records of studies."""
    packages = PACKAGES.get(name, ("scff", "torch") if "/" in name else ("scikit-learn",))
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except ModuleNotFoundError:
            found[package] = "source"
    return {**found, "python": platform.python_version(), "source": source_hash()}


class Records:
    """Results by (table, rows, seed, arm) in a file of JSON lines.

    Rows are "published" for a published fold, and "dealt by 1" for one that a seed has dealt in the same way.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.known = {self.key(record): record for record in map(json.loads, lines)}

    @staticmethod
    def key(record: dict[str, Any]) -> Key:
        """Return what a record is a result of."""
        return record["table"], record["rows"], record["seed"], record["arm"]

    def add(self, record: dict[str, Any]) -> None:
        """Append in one write, so that processes that share the file never mix their lines."""
        self.known[self.key(record)] = record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab", buffering=0) as file:
            file.write((json.dumps(record) + "\n").encode())

    def frame(self) -> pd.DataFrame:
        """Return all results without an error."""
        return pd.DataFrame([record for record in self.known.values() if "error" not in record])


def splits(args: argparse.Namespace, names: list[str]) -> Iterator[tuple[int | str, int, str, Split]]:
    """Rows, seed, table and split, for everything that was asked for."""
    if args.hdlss:
        for name in names:
            for fold in range(FOLDS):
                if args.dealt_by is None:
                    yield "published", fold, name, published_fold(args.data, name, fold)
                else:
                    yield f"dealt by {args.dealt_by}", fold, name, dealt_fold(args.data, name, fold, args.dealt_by)
        return
    for rows in args.rows:
        for seed in args.seeds:
            for name in names:
                parts = split(args.data, name, rows, seed)
                if parts is not None and parts[1].max() > 0:  # nothing is asked where one class has all the rows
                    yield rows, seed, name, parts


def outdated(before: dict[str, Any], args: argparse.Namespace) -> bool:
    """Whether what is recorded is to be run again."""
    earlier = args.again and before["versions"].get("source") != source_hash()
    return earlier or (args.retry and "error" in before)


def main() -> None:
    """Parse, run what is missing, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", nargs="+", type=int, choices=SIZES, default=list(SIZES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--arms", nargs="+", choices=list(arms()), default=list(arms()))
    parser.add_argument("--tables", nargs="+", help="default: all of at most ten classes")
    parser.add_argument("--many", action="store_true", help="only the tables of more than ten classes")
    parser.add_argument("--hdlss", action="store_true", help="the published folds instead of our splits")
    parser.add_argument("--dealt-by", type=int, help="with --hdlss: not the published folds, but those of this seed")
    parser.add_argument("--records", type=Path, default=Path(__file__).parent / "results" / "rivals.jsonl")
    parser.add_argument("--retry", action="store_true", help="run again what has failed")
    parser.add_argument("--again", action="store_true", help="run again what other code than the present recorded")
    parser.add_argument("--table", action="store_true", help="only print")
    parser.add_argument("--figure", type=Path, help="also draw, into this file")
    args = parser.parse_args()

    wide = tables(args.data)
    names = args.tables or list(PUBLISHED if args.hdlss else wide)
    if args.many:
        names = [name for name in tables(args.data, at_most=1 << 30) if name not in wide]
    records = Records(args.records)
    if not args.table:
        one_thread()
        known = arms()
        for rows, seed, name, parts in splits(args, names):
            for arm in args.arms:
                before = records.known.get((name, rows, seed, arm))
                if before is not None and not outdated(before, args):
                    continue
                record = {"table": name, "rows": rows, "seed": seed, "arm": arm}
                record |= measure(known[arm], arm, parts)
                records.add(record)
                told = record.get("error") or f"{record['accuracy']:.3f} / {record['log_loss']:.3f}"
                print(f"{name} {rows} {seed} {arm}: {told} ({record['cpu_seconds']:.1f} s)", flush=True)

    import rivals_table

    frame = records.frame()
    if frame.empty or not frame["arm"].isin(args.arms).any():
        parser.exit(message="Nothing is recorded for these arms.\n")
    frame = frame[frame["arm"].isin(args.arms)]
    rivals_table.report(frame, args.data, wide)
    for record in records.known.values():
        if "error" in record and record["arm"] in args.arms:
            print("failed:", *(record[key] for key in ("table", "rows", "seed", "arm")), record["error"])
    if args.figure:
        rivals_table.draw(frame[frame["table"].isin(wide)], args.figure)


if __name__ == "__main__":
    main()
