"""Figures of the studies, drawn from records with matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scff.bench import stats
from scff.bench.equal_memory import matched_pairs
from scff.bench.reports_mechanism import nuisance_doses
from scff.bench.results import Results
from scff.bench.studies import Study
from scff.errors import DataError, MissingDependency

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DRAWERS", "draw", "write_figures"]

Drawer = Callable[["Figure", Results], bool]
_FOLDED, _NATIVE = "#1b7f5c", "#c98a2b"  # green for the folded route, ochre for the other, as in the paper


def write_figures(study: Study, results: Sequence[Results], folder: Path, suffix: str = ".svg") -> list[Path]:
    """Draw the figures a study declares, one file per figure and backbone; figures without data are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for declared in study.figures:
        for r in results:
            figure = draw(declared["kind"], r)
            if figure is not None:
                path = folder / f"{study.name}-{declared['kind']}-{r.backbone}{suffix}"
                _save(figure, path)
                paths.append(path)
    return paths


def _save(figure: Figure, path: Path) -> None:
    """Save a figure; the same records give the same file."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "scff"}):
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)


def draw(kind: str, r: Results) -> Figure | None:
    """Draw one figure; None if no record is about it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("Figures need matplotlib: pip install matplotlib.") from error
    if kind not in DRAWERS:
        raise DataError(f"There is no figure {kind!r}; there are {', '.join(DRAWERS)}.")
    figure = Figure(figsize=(8, 4), layout="constrained")
    if not DRAWERS[kind](figure, r):
        return None
    for ax in figure.axes:
        _plain_numbers(ax)
    return figure


def _plain_numbers(ax: Axes) -> None:
    """Write 60 and 1,000 on logarithmic axes, not powers; between the decades only where there are few of them."""
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            low, high = axis.get_view_interval()
            digits = {2, 5} if high > 3 * low else set(range(2, 10))
            axis.set_major_formatter(lambda value, _: f"{value:,.6g}")
            axis.set_minor_formatter(partial(_between, digits=digits if high < 100 * low else set()))


def _between(value: float, _: int, digits: set[int]) -> str:
    leading = value / 10.0 ** np.floor(np.log10(value) + 1e-9)
    return f"{value:,.6g}" if round(leading) in digits else ""


def _paired_effects(figure: Figure, r: Results) -> bool:
    pairs = r.pairs("scff", "native", "locked")
    if not pairs.complete:
        return False
    figure.set_size_inches(9, 1.2 + 0.28 * len(pairs.datasets))
    left, right = figure.subplots(1, 2, sharey=True)
    names = sorted(pairs.datasets, key=pairs.effects("accuracy").__getitem__)
    _bars(left, names, {d: 100 * v for d, v in pairs.effects("accuracy").items()}, better=1)
    _bars(right, names, pairs.effects("nll"), better=-1)
    left.set_xlabel("ΔAccuracy, percentage points")
    right.set_xlabel("ΔNLL")
    figure.suptitle(f"SCFF minus native, {r.backbone}, locked folds (green: SCFF is better)")
    return True


def _bars(ax: Axes, names: Sequence[str], values: dict[str, float], better: int) -> None:
    heights = [values[name] for name in names]
    ax.barh(range(len(names)), heights, color=[_FOLDED if h * better >= 0 else _NATIVE for h in heights])
    ax.set_yticks(range(len(names)), names)
    ax.axvline(0, color="0.3", linewidth=0.8)


def _memory_width(figure: Figure, r: Results) -> bool:
    pairs = r.pairs("scff", "native")
    ax = figure.subplots()
    widths = [pair.a.n_columns for pair in pairs.complete]
    for side, color, name in (("b", _NATIVE, "native"), ("a", _FOLDED, "SCFF")):
        ax.scatter(widths, np.array(pairs.peaks(side)) / 2**20, s=14, color=color, label=name)
    ax.set(xscale="log", yscale="log", xlabel="columns", ylabel="peak memory added, MiB")
    ax.set_title(f"Memory against width, {r.backbone}")
    ax.legend(frameon=False)
    return bool(pairs.complete)


def _core_memory(figure: Figure, r: Results) -> bool:
    pairs = r.pairs("raw-core", "bounded-core")
    ax = figure.subplots()
    ratio = np.array(pairs.peaks("a")) / np.array(pairs.peaks("b"))
    ax.scatter([pair.b.plan["core"] for pair in pairs.complete], ratio, s=14, color=_FOLDED)
    ax.axvline(r.leaf_width, color="0.6", linestyle=":")
    ax.axhline(1, color="0.6", linewidth=0.8)
    ax.set(xscale="log", yscale="log", xlabel="Core width K (dotted: one leaf)", ylabel="raw / bounded peak")
    ax.set_title(f"Peak of the Core in one leaf over its peak folded, {r.backbone}")
    return bool(pairs.complete)


def _equal_memory(figure: Figure, r: Results) -> bool:
    pairs, _ = matched_pairs(r)
    wide = pairs.where(lambda pair: pair.a.plan["core"] > r.leaf_width)
    if not wide.complete:
        return False
    left, right = figure.subplots(1, 2)
    folded = [pair.a.plan["core"] for pair in wide.complete]
    single = [int(pair.b.key.arm.removeprefix("prefix-")) for pair in wide.complete]
    order = np.argsort(folded, kind="stable")
    left.plot(np.array(folded)[order], color=_FOLDED, marker=".", linestyle="", label="folded Core")
    left.plot(np.array(single)[order], color=_NATIVE, marker=".", linestyle="", label="single leaf")
    left.set(yscale="log", xlabel="folds with a Core wider than a leaf", ylabel="columns read within the same peak")
    left.legend(frameon=False)
    for i, (metric, scale) in enumerate((("accuracy", 100.0), ("nll", 100.0))):
        value = stats.dataset_bootstrap(wide.effects(metric))
        low, high = scale * (value.estimate - value.low), scale * (value.high - value.estimate)
        right.errorbar([i], [scale * value.estimate], yerr=[[low], [high]], fmt="o", color=_FOLDED, capsize=4)
    right.axhline(0, color="0.6", linewidth=0.8)
    right.set_xticks([0, 1], ["ΔAccuracy, pp", "ΔNLL × 100"])
    right.set_xlim(-0.5, 1.5)
    figure.suptitle(f"More columns under the same measured peak, {r.backbone}")
    return True


def _nuisance(figure: Figure, r: Results) -> bool:
    doses = nuisance_doses(r)
    if not doses:
        return False
    left, right = figure.subplots(1, 2)
    for side, color, name in (("b", _NATIVE, "native"), ("a", _FOLDED, "SCFF")):
        nll = [stats.macro_mean(pairs.levels("nll", side)) for pairs in doses.values()]
        peaks = [float(np.median(pairs.peaks(side))) / 2**20 for pairs in doses.values()]
        left.plot(list(doses), nll, color=color, marker="o", label=name)
        right.plot(list(doses), peaks, color=color, marker="o", label=name)
    left.set(xlabel="label-independent columns added", ylabel="NLL, macro over tables")
    right.set(xlabel="label-independent columns added", ylabel="median peak added, MiB", yscale="log")
    left.legend(frameon=False)
    figure.suptitle(f"Irrelevant width, {r.backbone}")
    return True


def _context(figure: Figure, r: Results) -> bool:
    ax: Any = figure.subplots()
    lines: dict[str, list[tuple[int, float]]] = {}
    for variant in sorted({record.key.variant for record in r.records}):
        if variant.startswith("context-"):
            for pair in r.pairs("scff", "native", "development", variant).complete:
                effect = 100 * (float(pair.a.metrics["accuracy"] or 0) - float(pair.b.metrics["accuracy"] or 0))
                lines.setdefault(pair.dataset, []).append((pair.a.n_support, effect))
    for name, line in lines.items():
        ax.plot(*zip(*sorted(line), strict=True), marker="o", label=name)
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set(xscale="log", xlabel="support rows", ylabel="ΔAccuracy, percentage points")
    ax.set_title(f"Context and width, {r.backbone}")
    if lines:
        ax.legend(frameon=False)
    return bool(lines)


DRAWERS: dict[str, Drawer] = {
    "paired-effects": _paired_effects,
    "memory-width": _memory_width,
    "core-memory": _core_memory,
    "equal-memory": _equal_memory,
    "nuisance": _nuisance,
    "context": _context,
}
"""Every figure a study can declare."""
