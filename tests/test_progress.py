"""How far long work is: a bar with the time to go for whoever watches, nothing for anybody else."""

from __future__ import annotations

import numpy as np
import pytest

from scff import FoldedClassifier, progress
from scff.progress import Steps


@pytest.fixture
def watched(monkeypatch):
    """Every bar that is made, shown from the first moment."""
    made = []

    class Seen(Steps):
        def __init__(self, label, expected=0.0, *, shown):
            super().__init__(label, expected, shown=shown)
            self.label, self.shown, self.shares = label, shown, []
            made.append(self)

        def done(self, size=1.0):
            super().done(size)
            self.shares.append(self.share)

    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    for room in ("trials.contest", "estimators.classifier", "fold.encode", "evaluate.run"):
        monkeypatch.setattr(f"scff.{room}.Steps", Seen)
    return made


def table(n=40, d=60):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return rng.normal(size=(n, d)) + 1.2 * (np.arange(d) < 6) * y[:, None], y


def test_a_bar_says_the_share_and_the_time_to_go_and_is_gone_afterwards(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with Steps("leaves", 4, shown=True) as steps:
        steps._bar.mininterval = 0
        for _ in steps.over(range(3)):
            pass
    shown = capsys.readouterr().err
    assert "leaves  75 %" in shown
    assert "to go" in shown
    assert shown.split("\r")[-1].strip() == ""
    with Steps("leaves", 4, shown=False) as steps:
        steps.done()
    assert capsys.readouterr().err == ""


def test_a_bar_never_goes_back_and_never_beyond_its_end():
    with Steps("leaves", 2, shown=False) as steps:
        shares = []
        for more in (0, 10, -10, 0):
            steps.expect(more)
            steps.done()
            shares.append(steps.share)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_fit_counts_its_trials_and_its_readings(watched):
    X, y = table()
    FoldedClassifier("nano", verbose=1).fit(X, y)
    asked, *rest = [bar for bar in watched if bar.label == "asking held-back rows"]
    assert not rest
    assert asked.shown
    assert asked.shares[-1] == pytest.approx(1.0)
    assert len(asked.shares) > 40  # every alternative with every split
    # A pass of the model counts, what needs none hardly does.
    sizes = np.diff([0.0, *asked.shares])
    assert sizes.max() == pytest.approx(20 * sizes.min(), rel=1e-6)
    (read,) = [bar for bar in watched if bar.label == "reading the table"]
    assert read.shares[-1] == 1.0


def test_nobody_is_shown_anything_who_did_not_ask(watched, capsys):
    X, y = table()
    FoldedClassifier("nano").fit(X, y).predict(X)
    assert watched
    assert not any(bar.shown for bar in watched)
    assert capsys.readouterr().err == ""


def test_an_evaluation_counts_its_fits(watched):
    from sklearn.naive_bayes import GaussianNB

    from scff.evaluate import evaluate

    X, y = table()
    evaluate(X, y, estimator=GaussianNB(), folds=3, repeats=1, baselines=["majority"], verbose=1)
    (bar,) = [bar for bar in watched if bar.label == "the first fold"]
    np.testing.assert_allclose(bar.shares, np.arange(1, 7) / 6)
