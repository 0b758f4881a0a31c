from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss, roc_auc_score

import report_models
import scff
from scff import FoldedClassifier, TailGate
from scff.errors import DataError
from scff.fold.tokens import FoldedTokens
from scff.report import Report, make_report, write_report
from scff.report.columns import EFFECT
from scff.report.leaf_out import leave_leaves_out
from scff.report.marks import signed, took
from scff.report.quality import assess
from scff.report.subject import Subject
from scff.report.svg import significant
from scff.report.tail_section import decision, tail
from scff.trials.reading import Reading
from test_display import assert_balanced

pytestmark = pytest.mark.usefixtures("few_shuffled")

QUESTIONS = [
    "How good is it?",
    "What was read?",
    "Which columns tell?",
    "How were the columns folded?",
    "Was the Tail let in",
    "What did it cost?",
]


def payload(html):
    return json.loads(re.search(r'<script type="application/json" id="columns">(.*?)</script>', html, re.S)[1])


def value(html, key):
    return re.search(rf"""data-value=["']{key}["']>([^<]*)<""", html)[1]


def subject_of(model):
    return Subject.of(model.fitted_)


def madeline(data_dir):
    table = pd.read_parquet(data_dir / "madeline.parquet").sample(500, random_state=0)
    target = table.columns[-1]
    X, y = table.drop(columns=target), table[target].to_numpy()
    model = FoldedClassifier(backbone="nano").fit(X.iloc[:250], y[:250])
    return report_models.Example(model, X.iloc[250:], y[250:])


@pytest.fixture(params=["breast cancer, 495 columns", "breast cancer, the paper", "madeline", "digits, 10 classes"])
def fitted(request):
    if request.param == "madeline":
        return madeline(request.getfixturevalue("data_dir"))
    if request.param.endswith("paper"):
        return report_models.breast_cancer(method="scff")
    return report_models.breast_cancer() if request.param.startswith("breast") else report_models.digits()


def test_the_page_answers_every_question_in_order(fitted):
    model = fitted.model
    report = model.report(fitted.X_test, fitted.y_test)
    html = report.html
    assert_balanced(html)
    asked = [question for question in QUESTIONS if question != "What was read?" or model.method == "auto"]
    if all(reading.plan is None for reading in model.fitted_.readings):  # nothing was folded
        asked.remove("Was the Tail let in")
    places = [html.index(f'-h">{question}') for question in asked]
    assert places == sorted(places)
    assert html.count("<section") == html.count('<a href="#') == len(asked)
    # How good: the scores are scikit-learn's.
    proba = model.predict_proba(fitted.X_test)
    predicted = model.classes_[proba.argmax(axis=1)]
    assert value(html, "accuracy") == f"{accuracy_score(fitted.y_test, predicted):.1%}"
    assert value(html, "log_loss") == f"{log_loss(fitted.y_test, proba, labels=model.classes_):.3f}"
    np.testing.assert_array_equal(
        report.quality.confusion, confusion_matrix(fitted.y_test, predicted, labels=model.classes_)
    )
    assert 'data-figure="calibration"' in html
    assert 'data-figure="confusion"' in html
    binary = len(model.classes_) == 2
    assert 'data-figure="roc"' in html
    assert len(report.quality.roc) == (1 if binary else len(model.classes_))
    auc = roc_auc_score(fitted.y_test, proba[:, 1] if binary else proba, multi_class="ovr")
    assert value(html, "auc") == f"{auc:.3f}"
    # Which columns: every column with F, q and leaf.
    data, evidence = payload(html), model.column_evidence(shuffled=0)
    assert data["name"] == list(evidence.index)
    np.testing.assert_allclose(data["F"], evidence["F"], rtol=1e-6)
    np.testing.assert_allclose(data["q"], evidence["q"], rtol=1e-6)
    assert data["leaf"] == evidence["leaf"].tolist()
    np.testing.assert_allclose(
        [data["effect"][k] for k in data["leaf"] if k >= 0], evidence.loc[evidence["leaf"] >= 0, EFFECT], rtol=1e-6
    )
    # How folded: one block per leaf.
    subject = subject_of(model)
    leaves = subject.plan.core_leaves, subject.plan.tail_leaves
    blocks = sum(min(len(stratum), 54) for stratum in leaves)
    assert html.count("<g opacity") == html.count('width="93" height="58"') == blocks
    assert html.count("<rect") == blocks  # one frame each, and none behind it
    # Tail: every candidate with its six checks, the steps and the reason.
    decided = decision(subject)
    if decided is None:  # nothing that earned weight folds columns
        assert all(reading.plan is None for reading in model.fitted_.readings)
    else:
        assert decided.reason.replace("'", "&#x27;") in html
    if model.method == "scff":
        assert decided.gate is model.gate_
        assert model.gate_.candidates
    for candidate in decided.gate.candidates if decided else ():
        part = html.split(f'data-candidate="{candidate.name}"')[1].split("</table>")[0]
        assert part.count("<tr") == 7
        for pair in (candidate.fisher_a, candidate.fisher_b, candidate.nll_ab, candidate.nll_ba):
            assert f"<td>{significant(pair[0], 3)}</td><td>{significant(pair[1], 3)}</td>" in part
        assert f"<b>{candidate.alpha:.3f}</b>" in part
    # What it cost: every stage.
    for stage, seconds in model.seconds_.items():
        assert value(html, f"seconds-{stage}") == took(seconds)


def test_the_page_needs_nothing_from_elsewhere(fitted):
    html = fitted.model.report().html
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:,)""", html)
    assert not re.findall(r"@import|url\(|fetch\(|XMLHttpRequest", html)


def test_without_a_test_table_nothing_is_said_about_quality():
    report = report_models.digits().model.report()
    assert report.quality is None
    assert "No test table was given" in report.html
    assert 'data-figure="calibration"' not in report.html


def test_hostile_names_stay_text(tmp_path):
    rng = np.random.default_rng(0)
    y = np.array(["<i>no", "yes & so"])[np.arange(60) % 2]
    X = pd.DataFrame(rng.normal(size=(60, 3)) + (y == "<i>no")[:, None], columns=["</script><b>x", "a&b", "ü"])
    model = FoldedClassifier(backbone="nano").fit(X, y)
    html = write_report(model, tmp_path / "r.html", test=X.assign(t=y), target="t", title="<u>").read_text("utf-8")
    assert_balanced(html)
    for bad in ("<b>x", "<i>no", "<u>", "</script><b>"):
        assert bad not in html
    assert sorted(payload(html)["name"]) == sorted(X.columns)


def test_the_core_alone_is_scored_beside_a_tail_that_was_let_in():
    fitted = report_models.noisy(leaf_width=64, method="scff", tail="raw-residual")
    core = report_models.noisy(leaf_width=64, method="scff", tail="off")
    with_tail = assess(fitted.model, fitted.X_test, fitted.y_test)
    alone = assess(core.model, core.X_test, core.y_test)
    assert with_tail.core_log_loss == pytest.approx(alone.log_loss, abs=1e-6)
    assert with_tail.core_accuracy == alone.accuracy
    assert alone.core_log_loss is None
    html = make_report(fitted.model, test=fitted.X_test, target=fitted.y_test).html
    assert value(html, "core-log-loss") == f"{alone.log_loss:.3f}"
    gain = leave_leaves_out(subject_of(fitted.model)).tail_gain
    assert value(html, "hidden-change") == signed(-gain)


@pytest.mark.parametrize(("gain", "words"), [(0.2, "agree"), (-0.2, "disagree"), (0.001, "see no difference")])
def test_hidden_labels_say_no_more_than_they_saw(gain, words):
    model = report_models.noisy(leaf_width=64, method="scff", tail="raw-residual").model
    assert f"read as new ones {words}." in tail(subject_of(model), None, gain)


@pytest.mark.parametrize("method", ["native", "raw-core", "bounded-core", "mass-huber"])
def test_every_method_has_a_report(method):
    fitted = report_models.noisy(leaf_width=64, method=method)
    html = fitted.model.report(fitted.X_test, fitted.y_test).html
    assert_balanced(html)
    assert "nan" not in re.sub(r"<style>.*?</style>", "", html, flags=re.S).lower().replace("nano", "")


def test_test_rows_with_the_names_of_labelled_rows_are_pointed_out():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = pd.DataFrame(rng.normal(size=(40, 4)) + y[:, None], index=[f"S{i}" for i in range(40)], columns=list("abcd"))
    model = FoldedClassifier(backbone="nano", method="raw-core").fit(X[:30], y[:30])
    assert "have the names of labelled rows" not in model.report(X[30:], y[30:]).html
    assert "2 of the 12 test rows have the names of labelled rows (S28, S29)" in model.report(X[28:], y[28:]).html


def test_labels_read_from_a_file_as_text_are_matched():
    fitted = report_models.digits()
    a = assess(fitted.model, fitted.X_test, fitted.y_test)
    b = assess(fitted.model, fitted.X_test, fitted.y_test.astype(str))
    c = assess(fitted.model, fitted.X_test, fitted.y_test.astype(float))
    assert (a.accuracy, a.log_loss) == (b.accuracy, b.log_loss) == (c.accuracy, c.log_loss)


def test_columns_the_model_does_not_know_are_left_aside():
    fitted = report_models.digits()
    shuffled = fitted.X_test.assign(extra=1.0, label=fitted.y_test)
    shuffled = shuffled[sorted(shuffled.columns, reverse=True)]
    report = make_report(fitted.model, test=shuffled, target="label")
    assert report.quality.log_loss == assess(fitted.model, fitted.X_test, fitted.y_test).log_loss
    with pytest.raises(DataError, match="lacks the column 'pixel_0_0' that"):
        make_report(fitted.model, test=shuffled.drop(columns="pixel_0_0"), target="label")


def test_calibration_bins_hold_every_row_and_their_means():
    fitted = report_models.breast_cancer()
    quality = assess(fitted.model, fitted.X_test, fitted.y_test)
    given = fitted.model.predict_proba(fitted.X_test)[:, 1]
    came_true = fitted.y_test == fitted.model.classes_[1]
    rows = np.array([b.rows for b in quality.calibration])
    assert rows.sum() == len(given)
    assert np.ptp(rows) <= 1
    assert rows @ [b.given for b in quality.calibration] == pytest.approx(given.sum())
    assert rows @ [b.observed for b in quality.calibration] == pytest.approx(came_true.sum())
    assert quality.calibrated_class == fitted.model.classes_[1]
    low, high = quality.accuracy_interval
    assert low < quality.accuracy < high


@pytest.mark.parametrize(
    ("test", "target", "message"),
    [
        (pd.DataFrame({"a": [1.0]}), "label", "no column 'label'"),
        (np.zeros((2, 3)), "label", "no column 'label'"),
        (np.zeros((2, 3)), None, "needs its labels"),
        (None, "label", "no test table"),
    ],
)
def test_a_test_table_that_cannot_be_used_says_what_to_do(test, target, message):
    with pytest.raises(DataError, match=message):
        make_report(report_models.digits().model, test=test, target=target)


def test_unknown_labels_and_wrong_lengths_are_refused():
    fitted = report_models.digits()
    with pytest.raises(DataError, match="never seen"):
        assess(fitted.model, fitted.X_test, ["eleven"] * len(fitted.X_test))
    with pytest.raises(DataError, match="rows but there are"):
        assess(fitted.model, fitted.X_test, fitted.y_test[:-1])


def test_report_object_shows_and_saves_itself(tmp_path):
    report = report_models.digits().model.report()
    assert isinstance(report, Report)
    assert repr(report).startswith("Report(64 columns")
    assert report._repr_html_().startswith("<iframe")
    assert "<script" not in report._repr_html_()
    assert report.save(tmp_path / "r.html").read_text("utf-8") == report.html
    with pytest.raises(DataError, match="There is no directory"):
        report.save(tmp_path / "no" / "such" / "folder.html")


def test_few_rows_make_few_points():
    fitted = report_models.breast_cancer()
    for n, points in ((7, 1), (30, 2), (130, 10)):
        quality = assess(fitted.model, fitted.X_test[:n], fitted.y_test[:n])
        assert len(quality.calibration) == points
        html = fitted.model.report(fitted.X_test[:n], fitted.y_test[:n]).html
        assert ("too few for more" in html) == (points == 1)


def test_a_token_backbone_takes_its_tail_in_without_a_gate():
    model = copy.copy(report_models.noisy(leaf_width=64, method="scff").model)
    folded = object.__new__(FoldedTokens)  # what a report reads of it, without the package and weights it needs
    folded.gate = TailGate(0.0, None, "a token backbone folds its Tail into slots and has no gate")
    fitted = model.fitted_
    case, (reading,) = fitted.compiled()
    tokens = Reading(reading.choice, reading.answer, reading.shown, (folded,))
    model.fitted_ = replace(fitted, gates=((folded.gate,),), _compiled=(case, (tokens,)))
    report = model.report()
    assert_balanced(report.html)
    assert "folds the Tail into slots" in report.html
    assert "kept out" not in report.html
    assert report.columns["used"].all()
    assert report.columns[EFFECT].isna().all()


def test_nothing_private_of_a_model_is_read():
    for room in ("report", "serving", "cli"):  # a model file holds what nobody else may see
        for path in (Path(scff.__file__).parent / room).glob("*.py"):
            assert not re.findall(r"\b(?:model|clf|fitted_?|case|subject|reading)\._(?!_)", path.read_text()), path
