"""A fitted model as a file, and back."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import joblib

from scff import __version__
from scff.errors import ModelFileError
from scff.tables.atomic import write_atomically

if TYPE_CHECKING:
    from scff.estimators.classifier import FoldedClassifier

__all__ = ["load_model", "save_model"]

_FORMAT = "scff-model-1"


def save_model(model: FoldedClassifier, path: Path) -> None:
    """Write a fitted model: plan, gate and support rows, but no weights."""
    payload = (_FORMAT, __version__, model)
    write_atomically(path, lambda temporary: joblib.dump(payload, temporary, compress=3), private=True)


def load_model(path: Path) -> FoldedClassifier:
    """Read a model written by `save_model`. Like every pickle, only from a source you trust.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged or something else.
    """
    if not path.is_file():
        raise ModelFileError(f"There is no model {path}; make one with `scff fit`.")
    try:
        kind, _, model = joblib.load(path)
    except (OSError, EOFError, ValueError, TypeError, KeyError, IndexError, pickle.UnpicklingError) as error:
        raise ModelFileError(f"{path} is not a model written by `scff fit`, or it is damaged; fit it again.") from error
    except (ImportError, AttributeError) as error:
        raise ModelFileError(f"{path} was written by another version of scff ({error}); fit it again.") from error
    if kind != _FORMAT:
        raise ModelFileError(f"{path} was written by another version of scff; fit it again.")
    return model  # type: ignore[no-any-return]
