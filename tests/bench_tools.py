"""What the bench tests share: small wide tables from scikit-learn, and records made by hand."""

import csv
import hashlib
import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from scff.bench.arms import get_arm
from scff.bench.records import CellKey, Record

ROOT = Path(__file__).resolve().parent.parent
VERDICT = {
    "approved": True,
    "reason": "lower",
    "read": [{"name": "all30", "weight": 0.75, "share": 1.0}, {"name": "core", "weight": 0.25, "share": 1.0}],
    "tried": [{"name": name, "share": 1.0, "loss": 0.5} for name in ("core", "linked", "all30")],
}


def write_panel(folder, n_rows=90, n_columns=150):
    """Three tables widened with noise, as Parquet and CSV with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, loader, suffix in (("cancer", load_breast_cancer, ".parquet"), ("wine", load_wine, ".csv")):
        X, y = loader(return_X_y=True)
        rng = np.random.default_rng(0)
        keep = rng.permutation(len(X))[:n_rows]
        X = np.hstack([X[keep], rng.normal(size=(n_rows, n_columns - X.shape[1]))])
        frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(n_columns)]).assign(target=y[keep])
        path = folder / f"{name}{suffix}"
        frame.to_parquet(path) if suffix == ".parquet" else frame.to_csv(path, index=False)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        rows.append((name, n_rows, n_columns, len(set(y)), "", digest))
    with (folder / "index.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("name", "rows", "features", "classes", "openml_id", "sha256"), *rows])
    return folder


def digits():
    return load_digits(return_X_y=True)


def shared_data():
    """The folder of real wide tables, if this checkout has one beside it."""
    for place in (os.environ.get("SCFF_DATA"), ROOT.parent / "shared" / "data"):
        if place and (Path(place) / "index.csv").is_file():
            return Path(place)
    return None


def record(
    arm, dataset="a", fold=1, variant="plain", *, accuracy=0.5, nll=1.0, peak=100, seconds=1.0, core=200, **more
):
    """A complete record with the given numbers."""
    backbone, checkpoint = ("baseline", "none") if get_arm(arm).kind == "baseline" else ("nano", "c" * 12)
    metrics = {
        "accuracy": accuracy, "nll": nll, "auc": 0.5, "balanced_accuracy": accuracy, "brier": 0.5, "ece": 0.1,
    }  # fmt: skip
    values = {
        "status": "ok",
        "settings_hash": "s",
        "data_digest": "sha256:d",
        "support_hash": f"support {dataset} {fold} {variant}",
        "query_hash": f"query {dataset} {fold}",
        "n_support": 64,
        "n_query": 16,
        "n_columns": 300,
        "n_classes": 2,
        "query_chunk": 16,
        "metrics": metrics,
        "seconds": {"load": 1.0, "plan": 0.1, "compile": 0.4, "predict": 0.5, "total": seconds},
        "memory": {"meter": "linux-hwm", "start": 1000, "peak": 1000 + peak, "added": peak},
        "plan": {} if arm.startswith("native") else {"hash": "p", "core": core, "core_leaves": 2, "tail_leaves": 1},
        "gate": {"accepted": None, "alpha": 0.0, "reason": "refused"} if arm == "scff" else {},
        "verdict": VERDICT if arm == "auto" else {},
    }
    return Record(CellKey("laptop", backbone, checkpoint, dataset, variant, fold, arm), **{**values, **more})
