"""What the report says about presentations that were tried, mixed and turned away."""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import numpy as np
import pytest

import report_models
from conftest import shuffle_few
from scff.report import make_report
from scff.report.columns import EFFECT
from scff.report.marks import signed
from scff.report.readings import mixed, read, sentence, sureness
from scff.trials.narrow import Company, Frequencies, Summarised
from scff.trials.presentations import Core, LinkedCore, WithTail
from scff.trials.reading import Choice
from scff.trials.trial import Verdict
from test_display import assert_balanced

pytestmark = pytest.mark.usefixtures("few_shuffled")


def reading_of(model, *choices, verdict=None, temperature=1.0):
    """The same fit with other choices than held-back rows made."""
    model = copy.copy(model)
    fitted = model.fitted_
    verdicts = fitted.verdicts if verdict is None else (verdict,)
    undecided = ((),) * len(choices)
    changed = replace(
        fitted, choices=choices, gates=undecided, temperature=temperature, verdicts=verdicts, _compiled=None
    )
    model.fitted_ = replace(changed, gates=tuple(reading.gates for reading in changed.readings))
    return model


@pytest.fixture(scope="module")
def example():
    return report_models.noisy(leaf_width=64, tail="raw-residual", trials="thorough")


@pytest.fixture(scope="module")
def page(example):
    """Its report, made once."""
    with pytest.MonkeyPatch.context() as patch:
        shuffle_few(patch)
        return example.model.report(example.X_test, example.y_test).html


def rows(html):
    table = html.split('<table class="tried">')[1].split("</table>")[0]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr class=.*?</tr>", table)]


def test_every_alternative_stands_with_its_loss_and_weight(example, page):
    (verdict,) = example.model.verdicts_
    assert len(verdict.tried) >= 5, "otherwise this test asks for nothing"
    html = page
    shown = rows(html)
    assert len(shown) == len(verdict.tried)
    for cells, one in zip(shown, verdict.tried, strict=True):
        assert cells[0].startswith(one.words.replace("'", "&#x27;"))
        assert cells[1] == f"{one.loss:.3f}"
        assert cells[4] == f"<b>{f'{one.weight:.0%}' if one.weight else '–'}</b>"
    assert shown[0][2] == "", "the paper's Core is what the others are compared with"
    assert shown[1][2] == signed(verdict.tried[1].loss - verdict.tried[0].loss)
    assert verdict.reason[1:] in html
    assert f"{verdict.n_rows} labelled rows were dealt into {verdict.n_splits} parts" in html
    assert "at half of the gate&#x27;s step" in html


def test_steps_of_the_tail_are_told_apart(page):
    words = [cells[0] for cells in rows(page)]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(("temperature", "words"), [(1.4, "turned down"), (0.6, "turned up"), (1.0, ""), (1.01, "")])
def test_a_temperature_is_told_in_words(example, temperature, words):
    assert words in sureness(temperature)
    assert bool(sureness(temperature)) == bool(words)
    model = reading_of(example.model, Choice(Core()), temperature=temperature)
    assert ("sureness was turned" in read(model.fitted_)) == bool(words)


def test_verdicts_are_sentences():
    no = Verdict(n_rows=40, n_splits=4, reason="no mixture lowers the loss")
    assert sentence(no) == "The paper's Core is read alone: no mixture lowers the loss."
    yes = replace(no, approved=True, reason="the mixture lowers the loss by 0.1")
    assert sentence(yes) == "The mixture lowers the loss by 0.1, compared with the paper's Core as it is."


def test_nothing_tried_is_said_and_the_paper_has_no_such_section():
    nothing = report_models.noisy(leaf_width=64, trials=0).model
    html = nothing.report().html
    assert_balanced(html)
    assert "nothing was tried" in html
    assert '<table class="tried">' not in html
    assert mixed(nothing.fitted_)[0][0] == 1.0
    assert 'id="read"' not in report_models.noisy(leaf_width=64, method="scff").model.report().html


def test_of_a_mixture_the_heaviest_reading_that_folds_is_described():
    example = report_models.grouped(leaf_width=64, tail="raw-residual", trials="thorough")
    choices = Choice(Summarised(10, False), 0.5), Choice(LinkedCore(), 0.3), Choice(WithTail(), 0.2, 0.5)
    model = reading_of(example.model, *choices)
    html = make_report(model, test=example.X_test, target=example.y_test).html
    assert_balanced(html)
    assert "The answer mixes 3 readings of the table; the heaviest (50%): <b>10 summary columns" in html
    assert "the heaviest part of the answer that folds columns (linked, 30%)" in html
    # The Tail is in another part than the one whose leaves are shown.
    assert "in the part of the answer that weighs 20%" in html
    gate = model.fitted_.gates[2][0]
    assert f"<b data-value='alpha'>{gate.alpha:.3f}</b>" in html
    frame = model.column_evidence(shuffled=0)
    assert frame["used"].all(), "a summary of all columns reads all of them"
    linked = model.fitted_.readings[1].plan
    assert set(frame.index[frame["stratum"] == "core"]) == {linked.name(j) for j in linked.core}
    assert len(linked.linked)
    assert re.search(rf"{len(linked.linked)} columns of the Core say little alone; .* \(loss 0\.\d+ with them", html)
    assert np.isfinite(frame[EFFECT]).all()


def test_summaries_alone_have_no_leaves(example):
    model = reading_of(example.model, Choice(Summarised(10, False)))
    report = model.report(example.X_test, example.y_test)
    assert_balanced(report.html)
    assert "They were not: held-back rows chose" in report.html
    assert "<g opacity" not in report.html
    assert (report.columns["leaf"] == -1).all()
    assert report.columns["used"].all()
    assert report.columns[EFFECT].isna().all()
    assert set(report.columns["stratum"]) == {"core", "tail"}


def test_only_the_columns_that_are_read_count_as_used(example):
    model = reading_of(example.model, Choice(Company(0.25), 0.7), Choice(Frequencies(), 0.3))
    report = model.report()
    assert_balanced(report.html)
    assert report.columns["used"].sum() == 16


def test_why_a_trial_left_the_tail_out():
    assert "the Tail is switched off" in report_models.noisy(leaf_width=64, tail="off").model.report().html
    multiclass = report_models.digits(trials=0).model.report().html
    assert "a task of 10 classes keeps to the Core" in multiclass


@pytest.mark.parametrize("word", ["rehears", "member", " look ", " play"])
def test_the_words_of_the_theatre_are_gone(page, word):
    text = re.sub(r"<(style|script)[^>]*>.*?</\1>", "", page, flags=re.S)
    text = re.sub(r"<[^>]*>", " ", text)
    assert word not in text.lower()
