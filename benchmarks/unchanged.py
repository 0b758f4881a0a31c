"""The paper's probabilities before and after a change of the code, bit for bit.

    python benchmarks/unchanged.py record before.npz --models FOLDER    # on the code before the change
    python benchmarks/unchanged.py compare before.npz --models FOLDER   # on the code after it

Every method of the paper, every control of its Tail and both routings, on two, three and no classes, numbers and
categories, several views and every kind of cache: with `nano`, with `tabpfn-v1` (its weights must be on this machine),
and with a small random model of every other backbone that can be imported. The random models are kept in FOLDER, so
that both runs read the same weights. One thread; `compare` exits with 1 where a single bit differs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from backbone_models import ADAPTERS, tiny_tabicl_regressor, tiny_tabpfn
from scff import FoldedClassifier, FoldedRegressor
from scff.errors import SCFFError

# Before `method="auto"` there was no name for the paper's method: it was these two options.
OLD = find_spec("scff.trials.trial") is not None
CONTROLS = ("centred", "raw-residual", "fixed-prototype", "fisher", "no-single-leaf-fallback", "no-binary-restriction")

CLASSIFIERS: dict[str, dict[str, Any]] = {
    "scff": {"method": "scff"},
    "native": {"method": "native"},
    "raw-core": {"method": "raw-core"},
    "bounded-core": {"method": "bounded-core"},
    "mass-huber": {"method": "mass-huber"},
    "random": {"method": "scff", "routing": "random"},
    "tail-off": {"method": "scff", "tail": "off"},
    **{f"tail-{name}": {"method": "scff", "tail": name} for name in CONTROLS},
    "views": {"method": "scff", "n_estimators": 3},
    "no-cache": {"method": "scff", "cache": False},
    "disk": {"method": "scff", "cache": "disk"},
    "limit": {"method": "scff", "memory_limit": "400MB"},
}
REGRESSORS = {name: {"method": name} for name in ("scff", "native", "raw-core", "bounded-core")}


def table(n_classes: int, n_columns: int = 150, n_support: int = 60, n_query: int = 9) -> tuple[Any, ...]:
    """Support X, y and query X; a few strong columns, and many weak ones that only together tell."""
    rng = np.random.default_rng(n_classes)
    y = np.arange(n_support + n_query) % n_classes
    X = rng.normal(size=(len(y), n_columns))
    X[:, :12] += 1.4 * (y[:, None] == rng.integers(0, n_classes, 12))
    X[:, 12:] += 0.35 * (y[:, None] == rng.integers(0, n_classes, n_columns - 12))
    X = X[:, rng.permutation(n_columns)]
    return X[:n_support], y[:n_support], X[n_support:]


def mixed() -> tuple[Any, ...]:
    """The same with holes, text and categories."""
    X, y, Q = table(2, 60)
    frames = []
    for rows in (X, Q):
        frame = pd.DataFrame(rows, columns=[f"c{j}" for j in range(rows.shape[1])])
        frame["c0"] = np.where(frame["c0"] > 0, "high", "low")
        frame["c1"] = pd.Categorical(np.where(frame["c1"] > 0.5, "a", "b"), categories=["a", "b"])
        frame.loc[::7, "c2"] = np.nan
        frames.append(frame)
    return frames[0], y, frames[1]


def models(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and path of every classifier there is here."""
    yield "nano", "nano"
    for name, adapter in ADAPTERS.items():
        if adapter.package and find_spec(adapter.package.split(".")[0]) is None:
            continue
        home = folder / name
        stored = home / "path.txt"
        if not stored.exists():
            home.mkdir(parents=True)
            stored.write_text(str(adapter.build(home)))
        yield name, stored.read_text()
    yield "tabpfn-v1, real", "tabpfn-v1"


def regressors(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and path of small random regressors."""
    folder.mkdir(parents=True, exist_ok=True)
    build = {"tabicl": tiny_tabicl_regressor}
    if find_spec("tabpfn") is not None:
        build["tabpfn-v3"] = lambda path: tiny_tabpfn("tabpfn_v3", path, "regression")
        build["tabpfn-v2"] = lambda path: tiny_tabpfn("tabpfn_v2", path, "regression")
    for name, make in build.items():
        path = folder / f"{name}.ckpt"
        yield name, str(path if path.exists() else make(path))


def run(folder: Path) -> dict[str, np.ndarray]:
    """Every probability by its name; a refusal stands as the name of its error."""
    tables = {"binary": table(2), "three": table(3), "mixed": mixed()}
    out: dict[str, np.ndarray] = {}
    for name, path in models(folder):
        for arm, options in CLASSIFIERS.items():
            options = {"leaf_width": 32, **options}
            if OLD:
                options = {"routing": "anova", "tail": "paper", **options}
            for kind, (X, y, Q) in tables.items():
                key = f"{name} | {arm} | {kind}"
                try:
                    model = FoldedClassifier(path, **options).fit(X, y)
                    out[key] = model.predict_proba(Q)
                    gate = model.gate_
                    if gate is not None:
                        out[f"{key} | alpha"] = np.array([gate.alpha, gate.rho])
                except SCFFError as error:
                    out[key] = np.array(type(error).__name__)
        print(name, flush=True)
    X, y, Q = table(2)
    numbers = X[:, :20].sum(axis=1)
    for name, path in regressors(folder / "regressors"):
        for arm, options in REGRESSORS.items():
            try:
                out[f"{name} | {arm} | numbers"] = (
                    FoldedRegressor(path, leaf_width=32, **options).fit(X, numbers).predict(Q)
                )
            except SCFFError as error:
                out[f"{name} | {arm} | numbers"] = np.array(type(error).__name__)
    return out


def main() -> int:
    """Record, or compare with what was recorded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = run(arguments.models)
    if arguments.what == "record":
        np.savez_compressed(arguments.file, **found)
        print(f"{len(found)} arrays recorded")
        return 0
    before = np.load(arguments.file)
    wrong = [key for key in before.files if key not in found or not np.array_equal(before[key], found[key])]
    for key in wrong:
        print("differs:", key)
    print(f"{len(before.files) - len(wrong)} of {len(before.files)} arrays are the same, bit for bit")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
