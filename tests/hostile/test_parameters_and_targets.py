"""Constructor arguments and targets of both estimators: refused before a model is loaded, or meant as they are."""

from __future__ import annotations

import inspect
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.bad_inputs import SCALARS, N, bad_targets, good, good_targets, labels, numbers
from hostile.judging import refusal
from scff import FoldedClassifier, FoldedRegressor
from scff.errors import DataError, SCFFError
from scff.memory.budget import parse_bytes
from scff.tables.targets import class_labels, number_target

ESTIMATORS = [FoldedClassifier, FoldedRegressor]


class Reached(BaseException):
    """The weights would be loaded now: whatever was to be refused was not."""


@pytest.fixture
def no_weights(monkeypatch):
    """Loading a model is where these tests end."""

    def reached(*_, **__):
        raise Reached

    for module in ("classifier", "regressor"):
        monkeypatch.setattr(f"scff.estimators.{module}.load_backbone", reached)


def accepts(call) -> bool:
    """Whether a fit comes as far as the weights; a refusal is one sentence, and everything else fails."""
    try:
        refused = refusal(call)
    except Reached:
        return True
    assert refused is not None, "a fit without a model"
    return False


def arguments(kind):
    return [name for name in inspect.signature(kind.__init__).parameters if name not in ("self", "backbone")]


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in ESTIMATORS for name in arguments(kind)])
def test_every_argument_is_declared_and_checked(no_weights, kind, name, tally):
    X = numbers()
    for value in SCALARS:
        model = kind("nano", **{name: value})
        accepted = accepts(lambda model=model: model.fit(X, labels()))
        assert accepted == good(name, value), f"{name}={value!r} was {'accepted' if accepted else 'refused'}"
        tally("bad inputs: parameters", "served" if accepted else "refused")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_backbone_that_is_none_is_refused(kind, tally):
    X = numbers()
    for value in SCALARS:
        refused = refusal(lambda value=value: kind(value).fit(X, labels()))
        assert isinstance(refused, SCFFError), repr(value)
        tally("bad inputs: parameters", "refused")


@pytest.mark.parametrize("problem", bad_targets())
def test_a_target_of_no_classifier_is_refused(no_weights, problem, tally):
    y = bad_targets()[problem]
    assert not accepts(lambda: FoldedClassifier("nano").fit(numbers(), y))
    tally("bad inputs: targets", "refused")


NUMBERS_TOO = {"one class", "fractions", "one fraction", "single precision", "decimals", "huge integers"}


@pytest.mark.parametrize("problem", bad_targets())
def test_a_target_of_no_regressor_is_refused(no_weights, problem, tally):
    y = bad_targets()[problem]
    accepted = accepts(lambda: FoldedRegressor("nano").fit(numbers(), y))
    assert accepted == (problem in NUMBERS_TOO)
    tally("bad inputs: targets", "served" if accepted else "refused")


@pytest.mark.parametrize("form", good_targets())
def test_a_target_of_an_unusual_form_means_what_it_says(form, tally):
    y = good_targets()[form]
    codes, classes = class_labels(y, N)
    assert len(classes) == 2
    assert len(set(codes[labels() == 0])) == len(set(codes[labels() == 1])) == 1
    assert list(classes[codes]) == list(y)
    tally("bad inputs: targets", "served")


@pytest.mark.parametrize("problem", [p for p in bad_targets() if p not in ("none", "one class", "one word")])
def test_groups_that_are_none_are_refused(no_weights, problem, tally):
    groups = bad_targets()[problem]
    accepted = accepts(lambda: FoldedClassifier("nano").fit(numbers(), labels(), groups=groups))
    if problem in ("too short", "too long", "nan", "all nan", "a word", "sparse", "dicts", "a row", "two columns"):
        assert not accepted
    tally("bad inputs: targets", "served" if accepted else "refused")


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.complex_numbers(),
    st.datetimes(),
    st.lists(st.integers(), min_size=2, max_size=3),
    st.dictionaries(st.text(max_size=1), st.integers(), max_size=1),
)


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(st.lists(anything, min_size=2, max_size=5), st.sampled_from([list, np.array, pd.Series, pd.Index]))
def test_any_target_is_labels_or_a_sentence(values, form):
    try:
        y = form(values)
    except (ValueError, TypeError, OverflowError):
        return  # NumPy and pandas make nothing of it
    for read in (class_labels, number_target):
        if refusal(partial(read, y, len(values))) is None:
            answer = read(y, len(values))
            codes = answer[0] if read is class_labels else answer
            assert len(codes) == len(values)
            assert np.isfinite(codes).all()


SIZES = [
    "",
    " ",
    "GiB",
    "-1GiB",
    "1 XB",
    "1e3",
    "0",
    "0MB",
    "nan",
    "inf",
    "1,5GB",
    "1.5.5GB",
    "٣MB",
    "9" * 400,
    "1G i B",
]
SIZES += [0, -1, 0.5, float("nan"), float("inf"), -float("inf"), 10**30, "1\n\nGB;", "1GB\x00", "0x10", "1_000"]


@pytest.mark.parametrize("size", SIZES)
def test_a_size_that_is_none_is_refused(size, tally):
    assert isinstance(refusal(lambda: parse_bytes(size)), DataError)
    tally("bad inputs: parameters", "refused")
