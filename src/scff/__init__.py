"""Support-Compiled Feature Folding: a frozen tabular foundation model on tables of any width.

>>> from scff import FoldedClassifier
>>> FoldedClassifier(backbone="nano").leaf_width
128
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["FoldPlan", "FoldedClassifier", "FoldedRegressor", "TailGate", "TailRule", "compile_plan", "errors", "tail"]

if TYPE_CHECKING:
    from scff import errors, tail
    from scff.estimators import FoldedClassifier
    from scff.plan import FoldPlan
    from scff.planning import compile_plan
    from scff.regression import FoldedRegressor
    from scff.tail import TailGate, TailRule

_HOME = {
    "FoldPlan": "scff.plan",
    "FoldedClassifier": "scff.estimators",
    "FoldedRegressor": "scff.regression",
    "TailGate": "scff.tail",
    "TailRule": "scff.tail",
    "compile_plan": "scff.planning",
    "errors": "scff.errors",
    "tail": "scff.tail",
}


def __getattr__(name: str) -> Any:
    # Lazily, so that `scff --help` and `scff plan` do not wait for torch.
    if name not in _HOME:
        raise AttributeError(f"module 'scff' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_HOME[name])
    return module if module.__name__ == f"scff.{name}" else getattr(module, name)
