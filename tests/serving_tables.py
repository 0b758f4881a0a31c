"""Tables to score, and what came of them; for every module that tests scoring."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from scff import FoldedClassifier

NAMES = [f"g{j}" for j in range(12)]


def rows(n, seed=0, **columns):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(n, len(NAMES))), columns=NAMES).assign(**columns)


def small_model():
    """Fitted on 40 rows of two classes."""
    y = np.arange(40) % 2
    X = rows(40)
    X.iloc[:, :4] += y[:, None]
    return FoldedClassifier("nano", method="raw-core").fit(X, np.where(y, "ill", "well"))


def seven_parts(folder):
    """Seven parts of 30 rows, two of them in partitions; keys count through."""
    for i in range(7):
        part = folder / (f"day={i}" if i >= 5 else "") / f"part-{i}.parquet"
        part.parent.mkdir(parents=True, exist_ok=True)
        rows(30, seed=i, key=np.arange(30 * i, 30 * i + 30)).to_parquet(part, row_group_size=8)
    return folder


def keys(folder):
    return sorted(pd.concat(pd.read_parquet(part, partitioning=None) for part in outputs(folder))["key"])


def outputs(folder):
    return sorted(part for part in Path(folder).rglob("*.parquet") if "_scff" not in part.parts)


def scff(*arguments):
    command = [sys.executable, "-m", "scff.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"}, check=False)


def parts(folder, *tables):
    for name, part in tables:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(part, folder / name)
    return folder


def arrow(n, seed=0, **columns):
    return pa.Table.from_pandas(rows(n, seed, **columns), preserve_index=False)
