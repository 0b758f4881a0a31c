"""Make every figure of README and documentation again: hours, resumable.

    python benchmarks/results.py --data FOLDER                    # everything
    python benchmarks/results.py --data FOLDER --only studies rivals
    python benchmarks/results.py --data FOLDER --only digests     # run nothing: do the pages speak of today's weights?

Each step is a command that goes on where it was interrupted. The last one fails if a page names a checkpoint that is
not the package's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from scff.bench.pages import stale_digests

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.rst")), *sorted((ROOT / "docs").glob("*.md"))]
RIVALS = ["auto/tabpfn-v1", "auto/nano", "lightgbm", "random-forest", "logistic", "logistic-inner"]


def steps(data: str, results: str) -> dict[str, list[list[str]]]:
    """Return the commands of every step, in order."""
    evaluation = ["evaluation.py", "--panel", data, "--results", results]
    rivals, figures = ["rivals.py", "--data", data], ROOT / "docs" / "figures"
    return {
        "studies": [
            [*evaluation, "--backbone", "tabpfn-v1", "--protocol", "paper"],
            [*evaluation, "--backbone", "nano", "--protocol", "rows-512", "--page", "results_nano.rst"],
        ],
        "hdlss": [[*rivals, "--hdlss", "--arms", *RIVALS[:2], "logistic", "logistic-plain", "random-forest"]],
        "rivals": [[*rivals, "--arms", *RIVALS, "--figure", f"{figures}/rivals.png"]],
        "width": [["width.py"]],
        "nano": [["nano_quality.py", "--data", data]],
        "tabpfn-v1": [["tabpfn_v1.py", data, "--out", "benchmarks/results/tabpfn_v1.csv"]],
        "digests": [],
    }


def stale() -> list[str]:
    """Return a sentence for every page that names a checkpoint which is not the package's."""
    found = {page: stale_digests(page.read_text(encoding="utf-8")) for page in PAGES}
    return [f"{page.relative_to(ROOT)} names {', '.join(some)}" for page, some in found.items() if some]


def main() -> None:
    """Run the chosen steps, then look at the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data", help="folder of tables, with hdlss in it")
    parser.add_argument("--results", default="bench-results", help="folder of the studies' records")
    parser.add_argument("--only", nargs="+", choices=list(steps("", "")))
    args = parser.parse_args()
    known = steps(args.data, args.results)
    for name in args.only or known:
        for script, *options in known[name]:
            print(f"{name}: python benchmarks/{script} {' '.join(options)}", flush=True)
            subprocess.run([sys.executable, str(ROOT / "benchmarks" / script), *options], check=True, cwd=ROOT)
    if told := stale():
        sys.exit("Not the package's weights: " + "; ".join(told))


if __name__ == "__main__":
    main()
