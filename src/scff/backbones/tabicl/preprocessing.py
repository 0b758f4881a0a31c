"""TabICL's preprocessing of one leaf, fitted on its support rows.

All of its steps treat columns independently, so the preprocessed table never exists as a whole. A checkpoint may ask
for principal components behind the columns of a leaf (``nano`` does): what the model then reads is what TabICL would
make of a table that holds them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tabicl._sklearn.preprocessing import PreprocessingPipeline, TransformToNumerical

from scff.backbones.base import IntArray
from scff.backbones.tabicl.components import LeafComponents, n_components
from scff.tables.table import Table

__all__ = ["LeafPreprocessing", "fit_leaf"]

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class _Behind:
    """Components of the preprocessed columns, preprocessed in their turn."""

    components: LeafComponents
    pipeline: PreprocessingPipeline

    def __call__(self, x_TW: Floats) -> Floats:
        return np.hstack([x_TW, self.pipeline.transform(self.components(x_TW))])


@dataclass(frozen=True)
class LeafPreprocessing:
    """TabICL's steps between the user's numbers and the model, fitted on the support rows of one leaf."""

    where: IntArray
    imputer: TransformToNumerical | None
    pipeline: PreprocessingPipeline
    behind: _Behind | None

    def __call__(self, numbers: Table) -> Floats:
        """Rows of the leaf as the model reads them."""
        block = numbers.columns(self.where)
        if self.imputer is not None:
            block = self.imputer.transform(block)
        x_TW = np.asarray(self.pipeline.transform(block))
        return x_TW if self.behind is None else self.behind(x_TW)


def fit_leaf(
    numbers: Table, where: IntArray, *, impute: bool, norm: str, components: int
) -> tuple[LeafPreprocessing, Floats]:
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
    components : int
        Most principal components to set behind the columns.

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
    pipeline, x_SW = _fit_pipeline(block, norm)
    behind = None
    n = n_components(components, *x_SW.shape[::-1])
    if n:
        change = LeafComponents.fit(x_SW, n)
        behind_pipeline, behind_Sk = _fit_pipeline(change(x_SW), norm)
        behind = _Behind(change, behind_pipeline)
        x_SW = np.hstack([x_SW, behind_Sk])
    return LeafPreprocessing(where, imputer, pipeline, behind), x_SW


def _fit_pipeline(block: Floats, norm: str) -> tuple[PreprocessingPipeline, Floats]:
    """Fit on the rows of a block; also those rows, transformed."""
    pipeline = PreprocessingPipeline(normalization_method=norm).fit(block)
    transformed = np.asarray(pipeline.X_transformed_)
    del pipeline.X_transformed_  # otherwise every leaf would keep its part of the table
    return pipeline, transformed
