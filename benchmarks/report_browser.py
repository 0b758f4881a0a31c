"""How a report of 10,000 columns behaves in Chromium, against one of 100.

    python benchmarks/report_browser.py

Prints size, time until the page is interactive and the latency of search and sort, each the median of several page
loads, and the ratio between the two reports. Exits with 1 if the large one is over 3 MB or needs more than 2 seconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from scff import FoldedClassifier
from scff.report import write_report

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the browser is started as the tests start it
import browser

MOST_BYTES, MOST_SECONDS = 3_000_000, 2.0

# Time of one interaction until the next frame is drawn, as a person would see it.
_TIMED = """
const done = arguments[arguments.length - 1], started = performance.now();
%s
requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
"""
_SEARCH = "const b = document.getElementById('search'); b.value = '77'; b.dispatchEvent(new Event('input'));"
_SORT = "document.querySelector('th[data-key=name] button').click();"
_SCROLL = "const g = document.getElementById('grid'); g.scrollTop = g.scrollHeight / 2;"


def make(n_columns: int, folder: Path) -> Path:
    """A report on a table of noise with some signal, with names as long as those of real probes."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.normal(size=(80, n_columns))
    X[:, : n_columns // 20] += y[:, None]
    frame = pd.DataFrame(X, columns=[f"ENSG{j:011d}_expression" for j in range(n_columns)])
    model = FoldedClassifier(backbone="nano").fit(frame.iloc[:60], y[:60])
    return write_report(model, folder / f"{n_columns}.html", test=frame.iloc[60:], target=y[60:])


def measure(path: Path, repeats: int) -> dict[str, float]:
    """Medians over page loads in fresh browsers' tabs."""
    found: dict[str, list[float]] = {"interactive, s": [], "search, ms": [], "sort by name, ms": [], "scroll, ms": []}
    with browser.open_browser() as driver:
        for _ in range(repeats):
            driver.get("about:blank")
            browser.show(driver, path)
            found["interactive, s"].append(
                int(driver.execute_script("return document.documentElement.dataset.ready")) / 1000
            )
            for key, script in (("search, ms", _SEARCH), ("sort by name, ms", _SORT), ("scroll, ms", _SCROLL)):
                found[key].append(driver.execute_async_script(_TIMED % script))
        complaints = driver.get_log("browser")
    if complaints:
        raise SystemExit(f"the page complains: {complaints}")
    return {"size, MB": path.stat().st_size / 1e6} | {key: statistics.median(values) for key, values in found.items()}


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if browser.missing():
        raise SystemExit(browser.missing())
    with tempfile.TemporaryDirectory() as folder:
        small, large = (measure(make(n, Path(folder)), options.repeats) for n in (100, options.columns))
    print(f"{'':<20}{'100 columns':>14}{f'{options.columns:,} columns':>18}{'ratio':>8}")
    for key in small:
        print(f"{key:<20}{small[key]:>14.3f}{large[key]:>18.3f}{large[key] / small[key]:>8.2f}")
    return int(large["size, MB"] > MOST_BYTES / 1e6 or large["interactive, s"] > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
