"""Does our TabPFN v1 give the numbers of the released package?

Run in an environment of its own, because the old package shares its import name with the new one:

    make parity-tabpfn-v1

which installs ``tabpfn==0.1.11`` (with scikit-learn 1.7, the last it works with) beside scff, then compares
probabilities on small tables: plain, with missing values, constant columns and outliers, and wider than 100 columns
after ``numpy.random.seed``. Writes the golden file of the test suite.
"""

from __future__ import annotations

import argparse
import typing
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn.modules.transformer

# The old package imports this name from there; today's torch no longer has it.
torch.nn.modules.transformer.Optional = typing.Optional  # type: ignore[attr-defined]
from tabpfn import TabPFNClassifier  # noqa: E402

from scff.backbones.registry import get_spec  # noqa: E402
from scff.backbones.weights.checkpoints import fetch  # noqa: E402
from scff.tables.table import as_table  # noqa: E402

TOLERANCE = 1e-5


def tables() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Small tables that meet every step of the preprocessing."""
    rng = np.random.default_rng(7)
    out = {}
    for name, n_columns, n_classes in (("plain", 12, 2), ("awkward", 37, 3), ("wide", 130, 7)):
        X = rng.normal(size=(56, n_columns)) * rng.gamma(2, 3, size=n_columns) + rng.normal(size=n_columns) * 5
        y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, 40 - n_classes)]
        X[:40, 0] += y
        if name == "awkward":
            X[rng.random(X.shape) < 0.05] = np.nan
            X[:, 5] = 3.0
            X[1, 8] = X[50, 9] = 1e4
        out[name] = (X[:40].astype(np.float32), y, X[40:].astype(np.float32))
    return out


def main() -> None:
    """Compare, report, and write the golden file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--golden", type=Path, default=Path("tests/data/tabpfn_v1_golden.npz"))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    weights = fetch(get_spec("tabpfn-v1"))
    base = Path("build/tabpfn_v1_base/models_diff")
    base.mkdir(parents=True, exist_ok=True)
    link = base / weights.name
    if not link.exists():
        link.symlink_to(weights)
    package = TabPFNClassifier(
        device="cpu",
        base_path=str(base.parent),
        N_ensemble_configurations=1,
        feature_shift_decoder=False,
        multiclass_decoder="",
        seed=0,
        subsample_features=True,
    )
    backbone = get_spec("tabpfn-v1").load(weights, torch.device("cpu"))
    golden: dict[str, np.ndarray] = {}
    worst = 0.0
    for name, (Xs, ys, Xq) in tables().items():
        np.random.seed(0)  # noqa: NPY002  the package draws from the global state
        theirs = package.fit(Xs, ys).predict_proba(Xq)
        view = backbone.views(as_table(Xs), ys.astype(np.int64), n_estimators=1, cache=True, random_state=0).view(0)
        ours = backbone.combine([view.native(view.compile_native(view.columns), as_table(Xq)).numpy()])
        difference = float(np.abs(theirs - ours).max())
        worst = max(worst, difference)
        print(f"{name}: {Xs.shape[1]} columns, {len(np.unique(ys))} classes, largest difference {difference:.1e}")
        golden |= {f"{name}/Xs": Xs, f"{name}/ys": ys.astype(np.int8), f"{name}/Xq": Xq, f"{name}/proba": theirs}
    options.golden.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(options.golden, **golden)
    print(f"wrote {options.golden} ({options.golden.stat().st_size / 1024:.0f} KB)")
    if worst > TOLERANCE:
        raise SystemExit(f"largest difference {worst:.1e} is above {TOLERANCE:.0e}")


if __name__ == "__main__":
    main()
