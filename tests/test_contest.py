"""Which backbone: held-back rows choose between those on this machine, under one budget."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conftest import make_wide
from scff import FoldedClassifier
from scff.backbones import load_backbone, registry
from scff.tables.table import as_table
from scff.trials.budget import FREE
from scff.trials.case import Case
from scff.trials.contest import contest
from scff.trials.settings import Settings

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def rows():
    return make_wide(n_support=48, n_columns=60, informative=8)


def cases(tiny, rows):
    X, y, _ = rows
    case = Case(load_backbone(tiny, CPU), as_table(X), y, Settings(leaf_width=32))
    return case, case.read_by(load_backbone("nano", CPU))


def test_the_backbone_with_the_lowest_held_back_loss_is_taken(tiny, rows):
    noise, nano = cases(tiny, rows)
    answered = contest([noise, nano], "auto")
    reading, backbones = answered.verdicts
    assert backbones.about == "backbone"
    losses = {one.name: one.loss for one in backbones.tried}
    assert set(losses) == {"tabpfn-v1", "nano"}
    best = min(losses, key=losses.__getitem__)
    assert answered.case.backbone.spec.name == best
    assert [one.name for one in backbones.tried if one.weight] == [best]
    assert losses[best] == answered.loss
    assert f"{best} predicts held-back rows best of 2" in backbones.reason
    alone = contest([nano if best == "nano" else noise], "auto")
    assert alone.verdicts[0] == reading  # what the other cost was paid from what this one leaves over


def test_one_budget_pays_for_all_of_them_the_cheapest_first(tiny, rows, monkeypatch):
    noise, nano = cases(tiny, rows)
    first = contest([noise], "auto").cost
    assert noise.cost_of_a_pass < nano.cost_of_a_pass
    assert 0 < first < FREE
    monkeypatch.setattr("scff.trials.budget.FREE", first * 1.01)
    answered = contest([nano, noise], "auto")
    assert answered.case.backbone.spec.name == "tabpfn-v1"
    assert len(answered.verdicts[1].tried) == 1
    assert "1 of 2 backbones on this machine would cost more to ask than the answer" in answered.verdicts[1].reason


def test_where_nothing_is_asked_the_first_one_is_taken(tiny, rows):
    noise, nano = cases(tiny, rows)
    for first, other in ((noise, nano), (nano, noise)):
        answered = contest([first, other], 0)
        assert answered.case is first
        assert len(answered.verdicts) == 1


def test_backbones_share_what_knows_neither_model_nor_label(tiny, rows):
    noise, nano = cases(tiny, rows)
    assert nano.structured is noise.structured
    assert nano.leaf_width == noise.leaf_width == 32


@pytest.fixture
def both_here(tiny, monkeypatch):
    """As if weights of TabPFN v1 were on this machine."""
    found = registry.checkpoints.find

    def find(weights):
        return (tiny, None) if "prior_diff" in str(weights) else None if "tabicl" in str(weights) else found(weights)

    load = load_backbone
    monkeypatch.setattr(registry.checkpoints, "find", find)
    monkeypatch.setattr(
        "scff.estimators.classifier.load_backbone",
        lambda name, device: load(tiny if name == "tabpfn-v1" else name, device),
    )


@pytest.mark.usefixtures("both_here")
def test_auto_asks_the_backbones_that_are_here(rows):
    X, y, Q = rows
    model = FoldedClassifier(leaf_width=32).fit(X, y)
    assert {one.name for one in model.verdicts_[1].tried} == {"tabpfn-v1"} == {model.backbone_}
    assert "digest-beside" in {one.name for one in model.verdicts_[0].tried}  # so nano is no candidate by itself
    assert "tabpfn-v1 is read; nano reads beside it" in model.verdicts_[1].reason
    assert "tabpfn-v1 is read; nano reads beside it." in model.report().html
    np.testing.assert_allclose(model.predict_proba(Q).sum(axis=1), 1)
    assert FoldedClassifier(leaf_width=32, trials=0).fit(X, y).backbone_ == "tabpfn-v1"


@pytest.mark.usefixtures("both_here")
def test_above_the_limit_of_one_backbone_another_is_taken(rows):
    assert registry.on_this_machine(n_classes=10) == ["tabpfn-v1", "nano"]
    assert registry.on_this_machine(n_classes=11) == ["nano"]
    X, _, _ = rows
    y = np.arange(48) % 12
    assert FoldedClassifier(leaf_width=32, method="raw-core").fit(X, y).backbone_ == "nano"
