"""Support-Compiled Feature Folding: a frozen tabular foundation model on tables of any width.

`FoldedClassifier` and `FoldedRegressor` are the scikit-learn face. ``method="scff"`` is the paper to the letter,
``method="auto"``, the classifier's default, the best this library knows. `compile_plan` makes a `FoldPlan` without any
model; `TailGate` and `TailRule` belong to the paper's gate. `load` reads a model that ``save`` wrote.

>>> from scff import FoldedClassifier
>>> model = FoldedClassifier(backbone="nano")
>>> model.method, model.leaf_width
('auto', 128)
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "FoldPlan",
    "FoldedClassifier",
    "FoldedRegressor",
    "TailGate",
    "TailRule",
    "compile_plan",
    "errors",
    "load",
]

if TYPE_CHECKING:
    from scff import errors
    from scff.estimators.classifier import FoldedClassifier
    from scff.estimators.regressor import FoldedRegressor
    from scff.gate.record import TailGate, TailRule
    from scff.models.file import load
    from scff.plan.compile import compile_plan
    from scff.plan.plan import FoldPlan

_HOME = {
    "FoldPlan": "scff.plan.plan",
    "FoldedClassifier": "scff.estimators.classifier",
    "FoldedRegressor": "scff.estimators.regressor",
    "TailGate": "scff.gate.record",
    "TailRule": "scff.gate.record",
    "compile_plan": "scff.plan.compile",
    "load": "scff.models.file",
}


def __getattr__(name: str) -> Any:
    # Lazily, so that `scff --help` and `scff plan` do not wait for torch.
    if name not in _HOME:
        raise AttributeError(f"module 'scff' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
