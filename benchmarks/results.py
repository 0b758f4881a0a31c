"""Run the benchmarks behind the figures of README and documentation. What it does not run is in `NOT_MADE`.

    python benchmarks/results.py --data FOLDER                    # everything; what is recorded is not run again
    python benchmarks/results.py --data FOLDER --again            # hours: by the present code, whatever is recorded
    python benchmarks/results.py --data FOLDER --only studies rivals
    python benchmarks/results.py --data FOLDER --only digests     # run nothing: do the pages speak of today's weights?

Steps that record (``published``, ``hdlss``, ``studies``, ``rivals``, ``numbers``, ``nano``) start from the records in
``benchmarks/results`` and run what is missing there. With ``--again`` they run all that other code than the present
recorded, and go on where they were interrupted. The other steps measure anew every time.
``studies`` writes the tables of its two pages, ``rivals`` and ``figures`` draw; all other figures are read off what is
printed. The last step fails if a page names a checkpoint that is not the package's.
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
MANY = ["auto/tabpfn-v1", "auto/nano", "logistic", "lightgbm"]

#: Scripts behind figures of README and documentation that no step runs, and why.
NOT_MADE = {
    "benchmarks/nano_speed.py": "needs the sources of another checkout to compare with",
    "benchmarks/r_tables.py": "loads R packages from the network",
    "benchmarks/report_browser.py": "needs Chromium",
    "benchmarks/tabpfn_v1_parity.py": "needs an environment of its own: make parity-tabpfn-v1",
    "benchmarks/unchanged.py": "compares two states of the code",
    "docs/figures/screenshots.py": "needs Chromium",
}


def steps(data: str, results: str, again: bool = False) -> dict[str, list[list[str]]]:
    """Return the commands of every step, in order."""
    anew = ["--again"] if again else []
    evaluation = ["benchmarks/evaluation.py", *anew, "--panel", data, "--results", results]
    rivals, figures = ["benchmarks/rivals.py", *anew, "--data", data], ROOT / "docs" / "figures"
    hdlss = ["-m", "scff.bench", "run", "hdlss", "--results", results, "--reuse", "present" if again else "yes"]
    long = [*hdlss, "--panel", data, "--arms", "native,scff,auto", "--datasets"]
    width = ["benchmarks/width.py", "--model", "nano", "--arms", "auto", "scff", "native"]
    v1 = f"{ROOT}/benchmarks/results/tabpfn_v1"
    return {
        "published": [
            [*hdlss, "--panel", f"{data}/hdlss", "--arms", "native,scff", "--backbone", "tabpfn-v1"],
            [*long, "skf_madelon,skf_BASEHOCK", "--backbone", "tabpfn-v1"],
            [*long, "skf_madelon", "--backbone", "nano"],
        ],
        "hdlss": [
            [*rivals, "--hdlss", "--arms", *RIVALS[:2], "logistic", "logistic-plain", "random-forest"],
            [*rivals, "--hdlss", "--arms", "geneicl", "native/geneicl", "scff/geneicl", "auto/geneicl"],
        ],
        "studies": [
            [*evaluation, "--backbone", "tabpfn-v1", "--protocol", "paper"],
            [*evaluation, "--backbone", "nano", "--protocol", "rows-512", "--page", "results_nano.rst"],
        ],
        "rivals": [
            [*rivals, "--arms", *RIVALS, "scff/tabpfn-v1", "--figure", f"{figures}/rivals.png"],
            [*rivals, "--rows", "64"],
            [*rivals, "--rows", "256", "512", "--seeds", "2"],
            [*rivals, "--many", "--rows", "256", "--seeds", "0", "--arms", *MANY],
        ],
        "tabpfn-v1": [
            ["benchmarks/tabpfn_v1.py", data, "--out", f"{v1}.csv"],
            ["benchmarks/tabpfn_v1_madeline.py", f"{data}/madeline.parquet", "--out", f"{v1}_madeline.csv"],
        ],
        "numbers": [["benchmarks/of_numbers.py", *anew, f"{data}/regression", "--genes", f"{data}/hdlss"]],
        "nano": [["benchmarks/nano_quality.py", *anew, "--data", data]],
        "width": [
            [*width, "--rows", "512", "--queries", "256", "--columns", "1000", "--threads", "1", "0"],
            [*width, "--rows", "2048", "--queries", "1024", "--columns", "1000", "--threads", "1"],
            [*width, "--rows", "10000", "--queries", "1024", "--columns", "500", "--threads", "1"],
            ["benchmarks/width.py"],
        ],
        "asking": [["benchmarks/asking.py", "--columns", "2048", "8192"]],
        "leaves": [
            ["benchmarks/roofline.py", "--repeats", "1"],
            ["benchmarks/blocks.py"],
            ["benchmarks/threads.py"],
            ["benchmarks/routing.py"],
        ],
        "large": [
            ["benchmarks/very_wide.py", "--source", "parquet"],
            ["benchmarks/scoring.py"],
            ["benchmarks/sparse_cells.py"],
        ],
        "commands": [
            ["benchmarks/start.py"],
            ["benchmarks/load.py", "--repeats", "1"],
            ["benchmarks/honest_estimate.py"],
            ["benchmarks/column_effects.py"],
        ],
        "figures": [["docs/figures/draw.py"]],
        "reliability": [["-m", "pytest", "-q", "tests/hostile", "--hostile", "--figures", "docs/reliability.csv"]],
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
    parser.add_argument("--again", action="store_true", help="run again what other code than the present recorded")
    args = parser.parse_args()
    known = steps(args.data, args.results, args.again)
    if {"published", "studies"} & set(args.only or known):
        from evaluation import unpack

        unpack(ROOT / args.results)  # before anything runs that these records would spare
    for name in args.only or known:
        for command in known[name]:
            print(f"{name}: python {' '.join(command)}", flush=True)
            subprocess.run([sys.executable, *command], check=True, cwd=ROOT)
    if told := stale():
        sys.exit("Not the package's weights: " + "; ".join(told))


if __name__ == "__main__":
    main()
