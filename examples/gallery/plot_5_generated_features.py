"""
Generated features
==================

Products, ratios and lags turn a narrow table into a wide one, and most of what they generate is of no use. Folding is
made for this: generate freely, let the evidence on the labelled rows decide what is Core.
"""

# %%
# A target that depends on the product of two columns. Neither column shows it alone.
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from scff import FoldedClassifier

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(400, 20)), columns=[f"x{j}" for j in range(20)])
y = np.where(X["x3"] * X["x7"] + 0.3 * rng.normal(size=400) > 0, "up", "down")
train, test = slice(0, 200), slice(200, 400)

plain = FoldedClassifier(backbone="nano").fit(X[train], y[train])
print(f"as it is, {X.shape[1]} columns: accuracy {plain.score(X[test], y[test]):.3f}")

# %%
# With all products, in an ordinary scikit-learn pipeline:
generate = PolynomialFeatures(2, interaction_only=True, include_bias=False).set_output(transform="pandas")
pipeline = make_pipeline(generate, FoldedClassifier(backbone="nano")).fit(X[train], y[train])
clf = pipeline[-1]
print(f"with products, {clf.n_features_in_} columns: accuracy {pipeline.score(X[test], y[test]):.3f}")
clf.column_evidence().head(3)

# %%
# The product stands first. What held-back rows let the model read:
print(clf.plan_)
for tried in clf.verdicts_[0].tried:
    print(f"{tried.name:<8} at {tried.share:<4g} loss {tried.loss:.3f}, weight {tried.weight:.2f}")

# %%
# And what the paper's gate would decide about the rest:
paper = make_pipeline(generate, FoldedClassifier(backbone="nano", method="scff")).fit(X[train], y[train])
print(f"the paper's method: accuracy {paper.score(X[test], y[test]):.3f}")
print(paper[-1].gate_)
paper[-1].gate_.plot()
