"""The token adapter: slot budgets worked out by hand, and what folding may and may not change."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from backbone_models import tiny_tabpfn
from conftest import paper
from scff import FoldedClassifier
from scff.backbones import load_backbone
from scff.errors import BackboneError
from scff.fold.tokens import FoldedTokens, slots
from scff.tables.table import Table


@pytest.mark.parametrize(
    ("n_tokens", "widest", "group", "core", "tail", "sizes"),
    [
        # The paper's own figures: B = 512 / 2 = 256, three quarters of it 192. 600 - 192 = 408 = 24 * 7 + 40 * 6.
        (600, 512, 2, 192, 64, [7] * 24 + [6] * 40),
        # Leaves of 300, 500 and 500 columns: 150 + 250 + 250 tokens, B = 250, round(187.5) = 188, 462 = 28*8 + 34*7.
        (650, 500, 2, 188, 62, [8] * 28 + [7] * 34),
        # An odd leaf of 7 columns has 4 tokens; B = 4, round(3.0) = 3, so 5 tokens share one slot.
        (8, 7, 2, 3, 1, [5]),
        # B = 6: round(4.5) is 4, to even. 12 - 4 = 8 tokens in two slots.
        (12, 12, 2, 4, 2, [4, 4]),
        # B = 10: round(7.5) is 8, to even. 21 - 8 = 13 tokens in two slots.
        (21, 20, 2, 8, 2, [7, 6]),
        # One column a token (Mitra): B = 8, six stay, four share two slots.
        (10, 8, 1, 6, 2, [2, 2]),
        # Three columns a token (TabPFN-2.5): B = ceil(8 / 3) = 3, round(2.25) = 2, eleven share one.
        (13, 8, 3, 2, 1, [11]),
        # The formula would leave no slot for the rest: the last one is theirs.
        (3, 4, 2, 1, 1, [2]),
        (5, 2, 2, 0, 1, [5]),
        # Everything fits.
        (4, 8, 2, 4, 0, []),
    ],
)
def test_budgets_by_hand(n_tokens, widest, group, core, tail, sizes):
    layout = slots(n_tokens, widest, group)
    assert (layout.core, layout.tail) == (core, tail)
    np.testing.assert_array_equal(layout.counts, [1] * core + sizes)
    np.testing.assert_array_equal(layout.of_token, np.sort(layout.of_token))
    assert len(layout.of_token) == n_tokens


class _Counting:
    """A token view whose tokens are numbers one can check."""

    def __init__(self, x, group=2):
        self.x, self.columns, self.group = torch.from_numpy(x), np.arange(x.shape[1]), group
        self.contexts = self.heads = 0

    def n_tokens(self, leaf):
        return -(-len(leaf) // self.group)

    def prepare(self, rows):
        return torch.from_numpy(rows.values)

    def tokenize_support(self, leaf):
        return self._tokens(self.x, leaf), None

    def tokenize_query(self, leaf, state, rows):
        return self._tokens(rows, leaf)

    def _tokens(self, x, leaf):
        padded = torch.nn.functional.pad(x[:, leaf], (0, -len(leaf) % self.group))
        return padded.unflatten(1, (-1, self.group))

    def build_context(self, tokens):
        self.contexts += 1
        return tokens

    def predict(self, context, tokens):
        self.heads += 1
        return tokens.flatten(1)


def test_slots_hold_first_tokens_and_rescaled_means():
    rng = np.random.default_rng(0)
    x, q = rng.normal(size=(50, 12)).astype(np.float32), rng.normal(size=(7, 12)).astype(np.float32)
    leaves = [np.array([1, 4, 9, 10]), np.array([0, 2, 3, 5]), np.array([6, 7, 8, 11])]
    view = _Counting(x)
    folded = FoldedTokens(view, SimpleNamespace(leaves=leaves, tail_leaves=leaves[1:]), 256)
    # Six tokens of two columns, B = 2, of which one stays: five share the other.
    tokens = [leaf[i : i + 2] for leaf in leaves for i in (0, 2)]
    np.testing.assert_allclose(folded._context[:, 0], x[:, tokens[0]])
    mean = np.mean([x[:, t] for t in tokens[1:]], axis=0)
    wanted = np.sqrt(np.mean([x[:, t] ** 2 for t in tokens[1:]]))
    scale = wanted / np.sqrt(np.mean(mean**2))
    np.testing.assert_allclose(folded._context[:, 1], mean * scale, rtol=1e-5)
    np.testing.assert_allclose(np.sqrt(np.mean(folded._context[:, 1].numpy() ** 2)), wanted, rtol=1e-5)
    out = folded.predict(Table(q)).reshape(7, 2, 2)
    np.testing.assert_allclose(out[:, 1], np.mean([q[:, t] for t in tokens[1:]], axis=0) * scale, rtol=1e-5)
    assert (view.contexts, view.heads) == (1, 1)


def test_query_rows_do_not_change_the_support():
    x = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    leaves = (np.arange(4), np.arange(4, 8))
    folded = FoldedTokens(_Counting(x), SimpleNamespace(leaves=leaves, tail_leaves=leaves[1:]), 3)
    scale, context = folded.scale.clone(), folded._context.clone()
    folded.predict(Table(x[:10] * 1e3))
    assert torch.equal(scale, folded.scale)
    assert torch.equal(context, folded._context)


@pytest.fixture(scope="module", params=["tabpfn_v2", "tabpfn_v2_5", "tabpfn_v2_6"])
def path(request, tmp_path_factory):
    pytest.importorskip("tabpfn", reason="the tabpfn package is not installed (pip install tabpfn)")
    return tiny_tabpfn(request.param, tmp_path_factory.mktemp("tabpfn") / "model.ckpt")


@pytest.mark.parametrize("method", ["bounded-core", "mass-huber"])
def test_row_folding_is_refused_with_the_reason(path, wide, method):
    Xs, ys, _ = wide
    with pytest.raises(BackboneError, match=r"no row representation to merge.*folds its tokens"):
        paper(path, method=method).fit(Xs, ys)


def test_tokens_of_one_leaf_give_native_inference(path, wide):
    Xs, ys, Xq = wide
    Xs, Xq = Xs[:, :13], Xq[:, :13]
    view = (
        load_backbone(path, torch.device("cpu"))
        .views(Table(Xs), ys, n_estimators=1, cache=False, random_state=0)
        .view(0)
    )
    native = view.native(view.compile_native(view.columns), Table(Xq))
    tokens, state = view.tokenize_support(view.columns)
    query = view.tokenize_query(view.columns, state, view.prepare(Table(Xq)))
    torch.testing.assert_close(view.predict(view.build_context(tokens), query), native, atol=2e-6, rtol=0)


def test_a_folded_table_is_wide_only_for_the_tokeniser(path, wide):
    Xs, ys, Xq = wide
    model = paper(path, leaf_width=32).fit(Xs, ys)
    folded = model.fitted_.readings[0].views[0]
    group = folded.view.group
    assert folded.slots.total == -(-max(map(len, model.plan_.leaves)) // group)
    assert "no gate" in model.gate_.reason
    chunked = paper(path, leaf_width=32, cache=False).fit(Xs, ys)
    np.testing.assert_allclose(model.predict_proba(Xq), chunked.predict_proba(Xq), atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(Xq[:5]), model.predict_proba(Xq)[:5], atol=1e-5)


@pytest.mark.parametrize("memory_limit", [None, "1GiB"])
def test_links_are_tried_by_tokens_too(path, memory_limit):
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 120)
    X = rng.normal(size=(120, 30)).astype(np.float32)
    X[:, 20] = X[:, 7]
    X[:, 7] += 1.5 * y
    clf = FoldedClassifier(path, leaf_width=8, memory_limit=memory_limit, trials="thorough").fit(X, y)
    (verdict,) = clf.verdicts_
    assert "linked" in [tried.name for tried in verdict.tried]
    assert verdict.approved == (len(clf.fitted_.choices) > 1 or clf.fitted_.choices[0].presentation.name != "core")
    assert clf.predict_proba(X[:5]).shape == (5, 2)
