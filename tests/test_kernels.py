"""The packed feature encoder computes what TabICL does, to rounding, and leaves to it what it does not know."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tabicl._model.kv_cache import KVCache
from tabicl._model.tabicl import TabICL

from conftest import make_wide
from scff import FoldedClassifier
from scff.backbones.tabicl import blocks, products
from scff.backbones.tabicl.kernels import Kernels
from scff.backbones.tabicl.room import Room

SMALL = {
    "max_classes": 4,
    "embed_dim": 16,
    "col_num_blocks": 2,
    "col_nhead": 2,
    "col_num_inds": 4,
    "row_num_blocks": 2,
    "row_nhead": 2,
    "row_num_cls": 3,
    "icl_num_blocks": 1,
    "icl_nhead": 2,
    "zero_init": False,
}
LAYOUTS = {
    "plain": {},
    "labels in columns": {"col_target_aware": True},
    "groups": {"col_target_aware": True, "col_feature_group": True},
    "tokens of three columns": {"col_feature_group": "valid"},
    "halves": {"row_rope_interleaved": False},
    "no scalable softmax": {"col_ssmax": "none"},
    "another scalable softmax": {"col_ssmax": "ssmax"},
    "many inducing points": {"col_num_inds": 20},
    "norms without a shift": {"bias_free_ln": True},
    "regression": {"max_classes": 0, "col_target_aware": True},
}


def model_of(seed=0, **layout):
    torch.manual_seed(seed)
    model = TabICL(**(SMALL | layout)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # norms and biases that do something
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.fixture(params=["MKL", "oneDNN"])
def library(request, monkeypatch):
    """Every product by one library, however small and whatever the processor has."""
    if request.param == "oneDNN" and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch was built without oneDNN")
    made = []
    by_onednn = products.linear
    monkeypatch.setattr(products, "_LEAST", 0)
    monkeypatch.setattr(products, "_has_onednn", lambda: request.param == "oneDNN")
    monkeypatch.setattr(blocks, "linear", lambda *args, **more: made.append(1) or by_onednn(*args, **more))
    yield request.param
    assert bool(made) is (request.param == "oneDNN")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scale", [1.0, 60.0])
@pytest.mark.usefixtures("library")
def test_columns_and_rows_are_encoded_as_tabicl_does(layout, scale):
    model = model_of(**LAYOUTS[layout])
    kernels, columns = Kernels.of(model), model.col_embedder
    assert kernels is not None
    support, query = (
        scale * torch.randn(5, 9, columns.in_linear.in_features),
        torch.randn(5, 6, columns.in_linear.in_features),
    )
    y = (torch.arange(9) % 3).float()[None]
    theirs, ours, room = KVCache(), KVCache(), Room()
    with torch.no_grad():
        expected = columns._compute_embeddings_with_cache(
            support, theirs, 9, y.expand(5, -1), use_cache=False, store_cache=True
        )
        close(kernels.embed(support, ours, y, room), without_means(expected))
        for index, entry in theirs.kv.items():
            close(ours.kv[index].key, entry.key)
            close(ours.kv[index].value, entry.value)
        expected = columns._compute_embeddings_with_cache(query, theirs, use_cache=True, store_cache=False)
        close(kernels.embed(query, theirs, None, room), without_means(expected))
        rows = scale * torch.randn(7, 11, 16)
        close(
            kernels.aggregate(without_means(rows), 3, room), model.row_interactor._aggregate_embeddings(rows[None])[0]
        )
        wider = torch.randn(2, 30, 16)
        close(
            kernels.aggregate(without_means(wider), 3, room), model.row_interactor._aggregate_embeddings(wider[None])[0]
        )


def without_means(tokens):
    return tokens - tokens.mean(dim=-1, keepdim=True)


def close(ours, theirs, times=1.0):
    torch.testing.assert_close(ours, theirs, atol=times * 2e-5 * float(theirs.abs().max()), rtol=1e-4)


def test_scores_that_would_overflow_are_taken_the_usual_way_round():
    model = model_of()
    with torch.no_grad():
        for block in model.row_interactor.tf_row.blocks:
            block.attn.in_proj_weight *= 30
        rows = torch.randn(3, 8, 16)
        expected = model.row_interactor._aggregate_embeddings(rows[None])[0]
        assert torch.isfinite(expected).all()
        # Rounding grows with the scores.
        close(Kernels(model).aggregate(without_means(rows), 3, Room()), expected, 5.0)


@pytest.mark.parametrize("layout", [{"col_affine": True}, {"norm_first": False}, {"activation": "relu"}])
def test_other_layouts_are_left_to_tabicl(layout):
    assert Kernels.of(model_of(**layout)) is None


def test_kernels_are_packed_once_and_go_with_their_model():
    model = model_of()
    assert Kernels.of(model) is Kernels.of(model)


def test_without_them_probabilities_are_the_same_but_for_rounding(monkeypatch):
    X, y, Q = make_wide(n_columns=200)
    ours = FoldedClassifier("nano", method="scff", leaf_width=40).fit(X, y)
    assert len(ours.plan_.leaves) > 1
    p = ours.predict_proba(Q)
    monkeypatch.setattr(Kernels, "of", classmethod(lambda cls, model: None))
    theirs = FoldedClassifier("nano", method="scff", leaf_width=40).fit(X, y).predict_proba(Q)
    np.testing.assert_allclose(p, theirs, atol=1e-5)
    assert (p != theirs).any()  # the packed encoder was in use


@pytest.mark.parametrize("broken", [AttributeError, RuntimeError, TypeError, None])
def test_a_torch_whose_operator_is_another_is_left_alone(broken, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)

    def linear(x, weight):
        if broken is not None:
            raise broken("another release")
        return x @ weight.T + 1

    monkeypatch.setattr(products, "linear", linear)
    assert not products._has_onednn.__wrapped__()


@pytest.mark.parametrize(("processor", "built"), [("AVX2", True), ("AVX512", False)])
def test_onednn_is_for_processors_on_which_it_is_faster(processor, built, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: processor)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: built)
    assert not products._has_onednn.__wrapped__()


def test_onednn_computes_the_product_and_its_gelu():
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch was built without oneDNN")
    x, weight = torch.randn(2 * products._STEP, 48)[: products._STEP + 70], torch.randn(96, 48)
    close(products.linear(x, weight), x @ weight.T)
    close(products.linear(x, weight, gelu=True), torch.nn.functional.gelu(x @ weight.T))
    hidden = products.linear(x, weight, gelu=True)
    close(products.linear(hidden, weight.T.contiguous()), torch.nn.functional.gelu(x @ weight.T) @ weight)


def test_onednn_is_asked_for_few_numbers_of_tokens_and_where_there_is_room(monkeypatch):
    monkeypatch.setattr(products, "_has_onednn", lambda: True)
    whole = torch.empty(8192, 48)
    assert all(products.is_worth_it(whole[:n]) for n in (1024, 1025, 5000, 8192))
    assert not any(map(products.is_worth_it, (whole[:1023], whole[:, 1:][:2000], torch.empty(2000, 48), whole[4000:])))
    assert len({n + products.spare(n) for n in range(1024, 6000)}) == 11
    monkeypatch.setattr(products, "_has_onednn", lambda: False)
    assert not products.is_worth_it(whole)
