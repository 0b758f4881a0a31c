"""What the effect of the strongest columns, 50 at most, costs, counted in predictions of as many rows as were labelled.

    python benchmarks/column_effects.py
    python benchmarks/column_effects.py --backbone tabpfn-v1

CPU seconds: of one prediction (the median of five), of shuffling every column, and their ratio: 10 at most.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import numpy as np
import torch

from scff import FoldedClassifier
from scff.report.columns import strongest
from scff.report.shuffling import affordable, shuffle_columns
from scff.report.subject import Subject

SHAPES = ((30, 2000), (62, 2000), (200, 2000), (1000, 500))


def cpu(call: object, *args: object) -> float:
    """CPU seconds of one call."""
    started = time.process_time()
    call(*args)  # type: ignore[operator]
    return time.process_time() - started


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="nano")
    parser.add_argument("--method", default="auto")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(f"{'rows x columns':<18}{'predict, s':>12}{'columns, s':>15}{'predictions':>13}  beyond twice the noise")
    for n, d in SHAPES:
        rng = np.random.default_rng(0)
        y = np.arange(2 * n) % 2
        X = rng.normal(size=(2 * n, d)).astype(np.float32)
        X[:, :20] += 0.8 * y[:, None]
        model = FoldedClassifier(options.backbone, method=options.method).fit(X[:n], y[:n])
        one = statistics.median(cpu(model.predict_proba, X[n:]) for _ in range(5))
        fitted = model.fitted_
        columns = strongest(Subject.of(fitted), affordable(n))
        all_ = cpu(shuffle_columns, fitted, columns)
        worth = shuffle_columns(fitted, columns)
        assert worth is not None
        clear = int((np.abs(worth.change) > 2 * worth.noise).sum())
        print(f"{f'{n} x {d}':<18}{one:>12.2f}{all_:>15.2f}{all_ / one:>13.1f}  {clear} of {len(columns)}", flush=True)
