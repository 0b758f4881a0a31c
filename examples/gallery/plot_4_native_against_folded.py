"""
Native against folded as width grows
====================================

The same frozen weights read the same rows: every column at once; folded by the paper's method, with and without its
Tail; and as the default, ``auto``, which asks held-back rows at `fit` what to read. We add columns that know nothing of
the classes and watch the time, the memory and the accuracy. The backbone is ``nano``: the numbers are its own and say
nothing of larger models; ``scff.bench`` is for those.
"""

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from scff import FoldedClassifier
from scff.memory.meter import PeakMemory

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=120, test_size=150, random_state=0)
rng = np.random.default_rng(0)
FoldedClassifier(backbone="nano", method="native").fit(X_train, y_train)  # loads the weights


def with_noise(rows, width):
    noise = rng.normal(size=(len(rows), width - rows.shape[1]))
    return np.hstack([rows, noise])


# %%
widths = [60, 200, 600]
results = {"native": [], "scff": [], "bounded-core": [], "auto": []}
for width in widths:
    wide_train, wide_test = with_noise(X_train, width), with_noise(X_test, width)
    for method, rows in results.items():
        started = time.perf_counter()
        with PeakMemory() as memory:
            clf = FoldedClassifier(backbone="nano", method=method, cache=False).fit(wide_train, y_train)
            accuracy = clf.score(wide_test, y_test)
        rows.append((time.perf_counter() - started, memory.added / 2**20, accuracy))
        print(f"{width:>4} columns, {method:<12} {rows[-1][0]:6.2f} s {rows[-1][1]:7.1f} MiB  accuracy {accuracy:.3f}")

# %%
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for ax, column, label in zip(axes, range(3), ("seconds", "MiB added at the peak", "accuracy"), strict=True):
    for method, rows in results.items():
        ax.plot(widths, [row[column] for row in rows], marker="o", label=method)
    ax.set(xlabel="columns", ylabel=label, xscale="log")
axes[0].legend()
