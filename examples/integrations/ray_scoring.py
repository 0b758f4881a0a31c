"""A folded model as a stage of a Ray Data pipeline of your own.

pip install 'scff[ray]'
python ray_scoring.py model.scff in/ out/ key

`scff predict --engine ray` does this for folders of Parquet files, with one part for a part and a manifest. Here rows
may come from anywhere and go anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import ray.data
from ray.data import Dataset

from scff.serving import Scorer


def predict(rows: Dataset, model: str, keep: Sequence[str] = (), actors: int = 1, gpus: int = 0) -> Dataset:
    """Kept columns, predictions and probabilities of every row; every actor loads the model once."""
    return rows.map_batches(
        Scorer,
        fn_constructor_args=[model],
        fn_constructor_kwargs={"keep": list(keep)},
        batch_format="pyarrow",
        batch_size=4096,
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_gpus=gpus or None,
    )


if __name__ == "__main__":
    model, source, target, *keep = sys.argv[1:]
    predict(ray.data.read_parquet(source), model, keep).write_parquet(target)
