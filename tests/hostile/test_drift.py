"""Columns that come back as another type, labels that are nearly the same, units that are too small: told, or meant."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hostile.judging import refusal
from scff import FoldedClassifier
from scff.errors import DataError, DataWarning
from scff.tables.targets import class_labels

N = 24
Y = np.arange(N) % 2
CODES = np.where(np.arange(N) % 5, 1 + Y, 3)
WORDS = pd.Series(CODES).astype(str)
X = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 2)), columns=["a", "b"])


def fitted(column):
    return FoldedClassifier("nano", method="raw-core").fit(X.assign(k=column), Y)


@pytest.mark.parametrize("form", [WORDS, pd.Categorical(WORDS), CODES * 1.0, WORDS + ".0", pd.Categorical(CODES)])
def test_codes_of_categories_are_known_again_as_text(form, tally):
    model = fitted(pd.Categorical(CODES))
    expected = model.predict_proba(X.assign(k=pd.Categorical(CODES)))
    np.testing.assert_array_equal(model.predict_proba(X.assign(k=form)), expected)
    tally("types that drift", "served")


@pytest.mark.parametrize(
    ("known", "now"),
    [
        (pd.Categorical(CODES), WORDS + "x"),
        (pd.Categorical(CODES), pd.Categorical(WORDS + "x")),
        (WORDS, pd.Categorical(CODES)),
        (WORDS, CODES),
        (pd.Categorical(WORDS), pd.Categorical(CODES)),
    ],
)
def test_another_kind_of_label_is_refused(known, now, tally):
    model = fitted(known)
    assert refusal(lambda: model.predict(X.assign(k=now))) is not None
    tally("types that drift", "refused")


@pytest.mark.parametrize(
    "labels",
    [["a", "a ", "b"], ["a", "\u00a0a", "b"], ["a b", "a  b", "c"], [2.0**63, 2.0**63 + 4096, -1.0], [2**63, -1, 1]],
)
def test_classes_that_nobody_can_tell_apart_are_refused(labels, tally):
    assert refusal(lambda: class_labels(labels, 3)) is not None
    tally("labels", "refused")


@pytest.mark.parametrize("labels", [["", "x"], ["a", "A"], [2**62, 2**62 + 1], [-0.0, 1.0], ["nan", "None"]])
def test_classes_that_differ_stay_classes(labels, tally):
    assert len(class_labels(labels, 2)[1]) == 2
    tally("labels", "served")


def test_records_and_complex_numbers_are_told_what_to_do(tally):
    for table, words in (
        (X.to_records(index=False), "pandas.DataFrame"),
        (X.to_numpy().astype(complex), "Complex data not supported"),
        (sparse.csr_array(X.to_numpy().astype(complex)), "imaginary parts"),
    ):
        with pytest.raises(DataError, match=words) as told:
            FoldedClassifier("nano", method="raw-core").fit(table, Y)
        assert len(str(told.value)) < 120
        tally("types that drift", "refused")


def test_a_unit_so_small_that_models_see_no_difference_is_told(tally):
    told = X.assign(a=X["a"] + 3 * Y)
    with pytest.warns(DataWarning, match="column 'a' varies by less than"):
        FoldedClassifier("nano", method="raw-core").fit(told * 1e-9, Y)
    model = FoldedClassifier("nano", method="raw-core").fit(told * 1e-3, Y)
    assert not [flag for flag in model.fitted_.flags if flag.kind == "unit"]
    tally("types that drift", "served", 2)
