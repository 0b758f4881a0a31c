"""An honest estimate: cross-validation with everything that reads labels inside the folds, beside plain models."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scff.evaluate.evaluation import Evaluation
    from scff.evaluate.run import evaluate

__all__ = ["Evaluation", "evaluate"]

_HOME = {"Evaluation": "evaluation", "evaluate": "run"}


def __getattr__(name: str) -> Any:
    # Lazily: an evaluation can be read where torch is not wanted.
    if name not in _HOME:
        raise AttributeError(f"module 'scff.evaluate' has no attribute {name!r}")
    return getattr(import_module(f"scff.evaluate.{_HOME[name]}"), name)
