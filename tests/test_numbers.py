"""Trials for numbers: what is read beside the paper's Core, and how held-back rows average it."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch

import scff
from backbone_models import tiny_tabicl_regressor
from scff import FoldedRegressor
from scff.backbones import get_spec, load_backbone
from scff.backbones.weights import checkpoints
from scff.errors import CheckpointMissing, DataError, MemoryBudgetError
from scff.tables.table import as_table
from scff.trials.agenda import agenda
from scff.trials.asking import ask
from scff.trials.average import Average, errors_of, fit_average
from scff.trials.case import Case
from scff.trials.episode import Episode
from scff.trials.folds import deal_folds, spread
from scff.trials.forest import Forest
from scff.trials.narrow import Direct
from scff.trials.presentations import Core
from scff.trials.settings import Settings
from scff.trials.summaries import Line, calibrated
from scff.trials.trial import judge

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Random weights: whatever predicts well here is no pass of the model."""
    return tiny_tabicl_regressor(tmp_path_factory.mktemp("numbers") / "regressor.ckpt")


@pytest.fixture(scope="module")
def table():
    """Three sources behind a third of the columns; the number is a sum of them."""
    rng = np.random.default_rng(0)
    sources = rng.normal(size=(100, 3))
    X = rng.normal(size=(100, 150))
    X[:, :50] += 1.5 * sources[:, np.arange(50) % 3]
    y = 40 + 5 * sources.sum(axis=1) + rng.normal(size=100)
    return X[:70], y[:70], X[70:], y[70:]


@pytest.fixture(scope="module")
def model(path, table):
    return FoldedRegressor(path, leaf_width=32).fit(*table[:2])


def case_of(path, X, y, **settings):
    settings = Settings(leaf_width=32, rule=None, routing="linear", **settings)
    return Case(load_backbone(path, CPU, "regression"), as_table(X), np.asarray(y, dtype=float), settings)


def test_the_default_reads_what_held_back_rows_approve(model, path, table):
    X, y, Q, q = table
    core = FoldedRegressor(path, leaf_width=32, method="scff").fit(X, y)
    assert model.score(Q, q) > 0.8 > 0.2 > core.score(Q, q)  # random weights: what tells is not a pass of the model
    (verdict,) = model.verdicts_
    assert verdict.approved
    assert verdict.loss < 0.2  # of the variance of the numbers
    assert sum(one.weight for one in verdict.tried) == pytest.approx(1.0)
    assert core.verdicts_ == ()


def test_nothing_asked_is_the_papers_core_bit_for_bit(path, table):
    X, y, Q, _ = table
    paper = FoldedRegressor(path, leaf_width=32, method="scff").fit(X, y).predict(Q)
    asked_nothing = FoldedRegressor(path, leaf_width=32, trials=0).fit(X, y)
    np.testing.assert_array_equal(asked_nothing.predict(Q), paper)
    assert "trials=0" in asked_nothing.verdicts_[0].reason
    alone = FoldedRegressor(path, leaf_width=32).fit(X[:6], y[:6])  # six rows cannot be asked
    core = FoldedRegressor(path, leaf_width=32, method="scff").fit(X[:6], y[:6])
    if not alone.verdicts_[0].approved:
        np.testing.assert_array_equal(alone.predict(Q), core.predict(Q))


def test_the_core_is_read_alone_where_nothing_else_keeps_weight(path, table):
    X, y, _, _ = table
    case = case_of(path, X, y)
    episode, alternatives = agenda(case, "auto")
    truth = np.concatenate([y[split.new] for split in episode.splits])[:, None]
    held = {("core", 1.0): truth + 0.01, ("digest", 1.0): truth[::-1].copy()}
    refused = judge(held, episode, alternatives)
    assert not refused.approved
    assert [one.weight for one in refused.tried] == [1.0, 0.0]
    taken = judge({("core", 1.0): held["digest", 1.0], ("digest", 1.0): held["core", 1.0]}, episode, alternatives)
    assert taken.approved
    assert taken.gain > 0
    assert taken.tried[1].weight > 0.9


def test_the_answer_is_a_function_of_the_labelled_rows_and_survives_saving(model, path, table, tmp_path, monkeypatch):
    X, y, Q, _ = table
    together = model.predict(Q)
    again = FoldedRegressor(path, leaf_width=32).fit(X, y)
    assert again.verdicts_ == model.verdicts_
    np.testing.assert_array_equal(again.predict(Q), together)
    np.testing.assert_allclose(model.predict(Q[:3]), together[:3], atol=1e-5 * np.ptp(y))
    np.testing.assert_allclose(pickle.loads(pickle.dumps(model)).predict(Q), together, rtol=1e-9)
    monkeypatch.setenv("SCFF_CHECKPOINT_DIR", str(path.parent))
    for caches in (False, True):
        model.save(tmp_path / "model.scff", caches=caches)
        loaded = scff.load(tmp_path / "model.scff")
        assert loaded.verdicts_ == model.verdicts_
        np.testing.assert_allclose(loaded.predict(Q), together, rtol=1e-9)


def test_units_and_order_of_rows_change_nothing_but_units(model, path, table):
    X, y, Q, _ = table
    plain = model.predict(Q)
    shifted = FoldedRegressor(path, leaf_width=32).fit(X, -1000 * y + 7).predict(Q)
    np.testing.assert_allclose(shifted, -1000 * plain + 7, rtol=1e-3, atol=0.05 * np.ptp(1000 * y))


def test_groups_are_never_parted(path):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(15), 4)
    y = rng.normal(size=15)[groups] + 0.01 * rng.normal(size=60)
    X = rng.normal(size=(60, 80)) + 5 * rng.normal(size=(15, 80))[groups]
    for split in agenda(case_of(path, X, y), "auto", groups)[0].splits:
        assert not set(groups[split.fitted]) & set(groups[split.new])
    # Rows of one patient resemble each other and tell nothing of others: only whole patients show that.
    parted = FoldedRegressor(path, leaf_width=32).fit(X, y).verdicts_[0]
    whole = FoldedRegressor(path, leaf_width=32).fit(X, y, groups=groups).verdicts_[0]
    assert parted.loss < 0.3 < 0.8 < whole.loss
    with pytest.raises(DataError, match="one group per row"):
        FoldedRegressor(path).fit(X, y, groups=groups[:-1])


def test_folds_have_their_share_of_small_and_large_numbers():
    y = np.random.default_rng(0).lognormal(size=83)
    part = deal_folds(y, 4)
    assert np.ptp(np.bincount(part)) <= 1
    ranks = y.argsort().argsort()
    means = [ranks[part == k].mean() for k in range(4)]
    assert np.ptp(means) < 4  # of 83
    groups = np.repeat(np.arange(28), 3)[:83]
    part = deal_folds(y, 4, groups)
    assert all(len(set(part[groups == g])) == 1 for g in range(28))
    assert set(part) == {0, 1, 2, 3}
    some = spread(y, 20)
    assert len(some) == 20
    assert {y.argmin(), y.argmax()} <= set(some)


def test_everything_that_reads_numbers_is_made_anew_in_each_split(path):
    """On pure noise, columns chosen with all numbers would predict held-back rows; chosen in the split they do not."""
    rng = np.random.default_rng(1)
    case = case_of(path, rng.normal(size=(60, 3000)), rng.normal(size=60))
    episode = Episode(case, agenda(case, "auto")[0].question)
    alternatives = (Core(), *(Direct(s, r) for s in ("equal", "shares") for r in (0, 1)), Forest())
    verdict = judge(ask(episode, alternatives), episode, alternatives)
    for tried in verdict.tried[1:]:
        assert tried.loss > 0.9  # the mean of all rows has 1


def test_noise_is_answered_with_little_more_than_the_mean(path):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 400)), 100 + rng.normal(size=60)
    said = FoldedRegressor(path).fit(X, y).predict(rng.normal(size=(40, 400)))
    assert np.abs(said - y.mean()).max() < 1.0


def test_weights_find_the_better_alternative_and_stay_even_where_nothing_is_known():
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    good, bad = y + 0.1 * rng.normal(size=400), rng.normal(size=400)
    weights = fit_average(np.stack([good, bad])[..., None], y).weights_P
    assert weights[0] > 0.95
    alike = np.stack([bad, bad])[..., None]
    assert fit_average(alike, y).weights_P == pytest.approx((0.5, 0.5))
    assert fit_average(alike, y, np.array([3.0, 1.0])).weights_P == pytest.approx((0.75, 0.25), abs=1e-3)
    # Errors that differ cancel: the mean of two is better than either.
    noise = rng.normal(size=(2, 400))
    mean = fit_average((y + noise)[..., None], y)
    assert errors_of(mean((y + noise)[..., None]), y).mean() < 0.8 * errors_of((y + noise[0])[:, None], y).mean()
    assert fit_average(np.stack([good, good + 1e9])[..., None], y).weights_P == pytest.approx((1.0, 0.0), abs=1e-6)


def test_weights_do_not_depend_on_units():
    rng = np.random.default_rng(3)
    y = rng.normal(size=50)
    said = y + rng.normal(size=(3, 50)) * np.array([[0.5], [1.0], [2.0]])
    plain = fit_average(said[..., None], y).weights_P
    for scale, shift in ((1e-6, 0.0), (1e6, 1e7)):
        assert fit_average((scale * said + shift)[..., None], scale * y + shift).weights_P == pytest.approx(
            plain, abs=1e-4
        )
    constant = fit_average(np.ones((2, 5, 1)), np.ones(5))
    assert constant.weights_P == pytest.approx((0.5, 0.5))


def test_a_score_is_followed_as_far_as_left_out_rows_say():
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    line = calibrated(0.5 * (y - y.mean())[:, None], y)
    assert isinstance(line, Line)
    assert line.slope == pytest.approx(2.0, abs=0.05)
    wrong = calibrated(-y[:, None], y)
    assert wrong.slope == 0.0
    assert wrong(np.ones((3, 1))).ravel().tolist() == pytest.approx([y.mean()] * 3)


def test_an_average_is_a_weighted_mean():
    values = np.array([[[1.0], [2.0]], [[3.0], [6.0]]])
    assert Average((0.25, 0.75))(values).tolist() == [[2.5], [5.0]]


def test_memory_limit_is_kept_or_named(path, table):
    X, y, Q, _ = table
    free = FoldedRegressor(path, leaf_width=32).fit(X, y).predict(Q)
    kept = FoldedRegressor(path, leaf_width=32, memory_limit="2GiB").fit(X, y).predict(Q)
    np.testing.assert_allclose(kept, free, atol=1e-5 * np.ptp(y))
    with pytest.raises(MemoryBudgetError, match="raise the limit"):
        FoldedRegressor(path, leaf_width=32, memory_limit="8MiB").fit(X, y)


def test_text_and_holes_are_read(path, table):
    X, y, Q, _ = table
    frames = [pd.DataFrame(rows[:, :40], columns=[f"c{j}" for j in range(40)]) for rows in (X, Q)]
    for frame in frames:
        frame["c0"] = np.where(frame["c0"] > 0, "high", "low")
        frame.loc[frame.index[::5], "c1"] = np.nan
    model = FoldedRegressor(path, leaf_width=16).fit(frames[0], y)
    together = model.predict(frames[1])
    np.testing.assert_allclose(model.predict(frames[1][:1]), together[:1], atol=1e-5 * np.ptp(y))


def test_thorough_asks_more(path, table):
    X, y, Q, _ = table
    model = FoldedRegressor(path, leaf_width=32, trials="thorough").fit(X, y)
    names = {one.name for one in model.verdicts_[0].tried}
    assert {"core", "all10", "all30", "core+30"} <= names
    assert "tail" not in names  # the gate is a matter of classes
    assert np.isfinite(model.predict(Q)).all()


def test_the_report_speaks_of_numbers(model, table):
    html = model.report(*table[2:]).html
    assert "mean squared error, in units of the variance" in html
    assert "log-likelihood" not in html
    assert "nothing: the mean of the labelled rows" in html


def test_real_weights_are_better_with_trials(data_dir):
    pytest.importorskip("tabpfn", reason="the tabpfn package is not installed (pip install tabpfn)")
    try:
        checkpoints.fetch(get_spec("tabpfn-v2-regressor"))
    except CheckpointMissing as error:
        pytest.skip(f"the released weights of TabPFN v2's regressor cannot be had here: {error}")
    frame = pd.read_parquet(data_dir / "regression" / "tecator_fat.parquet")
    X, y = frame.drop(columns="target").to_numpy(np.float64), frame["target"].to_numpy(np.float64)
    order = np.random.default_rng(3).permutation(len(y))
    support, query = order[:40], order[40:80]
    errors = {}
    for method in ("auto", "scff"):
        model = FoldedRegressor("tabpfn-v2", method=method, leaf_width=24).fit(X[support], y[support])
        errors[method] = ((model.predict(X[query]) - y[query]) ** 2).mean() / y[query].var()
    assert errors["auto"] < errors["scff"] < 1
