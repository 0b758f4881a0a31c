"""Draw the pictures of "How folding works" from our own data.

    python docs/figures/draw.py [fold-plan|evidence|gate|noise|width ...]

Each picture that rests on measurements leaves them beside it as a CSV file; `width` takes a few minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import PolynomialFeatures

from scff import FoldedClassifier, compile_plan
from scff.gate.decide import decide

HERE = Path(__file__).parent
COLOURS = {"native": "#a3473f", "scff": "#3a7d6b", "auto": "#2f6690"}
mpl.rcParams |= {
    "svg.hashsalt": "scff",  # the same picture is the same file
    "svg.fonttype": "path",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}


def save(figure, name):
    figure.savefig(HERE / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def evidence():
    """Ranked evidence of a table where most columns tell, and of one where few do."""
    data = load_breast_cancer(as_frame=True)
    wide = PolynomialFeatures(2, include_bias=False).fit_transform(data.data)
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    few = rng.normal(size=(200, 400)) + (np.arange(400) < 20) * 0.8 * y[:, None]
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained")
    compile_plan(wide, data.target).plot(axes[0])
    compile_plan(few, y).plot(axes[1])
    axes[0].set_title("breast cancer, 495 columns")
    axes[1].set_title("20 signals among 400 columns")
    save(figure, "evidence")


def fold_plan():
    """The README's picture: ranked columns of a real table, dealt into leaves, merged, predicted once."""
    data = load_breast_cancer(as_frame=True)
    plan = compile_plan(data.data, data.target, leaf_width=9)
    core, tail_colour, ink = "#2f6690", "#c08a3e", "#3b444b"
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.6), width_ratios=[1, 1.55], layout="constrained")
    ranked = np.concatenate([plan.core, plan.tail])
    colours = [core] * len(plan.core) + [tail_colour] * len(plan.tail)
    left.bar(range(len(ranked)), np.maximum(plan.f[ranked], 0.1), color=colours, width=0.8)
    left.set(yscale="log", xlabel="columns, strongest first", ylabel="F on the labelled rows", xticks=[])
    left.set_title("1. rank, and cut at the discoveries", fontsize=10)
    left.text(12, 1500, f"Core: {len(plan.core)} columns", color=core, fontsize=9)
    left.text(len(ranked) - 0.5, 8, f"Tail: {len(plan.tail)}", color=tail_colour, fontsize=9, ha="right")

    right.set(xlim=(0, 10), ylim=(0, 6))
    right.axis("off")
    right.set_title("2. fold, merge, predict once", fontsize=10)
    leaves = [(leaf, core) for leaf in plan.core_leaves] + [(leaf, tail_colour) for leaf in plan.tail_leaves]
    heights = np.linspace(5.2, 0.6, len(leaves))
    for (leaf, colour), y in zip(leaves, heights, strict=True):
        for j in range(len(leaf)):
            right.add_patch(plt.Rectangle((0.2 + 0.22 * j, y - 0.3), 0.16, 0.6, color=colour))
        right.annotate("", (3.35, y), (2.35, y), arrowprops={"arrowstyle": "->", "color": ink})
        right.add_patch(plt.Rectangle((3.4, y - 0.16), 0.9, 0.32, color=colour, alpha=0.45))
        last = colour == tail_colour
        target = (5.55, 1.55) if last else (5.55, 3.7)
        right.annotate("", target, (4.35, y), arrowprops={"arrowstyle": "->", "color": ink})
    right.text(2.85, 5.75, "frozen\nencoder", ha="center", va="center", fontsize=7, color=ink)
    right.text(3.85, 5.75, "row\nmessages", ha="center", va="center", fontsize=7, color=ink)
    boxes = [((6.15, 3.7), "Core\nmean", core), ((6.15, 1.55), "Tail\ngate", tail_colour)]
    boxes += [((8.3, 2.75), "context\nand head", "#3a7d6b")]
    for (x, y), label, colour in boxes:
        right.text(
            x,
            y,
            label,
            ha="center",
            va="center",
            fontsize=9,
            color="white",
            bbox={"boxstyle": "round", "fc": colour, "ec": colour},
        )
    right.annotate("", (7.55, 2.95), (6.75, 3.6), arrowprops={"arrowstyle": "->", "color": ink})
    right.annotate("", (7.55, 2.6), (6.75, 1.7), arrowprops={"arrowstyle": "->", "color": ink, "linestyle": "--"})
    right.text(7.25, 1.35, "only what it\ncan prove", fontsize=7, color=ink, ha="left", va="center")
    right.annotate("", (9.9, 2.75), (9.1, 2.75), arrowprops={"arrowstyle": "->", "color": ink})
    figure.savefig(HERE / "fold-plan.png", dpi=140, metadata={"Software": None})
    plt.close(figure)


def gate():
    """Margins of a Tail that separates the classes and of one that is noise."""
    rng = np.random.default_rng(3)
    y = np.arange(200) % 2
    core = rng.normal(size=(200, 8)) + 0.5 * y[:, None]
    figure, axes = plt.subplots(1, 2, figsize=(13, 4), layout="constrained")
    decide(core, rng.normal(size=(200, 8)) + y[:, None], y, n_tail_leaves=3).plot(axes[0])
    decide(core, rng.normal(size=(200, 8)), y, n_tail_leaves=3).plot(axes[1])
    save(figure, "gate")


def noise():
    """Log-loss as columns of noise are added."""
    X, y = load_breast_cancer(return_X_y=True)
    rows = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        a, b, ya, yb = train_test_split(X, y, train_size=150, test_size=200, random_state=seed)
        for extra in (0, 70, 170, 370):
            wide_a, wide_b = (np.hstack([part, rng.normal(size=(len(part), extra))]) for part in (a, b))
            for method in COLOURS:
                model = FoldedClassifier(backbone="nano", method=method).fit(wide_a, ya)
                loss = log_loss(yb, model.predict_proba(wide_b))
                rows.append({"method": method, "columns": 30 + extra, "split": seed, "log_loss": loss})
    frame = pd.DataFrame(rows)
    frame.to_csv(HERE / "noise.csv", index=False, float_format="%.5f")
    figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for i, (method, colour) in enumerate(COLOURS.items()):
        part = frame[frame["method"] == method].groupby("columns")["log_loss"].agg(["mean", "min", "max"])
        beside = part.index + 4 * (i - 1)  # so that no range hides another
        ax.plot(beside, part["mean"], marker="o", color=colour, label=WAYS[method])
        ax.vlines(beside, part["min"], part["max"], color=colour, alpha=0.5)
    ax.set(xlabel="columns, 30 of them real", ylabel="log-loss", ylim=(0, None))
    ax.legend(loc="lower right")
    save(figure, "noise")


_ARM = """
import sys, time, numpy as np, torch
torch.set_num_threads(1)
from scff import FoldedClassifier
from scff.memory.meter import PeakMemory
method, width = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
y = np.arange(400) % 2
X = rng.normal(size=(400, width)) + (np.arange(width) < 0.1 * width) * 0.5 * y[:, None]
FoldedClassifier(backbone="nano").fit(X[:20, :5], y[:20])
with PeakMemory() as memory:
    started = time.process_time()
    FoldedClassifier(backbone="nano", method=method).fit(X[:200], y[:200]).predict(X[200:])
    spent = time.process_time() - started
print(memory.added / 2**20, spent)
"""

#: Ways that are measured as users get them, and what a reader calls them.
WAYS = {"native": "native", "scff": "the paper's method", "auto": "auto, the default"}


def width():
    """Peak memory and CPU time as width grows; every run in a process of its own."""
    rows = []
    for columns in (50, 100, 200, 400, 800, 1200, 2000):
        for method in WAYS:
            for repeat in range(2):
                command = [sys.executable, "-c", _ARM, method, str(columns)]
                out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                mib, seconds = map(float, out.split()[-2:])
                measured = {"mib": mib, "cpu_seconds": seconds}
                rows.append({"method": method, "columns": columns, "repeat": repeat, **measured})
    pd.DataFrame(rows).to_csv(HERE / "width.csv", index=False, float_format="%.3f")
    draw_width(pd.DataFrame(rows))


def draw_width(frame):
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    shown = {"mib": "MiB added at the peak", "cpu_seconds": "CPU seconds, fit and predict"}
    for ax, (measure, words) in zip(panels, shown.items(), strict=True):
        for method, name in WAYS.items():
            part = frame[frame["method"] == method].groupby("columns")[measure].min()
            ax.plot(part.index, part, marker="o", color=COLOURS[method], label=name)
        ax.set(xlabel="columns", ylabel=words, ylim=(0, None))
    panels[0].legend()
    save(figure, "width")


if __name__ == "__main__":
    known = {"fold-plan": fold_plan, "evidence": evidence, "gate": gate, "noise": noise, "width": width}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(known))
    for name in parser.parse_args().names or known:
        known[name]()
