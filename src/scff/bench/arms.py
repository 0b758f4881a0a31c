"""Arms: everything a fold can be predicted with, by name.

``scff``, its comparisons and its component controls are the paper's, to the letter; ``auto`` is this library's default.
Plain names are in `ARMS`. Three families take a number: ``prefix-K`` (the K best columns in a single leaf),
``scff-leaf-M`` and ``bounded-core-leaf-M`` (another leaf width).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scff.bench.baselines import RIVALS, baseline
from scff.bench.selection import KBest, Prefix, Select, Subsets
from scff.errors import DataError
from scff.estimators.classifier import FoldedClassifier
from scff.gate.record import TailRule

__all__ = ["ARMS", "Arm", "build", "get_arm", "groups"]

# Raised when an arm of the same options does something else than before: records of earlier revisions are out of date.
# 2: `scff` and its leaf widths are the paper's method; categories of baselines are coded as backbones code them.
_REVISION = 2


@dataclass(frozen=True)
class Arm:
    """A way to predict.

    Attributes
    ----------
    name : str
    kind : {"fold", "prefix", "select", "kbest", "subsets", "baseline"}
    options : dict
        Parameters of `FoldedClassifier`, or of the baseline.
    summary : str
    costed : bool
        Whether its time and memory are reported. Arms of which only the quality is share a process.
    """

    name: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    summary: str = ""
    costed: bool = True

    @property
    def needs_backbone(self) -> bool:
        """Whether a backbone's weights are part of it."""
        return self.kind != "baseline"

    @property
    def settings_hash(self) -> str:
        """Digest of what the arm does; a record of other settings is out of date."""
        text = json.dumps({"revision": _REVISION, "kind": self.kind, "options": self.options}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _fold(name: str, summary: str, **options: Any) -> Arm:
    return Arm(name, "fold", options, summary)


def _control(name: str, summary: str, **options: Any) -> Arm:
    return Arm(name, "fold", {"method": "scff", **options}, summary, costed=False)


_TAIL_CONTROLS = {
    "centred": "centred Tail, no projection on the Core",
    "raw-residual": "raw residual only",
    "fixed-prototype": "fixed prototype update",
    "fisher": "Fisher-selected update",
    "no-single-leaf-fallback": "validated update without single-leaf fallback",
    "no-binary-restriction": "validated update without binary-task restriction",
}

# Columns that a simple way to make a backbone read a wide table shows it at once: all that TabPFN v1 has slots for.
_SUBSET = 100

# Two of the four updates the paper chose between on fold 0: the residual alone, let in by the reciprocal check.
_CROSS_FITTED = {"candidates": ["raw"], "single_leaf_fallback": False, "binary_only": False}

ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        _fold("native", "the backbone's own inference, one view, all columns", method="native"),
        _fold("native-ensemble", "the backbone's own default ensemble", method="native", n_estimators="default"),
        _fold("scff", "the paper's method (Tail on)", method="scff"),
        _fold("raw-core", "the Core in one leaf", method="raw-core"),
        _fold("bounded-core", "the folded Core (Tail off)", method="bounded-core"),
        _fold("mass-huber", "the earlier all-feature merge", method="mass-huber"),
        _fold("auto", "the library's default: held-back rows choose what is read", method="auto"),
        _control("random-routing", "the paper's method, Core drawn at random", routing="random"),
        *(_control(name, summary, tail=name) for name, summary in _TAIL_CONTROLS.items()),
        _control("cross-fitted", "raw residual, checked across halves", tail=_CROSS_FITTED),
        _control(
            "centred-cross-fitted",
            "the same without projection on the Core",
            tail={**_CROSS_FITTED, "project": False},
        ),
        Arm("select-kbest", "select", {}, "scikit-learn's SelectKBest with K discoveries, then the backbone"),
        Arm("kbest", "kbest", {"k": _SUBSET}, f"the {_SUBSET} columns of largest F, then the backbone's own ensemble"),
        Arm(
            "subsets",
            "subsets",
            {"width": _SUBSET, "n": 8},
            f"the backbone averaged over eight random subsets of {_SUBSET} columns (Ye et al. 2025)",
        ),
        *(Arm(name, "baseline", {"rival": name}, summary) for name, (_, summary) in RIVALS.items()),
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

_DEFAULT_ENSEMBLE = {"tabpfn-v1": 3, "geneicl": 1}
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


def groups(arms: Sequence[Arm], costed: bool = True) -> list[list[Arm]]:
    """Arms that run in one process: each alone, but together those whose cost is not asked (all, if ``costed`` is not).

    Examples
    --------
    >>> [[arm.name for arm in group] for group in groups([get_arm(n) for n in ("fisher", "scff", "centred")])]
    [['scff'], ['fisher', 'centred']]
    """
    together = [arm for arm in arms if not (costed and arm.costed)]
    return [[arm] for arm in arms if arm not in together] + ([together] if together else [])


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
        return baseline(arm.options["rival"])
    options: dict[str, Any] = dict(arm.options) if arm.kind == "fold" else {"method": "native"}
    if arm.kind == "kbest":
        options["n_estimators"] = "default"
    if options.get("n_estimators") == "default":
        options["n_estimators"] = _DEFAULT_ENSEMBLE.get(backbone, _TABICL_ENSEMBLE)
    if isinstance(options.get("tail"), dict):
        rule = options["tail"]
        options["tail"] = TailRule(**{**rule, "candidates": tuple(rule["candidates"])})
    model = FoldedClassifier(backbone=backbone, device=device, query_chunk=query_chunk, **options)
    if arm.kind == "prefix":
        return Prefix(model, arm.options["k"])
    if arm.kind == "kbest":
        return KBest(model, arm.options["k"])
    if arm.kind == "subsets":
        return Subsets(model, **arm.options)
    if arm.kind == "select":
        return Select(model)
    return model
