"""What each fold said, on disk as soon as it is known: an evaluation that was killed goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.errors import DataError
from scff.tables.atomic import write_atomically
from scff.tables.table import Table

__all__ = ["Answer", "Records", "digest_of"]

FloatArray = npt.NDArray[np.float64]
_BLOCK = 256
_QUESTION = "question.json"
_DAMAGED = (zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class Answer:
    """What one model said about the test rows of one fold.

    Attributes
    ----------
    values : ndarray of shape (n_test, n_classes)
        Probabilities, or numbers in one column.
    seconds : float
        Fit and predict.
    rank : ndarray of int or None
        Place of every column in the ranking on the training rows, from 1; None where nothing was ranked.
    core : ndarray of bool or None
        Whether it was in the Core.
    """

    values: FloatArray
    seconds: float
    rank: npt.NDArray[np.int32] | None = field(default=None, repr=False)
    core: npt.NDArray[np.bool_] | None = field(default=None, repr=False)


class Records:
    """Answers by fold and model, in memory and, where there is a folder, on disk.

    Parameters
    ----------
    folder : Path or None
        Made if it is not there.
    digest : str
        What the answers are answers to.
    shapes : sequence of (int, int)
        Test rows of each fold, and values for each of them.
    n_columns : int
        Of the table.

    Raises
    ------
    DataError
        If the folder holds answers to another question, or cannot be used.
    """

    def __init__(
        self, folder: Path | None, digest: str, shapes: Sequence[tuple[int, int]] = (), n_columns: int = 0
    ) -> None:
        self._folder, self._shapes, self._n_columns = folder, shapes, n_columns
        self._answers: dict[tuple[int, str], Answer] = {}
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / _QUESTION
            if path.exists() and json.loads(path.read_text())["digest"] != digest:
                raise DataError(
                    f"{folder} holds folds of another evaluation (other rows, settings or folds); name another folder, "
                    "or delete it."
                )
            if not path.exists():
                if any(folder.iterdir()):
                    raise DataError(f"{folder} holds other files; name an empty folder for the records of the folds.")
                write_atomically(path, lambda part: part.write_text(json.dumps({"digest": digest})))
        except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{folder} cannot be used for the records of the folds ({error}).") from error

    def get(self, fold: int, model: str) -> Answer | None:
        """An answer that is known."""
        if (fold, model) not in self._answers and self._folder is not None:
            path = self._path(fold, model)
            if path.exists():
                self._answers[fold, model] = _read(path, self._shapes[fold], self._n_columns)
        return self._answers.get((fold, model))

    def put(self, fold: int, model: str, answer: Answer) -> None:
        """Keep an answer; on disk it is there as a whole or not at all."""
        self._answers[fold, model] = answer
        if self._folder is not None:
            write_atomically(self._path(fold, model), lambda part: _write(part, answer))

    def _path(self, fold: int, model: str) -> Path:
        assert self._folder is not None
        return self._folder / f"fold-{fold:04d}-{model}.npz"


def _write(path: Path, answer: Answer) -> None:
    arrays: dict[str, Any] = {"values": answer.values, "seconds": np.float64(answer.seconds)}
    if answer.rank is not None and answer.core is not None:
        arrays |= {"rank": answer.rank, "core": answer.core}
    with path.open("wb") as file:  # by handle: NumPy would add an ending to the name
        np.savez(file, **arrays)


def _read(path: Path, shape: tuple[int, int], n_columns: int) -> Answer:
    try:
        with path.open("rb") as content, np.load(content, allow_pickle=False) as file:  # closed, whatever it is
            found = Answer(file["values"], float(file["seconds"]), file.get("rank"), file.get("core"))
        heads = (found.rank, found.core)
        if found.values.shape != shape or any(one is not None and one.shape != (n_columns,) for one in heads):
            raise ValueError("it is of another size")
        if not np.isfinite(found.values).all() or not 0 <= found.seconds < np.inf:
            raise ValueError("it holds what is no number")
        return found
    except (OSError, EOFError, LookupError, TypeError, AttributeError, ValueError, *_DAMAGED) as error:
        raise DataError(f"{path} is no record of a fold ({error}); delete it and run again.") from error


def digest_of(table: Table, y: npt.NDArray[Any], facts: dict[str, Any]) -> str:
    """A digest of rows, labels and settings, so that answers to different questions are never mixed."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
    digest.update(repr((table.shape, table.names)).encode())
    digest.update(np.ascontiguousarray(y).tobytes())
    if isinstance(table.values, pd.DataFrame):
        digest.update(pd.util.hash_pandas_object(table.values, index=False).to_numpy().tobytes())
    else:
        for start in range(0, table.n_columns, _BLOCK):
            columns = np.arange(start, min(start + _BLOCK, table.n_columns))
            digest.update(table.columns(columns).tobytes())
    return digest.hexdigest()
