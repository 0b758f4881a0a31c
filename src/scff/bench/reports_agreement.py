"""Whether tables agree on a contrast: medians, wins, ties and losses, and what is left without the best of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scff.bench import layout as t
from scff.bench import stats
from scff.bench.layout import Cell, ReportTable
from scff.bench.metrics import METRICS
from scff.bench.reports import report
from scff.bench.results import Pairs, Results

__all__: list[str] = []


@report("agreement")
def _agreement(
    results: Sequence[Results], title: str, folds: str, contrasts: Sequence[tuple[str, str]]
) -> list[ReportTable]:
    rows = []
    for r in results:
        for a, b in contrasts:
            pairs = _pairs(r, a, b, folds)
            if len(pairs.datasets) < 2:
                continue
            src, cells = pairs.sources, []
            for metric, cell in (("accuracy", t.points), ("nll", t.nats)):
                effects = pairs.effects(metric)
                counts = str(stats.win_tie_loss(effects, METRICS[metric]))
                worst, without = stats.leave_one_out_worst(effects, METRICS[metric])
                cells += [cell(float(np.median(list(effects.values()))), src), Cell(counts, counts, src)]
                cells.append(Cell(f"{cell(worst).text} ({without})", worst, src))
            rows.append((t.label(r.backbone), t.label(f"{a} − {b}"), t.count(len(pairs.datasets), src), *cells))
    columns = (
        "Backbone", "Contrast", "Tables",
        "Median ΔAcc. pp", "Acc. W/T/L", "Worst mean without one table",
        "Median ΔNLL", "NLL W/T/L", "Worst mean without one table",
    )  # fmt: skip
    which = {"all": "All folds", "locked": "Locked folds", "development": "Development fold"}[folds]
    notes = (f"{which}. Medians and counts of tables; then the least favourable mean when one table is removed.",)
    return [ReportTable(title, columns, tuple(rows), notes)]


def _pairs(r: Results, a: str, b: str, folds: str) -> Pairs:
    """Pairs of two arms as a study names them: ``scff``, or ``scff on generated`` for a variant of the table."""
    (arm, _, variant), (arm_b, _, variant_b) = (name.partition(" on ") for name in (a, b))
    return r.pairs(arm, arm_b, folds, variant or "plain", None if variant_b == variant else variant_b or "plain")
