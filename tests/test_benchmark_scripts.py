"""`make results`: what is recorded is spared, and run again where that is asked."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench_tools import record
from scff.bench.records import RecordStore
from scff.bench.worker import source_hash

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
GENES = ("ALLAML", "Prostate_GE", "colon", "leukemia")


@pytest.fixture
def scripts(monkeypatch):
    """The scripts as they find each other."""
    monkeypatch.syspath_prepend(BENCHMARKS)


def option(command, name, default=None):
    return command[command.index(name) + 1] if name in command else default


def test_the_published_step_asks_for_what_is_recorded_and_nothing_else(scripts):
    import results

    asked = set()
    for command in results.steps("data", "there")["published"]:
        backbone = option(command, "--backbone")
        for table in option(command, "--datasets", ",".join(GENES)).split(","):
            asked |= {(table, backbone, arm) for arm in option(command, "--arms").split(",")}
    lines = (BENCHMARKS / "results" / "studies.jsonl").read_text().splitlines()
    keys = [key for key in (json.loads(line)["key"] for line in lines) if key["protocol"] == "tabpfn-wide"]
    assert asked == {(key["dataset"], key["backbone"], key["arm"]) for key in keys}


def test_again_reaches_every_step_that_records(scripts):
    import results

    recording = ("published", "hdlss", "studies", "rivals", "numbers", "nano")
    for again in (False, True):
        known = results.steps("data", "there", again)
        for command in (one for name in recording for one in known[name]):
            assert ("--again" in command or option(command, "--reuse") == "present") is again, command
    for script in ("evaluation", "rivals", "of_numbers", "nano_quality"):
        said = subprocess.run([sys.executable, BENCHMARKS / f"{script}.py", "--help"], capture_output=True, text=True)
        assert "--again" in said.stdout, said.stderr


def test_records_of_the_repository_are_there_before_anything_runs(scripts, tmp_path, monkeypatch):
    import evaluation
    import results

    packed, seen = tmp_path / "studies.jsonl", []
    packed.write_text(json.dumps(json.loads(record("scff").to_json())) + "\n")
    monkeypatch.setattr(evaluation, "RECORDS", packed)
    monkeypatch.setattr(results, "stale", list)
    monkeypatch.setattr(
        results.subprocess, "run", lambda *_, **__: seen.append(len(list(RecordStore(tmp_path / "there").all())))
    )
    monkeypatch.setattr(sys, "argv", ["results.py", "--results", str(tmp_path / "there"), "--only", "published"])
    results.main()
    assert seen == [1, 1, 1]


def test_rivals_of_other_code_are_run_again_where_that_is_asked(scripts):
    from rivals import outdated, versions

    said = versions("lightgbm")
    assert said["source"] == source_hash()
    assert "lightgbm" in said
    earlier, now = {"versions": {"python": "3"}}, {"versions": said}
    asked = argparse.Namespace(again=True, retry=False)
    assert outdated(earlier, asked)
    assert not outdated(now, asked)
    assert not outdated(earlier, argparse.Namespace(again=False, retry=True))
    assert outdated({**now, "error": "no"}, argparse.Namespace(again=False, retry=True))
