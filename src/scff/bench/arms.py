"""Arms: everything a fold can be predicted with, by name.

Plain names are in `ARMS`. Three families take a number: ``prefix-K`` (the K best columns in a single leaf),
``scff-leaf-M`` and ``bounded-core-leaf-M`` (another leaf width).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scff.errors import DataError
from scff.estimators.classifier import FoldedClassifier
from scff.gate.record import TailRule
from scff.plan.compile import compile_plan
from scff.tables.table import as_table

__all__ = ["ARMS", "Arm", "build", "get_arm"]


@dataclass(frozen=True)
class Arm:
    """A way to predict.

    Attributes
    ----------
    name : str
    kind : {"fold", "prefix", "select", "baseline"}
    options : dict
        Parameters of `FoldedClassifier`, or of the baseline.
    summary : str
    """

    name: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    summary: str = ""

    @property
    def needs_backbone(self) -> bool:
        """Whether a backbone's weights are part of it."""
        return self.kind != "baseline"

    @property
    def settings_hash(self) -> str:
        """Digest of what the arm does; a record of other settings is out of date."""
        text = json.dumps({"kind": self.kind, "options": self.options}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _fold(name: str, summary: str, **options: Any) -> Arm:
    return Arm(name, "fold", options, summary)


_TAIL_CONTROLS = {
    "paper": "the paper's gate, without a rehearsal",
    "centred": "centred Tail, no projection on the Core",
    "raw-residual": "raw residual only",
    "fixed-prototype": "fixed prototype update",
    "fisher": "Fisher-selected update",
    "no-single-leaf-fallback": "validated update without single-leaf fallback",
    "no-binary-restriction": "validated update without binary-task restriction",
}

# Two of the four updates the paper chose between on fold 0: the residual alone, let in by the reciprocal check.
_CROSS_FITTED = {
    "candidates": ["raw"],
    "single_leaf_fallback": False,
    "binary_only": False,
    "rehearse": "never",
}

ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        _fold("native", "the backbone's own inference, one member, all columns", method="native"),
        _fold("native-ensemble", "the backbone's own default ensemble", method="native", n_estimators="default"),
        _fold("scff", "the full method (Tail on)", method="scff", tail="gated"),
        _fold("raw-core", "the Core in one leaf", method="raw-core"),
        _fold("bounded-core", "the folded Core (Tail off)", method="bounded-core"),
        _fold("mass-huber", "the earlier all-feature merge", method="mass-huber"),
        _fold(
            "random-routing", "Core of the same size, drawn at random", method="scff", tail="gated", routing="random"
        ),
        *(
            _fold("paper-gate" if name == "paper" else name, summary, method="scff", tail=name)
            for name, summary in _TAIL_CONTROLS.items()
        ),
        _fold("cross-fitted", "raw residual, checked across halves", method="scff", tail=_CROSS_FITTED),
        _fold(
            "centred-cross-fitted",
            "the same without projection on the Core",
            method="scff",
            tail={**_CROSS_FITTED, "project": False},
        ),
        Arm("select-kbest", "select", {}, "scikit-learn's SelectKBest with K discoveries, then the backbone"),
        Arm("lightgbm", "baseline", {"model": "lightgbm"}, "LightGBM, default parameters"),
        Arm("logistic", "baseline", {"model": "logistic"}, "standardised logistic regression"),
        Arm("random-forest", "baseline", {"model": "random-forest"}, "random forest, 300 trees"),
    )
}

_FAMILIES: tuple[tuple[str, Callable[[int], Arm]], ...] = (
    (r"prefix-(\d+)", lambda k: Arm(f"prefix-{k}", "prefix", {"k": k}, f"the {k} best columns in a single leaf")),
    (r"scff-leaf-(\d+)", lambda m: _fold(f"scff-leaf-{m}", f"leaves of {m}", method="scff", leaf_width=m)),
    (
        r"bounded-core-leaf-(\d+)",
        lambda m: _fold(f"bounded-core-leaf-{m}", f"Core, leaves of {m}", method="bounded-core", leaf_width=m),
    ),
)

_DEFAULT_ENSEMBLE = {"tabpfn-v1": 3}
_TABICL_ENSEMBLE = 8


def get_arm(name: str) -> Arm:
    """An arm by name.

    Examples
    --------
    >>> get_arm("prefix-64").options
    {'k': 64}
    """
    if name in ARMS:
        return ARMS[name]
    for pattern, make in _FAMILIES:
        match = re.fullmatch(pattern, name)
        if match:
            return make(int(match[1]))
    raise DataError(
        f"There is no arm {name!r}; known are {', '.join(ARMS)}, prefix-K, scff-leaf-M and bounded-core-leaf-M."
    )


def build(arm: Arm, backbone: str, device: str, query_chunk: int) -> Any:
    """An unfitted estimator for an arm.

    Parameters
    ----------
    arm : Arm
    backbone, device : str
        For arms that need a backbone.
    query_chunk : int
        Query rows encoded together; both arms of a pair get the same.
    """
    if arm.kind == "baseline":
        return _Codes(_baseline(arm.options["model"]))
    options = dict(arm.options)
    if options.get("n_estimators") == "default":
        options["n_estimators"] = _DEFAULT_ENSEMBLE.get(backbone, _TABICL_ENSEMBLE)
    if isinstance(options.get("tail"), dict):
        rule = options["tail"]
        options["tail"] = TailRule(**{**rule, "candidates": tuple(rule["candidates"])})
    if arm.kind in ("prefix", "select"):
        options = {"method": "native"}
    # The paper's Core, whatever the library would choose by itself.
    model = FoldedClassifier(backbone=backbone, device=device, **{"routing": "anova", **options})
    if "query_chunk" in model.get_params():
        model.set_params(query_chunk=query_chunk)
    if arm.kind == "prefix":
        return _Prefix(model, arm.options["k"])
    if arm.kind == "select":
        return _Select(model)
    return model


class _Prefix(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The k highest-ranked columns of the support, in original order, as one leaf: native inference on them alone."""

    def __init__(self, model: Any, k: int) -> None:
        self.model = model
        self.k = k

    def fit(self, X: pd.DataFrame, y: Any) -> _Prefix:
        self.plan_ = compile_plan(X, y)
        ranked = np.concatenate([self.plan_.core, self.plan_.tail])
        self._fit(X, y, np.sort(ranked[: self.k]))
        return self

    def _fit(self, X: pd.DataFrame, y: Any, columns: Any) -> None:
        self.columns_ = columns
        self.fitted_ = clone(self.model).fit(X.iloc[:, self.columns_], y)
        self.classes_ = self.fitted_.classes_

    def predict_proba(self, X: pd.DataFrame) -> Any:
        return self.fitted_.predict_proba(X.iloc[:, self.columns_])


class _Select(_Prefix):
    """What a user would write by hand, with the K of the fold plan."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: pd.DataFrame, y: Any) -> _Select:
        self.plan_ = compile_plan(X, y)
        filled = SimpleImputer(strategy="median", keep_empty_features=True).fit_transform(as_table(X).numeric())
        with np.errstate(all="ignore"):
            scores = SelectKBest(f_classif, k=len(self.plan_.core)).fit(filled, y)
        self._fit(X, y, scores.get_support(indices=True))
        return self


class _Codes(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A baseline on numbers: categories by their codes, one code book for support and query."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: pd.DataFrame, y: Any) -> _Codes:
        self.categories_ = {
            j: pd.Index(sorted(X.iloc[:, j].dropna().unique(), key=str))
            for j in range(X.shape[1])
            if not pd.api.types.is_numeric_dtype(X.dtypes.iloc[j])
        }
        self.fitted_ = clone(self.model).fit(self._numbers(X), y)
        self.classes_ = self.fitted_.classes_
        return self

    def predict_proba(self, X: pd.DataFrame) -> Any:
        return self.fitted_.predict_proba(self._numbers(X))

    def _numbers(self, X: pd.DataFrame) -> Any:
        out = np.empty(X.shape)
        for j in range(X.shape[1]):
            column = X.iloc[:, j]
            if j in self.categories_:
                codes = self.categories_[j].get_indexer(column).astype(np.float64)
                out[:, j] = np.where(codes < 0, np.nan, codes)
            else:
                out[:, j] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return out


def _baseline(name: str) -> Any:
    impute = SimpleImputer(strategy="median", keep_empty_features=True)
    if name == "logistic":
        return make_pipeline(impute, StandardScaler(), LogisticRegression(max_iter=1000))
    if name == "random-forest":
        return make_pipeline(impute, RandomForestClassifier(300, random_state=0, n_jobs=1))
    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise DataError("The LightGBM arm needs its package: pip install 'scff[bench]'.") from error
    return LGBMClassifier(random_state=0, verbose=-1, n_jobs=1)
