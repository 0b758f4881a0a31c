"""Take the two screenshots of the report: a desktop in light, a phone in dark.

python docs/figures/screenshots.py
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path

from scff.report import write_report

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))  # the same model and the same browser as in the tests
import browser
import report_models

HERE = Path(__file__).parent

if __name__ == "__main__":
    fitted = report_models.breast_cancer()
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(
            fitted.model,
            Path(folder) / "report.html",
            test=fitted.X_test,
            target=fitted.y_test,
            title="Breast cancer, widened to 495 columns",
        )
        for name, width, height, dark in (("light", 1200, 2500, False), ("dark", 430, 1900, True)):
            with browser.open_browser(width, height, dark=dark) as driver:
                browser.show(driver, page)
                clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
                shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
                (HERE / f"report-{name}.png").write_bytes(base64.b64decode(shot["data"]))
