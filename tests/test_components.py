"""Principal components behind the columns of a leaf: what they are, who asks for them, and who is asked nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from tabicl import TabICLClassifier

from conftest import as_read, checkpoint_path, make_wide, paper
from scff.backbones.loaded import load_backbone
from scff.backbones.tabicl.components import LeafComponents, n_components
from scff.tables.table import Table


@pytest.mark.parametrize("shape", [(60, 9), (20, 70), (40, 40), (9, 3)])
def test_they_are_the_leading_principal_components(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x = 5.0 + rng.normal(size=shape) @ rng.normal(size=(shape[1], shape[1]))
    query = 5.0 + rng.normal(size=(7, shape[1]))
    n = n_components(5, shape[1], shape[0])
    fitted, pca = LeafComponents.fit(x, n), PCA(n).fit(x)
    sign = np.sign((fitted.loadings_Wk * pca.components_.T).sum(axis=0))
    for rows in (x, query):
        np.testing.assert_allclose(fitted(rows), sign * pca.transform(rows), atol=1e-9 * np.abs(x).max() * shape[1])
    # The sign is a rule, not chance.
    largest = np.abs(fitted.loadings_Wk).argmax(axis=0)
    assert (fitted.loadings_Wk[largest, range(n)] > 0).all()


@pytest.mark.parametrize("width", [5, 30])
def test_directions_that_are_not_there_are_zero(width: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 2)) @ rng.normal(size=(2, width))
    components = LeafComponents.fit(x, 4)(x)
    assert (components[:, :2].std(axis=0) > 0.1).all()
    assert np.array_equal(components[:, 2:], np.zeros((12, 2)))
    constant = LeafComponents.fit(np.ones((6, width)), 2)(np.full((3, width), 7.0))
    assert np.array_equal(constant, np.zeros((3, 2)))


def test_narrow_leaves_and_few_rows_have_fewer() -> None:
    assert [n_components(8, width, 100) for width in (1, 2, 3, 23, 24, 500)] == [0, 0, 1, 7, 8, 8]
    assert [n_components(8, 100, n_rows) for n_rows in (1, 2, 9, 90)] == [0, 1, 8, 8]
    assert n_components(0, 100, 100) == 0


def _view(backbone, X):
    y = np.arange(len(X), dtype=np.int64) % 2
    loaded = load_backbone(backbone, torch.device("cpu"))
    return loaded.views(Table(X), y, n_estimators=1, cache=True, random_state=0).view(0)


def _asked_for(backbone) -> int:
    return load_backbone(backbone, torch.device("cpu")).components


def test_only_a_checkpoint_that_says_so_has_them(checkpoint_dir: Path, tmp_path: Path) -> None:
    plain = checkpoint_dir / "v2.ckpt"
    assert _asked_for(str(plain)) == 0
    stored = torch.load(plain, weights_only=True)
    torch.save({**stored, "view": {"components": 3}}, tmp_path / "three.ckpt")
    assert _asked_for(str(tmp_path / "three.ckpt")) == 3
    X, y, Q = make_wide(n_columns=30)
    proba = {}
    for path in (plain, tmp_path / "three.ckpt"):
        widened_X, widened_Q = as_read(str(path), X, Q)
        assert widened_X.shape[1] == 30 + _asked_for(str(path))
        # TabICL passes over what it does not know: the file is a checkpoint of its own still.
        upstream = TabICLClassifier(
            n_estimators=1, model_path=checkpoint_path(str(path)), allow_auto_download=False, device="cpu"
        ).fit(widened_X, y)
        native = paper(str(path), method="native", cache=False).fit(X, y)
        proba[path] = native.predict_proba(Q)
        np.testing.assert_array_equal(proba[path], upstream.predict_proba(widened_Q))
    first, second = proba.values()
    assert np.abs(first - second).max() > 1e-4


def test_memory_is_counted_with_them(checkpoint_dir: Path, tmp_path: Path) -> None:
    stored = torch.load(checkpoint_dir / "v2.ckpt", weights_only=True)
    torch.save({**stored, "view": {"components": 20}}, tmp_path / "twenty.ckpt")
    X, _, _ = make_wide(n_columns=80)
    plain, wider = (_view(str(path), X) for path in (checkpoint_dir / "v2.ckpt", tmp_path / "twenty.ckpt"))
    assert wider.footprint(60).cache == plain.footprint(80).cache
    assert wider.native_bytes(60, 10) == plain.native_bytes(80, 10)


def test_nano_reads_breast_cancer_better_with_them(tmp_path: Path) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    stored = torch.load(checkpoint_path("nano"), weights_only=True)
    assert stored.pop("view") == {"components": 8}
    torch.save(stored, tmp_path / "without.ckpt")
    hits = {}
    for backbone in ("nano", str(tmp_path / "without.ckpt")):
        found = []
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(y))
            support, query = order[:284], order[284:]
            clf = paper(backbone).fit(X[support], y[support])
            found.append(clf.score(X[query], y[query]))
        hits[backbone] = np.mean(found)
    assert hits["nano"] > hits[str(tmp_path / "without.ckpt")]
    assert hits["nano"] > 0.965


def test_a_leaf_without_a_leading_direction_has_components_all_the_same():
    """Of directions that are alike but for rounding, LAPACK's search for the last few sometimes finds none."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        x = rng.normal(size=(56, 5))
        x = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[0] * np.sqrt(56)
        found = LeafComponents.fit(x, 1)
        np.testing.assert_allclose(np.linalg.norm(found.loadings_Wk, axis=0), 1.0)
