"""A table of Dask scored partition by partition.

pip install 'dask[dataframe]'
python dask_scoring.py model.scff in.parquet out.parquet key
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import dask.dataframe as dd

from scff.serving import Scorer


def predict(table: dd.DataFrame, model: str, keep: Sequence[str] = ()) -> dd.DataFrame:
    """Kept columns, predictions and probabilities of every row; a worker loads the model once."""
    scorer = Scorer(model, keep=keep)
    # No rows have the columns and types of many: Dask need not guess.
    return table.map_partitions(scorer, meta=scorer(table._meta))


if __name__ == "__main__":
    model, source, target, *keep = sys.argv[1:]
    predict(dd.read_parquet(source), model, keep).to_parquet(target)
