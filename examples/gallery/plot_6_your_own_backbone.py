"""
Your own backbone
=================

A row backbone is any frozen model with a fixed-width representation of a row between its feature encoder and its
context encoder. This example writes the smallest one there is: random features as encoder, nearest class means as
context. It will win no prizes; it shows every method the protocol has, and that folding works on whatever stands
behind them.
"""

# %%
# The view: one support table as this backbone sees it. Leaves come in groups of equal width.
import tempfile
from pathlib import Path

import numpy as np
import torch

from scff import FoldedClassifier
from scff.backbones import BackboneSpec, LeafCache, Views, register
from scff.backbones.weights.reading import load_torch  # reads a file of weights without running code from it
from scff.memory.budget import Footprint

WIDTH = 64


class RandomView:
    """Every column gets a fixed random direction; a row is the tanh of its weighted sum."""

    def __init__(self, seed, support, y):
        self.seed, self.support, self.y = seed, support.numeric(), torch.from_numpy(y)
        self.columns = np.flatnonzero(np.nanstd(self.support, axis=0) > 0)

    def footprint(self, width):
        """Bytes of one leaf: what ``memory_limit`` is kept with."""
        row = 8 * 3 * width + 4 * WIDTH
        return Footprint(scratch=0, cache=4 * width * WIDTH, support_row=row, query_row=row, summary_row=4 * WIDTH)

    def shrink_blocks(self, limit):
        """A tight budget would make blocks smaller here, if there were any."""

    def native_bytes(self, width, n_query):
        return (len(self.support) + n_query) * (8 * 3 * width + 4 * WIDTH) + 4 * width * WIDTH

    def prepare(self, rows):
        return rows.numeric()

    def _encode(self, values, leaf, cache):
        x = np.nan_to_num((values[:, leaf] - cache["mean"]) / cache["scale"])
        return torch.tanh(torch.from_numpy(x).float() @ cache["directions"] / len(leaf) ** 0.5)

    def encode_support(self, leaves):
        messages, states = [], []
        for leaf in leaves:
            block = self.support[:, leaf]
            # A column's direction depends on the column alone: the same in whatever leaf it lands.
            directions = [np.random.default_rng([self.seed, j]).normal(size=WIDTH) for j in leaf]
            state = {
                "mean": np.nanmean(block, axis=0),
                "scale": np.nanstd(block, axis=0),
                "directions": torch.from_numpy(np.array(directions)).float(),
            }
            states.append(state)
            messages.append(self._encode(self.support, leaf, state))
        return torch.stack(messages), LeafCache({}, states)

    def encode_query(self, leaves, cache, rows):
        return torch.stack([self._encode(rows, leaf, state) for leaf, state in zip(leaves, cache.state, strict=True)])

    def build_context(self, h_SE):
        return torch.stack([h_SE[self.y == k].mean(dim=0) for k in range(int(self.y.max()) + 1)])

    def predict(self, context, h_QE):
        return -torch.cdist(h_QE, context)

    def compile_native(self, columns):
        message, cache = self.encode_support([columns])
        return columns, cache, self.build_context(message[0])

    def native(self, compiled, rows):
        columns, cache, context = compiled
        return self.predict(context, self.encode_query([columns], cache, self.prepare(rows))[0])


# %%
# The backbone: it knows its file, gives views, and turns logits into probabilities.
class RandomBackbone:
    def __init__(self, spec, path, device):
        self.spec, self.path, self.device = spec, path, device
        self.seed = load_torch(path)["seed"]

    def views(self, support, y, *, n_estimators, cache, random_state):
        return Views(n_estimators, lambda i: RandomView(self.seed + i, support, y))

    def combine(self, logits):
        return torch.softmax(torch.from_numpy(np.mean(logits, axis=0)).double(), dim=1).numpy()


# %%
# The specification states the facts: licences, limits, and which files it recognises. A package of its own would name
# it in the entry-point group ``scff.backbones`` instead of calling `register`.
spec = register(
    BackboneSpec(
        name="random-features",
        kind="row",
        summary="random features and class means, for teaching",
        load=lambda path, device: RandomBackbone(spec, path, device),
        weights=None,
        code_licence="Apache-2.0",
        weights_licence="Apache-2.0",
        recognises=lambda path: "seed" in load_torch(path),
    )
)
weights = Path(tempfile.mkdtemp()) / "teaching.pt"
torch.save({"seed": 7}, weights)

# %%
# From here on it is a backbone like any other.
from sklearn.datasets import load_breast_cancer

X, y = load_breast_cancer(return_X_y=True)
X = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 300))])
for method in ("native", "bounded-core", "auto", "scff"):
    clf = FoldedClassifier(backbone=weights, method=method, leaf_width=32).fit(X[:300], y[:300])
    print(f"{method:<13} {clf.score(X[300:], y[300:]):.3f}")
print(clf.plan_)
print(clf.gate_)

# %%
# A budget is kept with the figures the view gives of itself, and a leaf's worth is measured through the same calls:
bounded = FoldedClassifier(backbone=weights, method="scff", leaf_width=32, memory_limit="64MiB").fit(X[:300], y[:300])
print(np.abs(bounded.predict_proba(X[300:]) - clf.predict_proba(X[300:])).max())
bounded.column_evidence().head(3)

# %%
# The library's promises hold for it too: one leaf of all columns is native inference, number for number.
narrow = FoldedClassifier(backbone=weights, method="scff", leaf_width=1000, fdr=0.999).fit(X[:300, :30], y[:300])
native = FoldedClassifier(backbone=weights, method="native").fit(X[:300, :30], y[:300])
print(np.abs(narrow.predict_proba(X[300:, :30]) - native.predict_proba(X[300:, :30])).max())
