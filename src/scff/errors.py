"""One exception tree; every message says what to do next.

Errors about the user's data are also `ValueError`, so code written against scikit-learn keeps working.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = [
    "BackboneError",
    "BackboneNotAvailable",
    "CheckpointError",
    "CheckpointMissing",
    "DataError",
    "DataWarning",
    "ForkError",
    "MemoryBudgetError",
    "MissingDependency",
    "ModelFileError",
    "PretrainError",
    "SCFFError",
    "one_line",
    "shown",
]


class SCFFError(Exception):
    """Base of everything this library raises on purpose."""


class DataError(SCFFError, ValueError):
    """The table, the target or a parameter cannot be used as given."""


class NoRows(DataError):
    """A table has columns and not one row: nothing to fit on, and nothing to predict.

    Parameters
    ----------
    message : str
    names : sequence of str
        Of its columns.
    """

    def __init__(self, message: str, names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


class DataWarning(UserWarning):
    """Something in the table that its owner should look at: a column that names rows, or gives the label away."""


class BackboneError(SCFFError):
    """A backbone cannot do what was asked: too many classes, a changed upstream package, ..."""


class BackboneNotAvailable(BackboneError, LookupError):
    """No backbone of that name, or its package is not installed."""


class CheckpointError(SCFFError):
    """A file of weights is damaged, or is not what it claims to be."""


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """The weights are not on this machine and may not, or could not, be downloaded."""


class ForkError(SCFFError, RuntimeError):
    """A forked process would wait for threads that stayed behind in its parent."""


class MemoryBudgetError(SCFFError, MemoryError):
    """Even the smallest blocks would not fit into ``memory_limit``."""


class MissingDependency(SCFFError, ImportError):
    """An optional package is not installed; the message says which extra brings it."""


class ModelFileError(SCFFError, ValueError):
    """A saved ``.scff`` model cannot be read."""


class PretrainError(SCFFError, ValueError):
    """A pretraining run cannot begin, go on or deliver as asked: its recipe, its folder or its checkpoints."""


def shown(value: object, longest: int = 40) -> str:
    """The beginning of a value that is not what it should be, on one line and without its place in memory.

    Examples
    --------
    >>> shown(object()), shown([1, 2])
    ('<object object>', '[1, 2]')
    """
    return " ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", str(value)).split())[:longest]


def one_line(error: object, longest: int = 400) -> str:
    r"""What a foreign error says, as a sentence on one line: without the array it shows and the addresses it names.

    Examples
    --------
    >>> one_line(ValueError("Expected 2D array, got 1D array instead:\narray=[1. 2.].\nReshape your data"))
    'Expected 2D array, got 1D array instead: Reshape your data.'
    """
    text = re.sub(r"\narray=.*?\.\n", " ", str(error), flags=re.DOTALL)
    text = re.sub(r"\n\s*\[.*", "", text, flags=re.DOTALL)
    text = " ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", text).split())[:longest] or type(error).__name__
    return text if text[-1] in ".?!" else f"{text}."
