"""How long commands take that have nothing to compute: user CPU seconds, each of a fresh process, the median of five.

python benchmarks/start.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile

COMMANDS = (
    "--help",
    "backbones",
    "fit missing.csv -t y -o m",
    "plan missing.csv -t y",
    "evaluate missing.csv -t y",
    "predict missing.scff missing.csv -o p.csv",
    "report missing.scff -o r.html",
)
BOUND = 0.5


def user_seconds(command: str, folder: str) -> float:
    """User time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    words = [sys.executable, "-m", "scff.cli.main", *command.split()]
    subprocess.run(words, cwd=folder, capture_output=True, check=False)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            user_seconds(command, folder)  # files are read and compiled once
            seconds = statistics.median(user_seconds(command, folder) for _ in range(5))
            verdict = "" if seconds <= BOUND else f"  more than {BOUND} s"
            print(f"scff {command:<44}{seconds:5.2f} s{verdict}")
