"""
What is in the Core
===================

The Core holds the columns that separate the classes on their own by more than chance. This example looks inside, on a
table where we know the answer: 20 of 400 columns carry a signal.
"""

# %%
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
y = np.arange(240) % 2
names = [f"signal_{j:02d}" if j < 20 else f"noise_{j:03d}" for j in range(400)]
X = pd.DataFrame(rng.normal(size=(240, 400)), columns=names)
X.iloc[:, :20] += 0.8 * y[:, None]
print(X.shape)

# %%
from scff import FoldedClassifier, compile_plan

clf = FoldedClassifier(backbone="nano", method="scff", leaf_width=64).fit(X.iloc[:160], y[:160])
evidence = clf.column_evidence()
evidence.head(8)

# %%
# `F` and `q` are about one column alone. The last field is about the column's *leaf*: how much worse a nearest-
# prototype classifier on the row representation gets when the leaf's message is left out. It is measured on the
# labelled rows only, so it is neither a test score nor a causal effect.
core = evidence[evidence["stratum"] == "core"]
found = core.index.str.startswith("signal").sum()
print(f"{len(core)} columns in the Core; {found} of the 20 signals are among them")

# %%
# The false discovery rate promises that at most 5% of the Core are expected to be there by chance.
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
signal = evidence.index.str.startswith("signal")
rank = np.arange(1, len(evidence) + 1)
ax.scatter(rank[~signal], evidence["F"][~signal], s=8, color="0.6", label="noise")
ax.scatter(rank[signal], evidence["F"][signal], s=24, color="#2f6690", label="signal")
ax.axvline(len(core) + 0.5, linestyle="--", color="0.3", label="Core cut")
ax.set(xscale="log", yscale="log", ylim=(1e-2, None), xlabel="columns, strongest first", ylabel="F statistic")
ax.legend()

# %%
# A stricter level gives a smaller Core; the rest goes to the Tail, where it can still be let in as a whole. A plan
# needs no model:
for fdr in (0.2, 0.05, 0.001):
    print(f"fdr {fdr}: {compile_plan(X.iloc[:160], y[:160], fdr=fdr)}")
