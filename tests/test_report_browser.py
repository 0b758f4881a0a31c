"""The report in a real browser: what a person would do with it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import browser
import report_models
from scff.evaluate import evaluate
from scff.report import write_report
from scff.report.columns import EFFECT
from scff.report.marks import leaf_name
from scff.report.subject import Subject
from scff.report.svg import significant

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))

FIELDS = ("rank", "name", "F", "q", "way", "worth", "leaf", "effect")


@pytest.fixture(scope="module")
def driver():
    with browser.open_browser() as driver:
        yield driver


@pytest.fixture
def page(driver, tmp_path):
    """Open the report of a fitted model."""

    def open_(fitted, **kwargs):
        browser.show(driver, write_report(fitted.model, tmp_path / "report.html", **kwargs))
        return driver

    return open_


def rows(driver):
    script = (
        "return [...document.querySelectorAll('#grid tbody tr:not(.spacer)')]"
        ".map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return [dict(zip(FIELDS, cells, strict=True)) for cells in driver.execute_script(script)]


def search(driver, words):
    box = driver.find_element("id", "search")
    driver.execute_script("arguments[0].value = ''", box)
    box.send_keys(words) if words else driver.execute_script("arguments[0].dispatchEvent(new Event('input'))", box)
    return driver.find_element("id", "count").text


def click(driver, selector):
    button = driver.find_element("css selector", selector)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", button)
    button.click()


def worth(row):
    """The change of the loss and its noise as the page shows them."""
    change, noise = row["shuffle_loss_change"], row["shuffle_noise"]
    if np.isnan(change):
        return "–"
    return "0" if change == noise == 0 else f"{'−' if change < 0 else '+'}{abs(change):.3f} ± {noise:.3f}"


@pytest.mark.parametrize("which", ["breast_cancer", "digits", "noisy"])
def test_opens_without_a_complaint_and_shows_the_models_numbers(page, which):
    fitted = getattr(report_models, which)()
    driver = page(fitted, test=fitted.X_test, target=fitted.y_test)
    assert driver.get_log("browser") == []
    assert driver.execute_script("return document.documentElement.scrollWidth") == 1200
    accuracy = fitted.model.score(fitted.X_test, fitted.y_test)
    assert driver.find_element("css selector", "[data-value=accuracy]").text == f"{accuracy:.1%}"
    assert driver.find_element("css selector", "[data-value=core]").text == f"{len(fitted.model.plan_.core):,}"
    evidence, plan = fitted.model.column_evidence(), Subject.of(fitted.model.fitted_).plan
    shown = rows(driver)
    assert len(shown) >= 10
    for i, row in enumerate(shown):
        expected = evidence.iloc[i]
        assert row == {
            "rank": str(i + 1),
            "name": evidence.index[i],
            "F": significant(expected["F"], 3),
            "q": significant(expected["q"], 3),
            "way": f"{expected['high_in']} +{abs(expected['effect']):.2f}",
            "worth": worth(expected),
            "leaf": leaf_name(plan, expected["leaf"]) if expected["leaf"] >= 0 else expected["stratum"].capitalize(),
            "effect": significant(expected[EFFECT], 3),
        }


def test_search_and_strata(page):
    fitted = report_models.breast_cancer()
    driver = page(fitted)
    names = list(fitted.model.plan_.names)
    wanted = [name for name in names if "worst radius" in name and "error" in name]
    assert search(driver, "WORST radius error").startswith(
        f"{sum('error' in n and 'worst' in n and 'radius' in n for n in names)} of"
    )
    assert {row["name"] for row in rows(driver)} >= set(wanted[:3])
    assert search(driver, "no such column") == f"0 of {len(names)} columns"
    assert rows(driver) == []
    assert search(driver, "") == f"{len(names)} columns"
    click(driver, "[data-stratum=core]")
    assert driver.find_element("id", "count").text == f"{len(fitted.model.plan_.tail)} of {len(names)} columns"
    assert {row["leaf"].split()[0] for row in rows(driver)} == {"Tail"}


def test_sort_by_every_column_both_ways(page):
    fitted = report_models.noisy()
    driver = page(fitted)
    evidence = fitted.model.column_evidence()
    for key, column in (("F", "F"), ("q", "q"), ("worth", "shuffle_loss_change"), ("leaf", "leaf"), ("effect", EFFECT)):
        for _ in range(2):
            click(driver, f"th[data-key={key}] button")
            state = driver.find_element("css selector", f"th[data-key={key}]").get_attribute("aria-sort")
            nothing = evidence[column].fillna(-np.inf)
            values = nothing.loc[[row["name"] for row in rows(driver)]].to_numpy()
            expected = np.sort(nothing.to_numpy())
            expected = expected[::-1] if state == "descending" else expected
            np.testing.assert_array_equal(values, expected[: len(values)])
    click(driver, "th[data-key=name] button")
    shown = [row["name"] for row in rows(driver)]
    assert shown == sorted(evidence.index)[: len(shown)]


def test_scrolling_reaches_the_last_row_with_few_rows_alive(page):
    fitted = report_models.noisy()
    driver = page(fitted)
    driver.execute_async_script(
        "const done = arguments[0], g = document.getElementById('grid'); g.scrollTop = g.scrollHeight;"
        "requestAnimationFrame(() => requestAnimationFrame(done))"
    )
    shown = rows(driver)
    assert shown[-1]["name"] == fitted.model.column_evidence().index[-1]
    assert len(shown) < 60


BEYOND = """
const inside = '.wide, .confusion, #grid, nav';  // these scroll by themselves
return [...document.querySelectorAll('body *')].filter(e => {
  const r = e.getBoundingClientRect();
  return r.width > 0 && r.right > innerWidth + 1 && !e.closest(inside);
}).map(e => e.tagName + '.' + e.className)
"""


@pytest.mark.parametrize("width", [390, 900, 1400])
def test_long_names_stay_inside_the_page_in_dark_too(tmp_path, width):
    example = report_models.long_names()
    path = write_report(example.model, tmp_path / "report.html", test=example.X_test, target=example.y_test)
    background = "return getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)"
    with browser.open_browser(width, 800, dark=True) as phone:
        browser.show(phone, path)
        assert phone.get_log("browser") == []
        assert max(phone.execute_script(background)) < 60
        assert phone.execute_script("return document.documentElement.scrollWidth") == width
        assert phone.execute_script(BEYOND) == []


def test_a_phone_shows_q_direction_and_leaf_without_scrolling(tmp_path):
    path = write_report(report_models.long_names().model, tmp_path / "report.html")
    seen = (
        "const box = document.getElementById('grid').getBoundingClientRect();"
        "return [...document.querySelectorAll('#grid tbody tr:not(.spacer) td')].slice(0, 8)"
        ".filter(e => e.offsetParent !== null).map(e => e.getBoundingClientRect().right <= box.right + 1)"
    )
    with browser.open_browser(390, 800) as phone:
        browser.show(phone, path)
        assert phone.execute_script(seen) == [True] * 4


@pytest.mark.parametrize("width", [390, 900, 1400])
def test_the_page_of_an_evaluation_stays_inside_the_window(tmp_path, width):
    example = report_models.long_names()
    X, y = example.X_test, np.asarray(example.y_test)
    found = evaluate(X, y, estimator=GaussianNB(), folds=3, repeats=2, baselines=["logistic", "majority"])
    path = found.save_html(tmp_path / "evaluation.html")
    with browser.open_browser(width, 800, dark=width == 900) as driver:
        browser.show(driver, path)
        assert driver.get_log("browser") == []
        assert driver.execute_script("return document.documentElement.scrollWidth") == width
        assert driver.execute_script(BEYOND) == []
        shown = driver.find_element("css selector", "[data-value=auc]").text
        assert shown == f"{found.scores['scff']['auc'].value:.3f}"


@pytest.mark.parametrize("width", [390, 900, 1400])
def test_the_checks_of_the_tail_fit_and_no_number_is_over_another(tmp_path, width):
    example = report_models.noisy(leaf_width=64, method="scff", tail="raw-residual")
    path = write_report(example.model, tmp_path / "report.html", test=example.X_test, target=example.y_test)
    cut = "return [...document.querySelectorAll('.candidate .wide')].map(e => e.scrollWidth - e.clientWidth)"
    over = (
        "const boxes = [...document.querySelectorAll('[data-figure=calibration] [data-rows]')]"
        ".map(e => e.getBoundingClientRect());"
        "return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b => a.left < b.right - 1 && b.left < a.right - 1"
        " && a.top < b.bottom - 3 && b.top < a.bottom - 3)).length"
    )
    with browser.open_browser(width, 800) as driver:
        browser.show(driver, path)
        assert driver.get_log("browser") == []
        tables = driver.execute_script(cut)
        assert tables
        assert max(tables) <= 0
        assert driver.execute_script(over) == 0


# Text against what is behind it, as the eye gets it: colours and opacities of all that lies between (WCAG 2, level AA).
FAINT = """
const linear = v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
const light = c => .2126 * linear(c[0]) + .7152 * linear(c[1]) + .0722 * linear(c[2]);
const canvas = document.createElement("canvas"); canvas.width = canvas.height = 1;
const pen = canvas.getContext("2d", {willReadFrequently: true});
const rgba = s => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = s; pen.fillRect(0, 0, 1, 1);
  const d = pen.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
const over = (a, b, o) => [0, 1, 2].map(i => a[i] * a[3] * o + b[i] * (1 - a[3] * o));
const up = e => { const all = []; for (; e; e = e.parentElement) all.push(getComputedStyle(e)); return all; };
return [...document.querySelectorAll("body *")].filter(e => {
  const words = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()), box = e.getBoundingClientRect();
  return words && box.width && box.height && !e.closest("script,style,noscript,title,.skip");
}).map(e => {
  const around = up(e), own = around[0], opacity = around.reduce((o, s) => o * s.opacity, 1);
  const ground = around.reduceRight((c, s) => over(rgba(s.backgroundColor), c, 1), [255, 255, 255]);
  const ink = light(over(rgba(e instanceof SVGElement ? own.fill : own.color), ground, opacity)), paper = light(ground);
  const size = parseFloat(own.fontSize), large = size >= 24 || (size >= 18.6 && own.fontWeight >= 600);
  const ratio = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
  return ratio < (large ? 3 : 4.5) ? `${e.tagName} ${e.textContent.trim().slice(0, 30)} ${ratio.toFixed(2)}` : "";
}).filter(Boolean)
"""


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_can_be_read_against_what_is_behind_it(tmp_path, dark):
    tail = report_models.noisy(leaf_width=64, method="scff", tail="raw-residual")
    for example in (tail, report_models.long_names()):
        path = write_report(example.model, tmp_path / "report.html", test=example.X_test, target=example.y_test)
        with browser.open_browser(1200, 900, dark=dark) as driver:
            browser.show(driver, path)
            assert driver.execute_script(FAINT) == []


@pytest.mark.parametrize("width", [390, 1400])
def test_a_long_name_keeps_its_end_where_there_is_no_room(tmp_path, width):
    path = write_report(report_models.long_names().model, tmp_path / "report.html")
    seen = """
    return [...document.querySelectorAll('.ends')].filter(e => e.offsetParent).map(e => {
      const box = e.parentElement.getBoundingClientRect(), end = e.lastChild.getBoundingClientRect();
      return end.width > 0 && end.left >= box.left - 1 && end.right <= box.right + 1;
    })
    """
    with browser.open_browser(width, 800) as driver:
        browser.show(driver, path)
        found = driver.execute_script(seen)
        assert len(found) > 20  # of the bars, and of the table
        assert all(found)


def test_few_columns_have_a_small_table(page):
    driver = page(report_models.narrow())
    high = "const g = document.getElementById('grid'); return [g.clientHeight, g.scrollHeight]"
    shown, all_ = driver.execute_script(high)
    assert shown >= all_ - 1  # nothing to scroll
    assert shown < 200
    ticks = "return [...document.querySelectorAll('[data-figure=evidence] .tick')].map(e => e.textContent)"
    assert not [tick for tick in driver.execute_script(ticks) if tick in ("1.5", "2.5")]  # half a column


def test_printing_shows_rows_without_the_scroll_box(page):
    driver = page(report_models.noisy())
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert len(rows(driver)) == 60
    driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert len(rows(driver)) < 40
