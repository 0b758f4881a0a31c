"""The tables of decisions: the Tail gate's in the paper's method, held-back rows' in the library's default."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scff.bench import layout as t
from scff.bench.layout import ReportTable
from scff.bench.records import Record
from scff.bench.reports import report
from scff.bench.results import Results

__all__: list[str] = []


def _plain(r: Results, arm: str) -> list[Record]:
    return [record for record in r.records if record.ok and record.key.arm == arm and record.key.variant == "plain"]


@report("gates")
def _gates(results: Sequence[Results]) -> list[ReportTable]:
    rows = []
    for r in results:
        reasons: dict[str, list[str]] = {}
        for record in _plain(r, "scff"):
            if record.gate:
                reasons.setdefault(record.gate["reason"], []).append(str(record.key.path))
        for reason, paths in sorted(reasons.items(), key=lambda item: -len(item[1])):
            rows.append((t.label(r.backbone), t.label(reason), t.count(len(paths), paths)))
    return [ReportTable("What the Tail gate decided", ("Backbone", "Reason", "Folds"), tuple(rows))]


@report("verdicts")
def _verdicts(results: Sequence[Results]) -> list[ReportTable]:
    """What `auto` read, by presentation: on how many folds, and with which weight where it was read."""
    rows = []
    for r in results:
        records = [record for record in _plain(r, "auto") if record.verdict]
        src = tuple(str(record.key.path) for record in records)
        tried: dict[str, set[str]] = {}
        weights: dict[str, list[float]] = {}
        for record in records:
            for one in record.verdict["tried"] + record.verdict["read"]:
                tried.setdefault(one["name"], set()).add(str(record.key.path))
            for one in record.verdict["read"]:
                weights.setdefault(one["name"], []).append(one["weight"])
        for name, paths in tried.items():
            mean = t.count(float(np.mean(weights[name])), src, 2) if name in weights else t.label("–")
            cells = (t.count(len(paths), src), t.count(len(weights.get(name, ())), src), mean)
            rows.append((t.label(r.backbone), t.label(name), *cells))
    columns = ("Backbone", "Presentation", "Folds tried", "Folds read", "Mean weight where read")
    notes = ("The library's default (arm auto); core is the paper's Core, read alone unless others earned weight.",)
    return [ReportTable("What held-back rows let the default read", columns, tuple(rows), notes)]
