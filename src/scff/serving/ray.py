"""Many tables scored by one model on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scff.fold.ray import RETRIES, connect, result_of, unpacked
from scff.serving.score import local_copy, score_table

if TYPE_CHECKING:
    import pandas as pd

    from scff.estimators.classifier import FoldedClassifier
    from scff.estimators.regressor import FoldedRegressor

__all__ = ["score_parts"]


def score_parts(
    model: FoldedClassifier | FoldedRegressor, parts: Sequence[Path], proba: bool
) -> Iterator[pd.DataFrame]:
    """Predict the rows of many tables, each a task; the model is unpacked and compiled once per worker.

    Parameters
    ----------
    model : FoldedClassifier or FoldedRegressor
        A fitted model.
    parts : sequence of Path
        Tables, at paths that every worker can read.
    proba : bool
        Also give one probability column per class.

    Yields
    ------
    DataFrame
        Predictions of each table, in the order of ``parts``.
    """
    ray = connect()
    task = ray.remote(_score).options(max_retries=RETRIES)
    shared = [ray.put(local_copy(model, progress=False))]  # without what it has compiled: a worker is on its own
    for sent in [task.remote(shared, path, proba) for path in parts]:
        yield result_of(ray, sent)


def _score(shared: list[Any], path: Path, proba: bool) -> pd.DataFrame:
    """On a worker: predictions of one table."""
    return score_table(unpacked(shared), path, proba)
