"""A TabICL network that makes one token of several columns: the same promises, with fewer tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tabicl import TabICLClassifier

from backbone_models import tiny_tabicl
from conftest import V2, make_wide, paper
from scff.backbones import load_backbone
from scff.backbones.tabicl.encoder import columns_in_token
from scff.tables.table import Table


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = V2 | {"col_feature_group": "valid", "col_feature_group_size": 3}
    return tiny_tabicl(config, tmp_path_factory.mktemp("grouped") / "grouped.ckpt")


@pytest.mark.parametrize("n_columns", [2, 9, 40])
def test_one_leaf_is_native_inference(grouped: Path, n_columns: int) -> None:
    X, y, Q = make_wide(n_columns=n_columns, informative=9)
    upstream = TabICLClassifier(n_estimators=1, model_path=grouped, allow_auto_download=False, device="cpu").fit(X, y)
    native = paper(str(grouped), method="native", cache=False).fit(X, y)
    np.testing.assert_array_equal(native.predict_proba(Q), upstream.predict_proba(Q))
    view = (
        load_backbone(str(grouped), torch.device("cpu"))
        .views(Table(X), y, n_estimators=1, cache=True, random_state=0)
        .view(0)
    )
    message, cache = view.encode_support([view.columns])
    logits = view.predict(view.build_context(message[0]), view.encode_query([view.columns], cache, Table(Q))[0])
    expected = view.native(view.compile_native(view.columns), Table(Q))
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("leaf_width", [7, 8, 9])
def test_folding_with_and_without_its_cache_agrees(grouped: Path, leaf_width: int) -> None:
    X, y, Q = make_wide(n_columns=60)
    kept, learned = (
        paper(str(grouped), method="bounded-core", leaf_width=leaf_width, cache=cache).fit(X, y)
        for cache in (True, False)
    )
    assert len(kept.plan_.core_leaves) > 1
    np.testing.assert_allclose(kept.predict_proba(Q), learned.predict_proba(Q), atol=1e-5)
    np.testing.assert_allclose(
        np.vstack([kept.predict_proba(Q[i : i + 1]) for i in range(3)]), kept.predict_proba(Q[:3]), atol=1e-5
    )


def test_tokens_are_what_memory_and_arithmetic_count(grouped: Path, checkpoint_dir: Path) -> None:
    X, y, _ = make_wide(n_columns=31)
    views, costs = [], []
    for path in (grouped, checkpoint_dir / "v2.ckpt"):
        backbone = load_backbone(str(path), torch.device("cpu"))
        costs.append(backbone.arithmetic.per_cell)
        views.append(backbone.views(Table(X), y, n_estimators=1, cache=True, random_state=0).view(0))
    assert [columns_in_token(view._model) for view in views] == [3, 1]
    grouped_view, plain = views
    _, cache = grouped_view.encode_support([grouped_view.columns])
    kept = sum(tensor.nbytes for tensor in cache.tensors.values())
    assert grouped_view.footprint(31).cache == kept == plain.footprint(11).cache
    assert costs[0] < costs[1] / 2
