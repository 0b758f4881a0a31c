"""The arms of ``rivals.py``: one function each, from labelled rows and rows to ask to probabilities.

Every arm gets float32 tables that may hold missing values, and labels 0 to k - 1, each on at least four rows (in the
published folds: more). It returns probabilities of the k classes and facts about the model that belong in the record.
The rivals are those of ``scff bench`` (`scff.bench.baselines`), on the same numbers. All run on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from scff import FoldedClassifier
from scff.bench.baselines import RIVALS, rival
from scff.bench.selection import KBest, Subsets

Answer = tuple[np.ndarray, dict[str, Any]]
Arm = Callable[[np.ndarray, np.ndarray, np.ndarray], Answer]

#: The backbone of the arms that are a simple way to make a frozen model read a wide table.
BACKBONE = "tabpfn-v1"
#: Columns that this backbone reads at once, and the number of ensemble views.
WIDTH, VIEWS = 100, 8


def plain(X: np.ndarray, y: np.ndarray, Q: np.ndarray, name: str) -> Answer:
    """Return what a rival says."""
    model = rival(name).fit(X, y)
    return model.predict_proba(Q), model.facts_


def folded(X: np.ndarray, y: np.ndarray, Q: np.ndarray, **options: Any) -> Answer:
    """Return what a `FoldedClassifier` with these options says."""
    model = FoldedClassifier(**options).fit(X, y)
    return model.predict_proba(Q), {"checkpoint": model.checkpoint_.sha256[:12]}


def kbest(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
    """Keep the columns of the largest ANOVA F that the backbone can read, then an ensemble of its views on those."""
    inner = FoldedClassifier(backbone=BACKBONE, method="native", n_estimators=VIEWS)
    model = KBest(inner, WIDTH).fit(pd.DataFrame(X), y)
    return model.predict_proba(pd.DataFrame(Q)), {"checkpoint": model.model_.checkpoint_.sha256[:12]}


def subsets(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> Answer:
    """Average the backbone over random subsets of the columns, one view each ("divide and conquer", Ye et al. 2025)."""
    model = Subsets(FoldedClassifier(backbone=BACKBONE, method="native"), WIDTH, VIEWS).fit(pd.DataFrame(X), y)
    return model.predict_proba(pd.DataFrame(Q)), {"checkpoint": model.models_[0].checkpoint_.sha256[:12]}


def arms() -> dict[str, Arm]:
    """Return every arm by its name, ours first."""
    ours = {
        f"{method}/{backbone}": partial(folded, backbone=backbone, method=method)
        for backbone in ("tabpfn-v1", "nano", "geneicl")
        for method in ("auto", "scff")
    }
    # One checkpoint on the whole table: what folding does to GeneICL, apart from its three checkpoints.
    ours["native/geneicl"] = partial(folded, backbone="geneicl", method="native")
    return {
        **ours,
        **{name: partial(plain, name=name) for name in RIVALS},
        "native": partial(folded, backbone=BACKBONE, method="native", n_estimators=VIEWS),
        "subsets": subsets,
        "kbest": kbest,
    }
