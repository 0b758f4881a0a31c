"""A Core filled with columns that move with it."""

from __future__ import annotations

import dataclasses
import json
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import log_loss
from typer.testing import CliRunner

from scff import FoldedClassifier, compile_plan
from scff.backbones.registry import load_backbone
from scff.cli.main import app
from scff.gate.class_evidence import alternate_halves
from scff.tables.on_disk import open_wide
from scff.tables.table import as_table
from scff.trials.links import linked_columns
from scff.trials.trial import Rehearsal


@pytest.fixture
def grouped():
    """Two hidden sources, each seen through four columns; the label follows both, one column shows it best."""
    rng = np.random.default_rng(3)
    n = 160
    y = np.arange(n) % 2
    sources = rng.normal(size=(n, 2))
    X = rng.normal(size=(n, 60))
    X[:, 10:14] = sources[:, [0]] + 0.3 * rng.normal(size=(n, 4))
    X[:, 20:24] = sources[:, [1]] + 0.3 * rng.normal(size=(n, 4))
    X[:, 10] += 2.5 * y
    X[:, 40] = X[:, 10] * 0.8 + X[:, 20]  # ties the groups together
    return X.astype(np.float32), y


def test_groups_join_the_core_behind_the_discoveries(grouped):
    X, y = grouped
    plain, plan = compile_plan(X, y, leaf_width=16), compile_plan(X, y, leaf_width=16, routing="linked")
    assert plan.discoveries == plain.discoveries
    assert plan.core[: plan.cut].tolist() == plain.core.tolist()
    assert set(plan.core.tolist()) >= {10, 11, 12, 13, 20, 21, 22, 23, 40}
    assert not set(plan.core.tolist()) & (
        set(range(60)) - {*range(10, 14), *range(20, 24), 40} - set(plain.core.tolist())
    )
    assert plan.linked.tolist() == plan.core[plan.cut :].tolist() != []
    assert len(plain.linked) == 0


def test_every_column_stays_in_one_leaf(grouped):
    X, y = grouped
    plan = compile_plan(X, y, leaf_width=16, routing="linked")
    assert sorted(np.concatenate(plan.leaves).tolist()) == list(range(60))
    ranks = plan.f[plan.tail]
    assert (np.diff(ranks) <= 0).all()


@pytest.mark.parametrize("leaf_width", [1, 3, 6])
def test_the_core_grows_to_one_leaf_at_most(grouped, leaf_width):
    X, y = grouped
    plain = compile_plan(X, y, leaf_width=leaf_width)
    plan = compile_plan(X, y, leaf_width=leaf_width, routing="linked")
    assert len(plan.core) == max(len(plain.core), leaf_width)


def test_a_full_core_is_the_papers(grouped):
    X, y = grouped
    X = X + 2 * y[:, None]
    plain, plan = compile_plan(X, y, leaf_width=16), compile_plan(X, y, leaf_width=16, routing="linked")
    assert len(plain.core) > 16
    assert dataclasses.replace(plan, routing="anova") == plain


@pytest.mark.parametrize("n_rows", [3, 12, 60, 400])
def test_noise_is_not_linked(n_rows):
    rng = np.random.default_rng(n_rows)
    false = sum(
        len(linked_columns(rng.normal(size=(n_rows, 150)), np.arange(5), np.arange(5, 150), room=100))
        for _ in range(20)
    )
    assert false <= 3  # a round has a chance of one in twenty


def test_constant_and_missing_values(grouped):
    X, y = grouped
    X[:, 50] = 7.0
    X[:, 51] = np.nan
    X[::9, 11] = np.nan
    plan = compile_plan(X, y, leaf_width=16, routing="linked")
    assert {11, 12, 13} <= set(plan.core.tolist())
    assert not {50, 51} & set(plan.core.tolist())


def test_a_file_on_disk_and_text_columns_give_the_same_links(grouped, tmp_path):
    X, y = grouped
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(60)])
    frame.to_parquet(tmp_path / "table.parquet")
    plan = compile_plan(frame, y, leaf_width=16, routing="linked")
    lazy = compile_plan(open_wide(tmp_path / "table.parquet"), y, leaf_width=16, routing="linked")
    assert lazy == plan
    frame["c59"] = pd.Categorical(np.where(np.arange(len(y)) % 3, "a", "b"))
    assert set(plan.core.tolist()) == set(compile_plan(frame, y, leaf_width=16, routing="linked").core.tolist())


def test_the_command_line_knows_it(grouped, tmp_path):
    X, y = grouped
    pd.DataFrame(X, columns=[f"c{j}" for j in range(60)]).assign(label=y).to_parquet(tmp_path / "table.parquet")
    command = ["plan", str(tmp_path / "table.parquet"), "-t", "label", "--leaf-width", "16", "--json"]
    found = [
        json.loads(CliRunner().invoke(app, [*command, "--routing", routing]).stdout) for routing in ("anova", "linked")
    ]
    assert found[0]["linked"] == 0
    assert found[1]["linked"] == found[1]["core"] - found[0]["core"] > 0


def test_the_estimator_folds_by_it_and_shows_it(grouped):
    X, y = grouped
    clf = FoldedClassifier("nano", leaf_width=16, routing="linked", tail="off").fit(X[:120], y[:120])
    assert clf.plan_ == compile_plan(X[:120], y[:120], leaf_width=16, routing="linked")
    assert len(clf.plan_.linked)
    said = clf.report().html
    assert f"{len(clf.plan_.linked)} more that move with them" in said
    assert f"and {len(clf.plan_.linked)} linked to them" in said
    assert f"and {len(clf.plan_.linked)} linked to them" in clf.plan_.plot().ax_.get_legend().get_texts()[0].get_text()
    restored = type(clf.plan_).from_json(clf.plan_.to_json())
    assert restored == clf.plan_
    assert restored.linked.tolist() == clf.plan_.linked.tolist()


@pytest.fixture
def contrast():
    """One column says a little; what it says plainly is its difference from a column that says nothing alone."""
    rng = np.random.default_rng(5)
    n = 320
    y = rng.integers(0, 2, n)
    common = rng.normal(size=n)
    X = rng.normal(size=(n, 40))
    X[:, 7] = common + 0.7 * (y - 0.5) + 0.05 * rng.normal(size=n)
    X[:, 30] = common
    return X.astype(np.float32), y


def test_by_itself_the_model_takes_links_that_help_it(contrast):
    X, y = contrast
    plain = FoldedClassifier("nano", leaf_width=16, routing="anova").fit(X[:160], y[:160])
    clf = FoldedClassifier("nano", leaf_width=16).fit(X[:160], y[:160])
    assert 30 not in plain.plan_.core
    assert 30 in clf.plan_.linked
    assert plain.links_ is None
    assert clf.links_.passed
    assert clf.plan_ == compile_plan(X[:160], y[:160], leaf_width=16, routing="linked")
    assert clf.score(X[160:], y[160:]) > plain.score(X[160:], y[160:]) + 0.1
    said = clf.report().html
    (before, after), (_, last) = clf.links_.nll
    assert f"{before:.3f} to {after:.3f}" in said
    assert f"{last:.3f}, each half predicting the other" in said
    copied = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(copied.predict_proba(X[160:]), clf.predict_proba(X[160:]))
    assert copied.links_ == clf.links_


def test_the_rehearsal_is_the_model_on_either_half(contrast):
    X, y = contrast[0][:160], contrast[1][:160]
    clf = FoldedClassifier("nano", leaf_width=16).fit(X, y)
    cores = [compile_plan(X, y, leaf_width=16, routing=routing).core for routing in ("anova", "linked")]
    halves = alternate_halves(y)
    for (a, b), losses in zip((halves, halves[::-1]), clf.links_.nll, strict=True):
        for core, loss in zip(cores, losses, strict=True):
            columns = np.sort(core)
            alone = FoldedClassifier("nano", method="native").fit(X[a][:, columns], y[a])
            assert loss == pytest.approx(log_loss(y[b], alone.predict_proba(X[b][:, columns])), abs=1e-5)


@pytest.mark.parametrize("method", ["raw-core", "bounded-core", "mass-huber"])
def test_the_papers_comparisons_keep_the_papers_core(contrast, method):
    X, y = contrast
    clf = FoldedClassifier("nano", leaf_width=16, method=method).fit(X[:160], y[:160])
    assert clf.plan_ == compile_plan(X[:160], y[:160], leaf_width=16)
    assert clf.links_ is None


class _Said:
    """A compiled half whose loss on every row is known."""

    gate = None

    def __init__(self, losses):
        self.losses = losses

    def predict(self, rows):
        p = torch.from_numpy(np.exp(-self.losses[: rows.n_rows]))
        return torch.log(torch.stack([p, 1 - p], dim=1))


@pytest.mark.parametrize(
    ("gain", "noise", "reason"),
    [(0.2, 0.1, None), (-0.2, 0.1, "worse on held-back rows"), (1e-4, 0.3, "within the noise")],
)
def test_links_must_help_in_both_directions_and_beyond_noise(contrast, gain, noise, reason):
    X, y = contrast
    plans = [compile_plan(X, y, leaf_width=16, routing=routing) for routing in ("anova", "linked")]
    backbone = load_backbone("nano", torch.device("cpu"))
    rehearsal = Rehearsal(backbone, as_table(X), np.zeros_like(y))  # one class: the losses are those of column 0
    jitter = noise * np.random.default_rng(0).standard_normal(len(y))
    jitter -= jitter[: len(y) // 2].mean()

    def compile_half(view, core, codes):
        return _Said(np.full(len(y), 0.6) - (gain + jitter if len(core.core) == len(plans[1].core) else 0.0))

    backbone = SimpleNamespace(
        views=backbone.views, combine=lambda logits: np.exp(logits[0]) / np.exp(logits[0]).sum(1, keepdims=True)
    )
    said = dataclasses.replace(rehearsal, backbone=backbone).choose(*plans, compile_half)
    assert said.passed == (reason is None)
    assert reason is None or reason in said.reason
    if reason is None:
        assert said.gain == pytest.approx(gain, abs=0.02)
        assert len(said.nll) == 2


def test_a_class_of_one_row_leaves_the_papers_core(contrast):
    X, y = contrast[0][:160], contrast[1][:160].copy()
    y[0] = 2
    clf = FoldedClassifier("nano", leaf_width=16).fit(X, y)
    assert clf.plan_.routing == "anova"
    assert clf.links_.reason == "a class has a single row"
    assert "left in the Tail: a class has a single row." in clf.report().html
