"""Principal components of a leaf: a few columns more, which hold what its columns share.

Columns that resemble each other say the same thing many times, each with noise of its own, and what only their
differences tell drowns in it. A large model finds its way through; a small one reads the leading components far better
than the columns they are made of. TabPFN v2 widens its tables by singular vectors for the same reason. The components
are fitted on support rows alone and stand behind the leaf's own columns, all of which stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

__all__ = ["LeafComponents", "n_components"]

# Directions of less than this share of the leading variance are rounding, not data.
_NOTHING = 1e-9

Floats = npt.NDArray[np.floating[Any]]


def n_components(most: int, width: int, n_rows: int) -> int:
    """How many components a leaf gets: few beside its columns, so that these are still what is read.

    Parameters
    ----------
    most : int
        What the backbone asks for.
    width : int
        Columns of the leaf.
    n_rows : int
        Support rows.

    Returns
    -------
    int
        At most a third of the columns. Leaves of one width have equally many.

    Examples
    --------
    >>> n_components(8, 128, 500), n_components(8, 13, 500), n_components(8, 2, 500)
    (8, 4, 0)
    """
    return max(0, min(most, width // 3, n_rows - 1))


@dataclass(frozen=True)
class LeafComponents:
    """A fitted change from a leaf's columns to its leading principal components.

    Attributes
    ----------
    mean_W : ndarray
        Means of the columns on the support.
    loadings_Wk : ndarray
        What each column adds to each component; zero where the leaf has fewer directions than components.
    """

    mean_W: Floats
    loadings_Wk: Floats

    @classmethod
    def fit(cls, x_SW: Floats, n: int) -> LeafComponents:
        """Find the components of support rows.

        Parameters
        ----------
        x_SW : ndarray
            Columns of comparable scale, without holes.
        n : int
            Number of components.

        Returns
        -------
        LeafComponents
            The change; call it on rows of the same columns.

        Examples
        --------
        >>> line = np.outer(np.arange(4.0), [3.0, 4.0])
        >>> LeafComponents.fit(line, 1)(line)[:, 0]
        array([-7.5, -2.5,  2.5,  7.5])
        """
        n_rows, width = x_SW.shape
        mean_W = x_SW.mean(axis=0)
        # Products of rows or of columns, whichever are fewer; centred afterwards, so the leaf is not copied.
        if width <= n_rows:
            gram = x_SW.T @ x_SW - n_rows * np.outer(mean_W, mean_W)
        else:
            gram = x_SW @ x_SW.T
            by_row = gram.mean(axis=0)
            gram += by_row.mean() - by_row - by_row[:, None]
        size = len(gram)
        variance, vectors = eigh(gram, subset_by_index=(max(0, size - n), size - 1))
        if len(variance) < min(n, size):  # LAPACK finds none of several that are alike but for rounding
            variance, vectors = (found[..., -n:] for found in eigh(gram))
        variance, vectors = variance[::-1], vectors[:, ::-1]
        loadings_Wk = vectors
        if width > n_rows:
            # The mean row drops out: the vectors of centred products sum to zero.
            loadings_Wk = x_SW.T @ vectors
            loadings_Wk /= np.maximum(np.linalg.norm(loadings_Wk, axis=0), 1e-300)
        loadings_Wk = np.where(variance > _NOTHING * max(variance[0], 0.0), loadings_Wk, 0.0)
        # The sign of a component is free; fixed, so that the same leaf always gives the same columns.
        largest = np.take_along_axis(loadings_Wk, np.abs(loadings_Wk).argmax(axis=0)[None], axis=0)
        return cls(mean_W, np.where(largest < 0, -loadings_Wk, loadings_Wk))

    def __call__(self, x_TW: Floats) -> Floats:
        """Components of rows, uncorrelated on the support and of falling variance."""
        out: Floats = x_TW @ self.loadings_Wk - self.mean_W @ self.loadings_Wk
        return out
