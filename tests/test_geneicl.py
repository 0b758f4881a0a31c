"""GeneICL with the weights that its package ships: what the contract suite's random ones cannot tell."""

import numpy as np
import pytest
import torch

from backbone_models import geneicl_proba
from conftest import paper
from scff.backbones import get_spec, load_backbone
from scff.backbones.weights import checkpoints
from scff.tables.table import Table

pytest.importorskip("geneicl", reason="needs the package geneicl, whose weights are inside it")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    y = np.arange(36) % 2
    X = rng.normal(size=(36, 60)).astype(np.float32)
    X[:, :15] += 1.5 * y[:, None]
    X[3, 4] = X[30, 7] = np.nan
    return X[:24], y[:24], X[24:]


def test_the_file_in_the_package_is_the_pinned_one():
    weights = get_spec("geneicl").weights
    path, origin = checkpoints.find(weights)
    assert checkpoints.sha256(path) == weights.sha256
    assert origin in ("package", "local")


def test_one_leaf_is_the_package_itself(table):
    path = load_backbone("geneicl", torch.device("cpu")).path
    theirs = geneicl_proba(path, *table)
    ours = paper("geneicl", method="native").fit(*table[:2]).predict_proba(table[2])
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert (theirs.argmax(1) == np.arange(24, 36) % 2).mean() > 0.9  # these weights have learnt something


def test_labels_are_no_part_of_what_the_gate_reads(table):
    backbone = load_backbone("geneicl", torch.device("cpu"))
    X, y, _ = table
    view = backbone.views(Table(X.astype(float)), y, n_estimators=1, cache=True, random_state=0).view(0)
    message, _ = view.encode_support([np.arange(20)])
    labelled = backbone.model(
        torch.from_numpy(X[None, :, :20]), torch.from_numpy(y[None]).float(), is_cls=True, return_enc=True
    )
    added = backbone.model.y_embed_icl_cls(torch.from_numpy(y))
    torch.testing.assert_close(message[0] + added, labelled[0])
    assert added.abs().max() > 1e-3
