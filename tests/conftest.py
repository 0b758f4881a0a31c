"""Shared fixtures: tiny models of the real TabICL classes, and where real tables are, if they are."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from tabicl._model.tabicl import TabICL

from backbone_models import tiny_tabpfn_v1
from scff import FoldedClassifier
from scff.backbones import load_backbone
from scff.fold.methods import Runtime, compile_view

# One thread per test process: two pytest workers share two cores better than two pools of two threads.
torch.set_num_threads(1)

V2 = {
    "max_classes": 10,
    "embed_dim": 16,
    "col_num_blocks": 2,
    "col_nhead": 2,
    "col_num_inds": 8,
    "row_num_blocks": 2,
    "row_nhead": 2,
    "row_num_cls": 2,
    "row_rope_interleaved": False,
    "icl_num_blocks": 2,
    "icl_nhead": 2,
    "zero_init": False,
}
V1 = V2 | {
    "col_affine": True,
    "col_feature_group": False,
    "col_target_aware": False,
    "col_ssmax": False,
    "row_rope_interleaved": True,
    "icl_ssmax": False,
}
ARCHITECTURES = {"v1": V1, "v2": V2}


def pytest_addoption(parser):
    group = parser.getgroup("hostile", "what breaks in and what breaks down")
    group.addoption("--hostile", action="store_true", help="run every hostile case, not the quick part alone")
    group.addoption("--figures", metavar="CSV", help="write how many hostile cases were tried, and how they ended")


def pytest_configure(config):
    config.addinivalue_line("markers", "hostile: too long for every day; runs with --hostile")


@pytest.fixture(scope="session")
def checkpoint_dir(tmp_path_factory):
    """Checkpoints of the real TabICL class with small random weights: they prove interfaces, never quality."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for name, config in ARCHITECTURES.items():
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = TabICL(**config)
        torch.save({"config": config, "state_dict": model.state_dict()}, folder / f"{name}.ckpt")
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A file of small random weights in TabPFN v1's layout: they prove interfaces, what they predict is noise."""
    return tiny_tabpfn_v1(tmp_path_factory.mktemp("v1") / "v1.cpkt")


@pytest.fixture(scope="module")
def tiny_v1(tiny):
    """The same, loaded."""
    return load_backbone(tiny, torch.device("cpu"))


@pytest.fixture(params=["v1", "v2", "nano"])
def backbone(request, checkpoint_dir):
    """Name or path of every TabICL architecture: v1 and v2 with random weights, and the embedded nano."""
    return "nano" if request.param == "nano" else str(checkpoint_dir / f"{request.param}.ckpt")


def checkpoint_path(backbone):
    """Where the weights of a backbone are."""
    return load_backbone(backbone, torch.device("cpu")).path


def paper(backbone, **options):
    """The paper's method, or another one that is named; most tests are about these and not about trials."""
    return FoldedClassifier(backbone, **{"method": "scff", **options})


def compiled(clf, view=0):
    """What a fitted model has compiled of one view of its first reading."""
    return clf.fitted_.readings[0].views[view]


def compile_anew(clf, options, *, cache=True, limit=None):
    """The first view of a fitted model compiled once more, with other blocks."""
    view, y, rule = compiled(clf).view, clf.fitted_.y, clf.fitted_.settings.rule
    runtime = Runtime.of(view, clf.plan_, len(y), "scff", options, cache=cache, limit=limit)
    return compile_view(view, clf.plan_, y, runtime, rule=rule)


@pytest.fixture
def wide():
    """A binary table of 300 columns, a tenth of them informative: support X, y and query X."""
    return make_wide()


def make_wide(n_classes=2, n_columns=300, n_support=60, n_query=25, informative=30, seed=0):
    rng = np.random.default_rng(seed)
    n = n_support + n_query
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, n_columns))
    informative = min(informative, n_columns)
    X[:, :informative] += 1.2 * (y[:, None] == rng.integers(0, n_classes, informative))
    X = X[:, rng.permutation(n_columns)]
    return X[:n_support], y[:n_support], X[n_support:]


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real wide tables, or a skip that says how to have it."""
    folder = Path(os.environ.get("SCFF_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (folder / "index.csv").is_file():
        pytest.skip("no folder of real tables: set SCFF_DATA to one with an index.csv")
    return folder


def shuffle_few(patch):
    """Let reports shuffle five columns: what fifty cost is most of a report's time, and the browser tests have them."""
    patch.setattr("scff.report.page.affordable", lambda n_rows: 5)


@pytest.fixture
def few_shuffled(monkeypatch):
    shuffle_few(monkeypatch)


@pytest.fixture(autouse=True)
def _quiet_auto():
    """The hint about a better backbone has a test of its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message='backbone="auto"')
        yield
