"""The embedded model reads beside the backbone: what that changes, what it must not change, and what it costs."""

from __future__ import annotations

import json
import shutil
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch

import scff
from conftest import make_wide
from scff import FoldedClassifier
from scff.backbones import load_backbone
from scff.backbones.loaded import CheckpointRef
from scff.errors import CheckpointError, CheckpointMissing, ModelFileError
from scff.trials.agenda import agenda
from scff.trials.asking import ask, size_of
from scff.trials.beside import Beside, cases_of
from scff.trials.case import Case
from scff.trials.contest import contest
from scff.trials.narrow import Company, Digest
from scff.trials.reading import Choice
from trial_cases import case_of

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def rows():
    return make_wide(n_support=48, n_columns=60, informative=8)


@pytest.fixture(scope="module")
def nano():
    return load_backbone("nano", CPU)


@pytest.fixture(scope="module")
def case(tiny, rows, nano):
    X, y, _ = rows
    return case_of(load_backbone(tiny, CPU), X, y).read_by(load_backbone(tiny, CPU), nano)


def beside(alternatives):
    return [one for one in alternatives if isinstance(one, Beside)]


def test_what_it_reads_is_what_it_would_read_by_itself(case, nano):
    episode, alternatives = agenda(case, "auto")
    lent = beside(alternatives)
    assert {"digest-beside", "company-beside"} <= {one.name for one in lent}
    alone = replace(episode, case=case.read_by(nano))
    held = ask(episode, lent)
    own = ask(alone, [one.presentation for one in lent])
    for one in lent:
        np.testing.assert_array_equal(held[one.name, 1.0], own[one.presentation.name, 1.0])
        assert one.words(case).endswith("read by nano")


def test_leaves_are_as_wide_as_the_reader_takes_them(tiny, rows, nano):
    """TabPFN v1 reads 100 columns; the model beside it reads a whole leaf of the user's."""
    X, y, _ = make_wide(n_support=48, n_columns=200, informative=8)
    v1 = load_backbone(tiny, CPU)
    wide = Case(v1, case_of(v1, X, y).support, np.asarray(y), replace(case_of(v1, X, y).settings, leaf_width=128))
    wide = wide.read_by(v1, nano)
    assert (wide.leaf_width, wide.lent.leaf_width) == (100, 128)
    own, lent = Company(), Beside(Company(), CheckpointRef.of(nano))
    assert own.show(wide).held_back is None
    assert "100 strongest" in own.words(wide)
    assert "128 strongest" in lent.words(wide)


def test_the_embedded_model_has_nobody_beside_it(case, nano, rows):
    own, other = cases_of(case, [nano, case.backbone], nano)
    assert own.beside is None
    assert other.beside is nano
    assert not beside(agenda(own, "auto")[1])
    X, y, _ = rows
    model = FoldedClassifier("nano", leaf_width=32).fit(X, y)
    assert model.fitted_.beside is None


@pytest.mark.parametrize("options", [{"trials": 0}, {"method": "scff"}, {"method": "bounded-core"}])
def test_the_paper_knows_nothing_of_it(tiny, rows, options, monkeypatch):
    X, y, _ = rows
    monkeypatch.setattr("scff.trials.beside.EMBEDDED", "not to be loaded")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = FoldedClassifier(tiny, leaf_width=32, **options).fit(X, y)
    assert model.fitted_.beside is None


def test_a_fit_goes_on_where_it_cannot_be_loaded(tiny, rows, monkeypatch):
    X, y, _ = rows
    monkeypatch.setattr("scff.trials.beside.EMBEDDED", "nobody")
    with pytest.warns(UserWarning, match="does not read beside the backbone"):
        model = FoldedClassifier(tiny, leaf_width=32).fit(X, y)
    assert model.fitted_.beside is None
    assert model.verdicts_[0].n_rows


def test_a_copy_of_the_embedded_file_has_nobody_beside_it(rows, nano, tmp_path):
    copied = shutil.copy(CheckpointRef.of(nano).path, tmp_path / "mine.ckpt")
    X, y, _ = rows
    assert FoldedClassifier(copied, leaf_width=32).fit(X, y).fitted_.beside is None


def test_it_is_asked_only_where_the_budget_has_something_left(case, monkeypatch):
    episode, alternatives = agenda(case, "auto")
    lent = beside(alternatives)
    price = len(episode.splits) * len(lent) * case.lent.arithmetic(episode.question.rows, case.lent.leaf_width)
    own = agenda(case.read_by(case.backbone), "auto")[0].question.cost
    assert episode.question.cost == pytest.approx(own + price)
    for part, n in ((0.99, len(lent) - 1), (0.99 / len(lent), 0)):  # as many as are paid for
        monkeypatch.setattr("scff.trials.budget.FREE", own + part * price)
        episode, alternatives = agenda(case, "auto")
        assert beside(alternatives) == lent[:n]
        assert episode.question.cost == pytest.approx(own + n / len(lent) * price)
    assert size_of(case, lent[0]) == case.lent.cost_of_a_pass


def test_it_is_no_candidate_by_itself_where_it_stands_beside_another(case, nano):
    answered = contest(cases_of(case, [case.backbone, nano], nano), "auto")
    assert [one.name for one in answered.verdicts[1].tried] == ["tabpfn-v1"]
    assert answered.verdicts[1].reason == "tabpfn-v1 is read; nano reads beside it"
    apart = contest([case.read_by(case.backbone), case.read_by(nano)], "auto")
    assert {one.name for one in apart.verdicts[1].tried} == {"tabpfn-v1", "nano"}


@pytest.fixture(scope="module")
def model(tiny, rows):
    X, y, _ = rows
    model = FoldedClassifier(tiny, leaf_width=32, n_estimators=2).fit(X, y)
    read = [choice.presentation for choice in model.fitted_.choices]
    assert beside(read), "noise must not outweigh a trained model"
    return model


@pytest.mark.parametrize("caches", [False, True])
def test_a_model_that_was_read_from_a_file_gives_the_same_bits(model, tiny, rows, tmp_path, caches, monkeypatch):
    monkeypatch.setenv("SCFF_CHECKPOINT_DIR", str(tiny.parent))
    Q = rows[2]
    model.save(tmp_path / "model.scff", caches=caches)
    again = scff.load(tmp_path / "model.scff")
    assert again.fitted_.beside.sha256 == model.fitted_.beside.sha256
    np.testing.assert_array_equal(again.predict_proba(Q), model.predict_proba(Q))


def test_it_reads_through_one_view_whatever_the_backbone_takes(model):
    by_name = {reading.choice.presentation.name: reading for reading in model.fitted_.readings}
    lent = [one for name, one in by_name.items() if name.endswith("-beside")]
    assert {len(one.views) for one in lent} == {1}
    assert all(len(one.views) == 2 for name, one in by_name.items() if one.views and one not in lent)


def test_a_model_says_whose_weights_it_read(model, rows):
    html = model.report().html
    digest = CheckpointRef.of(load_backbone("nano", CPU)).sha256
    assert f"nano.ckpt, sha256 {digest[:16]}" in html
    assert "with nano beside" in html
    assert "read by nano" in html


def test_other_weights_of_the_second_model_are_refused(model, tiny, rows, tmp_path, monkeypatch):
    """A file that names other weights of nano than the package has is never answered with these."""
    monkeypatch.setenv("SCFF_CHECKPOINT_DIR", str(tiny.parent))
    model.save(tmp_path / "model.scff")
    digest = model.fitted_.beside.sha256
    with zipfile.ZipFile(tmp_path / "model.scff") as file:
        members = {name: file.read(name) for name in file.namelist()}
    document = json.loads(members["model.json"])
    assert digest in json.dumps(document)
    members["model.json"] = json.dumps(document).replace(digest, "0" * 64).encode()
    with zipfile.ZipFile(tmp_path / "other.scff", "w", zipfile.ZIP_STORED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    with pytest.raises((CheckpointError, CheckpointMissing), match="nano"):
        scff.load(tmp_path / "other.scff").predict_proba(rows[2])


def test_its_weights_are_found_beside_the_model_file(model, tiny, rows, tmp_path):
    """A release with another nano: the file that a model was fitted with lies beside the model."""
    model.save(tmp_path / "model.scff")
    shutil.copy(tiny, tmp_path / tiny.name)
    shutil.copy(model.fitted_.beside.path, tmp_path / "nano.ckpt")
    again = scff.load(tmp_path / "model.scff")
    assert again.fitted_.checkpoint.path == str(tmp_path / tiny.name)
    assert again.fitted_.beside.path == str(tmp_path / "nano.ckpt")
    np.testing.assert_array_equal(again.predict_proba(rows[2]), model.predict_proba(rows[2]))


def test_two_second_readers_in_one_file_are_refused(model, tiny, tmp_path):
    fitted = model.fitted_
    lent = next(choice for choice in fitted.choices if isinstance(choice.presentation, Beside))
    other = replace(lent.presentation, reader=replace(lent.presentation.reader, sha256="0" * 64))
    before = fitted.choices
    try:
        fitted.choices = (*(choice for choice in before if choice is not lent), lent, replace(lent, presentation=other))
        fitted.gates = (*fitted.gates, ())
        model.save(tmp_path / "two.scff")
    finally:
        fitted.choices, fitted.gates = before, fitted.gates[:-1]
    with pytest.raises(ModelFileError, match="more models than there are"):
        scff.load(tmp_path / "two.scff")


def test_only_presentations_are_lent(nano):
    digest = Beside(Digest(), CheckpointRef.of(nano))
    assert digest.name == "digest-beside"
    assert (digest.prior, digest.shares) == (Digest().prior, Digest().shares)
    assert Choice(digest).weight == 1.0
