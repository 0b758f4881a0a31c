"""How long `scff evaluate` takes on 70 samples x 5,000 genes: 5 folds 3 times over, all plain models, by the command.

    python benchmarks/honest_estimate.py

Prints wall clock, CPU seconds of all processes, and what each model took. `--backbone` and `--jobs` as for the command.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd


def gene_table(folder: Path, n_rows: int, n_columns: int) -> None:
    """Genes in rows, of which some go together and a few with the class, and a sample sheet."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 2
    factors = rng.normal(size=(n_rows, 20))
    X = factors @ rng.normal(size=(20, n_columns)) * 0.5 + rng.normal(size=(n_rows, n_columns))
    X[:, :60] += 0.7 * y[:, None]
    samples = [f"S{i:03d}" for i in range(n_rows)]
    genes = pd.Index([f"GENE{j}" for j in range(n_columns)], name="gene")
    pd.DataFrame(X.T.round(4), index=genes, columns=samples).to_csv(folder / "expr.tsv.gz", sep="\t")
    sheet = pd.DataFrame({"sample": samples, "dx": np.where(y, "tumour", "normal")})
    sheet.to_csv(folder / "meta.tsv", sep="\t", index=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=70)
    parser.add_argument("--columns", type=int, default=5000)
    parser.add_argument("--backbone", default="tabpfn-v1")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gene_table(folder, options.rows, options.columns)
        words = ["evaluate", "expr.tsv.gz", "--samples", "meta.tsv", "--target", "dx", "--json"]
        words += ["--folds", "5", "--repeats", "3"]
        command = [sys.executable, "-m", "scff.cli.main", *words, "-b", options.backbone, "-j", str(options.jobs)]
        started = time.perf_counter()
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
        wall = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    facts = json.loads(done.stdout.splitlines()[-1])
    print(f"{options.rows} x {options.columns}, 15 fits of each model, {options.backbone}, {options.jobs} processes")
    print(f"wall clock {wall:.0f} s, CPU {used.ru_utime + used.ru_stime:.0f} s")
    for model, seconds in facts["seconds"].items():
        print(f"  {model:<16}{seconds:6.1f} s   AUC {facts['scores'][model]['auc']['value']:.3f}")
