"""A sparse table of cells: what fit and predict take, in a process of its own.

    python benchmarks/sparse_cells.py [--labelled 1000] [--genes 30000] [--cells 10000] [--density 0.05]

Counts are drawn with a Poisson law whose mean differs between two kinds of cells in one gene of a hundred. Printed are
the seconds and the peak of the whole process, interpreter, libraries and data included.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np
from scipy import sparse

from scff import FoldedClassifier


def cells(n: int, genes: int, density: float, seed: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Counts of ``n`` cells of two kinds, a few hundred at a time so that nothing dense is large."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(n) % 2
    rate = np.random.default_rng(0).gamma(0.5, 2 * density, size=genes)
    marked = np.arange(genes) % 100 == 0
    parts = []
    for start in range(0, n, 250):
        kind = kinds[start : start + 250, None]
        mean = np.where(marked & (kind == 1), 3 * rate, rate)
        parts.append(sparse.csr_array(rng.poisson(mean).astype(np.float32)))
    return sparse.vstack(parts, format="csr"), kinds


def peak() -> float:
    """Largest resident size so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Fit, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labelled", type=int, default=1000)
    parser.add_argument("--genes", type=int, default=30_000)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--density", type=float, default=0.05)
    parser.add_argument("--backbone", default="nano")
    parser.add_argument("--method", default="auto")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = cells(asked.labelled, asked.genes, asked.density, 1)
    Q, kinds = cells(asked.cells, asked.genes, asked.density, 2)
    stored = Q.nnz / np.prod(Q.shape)
    print(f"{X.shape[0]} labelled and {Q.shape[0]} other cells x {X.shape[1]} genes, {stored:.1%} of the cells filled")
    print(f"data and libraries  {peak():.2f} GiB")
    started = time.perf_counter()
    model = FoldedClassifier(asked.backbone, method=asked.method).fit(X, y)
    fitted = time.perf_counter()
    print(f"fit      {fitted - started:6.1f} s   peak {peak():.2f} GiB   {model.plan_}")
    right = (model.predict(Q) == kinds).mean()
    print(f"predict  {time.perf_counter() - fitted:6.1f} s   peak {peak():.2f} GiB   accuracy {right:.3f}")
    dense = (X.shape[0] + Q.shape[0]) * X.shape[1] * 8 / 2**30
    print(f"the same table as a dense array: {dense:.2f} GiB of float64")


if __name__ == "__main__":
    main()
