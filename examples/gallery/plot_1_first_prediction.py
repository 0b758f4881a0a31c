"""
First prediction
================

A table of 495 columns, a frozen foundation model, four lines. Nothing is trained: `fit` ranks the columns on the
labelled rows, lets held-back rows among them choose how the table is best read, and encodes that; `predict` then reads
new rows.
"""

# %%
# The breast cancer table has 30 columns. Their squares and products make it 495 columns wide, the kind of table that
# generated features give.
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import PolynomialFeatures

data = load_breast_cancer(as_frame=True)
X = PolynomialFeatures(2, include_bias=False).set_output(transform="pandas").fit_transform(data.data)
X_train, X_test, y_train, y_test = train_test_split(X, data.target, train_size=200, test_size=200, random_state=0)
print(X_train.shape)

# %%
# ``backbone="nano"`` is a small TabICL inside the package: it needs no download and shows how things work. For real
# work use ``"tabicl-v2"`` (see :doc:`/backbones`).
from scff import FoldedClassifier

clf = FoldedClassifier(backbone="nano").fit(X_train, y_train)
print(f"accuracy {clf.score(X_test, y_test):.3f}")

# %%
# What happened to the columns? The plan says it in a line, and draws it.
print(clf.plan_)
clf.plan_.plot()

# %%
# Columns that go with others, a digest of the whole table, scores without the model: what was tried, the loss of
# held-back rows with it, and the weight it has in the answer. The first is the paper's Core; it is read alone unless a
# mixture lowers the loss.
verdict = clf.verdicts_[0]
for tried in verdict.tried:
    print(f"{tried.name:<13} loss {tried.loss:.3f}, weight {tried.weight:.2f}: {tried.words}")
print(verdict.reason)

# %%
# The paper's method to the letter is one word away. It asks no held-back rows: a gate on the labelled rows' own
# representations says whether the weaker columns are let in.
paper = FoldedClassifier(backbone="nano", method="scff").fit(X_train, y_train)
print(f"accuracy {paper.score(X_test, y_test):.3f}")
print(paper.gate_)

# %%
# And everything on one page, for the colleague who asks:
report = clf.report(X_test, y_test, title="Breast cancer, 495 columns")
report
