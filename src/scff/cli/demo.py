"""``scff demo``: tables that ship with scikit-learn, widened by all products: native, the paper's method, auto."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.status import Status
from rich.table import Table as RichTable

from scff.cli.console import err, out
from scff.cli.options import Backbone, Json
from scff.cli.output import print_json, read_lines
from scff.errors import BackboneError
from scff.names import MethodOrAuto

__all__ = ["ARMS", "TABLES", "Outcome", "demo", "run", "widened"]

ARMS: tuple[MethodOrAuto, ...] = ("native", "scff", "auto")
"""What is compared: the backbone alone, the paper's method, and the best this library knows."""

TABLES = {"breast cancer": (284, 285), "digits": (300, 150)}
"""Table name to support and query rows."""


@dataclass(frozen=True)
class Outcome:
    """One arm on one table.

    Attributes
    ----------
    table : str
    columns : int
    method : str
    backbone : str
    accuracy, log_loss : float
    seconds : float
        Fit and predict, without loading the weights.
    peak_bytes : int
        Memory that fit and predict added.
    plan, gate : str
        What was folded and decided.
    read : str
        What the answer is read from.
    """

    table: str
    columns: int
    method: str
    backbone: str
    accuracy: float
    log_loss: float
    seconds: float
    peak_bytes: int
    plan: str
    gate: str
    read: str


def demo(backbone: Backbone = "nano", as_json: Json = False) -> None:
    """Compare native inference, the paper's method and auto on two real tables widened by all pairwise products."""
    from scff.backbones.registry import locate
    from scff.memory.budget import format_bytes

    if backbone != "auto":
        locate(backbone)  # before a process is started for each arm
    outcomes: list[Outcome] = []
    status = None if as_json else err.status("starting")
    if status is not None:
        status.start()
    try:
        outcomes.extend(run(backbone, lambda table, method: _show(status, f"{table}: {method}")))
    finally:
        if status is not None:
            status.stop()
    if as_json:
        return print_json({"outcomes": [asdict(outcome) for outcome in outcomes]})
    grid = RichTable(
        "table", "columns", "method", "accuracy", "log-loss", "seconds", "peak memory", title=outcomes[0].backbone
    )
    for o in outcomes:
        grid.add_row(
            o.table,
            str(o.columns),
            o.method,
            f"{100 * o.accuracy:.1f} %",
            f"{o.log_loss:.3f}",
            f"{o.seconds:.1f}",
            format_bytes(o.peak_bytes),
        )
    out.print(grid)
    for o in outcomes:
        if o.method != "native":
            out.print(f"{o.table}, {o.method}: {o.read}", soft_wrap=True)
    return None


def widened(name: str) -> tuple[Any, Any]:
    """A scikit-learn table with every square and pairwise product of its columns added."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer, load_digits
    from sklearn.preprocessing import PolynomialFeatures

    X, y = {"breast cancer": load_breast_cancer, "digits": load_digits}[name](return_X_y=True)
    return PolynomialFeatures(2, include_bias=False).fit_transform(X).astype(np.float32), y


def run(backbone: str = "auto", starting: Callable[[str, str], object] = lambda *_: None) -> Iterator[Outcome]:
    """Run every arm, each in a process of its own so that peaks do not mix.

    Parameters
    ----------
    backbone : str
        Name or path of the backbone.
    starting : callable
        Told ``(table, method)`` before each arm.

    Yields
    ------
    Outcome
    """
    for table in TABLES:
        for method in ARMS:
            starting(table, method)
            command = [sys.executable, "-m", "scff.cli.demo", table, method, str(backbone)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no word of why"])[-1]
                raise BackboneError(f"The {method} arm on {table} failed: {last}")
            yield Outcome(**json.loads(done.stdout.splitlines()[-1]))


def _show(status: Status | None, text: str) -> None:
    if status is not None:
        status.update(text)


def _arm(table: str, method: str, backbone: str) -> Outcome:
    from sklearn.metrics import accuracy_score, log_loss
    from sklearn.model_selection import train_test_split

    from scff import FoldedClassifier
    from scff.memory.meter import PeakMemory

    X, y = widened(table)
    n_support, n_query = TABLES[table]
    X_s, X_q, y_s, y_q = train_test_split(X, y, train_size=n_support, test_size=n_query, stratify=y, random_state=0)
    clf = FoldedClassifier(backbone=backbone, method=method)  # type: ignore[arg-type]
    clf.fit(X_s[:, :2], y_s)  # load and warm up: weights are the same for all arms
    with PeakMemory() as memory:
        started = time.perf_counter()
        proba = clf.fit(X_s, y_s).predict_proba(X_q)
        seconds = time.perf_counter() - started
    return Outcome(
        table=table,
        columns=X.shape[1],
        method=method,
        backbone=clf.backbone_,
        accuracy=float(accuracy_score(y_q, clf.classes_[proba.argmax(axis=1)])),
        log_loss=float(log_loss(y_q, proba, labels=clf.classes_)),
        seconds=seconds,
        peak_bytes=memory.added,
        plan=repr(clf.plan_),
        gate=repr(clf.gate_),
        read="; ".join(" ".join(line.split()) for line in read_lines(clf)),
    )


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(_arm(*sys.argv[1:4]))) + "\n")
