"""What goes beyond the paper: presentations, the held-back rows that choose between them, and the budget of asking."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from conftest import make_wide, paper
from scff import FoldedClassifier
from scff.backbones import load_backbone
from scff.backbones.arithmetic import Arithmetic
from scff.errors import DataError, MemoryBudgetError
from scff.tables.table import as_table
from scff.trials.agenda import agenda
from scff.trials.asking import ask
from scff.trials.budget import FREE, Question, afford
from scff.trials.case import Case
from scff.trials.coded import code_words
from scff.trials.episode import Episode
from scff.trials.folds import deal_folds
from scff.trials.mixture import Mixture, fit_mixture
from scff.trials.narrow import Company, Digest, Direct, Frequencies, Summarised
from scff.trials.presentations import Answering, Core
from scff.trials.reading import answers
from scff.trials.settings import Settings
from scff.trials.trial import judge

CPU = torch.device("cpu")


def case_of(path, X, y, **settings):
    return Case(load_backbone(path, CPU), as_table(X), np.asarray(y), Settings(leaf_width=32, **settings))


def episode_of(case, folds=4, groups=None):
    return Episode(case, Question(folds, 10_000, 0.0, 0.0), groups)


def test_where_nothing_is_approved_the_answer_is_the_papers_core_bit_for_bit(tiny, wide):
    X, y, Q = wide
    core = paper(tiny, method="bounded-core", leaf_width=32).fit(X, y).predict_proba(Q)
    asked_nothing = FoldedClassifier(tiny, leaf_width=32, trials=0).fit(X, y)
    np.testing.assert_array_equal(asked_nothing.predict_proba(Q), core)
    assert not asked_nothing.verdicts_[0].approved
    assert "trials=0" in asked_nothing.verdicts_[0].reason


def test_the_core_is_read_alone_where_held_back_rows_leave_weight_to_nothing_else(tiny):
    X, y, _ = make_wide(n_support=120)
    episode = episode_of(case_of(tiny, X, y))
    answers = np.concatenate([y[split.new] for split in episode.splits])
    sure = np.where(answers[:, None] == np.arange(2), 0.95, 0.05)
    wrong = sure[:, ::-1]
    alternatives = (Core(), Company())
    refused = judge({("core", 1.0): sure, ("company", 1.0): wrong}, episode, alternatives)
    assert not refused.approved
    assert [one.weight for one in refused.tried] == [1.0, 0.0]
    assert refused.temperature == 1.0
    assert "nothing else" in refused.reason
    taken = judge({("core", 1.0): wrong, ("company", 1.0): sure}, episode, alternatives)
    assert taken.approved
    assert taken.gain > 0
    assert taken.tried[1].weight > 0.8


def test_a_few_rows_that_praise_the_core_do_not_decide_alone(tiny):
    X, y, _ = make_wide(n_support=40)
    episode = episode_of(case_of(tiny, X, y))
    answers = np.concatenate([y[split.new] for split in episode.splits])
    said = np.where(np.arange(40) % 10, answers, 1 - answers)  # as sure as it is right, so no temperature helps
    sure, less = (np.where(said[:, None] == np.arange(2), p, 1 - p) for p in (0.9, 0.7))
    held = {("core", 1.0): sure, ("company", 1.0): less}
    verdict = judge(held, episode, (Core(), Company()))
    assert verdict.approved
    assert verdict.gain < 0
    assert "lucky" in verdict.reason
    assert verdict.tried[0].weight > 0.6
    # What that can cost is bounded, whatever the other one says.
    wrong = judge(held | {("company", 1.0): sure[:, ::-1]}, episode, (Core(), Company()))
    alone = verdict.tried[0].loss
    assert wrong.loss < alone + np.log(34 / 30)  # thirty rows set the weights for ten


def test_the_verdict_is_a_function_of_the_labelled_rows_and_survives_saving(tiny, wide):
    X, y, Q = wide
    one, two = (FoldedClassifier(tiny, leaf_width=32).fit(X, y) for _ in range(2))
    assert one.verdicts_ == two.verdicts_
    together = one.predict_proba(Q)
    np.testing.assert_array_equal(together, two.predict_proba(Q))
    np.testing.assert_allclose(one.predict_proba(Q[:3]), together[:3], atol=1e-5)  # whatever rows come with it
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_allclose(again.predict_proba(Q), together, atol=1e-12)
    assert again.verdicts_ == one.verdicts_


def test_groups_are_never_parted(tiny):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(15), 4)
    y = rng.integers(0, 2, 15)[groups]
    X = rng.normal(size=(60, 80)) + 5 * rng.normal(size=(15, 80))[groups]
    splits = episode_of(case_of(tiny, X, y), groups=groups).splits
    assert len(splits) > 1
    for split in splits:
        assert not set(groups[split.fitted]) & set(groups[split.new])
    # Patients whose rows resemble each other and say nothing about others: only whole patients show that.
    parted = FoldedClassifier(tiny, leaf_width=32).fit(X, y).verdicts_[0]
    whole = FoldedClassifier(tiny, leaf_width=32).fit(X, y, groups=groups).verdicts_[0]
    assert parted.loss < 0.3 < whole.loss
    few = np.where(np.arange(60) < 50, 0, 1)  # two groups, one of which holds a single class: nothing can be asked
    alone = FoldedClassifier(tiny, leaf_width=32).fit(X, np.r_[np.arange(50) % 2, np.zeros(10, int)], groups=few)
    assert "cannot be dealt" in alone.verdicts_[0].reason
    with pytest.raises(DataError, match="one group per row"):
        FoldedClassifier(tiny).fit(X, y, groups=groups[:-1])


@pytest.mark.parametrize("folds", [2, 5])
def test_folds_have_their_share_of_every_class(folds):
    y = np.random.default_rng(0).permutation([0] * 31 + [1] * 9 + [2])
    part = deal_folds(y, folds)
    assert part[y == 2].tolist() == [-1]  # the only row of its class is never held back
    for k in (0, 1):
        counts = np.bincount(part[y == k], minlength=folds)
        assert np.ptp(counts) <= 1
    assert np.ptp(np.bincount(part[part >= 0])) <= 1


def test_everything_that_reads_labels_is_made_anew_in_each_split(tiny):
    """On pure noise, columns chosen with all labels would predict held-back rows; chosen in the split they do not."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3000)), np.arange(60) % 2
    episode = episode_of(case_of(tiny, X, y))
    alternatives = (Core(), *(Direct(s, r) for s in ("equal", "shares") for r in (0, 1)))
    verdict = judge(ask(episode, alternatives), episode, alternatives)
    for tried in verdict.tried[1:]:
        assert tried.loss > 0.6  # log 2 is knowing nothing


def test_sureness_on_noise_is_moderate():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 400)), np.arange(60) % 2
    proba = FoldedClassifier("nano").fit(X, y).predict_proba(rng.normal(size=(40, 400)))
    assert proba.max() < 0.8


def test_a_class_of_one_row_and_columns_constant_in_a_split_do_no_harm(tiny):
    X, y, Q = make_wide(n_support=40)
    X[:, 5] = 0.0
    X[3, 5] = 1.0
    X[:, 6] = np.nan
    y = y.copy()
    y[0] = 2
    clf = FoldedClassifier(tiny, leaf_width=32).fit(X, y)
    assert clf.predict_proba(Q).shape == (len(Q), 3)


def test_text_and_holes_and_files_are_read(tiny, tmp_path):
    X, y, Q = make_wide(n_columns=40, n_support=48)
    frames = [pd.DataFrame(rows, columns=[f"c{j}" for j in range(40)]) for rows in (X, Q)]
    for frame in frames:
        frame["c0"] = np.where(frame["c0"] > 0, "high", "low")
        frame.loc[::5, "c1"] = np.nan
    clf = FoldedClassifier(tiny, leaf_width=16).fit(frames[0], y)
    together = clf.predict_proba(frames[1])
    np.testing.assert_allclose(clf.predict_proba(frames[1][:1]), together[:1], atol=1e-5)
    np.save(tmp_path / "X.npy", np.asfortranarray(X))
    np.save(tmp_path / "Q.npy", Q)
    lazy = FoldedClassifier(tiny, leaf_width=16).fit(tmp_path / "X.npy", y).predict_proba(tmp_path / "Q.npy")
    np.testing.assert_allclose(lazy, FoldedClassifier(tiny, leaf_width=16).fit(X, y).predict_proba(Q), atol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("leaf_width", [8, 32, 128])
def test_narrow_tables_fit_a_leaf_and_show_held_back_rows_like_queries(tiny, n_classes, leaf_width):
    X, y, _ = make_wide(n_classes, n_columns=70, n_support=60)
    whole = replace(case_of(tiny, X, y), settings=Settings(leaf_width=leaf_width))
    part = whole.part(np.arange(30), np.arange(30, 60))
    for presentation in (Company(), Digest(), Summarised(10, False), Summarised(5, True)):
        shown = presentation.show(part)
        assert shown.held_back.n_columns <= whole.leaf_width
        full = presentation.show(whole)
        again = full.table(as_table(X))  # summaries but scores of labelled rows are those of new rows
        assert again.n_columns == full.table(as_table(X[:3])).n_columns <= whole.leaf_width
    for answering in (Direct("equal", False), Direct("shares", True), Frequencies()):
        held, answer = answering.answer(part)
        assert held.shape == (30, n_classes)
        np.testing.assert_allclose(held.sum(axis=1), 1.0)
        assert answering.answer(whole)[0] is None
        np.testing.assert_allclose(answer(as_table(X[:4])).sum(axis=1), 1.0)


def test_weights_find_the_better_alternative_and_stay_even_where_nothing_is_known():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    good = np.where(y[:, None] == np.arange(2), 0.8, 0.2)
    poor = np.full((400, 2), 0.5)
    many = fit_mixture(np.stack([good, poor]), y)
    few = fit_mixture(np.stack([good, poor])[:, :4], y[:4])
    assert many.weights_P[0] > 0.95
    assert 0.5 < few.weights_P[0] < many.weights_P[0]
    assert many.temperature < 1.0  # it is always right and could be surer
    assert abs(np.log(few.temperature)) < abs(np.log(many.temperature))
    assert sum(many.weights_P) == pytest.approx(1.0)


def test_a_single_weight_is_that_answer():
    proba = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 7))
    np.testing.assert_array_equal(Mixture((1.0, 0.0))(proba), proba[0])


def test_several_readings_meet_half_way_between_two_means():
    proba = np.array([[[0.9, 0.1], [0.0, 1.0]], [[0.4, 0.6], [0.5, 0.5]]])
    mixed = Mixture((0.75, 0.25))(proba)
    np.testing.assert_allclose(mixed.sum(axis=1), 1)
    arithmetic = 0.75 * proba[0] + 0.25 * proba[1]
    geometric = proba[0, 0] ** 0.75 * proba[1, 0] ** 0.25
    np.testing.assert_allclose(mixed[0], (arithmetic[0] + geometric / geometric.sum()) / 2)
    assert mixed[1, 0] > arithmetic[1, 0] / 2, "a nought of one reading forbids nothing"


def test_asking_costs_no_more_than_it_may(tiny):
    X, y, _ = make_wide(n_support=200)
    case = case_of(tiny, X, y)

    def question(per_cell, widths=(50, 128, 128), trials="auto", times=1, folds=None):
        case.backbone.arithmetic = Arithmetic(per_cell, 0.0)
        return afford(case, list(widths), trials, times, folds=folds)

    before = case.backbone.arithmetic
    try:
        cheap, dear, dearer = (question(per_cell) for per_cell in (1e3, 1e6, 2.5e6))
        assert (cheap.folds, cheap.rows) == (5, 200)
        assert (dear.rows, dear.folds) == (200, 3)
        assert dearer.folds == 0  # three of them are too much: the agenda asks one less
        alone = question(2.5e7, (50,))
        assert alone.folds == 2
        assert 40 <= alone.rows < 200
        for asked in (cheap, dear, alone):
            assert asked.cost <= asked.allowed
        assert cheap.allowed == FREE
        assert question(1e9, (50,)).folds in (0, 2)
        assert question(1e6, times=6).folds == 0
        assert question(1e9, trials="thorough").folds == 5
        price = question(1e6, (50,)).cost / 5  # of one fold of the Core
        assert question(1e6, (50,), folds=4).cost == 4 * price
        assert question(1e9, (50,), folds=5).folds == 0, "so many folds or none"
    finally:
        case.backbone.arithmetic = before


def test_a_leaf_is_asked_before_a_wide_core(tiny, monkeypatch):
    """What shows one leaf tells more for less: a Core that does not fit beside it is left out, not the leaf."""
    X, y, _ = make_wide(n_support=200, informative=120)
    case = case_of(tiny, X, y)
    assert len(case.plan.core) > 2 * case.leaf_width

    def asked(free):
        monkeypatch.setattr("scff.trials.budget.FREE", free)
        episode, alternatives = agenda(case, "auto")
        passes = [one.name for one in alternatives if not isinstance(one, Answering)]
        return passes, episode.question.folds, episode.question.rows

    leaf, core = case.cost_of_a_pass, case.arithmetic(200, len(case.plan.core))
    assert asked(5 * (core + 2 * leaf)) == (["core", "digest", "company"], 5, 200)
    assert asked(5 * (core + 2 * leaf) - 1) == (["digest", "company"], 5, 200)
    assert asked(10 * leaf - 1) == (["digest", "company"], 4, 200)


def test_where_the_core_is_not_asked_the_others_answer(tiny, wide, monkeypatch):
    X, y, Q = wide
    case = case_of(tiny, X, y)
    monkeypatch.setattr("scff.trials.budget.FREE", 10.0 * case.cost_of_a_pass)
    clf = FoldedClassifier(tiny, leaf_width=32).fit(X, y)
    (verdict,) = clf.verdicts_
    assert "core" not in [one.name for one in verdict.tried]
    assert verdict.approved
    assert verdict.gain is verdict.error is None
    assert "would have cost more to ask than the answer" in verdict.reason
    assert "core" not in [choice.presentation.name for choice in clf.fitted_.choices]
    np.testing.assert_allclose(clf.predict_proba(Q).sum(axis=1), 1.0)


def test_more_is_asked_where_more_is_allowed(tiny, wide):
    X, y, _ = wide
    case = case_of(tiny, X, y)
    names = {trials: [one.name for one in agenda(case, trials)[1]] for trials in (0, "auto", "thorough")}
    assert names[0] == ["core"]
    assert {"core", "company", "digest", "linear-equal", "frequencies"} <= set(names["auto"])
    assert {"linked", "tail", "all30", "core+30"} <= set(names["thorough"]) - set(names["auto"])
    verdict = FoldedClassifier(tiny, leaf_width=32, trials="thorough").fit(X, y).verdicts_[0]
    assert {one.name for one in verdict.tried} >= set(names["auto"])


def test_any_number_of_classes_on_any_backbone(tiny):
    X, y, Q = make_wide(13, n_columns=60, n_support=130, informative=60)
    with pytest.raises(Exception, match='method="auto"'):
        paper(tiny).fit(X, y)
    clf = FoldedClassifier(tiny, leaf_width=32).fit(X, y)
    proba = clf.predict_proba(Q)
    assert proba.shape == (len(Q), 13)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert "digest" in [one.name for one in clf.verdicts_[0].tried]


def test_words_of_one_table_share_what_knows_no_label(tiny, monkeypatch):
    """Of many rows and classes: the landmarks, and what is made of them, are those of the table and not of a word."""
    monkeypatch.setattr("scff.trials.case.LANDMARKS", 60)
    X, y, Q = make_wide(13, n_columns=60, n_support=260, informative=60)
    case = case_of(tiny, X, y)
    coded = case.relabelled(np.unique(code_words(13, 10)[0][y], return_inverse=True)[1])
    assert case.landmarks is coded.landmarks
    assert case.structured is coded.structured
    clf = FoldedClassifier(tiny, leaf_width=32).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(Q).sum(axis=1), 1.0)


@pytest.mark.parametrize(("n_classes", "n_symbols"), [(11, 10), (20, 10), (100, 10), (5, 2)])
def test_words_tell_all_classes_apart(n_classes, n_symbols):
    words = code_words(n_classes, n_symbols)
    assert words.max() == n_symbols - 1
    columns = {tuple(word) for word in words.T}
    assert len(columns) == n_classes
    for word in words:
        assert np.ptp(np.bincount(word)) <= 1


def test_of_many_rows_a_spread_stands_for_all(tiny, monkeypatch):
    X, y, Q = make_wide(3, n_columns=60, n_support=150)
    monkeypatch.setattr("scff.trials.case.LANDMARKS", 60)
    case = case_of(tiny, X, y)
    assert 60 <= len(case.landmarks) <= 66
    assert np.ptp(np.bincount(y[case.landmarks])) <= 2
    assert Digest().show(case).views.view(0) is not None
    for split in episode_of(case).splits:
        assert set(split.fitted) | set(split.new) <= set(case.landmarks)
    clf = FoldedClassifier(tiny, leaf_width=32).fit(X, y)
    assert clf.verdicts_[0].n_rows == len(case.landmarks)
    np.testing.assert_allclose(clf.predict_proba(Q).sum(axis=1), 1.0)


def test_a_memory_limit_changes_no_answer(tiny, wide):
    X, y, Q = wide
    free, bound = (FoldedClassifier(tiny, leaf_width=32, memory_limit=limit).fit(X, y) for limit in (None, "128MiB"))
    np.testing.assert_allclose(free.predict_proba(Q), bound.predict_proba(Q), atol=1e-5)
    with pytest.raises(MemoryBudgetError, match=r"the whole table takes about \d\d\.\d MiB") as refused:
        FoldedClassifier(tiny, leaf_width=32, memory_limit="10MiB").fit(X, y)
    named = re.search(r"about ([\d.]+ MiB)", str(refused.value))[1]
    FoldedClassifier(tiny, leaf_width=32, memory_limit=named).fit(X, y)


def test_a_memory_limit_sums_up_fewer_query_rows_at_a_time(tiny, wide, monkeypatch):
    X, y, Q = wide
    rows = np.tile(Q, (60, 1))
    free, bound = (FoldedClassifier(tiny, leaf_width=32, memory_limit=limit).fit(X, y) for limit in (None, "128MiB"))
    sizes = []
    monkeypatch.setattr(
        "scff.estimators.fitted.answers",
        lambda case, readings, part: sizes.append(part.n_rows) or answers(case, readings, part),
    )
    whole = free.predict_proba(rows)
    assert max(sizes) >= 1500
    sizes.clear()
    monkeypatch.setattr("scff.trials.case.Case.query_bytes", 1 << 17)  # as of a thousand labelled rows and columns
    np.testing.assert_allclose(bound.predict_proba(rows), whole, atol=1e-5)
    assert set(sizes[:-1]) == {256}


def test_on_gene_tables_the_default_is_better_than_the_papers_core(data_dir):
    losses = {"auto": [], "bounded-core": []}
    for table in ("colon", "leukemia"):
        path = data_dir / "hdlss" / f"{table}.parquet"
        if not path.is_file():
            pytest.skip(f"the folder of real tables has no hdlss/{table}.parquet")
        frame = pd.read_parquet(path)
        y = pd.factorize(frame.pop("target"), sort=True)[0]
        X = frame.to_numpy(np.float32)
        for fit, new in StratifiedKFold(3, shuffle=True, random_state=7).split(X, y):
            for method, found in losses.items():
                proba = FoldedClassifier("nano", method=method).fit(X[fit], y[fit]).predict_proba(X[new])
                found.append(log_loss(y[new], proba, labels=[0, 1]))
    assert np.mean(losses["auto"]) < np.mean(losses["bounded-core"])


@pytest.mark.parametrize(("n_columns", "prior"), [(999, 1.0), (1000, 3.0)])
def test_weighted_sums_count_for_more_where_columns_far_outnumber_rows(tiny, n_columns, prior):
    X, y, _ = make_wide(n_support=40, n_columns=n_columns, informative=8)
    _, alternatives = agenda(case_of(tiny, X, y), "auto")
    priors = {one.name: one.prior for one in alternatives}
    assert priors["linear-equal"] == priors["linear-shares"] == prior
    assert priors["near-equal"] == priors["near-shares"] == 1.0
