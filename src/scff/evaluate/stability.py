"""How often each column was chosen, and how far its rank moved, when other rows were labelled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from scff.evaluate.records import Answer

__all__ = ["selection_stability"]


def selection_stability(answers: Sequence[Answer], names: Sequence[str] | None) -> pd.DataFrame | None:
    """Selection of every column over the folds, the steadiest first; None where no columns were ranked.

    Parameters
    ----------
    answers : sequence of Answer
        One for each fold.
    names : sequence of str or None
        Column names; ``x<index>`` where there are none.

    Returns
    -------
    DataFrame or None
        Indexed by column name: ``position`` in the table, ``core_share`` (the share of folds whose Core it was in), and
        ``rank``, ``rank_low``, ``rank_high``: median, 10th and 90th percentile of its place in the ranking.
    """
    rank = [answer.rank for answer in answers if answer.rank is not None]
    core = [answer.core for answer in answers if answer.core is not None]
    if not rank or len(rank) != len(answers):
        return None
    low, middle, high = np.quantile(np.stack(rank), [0.1, 0.5, 0.9], axis=0)
    share = np.stack(core).mean(axis=0)
    frame = pd.DataFrame(
        {"position": np.arange(len(share)), "core_share": share, "rank": middle, "rank_low": low, "rank_high": high},
        index=pd.Index([f"x{j}" for j in range(len(share))] if names is None else list(names), name="column"),
    )
    return frame.iloc[np.lexsort((middle, -share))]
