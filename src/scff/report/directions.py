"""Which way each column goes: class means and standardised effects, or the correlation with a target of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

if TYPE_CHECKING:
    from scff.estimators.fitted import Fitted
    from scff.tables.table import Table

__all__ = ["class_directions", "directions", "number_directions"]

FloatArray = npt.NDArray[np.float64]
_BLOCK_CELLS = 4_000_000


def directions(fitted: Fitted) -> pd.DataFrame:
    """The fields of `column_evidence` that say which way a column goes, in the order of the table."""
    if fitted.classes is None:
        return number_directions(fitted.support, fitted.y)
    return class_directions(fitted.support, fitted.y, fitted.classes)


def class_directions(table: Table, codes: npt.NDArray[np.int64], classes: npt.NDArray[Any]) -> pd.DataFrame:
    """Class means of every column, its standardised effect, and the class it is high in.

    Missing values take no part. The effect is in units of the spread within the classes: of two classes it is the mean
    of the second less that of the first; of more, the mean of the class that it is high in less that of all other rows.
    NaN for a column that does not vary within the classes or is no number; ``high_in`` is then empty.
    """
    n_classes = len(classes)
    means = np.full((table.n_columns, n_classes), np.nan)
    effect = np.full(table.n_columns, np.nan)
    for columns, block in _blocks(table):
        there = ~np.isnan(block)
        count = np.stack([there[codes == k].sum(axis=0) for k in range(n_classes)])
        total = np.stack([np.where(there, block, 0.0)[codes == k].sum(axis=0) for k in range(n_classes)])
        mean = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
        off = np.where(there, block - mean[codes], 0.0)
        free = count.sum(axis=0) - (count > 0).sum(axis=0)
        within = np.sqrt(np.divide((off**2).sum(axis=0), free, out=np.zeros(len(free)), where=free > 0))
        if n_classes == 2:
            gap = mean[1] - mean[0]
        else:
            top = np.where(np.isnan(mean), -np.inf, mean).argmax(axis=0)
            at = np.arange(mean.shape[1])
            others = count.sum(axis=0) - count[top, at]
            rest = np.divide(total.sum(axis=0) - total[top, at], others, out=np.full(len(at), np.nan), where=others > 0)
            gap = mean[top, at] - rest
        means[columns] = mean.T
        # Rounding alone is no spread.
        floor = 1e-12 * np.abs(mean).max(axis=0, initial=0.0, where=~np.isnan(mean))
        effect[columns] = np.divide(gap, within, out=np.full(len(gap), np.nan), where=within > floor)
    frame = pd.DataFrame({f"mean_{name}": means[:, k] for k, name in enumerate(classes.tolist())})
    high = np.where(np.isnan(means), -np.inf, means).argmax(axis=1)
    high_in = np.array([str(name) for name in classes.tolist()], dtype=object)[high]
    spread = np.nanmax(means, axis=1, initial=-np.inf) - np.nanmin(means, axis=1, initial=np.inf)
    high_in[~(spread > 0)] = ""
    frame.insert(0, "effect", effect)
    frame.insert(1, "high_in", high_in)
    return frame


def number_directions(table: Table, y: FloatArray) -> pd.DataFrame:
    """The correlation of every column with the target, and with which it rises: ``"up"`` or ``"down"``."""
    correlation = np.full(table.n_columns, np.nan)
    for columns, block in _blocks(table):
        there = ~np.isnan(block)
        n = np.maximum(there.sum(axis=0), 1)
        x = np.where(there, block - np.where(there, block, 0.0).sum(axis=0) / n, 0.0)
        t = np.where(there, y[:, None], 0.0)
        t = np.where(there, t - t.sum(axis=0) / n, 0.0)
        size = np.sqrt((x**2).sum(axis=0) * (t**2).sum(axis=0))
        correlation[columns] = np.divide((x * t).sum(axis=0), size, out=np.full(len(n), np.nan), where=size > 0)
    goes = np.where(correlation > 0, "up", np.where(correlation < 0, "down", ""))
    return pd.DataFrame({"effect": correlation, "goes": goes})


def _blocks(table: Table) -> Iterator[tuple[slice, FloatArray]]:
    """Column blocks as float64 with NaN for what is missing; text and categories by no number at all: all NaN."""
    width = max(1, _BLOCK_CELLS // max(table.n_rows, 1))
    for start in range(0, table.n_columns, width):
        columns = slice(start, min(start + width, table.n_columns))
        if isinstance(table.values, pd.DataFrame):
            part = table.values.iloc[:, columns]
            block = np.full(part.shape, np.nan)
            for j, dtype in enumerate(part.dtypes):
                if pd.api.types.is_numeric_dtype(dtype):
                    block[:, j] = part.iloc[:, j].to_numpy(dtype=np.float64, na_value=np.nan)
            yield columns, block
        else:
            yield columns, np.asarray(table.columns(np.arange(columns.start, columns.stop)), dtype=np.float64)
