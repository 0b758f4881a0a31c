"""TabICL's preprocessing of one leaf, fitted on its support rows.

All of its steps treat columns independently, so the preprocessed table never exists as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tabicl._sklearn.preprocessing import PreprocessingPipeline, TransformToNumerical

from scff.backbones.base import IntArray
from scff.tables.table import Table

__all__ = ["LeafPreprocessing", "fit_leaf"]

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class LeafPreprocessing:
    """TabICL's steps between the user's numbers and the model, fitted on the support rows of one leaf."""

    where: IntArray
    imputer: TransformToNumerical | None
    pipeline: PreprocessingPipeline

    def __call__(self, numbers: Table) -> Floats:
        """Rows of the leaf as the model reads them."""
        block = numbers.columns(self.where)
        if self.imputer is not None:
            block = self.imputer.transform(block)
        return np.asarray(self.pipeline.transform(block))


def fit_leaf(numbers: Table, where: IntArray, *, impute: bool, norm: str) -> tuple[LeafPreprocessing, Floats]:
    """Fit the steps on a leaf.

    Parameters
    ----------
    numbers : Table
        The support as numbers.
    where : ndarray of int
        Columns of the leaf, in the order the model is to read them.
    impute : bool
        Whether there may be holes to fill.
    norm : str
        TabICL's normalisation.

    Returns
    -------
    LeafPreprocessing
        The fitted steps.
    ndarray
        The transformed support.
    """
    block = numbers.columns(where)
    imputer = None
    if impute:
        imputer = TransformToNumerical().fit(block)
        block = imputer.transform(block)
    pipeline = PreprocessingPipeline(normalization_method=norm).fit(block)
    x_SW = np.asarray(pipeline.X_transformed_)
    del pipeline.X_transformed_  # otherwise every leaf would keep its part of the table
    return LeafPreprocessing(where, imputer, pipeline), x_SW
