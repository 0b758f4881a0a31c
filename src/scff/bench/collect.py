"""All records in one Parquet file; TabArena's column names first, so that `bencheval` reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from scff.bench.metrics import METRICS
from scff.bench.records import Record, RecordStore
from scff.errors import DataError

__all__ = ["collect", "to_frame"]


def to_frame(records: list[Record]) -> pd.DataFrame:
    """One row per record.

    The first columns are TabArena's: ``method``, ``task``, ``seed`` (the fold), ``metric_error`` (the NLL),
    ``time_train_s`` and ``time_infer_s``.
    """
    return pd.DataFrame([_row(record) for record in records])


def collect(results: Path, output: Path | None = None) -> tuple[Path, int]:
    """Write every record of a results folder to a Parquet file; returns its path and number of rows."""
    records = list(RecordStore(results).all())
    if not records:
        raise DataError(f"There are no records in {results}; run a study with --results {results} first.")
    path = results / "results.parquet" if output is None else output
    to_frame(records).to_parquet(path, index=False)
    return path, len(records)


def _row(record: Record) -> dict[str, Any]:
    key, seconds, memory = record.key, record.seconds, record.memory
    method = key.arm if key.backbone == "baseline" else f"{key.arm} ({key.backbone})"
    task = key.dataset if key.variant == "plain" else f"{key.dataset} {key.variant}"
    on_gpu = memory.get("meter") == "cuda"
    return {
        "method": method,
        "task": task,
        "seed": key.fold,
        "metric_error": record.metrics.get("nll"),
        "time_train_s": seconds.get("plan", 0.0) + seconds["compile"] if seconds else None,
        "time_infer_s": seconds.get("predict"),
        "metric": "log_loss",
        "problem_type": "binary" if record.n_classes == 2 else "multiclass",
        "peak_mem_cpu": None if on_gpu else memory.get("peak"),
        "min_mem_cpu": None if on_gpu else memory.get("start"),
        "peak_mem_gpu": memory.get("peak") if on_gpu else None,
        "added_mem": memory.get("added"),
        "meter": memory.get("meter"),
        "protocol": key.protocol,
        "backbone": key.backbone,
        "checkpoint": key.checkpoint,
        "dataset": key.dataset,
        "variant": key.variant,
        "fold": key.fold,
        "arm": key.arm,
        "status": record.status,
        "info": record.reason,
        **{name: record.metrics.get(name) for name in METRICS},
        **{f"seconds_{name}": seconds.get(name) for name in ("load", "plan", "compile", "predict", "total", "cpu")},
        "n_support": record.n_support,
        "n_query": record.n_query,
        "n_columns": record.n_columns,
        "n_classes": record.n_classes,
        "n_groups": record.n_groups,
        "query_chunk": record.query_chunk,
        "core_width": record.plan.get("core"),
        "core_leaves": record.plan.get("core_leaves"),
        "tail_leaves": record.plan.get("tail_leaves"),
        "plan_hash": record.plan.get("hash"),
        "gate_accepted": record.gate.get("accepted"),
        "gate_alpha": record.gate.get("alpha"),
        "reads": ", ".join(f"{one['name']} {one['weight']:.2f}" for one in record.verdict.get("read", ())) or None,
        "data_digest": record.data_digest,
        "support_hash": record.support_hash,
        "query_hash": record.query_hash,
        "settings_hash": record.settings_hash,
        "checkpoint_sha256": record.checkpoint_sha256,
        "probability_hash": record.probability_hash,
        "path": str(key.path),
    }
