from __future__ import annotations

import builtins
import subprocess
import sys
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest

import report_models
from scff import compile_plan
from scff.errors import MissingDependency
from scff.gate.decide import decide
from scff.report.checks import checks, verdict

mpl.use("Agg")


def make_gate(helpful=True):
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    signal = 3 * y[:, None] if helpful else 0
    return decide(rng.normal(size=(80, 4)), rng.normal(size=(80, 4)) + signal, y, n_tail_leaves=3)


class Balanced(HTMLParser):
    """Fails on a tag that is closed but was not open, or the other way round."""

    VOID = frozenset({"meta", "link", "input", "col", "br", "rect", "path", "circle"})

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def assert_balanced(html):
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []


def test_plan_plot_shows_the_ranked_evidence():
    plan = report_models.noisy().model.plan_
    display = plan.plot()
    np.testing.assert_allclose(display.line_.get_ydata(), np.maximum(np.sort(plan.f)[::-1], 1e-2))
    assert display.ax_.figure is display.figure_
    again = plan.plot(display.ax_, color="red")
    assert again.ax_ is display.ax_
    assert again.line_.get_color() == "red"


def test_gate_plot_has_one_bar_per_check():
    gate = make_gate()
    display = gate.plot()
    assert [len(bars) for bars in display.bars_] == [6, 6]
    widths = [bar.get_width() for bar in display.bars_[0]]
    np.testing.assert_allclose(widths, [100 * check.relative for check in checks(gate.candidates[0], gate)])


def test_gate_without_candidates_plots_its_reason():
    gate = report_models.digits(method="scff").model.gate_
    display = gate.plot()
    assert display.bars_ == []
    assert display.ax_.texts[0].get_text() == gate.reason


@pytest.mark.parametrize("routing", ["anova", "random"])
def test_plan_html_names_the_strongest_columns(routing):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 50)) + (np.arange(50) < 5) * y[:, None] * 3
    plan = compile_plan(X, y, leaf_width=16, routing=routing, names=[f"<b>{j}" for j in range(50)])
    html = plan._repr_html_()
    assert_balanced(html)
    assert "<b>" not in html
    assert f"&lt;b&gt;{plan.core[0]}" in html
    plan.plot()


def test_perfect_separation_can_be_drawn():
    y = np.arange(20) % 2
    X = np.random.default_rng(0).normal(size=(20, 30))
    X[:, 3] = y
    plan = compile_plan(X, y)
    assert np.isinf(plan.f[3])
    assert np.isfinite(plan.plot().line_.get_ydata()).all()
    assert "nan" not in plan._repr_html_()


@pytest.mark.parametrize("helpful", [True, False])
def test_gate_html_and_verdicts(helpful):
    gate = make_gate(helpful)
    html = gate._repr_html_()
    assert_balanced(html)
    for candidate in gate.candidates:
        sentence = verdict(candidate, gate)
        assert sentence.startswith("Passed" if candidate.passed else "Failed")
        rows = checks(candidate, gate)
        assert all(row.counts for row in rows)
        assert candidate.passed == (candidate.alpha > 0 and all(row.passed for row in rows))


def test_a_single_tail_leaf_asks_for_fisher_alone():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    gate = decide(rng.normal(size=(80, 4)), rng.normal(size=(80, 4)) + 3 * y[:, None], y, n_tail_leaves=1)
    asked = {row.name for row in checks(gate.candidates[0], gate) if row.counts}
    assert asked == {"Fisher separation"}


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingDependency, match=r"pip install matplotlib"):
        make_gate().plot()


def test_drawing_a_plan_needs_no_torch():
    code = (
        "import sys, numpy as np; from scff import compile_plan; "
        "plan = compile_plan(np.random.default_rng(0).normal(size=(20, 9)), np.arange(20) % 2); "
        "plan._repr_html_(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
