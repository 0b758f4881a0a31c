"""A folder of Parquet parts scored to the end although every run of it but the last is killed with -9.

    python benchmarks/scoring.py                 # 200 parts, 1 million rows x 200 columns, five kills, local processes
    python benchmarks/scoring.py --engine ray    # the same on Ray, where a worker is killed instead
    python benchmarks/scoring.py --parts 10000 --rows 10

The model is `nano` with ``method="raw-core"`` on 60 labelled rows, whose Core is 8 of the 200 columns: about 3,500 rows
for a second of one core, so that the default ends within ten minutes on two. What is checked at the end: every key is
there exactly once, probabilities are the model's own, and no worker added more than its share of the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset
import pyarrow.parquet as pq

from scff import FoldedClassifier
from scff.memory.budget import format_bytes, parse_bytes


def make(folder: Path, parts: int, rows: int, columns: int) -> None:
    """A model, and a table whose keys count through all parts."""
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(columns)]
    y = np.arange(60) % 2
    X = pd.DataFrame(rng.normal(size=(60, columns)).astype(np.float32), columns=names)
    X.iloc[:, :8] += 1.5 * y[:, None]
    FoldedClassifier("nano", method="raw-core").fit(X, y).save(folder / "model.scff")
    block = rng.normal(size=(rows, columns)).astype(np.float32)
    (folder / "in").mkdir()
    for i in range(parts):
        part = pd.DataFrame(np.roll(block, i, axis=0), columns=names).assign(key=np.arange(i * rows, (i + 1) * rows))
        target = folder / "in" / f"day={i % 7}" / f"part-{i:05d}.parquet"
        target.parent.mkdir(exist_ok=True)
        part.to_parquet(target, row_group_size=max(1, rows // 4), index=False)


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def added(pid: int) -> int:
    """Most memory that the processes below have had at one time, a reading; shared pages count once each."""
    total = 0
    for one in family(pid):
        try:
            status = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Pss:"))
    return total


def run(command: list[str], kill_after: int | None, victim: str | None = None) -> tuple[float, int, dict[str, Any]]:
    """Seconds, peak memory of all processes together, and what it said in the end: nothing if it was killed.

    It is killed, or one of its workers is, when so many parts have been written since it began.
    """
    started, before = time.monotonic(), written()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, added(process.pid))
        if kill_after is not None and written() - before >= kill_after:
            os.kill(process.pid if victim is None else worker(victim), signal.SIGKILL)
            if victim is None:
                process.wait()
                return time.monotonic() - started, peak, {}
            kill_after = None
        time.sleep(0.1)
    assert process.returncode == 0, f"exit code {process.returncode}"
    assert kill_after is None or victim is None, "nobody was killed"
    return time.monotonic() - started, peak, json.loads(process.stdout.read())  # JSON and nothing else


def written() -> int:
    """Parts that are there."""
    return len(list(Path("out").rglob("part-*.parquet")))


def worker(name: str) -> int:
    """One of Ray's actors, which call themselves by what they do."""
    waited = time.monotonic() + 120
    while time.monotonic() < waited:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if name in path.read_text():
                    return int(path.parent.name)
            except OSError:
                continue
        time.sleep(0.2)
    raise SystemExit(f"no process called {name} to kill")


def check(folder: Path, rows: int) -> None:
    """Every key exactly once, every part whole, and the model's own probabilities in one of them."""
    import scff

    out = pyarrow.dataset.dataset(folder / "out", partitioning="hive").to_table(columns=["key"])
    keys = np.sort(out.column("key").to_numpy())
    assert np.array_equal(keys, np.arange(rows)), "a key is missing or there twice"
    some = sorted((folder / "in").rglob("*.parquet"))[0]
    frame = pd.read_parquet(some, partitioning=None)
    model = scff.load(folder / "model.scff")
    got = pq.ParquetFile(folder / "out" / some.relative_to(folder / "in")).read().to_pandas()
    wanted = model.predict_proba(frame.drop(columns="key"))
    assert np.abs(got[["p_0", "p_1"]].to_numpy() - wanted).max() < 1e-5


def main() -> None:
    """Make, kill, go on, check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", type=int, default=200)
    parser.add_argument("--rows", type=int, default=5000, help="of a part")
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory-limit", default="1GiB")
    parser.add_argument("--folder", type=Path, default=Path("build/scoring"))
    asked = parser.parse_args()
    shutil.rmtree(asked.folder, ignore_errors=True)
    asked.folder.mkdir(parents=True)
    make(asked.folder, asked.parts, asked.rows, asked.columns)
    size = sum(part.stat().st_size for part in (asked.folder / "in").rglob("*.parquet"))
    print(f"{asked.parts} parts, {asked.parts * asked.rows:,} rows x {asked.columns} columns, {format_bytes(size)}")
    command = [sys.executable, "-m", "scff.cli.main", "predict", "model.scff", "in", "-o", "out", "--keep", "key"]
    command += ["--workers", str(asked.workers), "--memory-limit", asked.memory_limit, "--json"]
    command += ["--engine", asked.engine]
    os.chdir(asked.folder)
    random.seed(0)
    total, kills, peak = 0.0, 0, 0
    while asked.engine == "local" and kills < asked.kills:
        seconds, highest, said = run(command, random.randint(1, max(1, asked.parts // (asked.kills + 2))))
        total, peak = total + seconds, max(peak, highest)
        assert not said, "it ended before it could be killed"
        kills += 1
        print(f"killed after {seconds:.0f} s, {asked.parts - written()} parts to go", flush=True)
    victim = None if asked.engine == "local" else "_PartScorer"
    seconds, highest, said = run(command, None if victim is None else max(1, asked.parts // 4), victim)
    check(Path(), asked.parts * asked.rows)
    assert not said["failed"]
    share = parse_bytes(asked.memory_limit) // asked.workers
    assert 0 < said["peak_bytes"] <= share, (
        f"a worker added {format_bytes(said['peak_bytes'])} of {format_bytes(share)}"
    )
    out = {
        "kills": kills if victim is None else 1,
        "skipped_in_the_last_run": said["skipped"],
        "seconds": round(total + seconds, 1),
        "rows_per_second_in_the_last_run": round(said["rows"] / seconds),
        "peak_of_all_processes": format_bytes(max(peak, highest)),
        "added_by_a_worker_at_most": format_bytes(said["peak_bytes"]),
        "its_share_of_the_limit": format_bytes(share),
    }
    print(json.dumps(out))
    print("every key exactly once")


if __name__ == "__main__":
    main()
