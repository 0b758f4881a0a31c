"""What chooses a checkpoint: fixed narrow tables, leaves of fixed wide ones, and four tables of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from scff.pretrain.causal import causal_tasks
from scff.pretrain.clusters import cluster_tasks
from scff.pretrain.config import LessonConfig
from scff.pretrain.draws import draw_for
from scff.pretrain.lessons import draw_leaves
from scff.pretrain.measurements import contrast_tasks, factor_tasks
from scff.pretrain.network import baseline, cross_entropy, silence_absent
from scff.pretrain.synthetic import easy_tasks, latent_tasks
from scff.pretrain.table_batch import TableBatch, finish, native_view

#: Far from every seed a run would use, so that no validation table is ever trained on.
_VALIDATION_SEED = 7_777_777

#: Families and shapes (tables, rows, columns) of the synthetic set.
_SHAPES = (
    (easy_tasks, 12, 192, 8),
    (latent_tasks, 12, 192, 16),
    (latent_tasks, 6, 256, 40),
    (latent_tasks, 6, 256, 72),
    (latent_tasks, 3, 256, 120),
    (contrast_tasks, 12, 192, 12),
    (contrast_tasks, 6, 384, 30),
    (factor_tasks, 8, 384, 30),
    (causal_tasks, 12, 256, 12),
    (cluster_tasks, 12, 512, 10),
)

#: Labelled rows of the wide set, and how many tables there are of each.
_WIDE_ROWS = (24, 48, 96, 192, 384)
_WIDE_TABLES = 6


@dataclass(frozen=True)
class Validation:
    """Result of a validation.

    Parameters
    ----------
    synthetic : float
        Mean loss over the narrow synthetic tables as a share of the class prior's.
    wide : float
        The same over leaves of wide ones.
    real : float
        The same over scikit-learn's four tables.
    accuracy : float
        Mean accuracy over the four.
    """

    synthetic: float
    wide: float
    real: float
    accuracy: float

    @property
    def total(self) -> float:
        """What a run minimises when it keeps its best checkpoint."""
        return self.synthetic + self.wide + self.real

    def to_dict(self) -> dict[str, float]:
        """Return plain numbers, for JSON."""
        return asdict(self)


def synthetic_tables() -> Iterator[TableBatch]:
    """Draw the fixed synthetic set.

    Yields
    ------
    TableBatch
        Tables of one family and shape.
    """
    for i, (family, n_tables, n_rows, n_columns) in enumerate(_SHAPES):
        draw = draw_for(_VALIDATION_SEED, i)
        batch = finish(*family(draw, n_tables, n_rows, n_columns), n_rows // 2, draw.generator)
        if batch is not None:
            yield batch


@cache
def wide_leaves() -> tuple[TableBatch, ...]:
    """Draw the fixed set of leaves of wide tables.

    Returns
    -------
    tuple of TableBatch
        One leaf each.
    """
    found = []
    for rows in _WIDE_ROWS:
        config = LessonConfig(rows=(rows,), queries=128, widths=(64, 100, 128), max_columns=3000, narrow=0.0)
        for i in range(_WIDE_TABLES):
            for leaf in draw_leaves(config, draw_for(_VALIDATION_SEED, rows, i), None):
                y_1T = leaf["y"].long()[None]
                found.append(TableBatch(leaf["x"].float()[None], y_1T, rows))
    return tuple(found)


def real_tables(max_support: int = 256, max_query: int = 256) -> Iterator[TableBatch]:
    """Read breast cancer, wine, iris and digits from scikit-learn, split in half.

    Parameters
    ----------
    max_support, max_query : int
        Bounds on the rows.

    Yields
    ------
    TableBatch
        One table.
    """
    from sklearn import datasets

    readers = (datasets.load_breast_cancer, datasets.load_wine, datasets.load_iris, datasets.load_digits)
    for reader in readers:
        x, y = reader(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        n_support = min(max_support, len(y) // 2)
        order = order[: n_support + min(max_query, len(y) - n_support)]
        x_BTD = torch.from_numpy(x[order]).float()[None]
        # TabICL drops columns that are constant on the support.
        x_BTD = x_BTD[:, :, x_BTD[0, :n_support].std(0) > 0]
        y_BT = torch.from_numpy(y[order]).long()[None]
        yield TableBatch(native_view(x_BTD, n_support), y_BT, n_support)


@torch.no_grad()
def validate(model: nn.Module, weights: dict[str, Tensor], temperature: float) -> Validation:
    """Measure weights on all three sets.

    Parameters
    ----------
    model : Module
        A network of the same layout; its own weights are left alone.
    weights : dict
        The weights to measure.
    temperature : float
        Divides the logits.

    Returns
    -------
    Validation
        The result.
    """

    def measure(batch: TableBatch) -> tuple[float, float]:
        logits = torch.func.functional_call(model, weights, (batch.x_BTD, batch.y_support_BN.float()))
        logits = silence_absent(logits, batch) / temperature
        hit = (logits.argmax(-1) == batch.y_query_BQ).float().mean()
        return float(cross_entropy(logits, batch)) / baseline(batch), float(hit)

    synthetic = [measure(batch)[0] for batch in synthetic_tables()]
    wide = [measure(batch)[0] for batch in wide_leaves()]
    real = [measure(batch) for batch in real_tables()]
    return Validation(
        synthetic=sum(synthetic) / len(synthetic),
        wide=sum(wide) / len(wide),
        real=sum(loss for loss, _ in real) / len(real),
        accuracy=sum(hit for _, hit in real) / len(real),
    )
