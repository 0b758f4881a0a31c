"""How many views are read where the user leaves it open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import scff
from scff import FoldedClassifier
from scff.backbones.arithmetic import Arithmetic
from scff.backbones.spec import Limits
from scff.errors import DataError
from scff.trials.budget import FREE
from scff.trials.coded import Coded
from scff.trials.narrow import Digest, Frequencies
from scff.trials.presentations import Core, Paper
from scff.trials.reading import Choice
from scff.trials.views import views_within


def _case(per_cell: float, limits: Limits | None = None) -> Any:
    backbone = SimpleNamespace(spec=SimpleNamespace(limits=limits or Limits()))
    return SimpleNamespace(
        backbone=backbone,
        support=SimpleNamespace(n_rows=100, n_columns=1000),
        plan=SimpleNamespace(core=np.arange(20)),
        leaf_width=50,
        arithmetic=Arithmetic(per_cell, 0.0),
    )


def test_a_small_table_gets_eight_views_and_a_large_one_stays_at_one() -> None:
    core = [Choice(Core())]
    assert views_within(_case(FREE / 1e6), core) == 8
    assert views_within(_case(FREE), core) == 1


def test_views_are_paid_for_by_what_is_read() -> None:
    case = _case(FREE / (100 * 70 * 3.01))  # three passes over the Core's 20 columns and a leaf of 50
    assert views_within(case, [Choice(Core()), Choice(Digest()), Choice(Frequencies())]) == 3
    assert views_within(case, [Choice(Core())]) == 8
    assert views_within(case, [Choice(Paper("native"))]) == 1
    assert views_within(case, [Choice(Coded(Digest(), 10))]) == 1
    assert views_within(case, [Choice(Frequencies())]) == 1


def test_a_backbone_of_one_view_is_read_once() -> None:
    assert views_within(_case(1.0, Limits(views=1)), [Choice(Core())]) == 1


def test_open_views_are_those_of_the_number_they_come_to(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 30)) + y[:, None] * (np.arange(30) < 5)
    options = {"backbone": "nano", "method": "raw-core"}
    auto = FoldedClassifier(n_estimators="auto", **options).fit(X[:30], y[:30])
    n = auto.fitted_.settings.n_views
    assert n > 1
    told = FoldedClassifier(n_estimators=n, **options).fit(X[:30], y[:30])
    assert np.array_equal(auto.predict_proba(X[30:]), told.predict_proba(X[30:]))
    auto.save(tmp_path / "m.scff")
    again = scff.load(tmp_path / "m.scff")
    assert again.n_estimators == "auto"
    assert again.fitted_.settings == auto.fitted_.settings
    assert np.array_equal(again.predict_proba(X[30:]), auto.predict_proba(X[30:]))


@pytest.mark.parametrize("wrong", ["all", 0, 2.5, True])
def test_what_is_no_number_of_views_is_refused(wrong: Any) -> None:
    with pytest.raises(DataError, match="n_estimators"):
        FoldedClassifier(backbone="nano", n_estimators=wrong).fit(np.eye(4), [0, 1, 0, 1])
