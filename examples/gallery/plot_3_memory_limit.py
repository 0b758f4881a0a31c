"""
A memory limit
==============

Width is what costs memory: full-width feature attention grows with the square of the number of columns. A leaf never
holds more than ``leaf_width`` of them, so the working memory stays flat however wide the table is.
"""

# %%
# `PeakMemory` reads the kernel's own high-water mark: what a block of code really added.
import numpy as np

from scff import FoldedClassifier
from scff.memory.budget import format_bytes
from scff.memory.meter import PeakMemory

rng = np.random.default_rng(0)
y = np.arange(200) % 2
X = rng.normal(size=(200, 600)) + (np.arange(600) < 40) * 0.6 * y[:, None]
FoldedClassifier(backbone="nano", method="native").fit(
    X[:50, :20], y[:50]
)  # loads the weights, so that no row below pays for them


def peak(method="scff", **parameters):
    with PeakMemory() as memory:
        clf = FoldedClassifier(backbone="nano", method=method, cache=False, **parameters).fit(X[:120], y[:120])
        proba = clf.predict_proba(X[120:])
    return memory.added, proba


# %%
# All 600 columns at once, and folded by the paper's method into leaves of at most 128 and 32 columns:
for parameters in ({"method": "native"}, {"leaf_width": 128}, {"leaf_width": 32}):
    print(f"{parameters!s:<24} {format_bytes(peak(**parameters)[0]):>10}")

# %%
# ``memory_limit`` is a budget in bytes. It changes the size of blocks, never the result:
_, free = peak(leaf_width=64)
added, bounded = peak(leaf_width=64, memory_limit="512MiB")
print(f"added {format_bytes(added)}; largest difference of a probability {np.abs(free - bounded).max():.1e}")
assert np.abs(free - bounded).max() < 1e-5

# %%
# A budget that cannot be kept is an error with the sizes and the way out, never a quiet loss of columns or rows.
