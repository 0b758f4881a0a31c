"""What a fit will take, by this library's own planner, for schedulers that ask before they start one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from scff.backbones.loaded import load_backbone
from scff.backbones.registry import choose_auto
from scff.fold.threads import default_workers
from scff.memory.budget import parse_bytes
from scff.memory.device import resolve_device
from scff.tables.table import Table
from scff.trials.beside import cases_of, second_reader
from scff.trials.case import Case
from scff.trials.settings import Settings

__all__ = ["memory_of_fit"]

Task = Literal["classification", "regression"]

# The interpreter with torch and a backbone's package, before any table.
_BASELINE = 400 << 20
# The table as it is handed over, as the model reads it, and as the column scores go over it.
_COPIES = 3
# Query rows that are encoded together.
_QUERIES = {"cpu": 256, "cuda": 1024}


def memory_of_fit(
    n_rows: int, n_columns: int, parameters: Mapping[str, Any], *, task: Task = "classification", device: str = "cpu"
) -> int:
    """Bytes that fitting and predicting a table of this size take at their peak.

    The backbone is loaded and asked what a leaf of this many rows costs. Columns beyond a leaf cost only their table,
    which is the point of folding; ``method="native"`` reads them all at once and is charged for it.

    Parameters
    ----------
    n_rows, n_columns : int
    parameters : mapping
        Of the estimator: ``backbone``, ``method``, ``leaf_width``, ``memory_limit``.
    task : {"classification", "regression"}
    device : str
        ``"cpu"`` counts the process, anything else the accelerator's own memory, weights included.

    Returns
    -------
    int

    Examples
    --------
    >>> narrow = memory_of_fit(500, 100, {"backbone": "nano"})
    >>> wide = memory_of_fit(500, 20_000, {"backbone": "nano"})
    >>> native = memory_of_fit(500, 20_000, {"backbone": "nano", "method": "native"})
    >>> narrow < wide < native
    True
    """
    where = resolve_device("cpu")  # the arithmetic is the same, and nothing is moved to ask
    name = parameters.get("backbone", "auto")
    backbone = load_backbone(choose_auto(task) if name == "auto" else name, where, task)
    settings = Settings(leaf_width=int(parameters.get("leaf_width", 128)))
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 2 if task == "classification" else rng.normal(size=n_rows)
    kind = "cpu" if device == "cpu" else "cuda"
    working, readers, summaries = 0, [backbone], 0
    empty = Case(backbone, Table(np.empty((n_rows, 0))), y, settings)
    if parameters.get("method", "auto") == "auto":
        summaries = empty.summary_bytes
    if summaries and task == "classification":
        readers += [
            case.beside for case in cases_of(empty, [backbone], second_reader(where)) if case.beside is not None
        ]
    for reader in readers:
        width = min(n_columns, Case(reader, Table(np.empty((n_rows, 0))), y, settings).leaf_width)
        view = Case(reader, Table(rng.normal(size=(n_rows, width)).astype(np.float32)), y, settings).first_view
        read = n_columns if parameters.get("method") == "native" else width
        working = max(working, view.native_bytes(read, _QUERIES[kind]))
    if kind == "cuda":
        return int(working + sum(reader.path.stat().st_size for reader in readers))
    working = working * (default_workers() if read == width else 1) + summaries
    limit = parameters.get("memory_limit")
    if limit is not None:
        working = min(working, parse_bytes(limit))
    return int(_BASELINE + _COPIES * 8 * n_rows * n_columns + working)
