"""Runs: paired, resumable, safe against kill -9, corruption, company and query labels."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bench_tools import write_panel
from scff.bench import jobs as jobs_module
from scff.bench.cli import app
from scff.bench.collect import collect
from scff.bench.equal_memory import matched_pairs
from scff.bench.folds import get_protocol
from scff.bench.jobs import RunSettings, backbone_name, checkpoint_of
from scff.bench.panels import load_panel
from scff.bench.records import CorruptRecord, Record, RecordStore
from scff.bench.rendering import study_tables
from scff.bench.results import Results, peak_of
from scff.bench.runner import run_jobs
from scff.bench.studies import Study, get_study
from scff.bench.variants import PLAIN
from scff.bench.worker import ArmResult
from scff.errors import DataError

QUICK = get_protocol("quick")
PAIR = Study("pair", "", "", "all", ("native", "scff"), ((PLAIN, ("native", "scff")),))
CHEAP = Study("cheap", "", "", "all", (), ((PLAIN, ("logistic", "random-forest")),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_panel(tmp_path_factory.mktemp("panel"))


@pytest.fixture(scope="module")
def panel(folder):
    return load_panel(folder)


def settings(root, **changes):
    values = {"root": Path(root), "backbone": "nano", "checkpoint_sha256": checkpoint_of("nano"), "protocol": QUICK}
    return RunSettings(**{**values, **changes})


def run(study, panel, root, **changes):
    chosen = settings(root, **changes)
    return run_jobs(study.jobs(panel, chosen.protocol), chosen)


def cells(root):
    return {str(record.key.path): record for record in RecordStore(root).all()}


@pytest.fixture(scope="module")
def done(panel, tmp_path_factory):
    """An undisturbed run of the Core decomposition."""
    root = tmp_path_factory.mktemp("undisturbed")
    progress = run(get_study("core-decomposition"), panel, root)
    assert (progress.done, progress.failed, progress.left) == (6, 0, 0)
    return root


def quality_tables(root):
    """The tables without those of memory and time, which differ from run to run."""
    tables = study_tables(get_study("core-decomposition"), [Results.load(Path(root), QUICK, "nano")])
    return [table for table in tables if "memory" not in table.title]


def test_records_are_complete_receipts(done, panel):
    records = cells(done)
    assert len(records) == 6
    for record in records.values():
        assert record.ok
        assert record.checkpoint_sha256 == checkpoint_of("nano")
        assert record.data_digest == f"sha256:{panel[record.key.dataset].sha256}"
        assert set(record.seconds) == {"load", "plan", "compile", "predict", "total", "cpu"}
        assert record.memory["peak"] == record.memory["start"] + record.memory["added"]
        assert record.memory["added"] > 1 << 20
        assert record.memory["meter"] in ("linux-hwm", "sampler", "cuda")
        assert set(record.metrics) == {"accuracy", "nll", "balanced_accuracy", "auc", "brier", "ece"}
        assert record.host["packages"]["torch"]
    pairs = Results.load(done, QUICK, "nano").pairs("bounded-core", "raw-core")
    assert all(pair.a.support_hash == pair.b.support_hash for pair in pairs.complete)
    assert len(pairs.complete) == 2


def alive_with(mark):
    """Processes with this in their environment (none where /proc is not to be had)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_killed_twice_with_9_ends_as_if_undisturbed(done, folder, tmp_path):
    root = tmp_path / "killed"
    command = [sys.executable, "-m", "scff.bench", "run", "core-decomposition", "--panel", str(folder)]
    command += ["--backbone", "nano", "--quick", "--results", str(root), "--threads", "1"]
    mark = f"SCFF_TEST_RUN={tmp_path}"
    environment = {**os.environ, "SCFF_TEST_RUN": str(tmp_path)}
    for target in (1, 3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        deadline = time.monotonic() + 120
        while len(list(root.rglob("*.json"))) < target and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + 60
        while alive_with(mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert alive_with(mark) == []  # no arm outlives the run that started it
    assert target <= len(cells(root)) < 6
    before = {path: (root / path).stat().st_mtime_ns for path in cells(root)}
    (root / "records" / ".half-written.json.tmp").write_text('{"format": "scff-rec')  # what a kill may leave behind
    assert subprocess.run(command, capture_output=True, check=True).returncode == 0
    assert len(cells(root)) == 6
    assert before == {path: (root / path).stat().st_mtime_ns for path in before}  # nothing was done twice
    assert [(t.title, t.columns, [[c.text for c in row] for row in t.rows], t.notes) for t in quality_tables(root)] == [
        (t.title, t.columns, [[c.text for c in row] for row in t.rows], t.notes) for t in quality_tables(done)
    ]


def test_corrupt_records_are_detected_and_run_again(panel, tmp_path, caplog):
    run(CHEAP, panel, tmp_path)
    good = cells(tmp_path)
    assert len(good) == 4
    paths = [tmp_path / path for path in good]
    paths[0].write_text(paths[0].read_text()[:200])  # cut short
    body = json.loads(paths[1].read_text())
    body["metrics"]["accuracy"] = 1.0  # edited, still valid JSON
    paths[1].write_text(json.dumps(body))
    paths[2].write_bytes(b"\xff\xfe\x00")
    assert len(cells(tmp_path)) == 1
    assert "corrupt" in caplog.text
    run(CHEAP, panel, tmp_path)
    again = cells(tmp_path)
    assert {p: r.probability_hash for p, r in again.items()} == {p: r.probability_hash for p, r in good.items()}
    with pytest.raises(CorruptRecord):
        Record.from_json('{"checksum": "0"}')


def test_two_runs_at_once_share_the_work(panel, tmp_path, monkeypatch):
    calls, real = [], jobs_module.run_isolated

    def counted(request, time_limit):
        calls.append(request.arm.name)
        return real(request, time_limit)

    monkeypatch.setattr(jobs_module, "run_isolated", counted)
    results = []
    threads = [threading.Thread(target=lambda: results.append(run(CHEAP, panel, tmp_path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(p.done, p.failed, p.left) for p in results] == [(4, 0, 0)] * 3  # each sees the whole study done
    assert len(calls) == 4  # and no cell was run twice
    assert len(cells(tmp_path)) == 4
    assert not list(tmp_path.rglob("*.tmp"))


def test_two_processes_on_one_folder_end_as_one(done, folder, tmp_path):
    command = [sys.executable, "-m", "scff.bench", "run", "core-decomposition", "--panel", str(folder)]
    command += ["--backbone", "nano", "--quick", "--results", str(tmp_path), "--threads", "1"]
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    assert [(p.communicate(timeout=300)[1][-500:], p.returncode)[1] for p in both] == [0, 0]
    assert {p: r.probability_hash for p, r in cells(tmp_path).items()} == {
        p: r.probability_hash for p, r in cells(done).items()
    }
    assert not list(tmp_path.rglob("*.tmp"))
    assert [[c.text for c in row] for t in quality_tables(tmp_path) for row in t.rows] == [
        [c.text for c in row] for t in quality_tables(done) for row in t.rows
    ]


def test_query_labels_cannot_reach_a_prediction(panel, tmp_path, monkeypatch):
    study = replace(PAIR, variants=((PLAIN, ("native", "scff", "logistic")),))
    run(study, panel, tmp_path / "true")
    real = jobs_module.make_task

    def swapped(*args):
        task = real(*args)
        flip = dict(zip(np.unique(task.y_query), np.roll(np.unique(task.y_query), 1), strict=True))
        return replace(task, y_query=np.array([flip[label] for label in task.y_query], dtype=object))

    monkeypatch.setattr(jobs_module, "make_task", swapped)
    run(study, panel, tmp_path / "swapped")
    true, other = cells(tmp_path / "true"), cells(tmp_path / "swapped")
    assert len(true) == 6
    for path, record in true.items():
        assert record.probability_hash == other[path].probability_hash
        assert record.metrics["accuracy"] != other[path].metrics["accuracy"]


def test_out_of_memory_halves_the_chunk_on_both_arms(panel, tmp_path, monkeypatch):
    seen, sha = [], checkpoint_of("nano")

    def scarce(request, time_limit):
        seen.append((request.arm.name, request.query_chunk))
        if request.arm.name == "scff" and request.query_chunk > 32:
            return ArmResult("oom", "can't allocate memory")
        rows = len(request.X_query)
        memory = {"meter": "linux-hwm", "start": 1, "peak": 2, "added": 1}
        seconds = dict.fromkeys(("load", "plan", "compile", "predict", "total", "cpu"), 1.0)
        classes = np.unique(request.y_support)
        return ArmResult(
            "ok", "", np.full((rows, len(classes)), 1 / len(classes)), classes, seconds, memory, {}, {}, {}, sha
        )

    monkeypatch.setattr(jobs_module, "run_isolated", scarce)
    one = panel.select(["cancer"])
    run(PAIR, one, tmp_path)
    chunks = [128, 128, 64, 64, 32, 32]
    assert seen == [(arm, chunk) for arm, chunk in zip(["native", "scff"] * 3, chunks, strict=True)]
    assert {record.query_chunk for record in cells(tmp_path).values()} == {32}
    seen.clear()
    wider = replace(PAIR, variants=((PLAIN, ("native", "scff", "raw-core")),))
    run(wider, one, tmp_path)
    assert seen == [("raw-core", 32)]  # a later arm joins the pair's chunk

    monkeypatch.setattr(jobs_module, "run_isolated", lambda *_: ArmResult("oom", "never enough"))
    progress = run(PAIR, one, tmp_path / "hopeless")
    assert (progress.done, progress.failed) == (0, 2)
    pairs = Results.load(tmp_path / "hopeless", QUICK, "nano").pairs("scff", "native")
    assert not pairs.complete
    assert "out of memory" in pairs.excluded[0].reason


def test_a_failed_arm_excludes_its_pair_with_the_reason(panel, tmp_path):
    progress = run(PAIR, panel.select(["wine"]), tmp_path, time_limit=0.05)
    assert progress.failed == 2
    excluded = Results.load(tmp_path, QUICK, "nano").pairs("scff", "native").excluded
    assert "did not finish within" in excluded[0].reason
    again = run(PAIR, panel.select(["wine"]), tmp_path)
    assert again.failed == 2  # remembered, not tried again ...
    retried = run(PAIR, panel.select(["wine"]), tmp_path, retry_failed=True)
    assert (retried.done, retried.failed) == (2, 0)  # ... unless asked


def test_weights_replaced_during_a_run_are_noticed(panel, tmp_path):
    progress = run(PAIR, panel.select(["wine"]), tmp_path, checkpoint_sha256="f" * 64)
    assert (progress.done, progress.failed) == (0, 2)
    assert all("weights changed" in record.reason for record in cells(tmp_path).values())


def test_too_wide_a_table_is_excluded_with_the_reason(panel, tmp_path):
    narrow = replace(QUICK, max_features=100)
    progress = run(CHEAP, panel, tmp_path, protocol=narrow)
    assert (progress.done, progress.failed) == (0, 4)
    assert all("up to 100 columns" in record.reason for record in cells(tmp_path).values())


def test_reused_and_stale_records(panel, tmp_path, monkeypatch):
    calls, real = [], jobs_module.run_isolated
    monkeypatch.setattr(jobs_module, "run_isolated", lambda *a: calls.append(a[0].arm.name) or real(*a))
    one = panel.select(["wine"])
    assert run(CHEAP, one, tmp_path, reuse="only").done == 0
    assert calls == []
    run(CHEAP, one, tmp_path)
    run(CHEAP, one, tmp_path)
    assert len(calls) == 2
    run(CHEAP, one, tmp_path, reuse="no")
    assert len(calls) == 4
    store = RecordStore(tmp_path)
    stale = next(store.all())
    store.write(replace(stale, settings_hash="other settings"))
    store.write(replace(stale, key=replace(stale.key, arm="random-forest"), data_digest="sha256:other file"))
    run(CHEAP, one, tmp_path)
    assert len(calls) == 6
    key = settings(tmp_path).key(PAIR.jobs(one, QUICK)[0], jobs_module.get_arm("scff"))
    other = settings(tmp_path, checkpoint_sha256="f" * 64).key(PAIR.jobs(one, QUICK)[0], jobs_module.get_arm("scff"))
    assert key.path != other.path  # other weights never overwrite, nor mix


def test_records_of_another_question_are_not_reused(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    frame = frame.assign(label=rng.integers(2, size=60), city=rng.integers(3, size=60), who=np.arange(60) // 2)
    folder, root = tmp_path / "tables", tmp_path / "results"
    folder.mkdir()
    frame.to_csv(folder / "one.csv", index=False)
    study = replace(CHEAP, variants=((PLAIN, ("logistic",)),))

    def asked(**named):
        before = cells(root)
        assert run(study, load_panel(folder, **named), root).done == 1
        ((path, record),) = cells(root).items()
        return before.get(path) != record, record

    assert asked(target="city")[1].n_classes == 3
    assert asked(target="city")[0] is False
    ran, record = asked(target="label")  # another column of labels ...
    assert (ran, record.n_classes) == (True, 2)
    ran, record = asked(target="label", groups="who")  # ... groups ...
    assert (ran, record.n_groups) == (True, 30)
    frame.assign(label=1 - frame["label"]).to_csv(folder / "one.csv", index=False)  # ... and a file without a digest
    assert asked(target="label", groups="who")[0]
    assert not asked(target="label", groups="who")[0]
    plain = frame.rename(columns={"label": "target"})
    plain.to_csv(folder / "one.csv", index=False)
    digest = hashlib.sha256((folder / "one.csv").read_bytes()).hexdigest()
    assert asked()[1].data_digest == f"sha256:{digest}"  # the usual question is the file's digest and no more
    assert not asked(target="target")[0]


def test_only_records_of_the_present_code_are_reused_where_that_is_asked(panel, tmp_path, monkeypatch):
    one = panel.select(["wine"])
    run(CHEAP, one, tmp_path)
    store = RecordStore(tmp_path)
    first = next(store.all())
    store.write(replace(first, host={**first.host, "source": "earlier"}))
    calls, real = [], jobs_module.run_isolated
    monkeypatch.setattr(jobs_module, "run_isolated", lambda *a: calls.append(a[0].arm.name) or real(*a))
    run(CHEAP, one, tmp_path)
    assert calls == []
    run(CHEAP, one, tmp_path, reuse="present")
    run(CHEAP, one, tmp_path, reuse="present")
    assert calls == [first.key.arm]


def test_why_a_table_was_excluded_is_asked_anew_and_spares_what_is_done(panel, tmp_path):
    narrow = replace(QUICK, max_features=100)
    assert run(CHEAP, panel.select(["wine"]), tmp_path, protocol=narrow).failed == 2
    progress = run(CHEAP, panel.select(["wine"]), tmp_path)
    assert (progress.done, progress.failed, progress.reasons) == (2, 0, ())
    more = replace(CHEAP, variants=((PLAIN, ("logistic", "svm-linear")),))
    progress = run(more, panel.select(["wine"]), tmp_path, protocol=narrow)
    assert (progress.done, progress.failed) == (1, 1)
    (reason,) = progress.reasons
    assert reason.startswith("wine (svm-linear): the protocol")
    assert {r.key.arm: r.ok for r in cells(tmp_path).values()} == {
        "logistic": True,
        "random-forest": True,
        "svm-linear": False,
    }


def test_equal_memory_measures_the_grid_from_the_core_on(panel, tmp_path, monkeypatch):
    study = replace(get_study("equal-memory"), prefix_grid=(2, 4, 4096))
    one = panel.select(["cancer"])
    progress = run(study, one, tmp_path)
    assert progress.failed == 0
    records = {record.key.arm: record for record in cells(tmp_path).values()}
    core = records["bounded-core"].plan["core"]
    folded = records.pop("bounded-core")
    tried = [k for k in (core, 4, 2) if f"prefix-{k}" in records]
    assert len(tried) == len(records)
    assert tried == [core, 4, 2][: len(tried)]  # from the widest on ...
    fits = [peak_of(records[f"prefix-{k}"]) <= peak_of(folded) for k in tried]
    assert fits[:-1] == [False] * (len(tried) - 1)  # ... and none below the first that fits
    assert fits[-1] or len(tried) == 3
    monkeypatch.setattr(jobs_module, "run_isolated", lambda *_: pytest.fail("everything is there already"))
    assert run(study, one, tmp_path).done == 1 + len(tried)


def test_the_grid_goes_on_until_a_single_leaf_fits(panel, tmp_path, monkeypatch):
    sha, peaks = checkpoint_of("nano"), {"bounded-core": 10, "prefix-2": 4, "prefix-4": 9, "prefix-8": 11}

    def measured(request, time_limit):
        memory = {"meter": "linux-hwm", "start": 0, "peak": 0, "added": peaks.get(request.arm.name, 50)}
        seconds = dict.fromkeys(("load", "plan", "compile", "predict", "total", "cpu"), 1.0)
        classes = np.unique(request.y_support)
        proba = np.full((len(request.X_query), len(classes)), 1 / len(classes))
        return ArmResult("ok", "", proba, classes, seconds, memory, {"core": 20, "core_leaves": 2}, {}, {}, sha)

    monkeypatch.setattr(jobs_module, "run_isolated", measured)
    study = replace(get_study("equal-memory"), prefix_grid=(2, 4, 8, 4096))
    for reuse in ("yes", "no"):
        progress = run(study, panel.select(["cancer"]), tmp_path, reuse=reuse)
        assert (progress.done, progress.failed) == (4, 0)
        arms = {record.key.arm for record in cells(tmp_path).values()}
        assert arms == {"bounded-core", "prefix-20", "prefix-8", "prefix-4"}
    (pair,) = matched_pairs(Results.load(tmp_path, QUICK, "nano"))[0].complete
    assert pair.b.key.arm == "prefix-4"


def test_records_call_a_backbone_by_its_name_and_a_checkpoint_by_its_file():
    assert backbone_name("nano") == "nano"
    assert backbone_name("tabpfn-2.5") == backbone_name("tabpfn-v2.5") == "tabpfn-v2.5"
    assert backbone_name("weights/mine.ckpt") == "mine"


def test_collect_gives_tabarena_columns(done):
    path, rows = collect(done)
    frame = pd.read_parquet(path)
    assert rows == len(frame) == 6
    assert list(frame.columns[:6]) == ["method", "task", "seed", "metric_error", "time_train_s", "time_infer_s"]
    assert frame["metric_error"].tolist() == frame["nll"].tolist()
    assert all((done / name).is_file() for name in frame["path"])


def test_bencheval_reads_what_was_collected(done):
    evaluator = pytest.importorskip("bencheval.evaluator", reason="an optional package")
    frame = pd.read_parquet(collect(done)[0])
    board = evaluator.BenchmarkEvaluator(
        method_col="method", task_col="task", error_col="metric_error", seed_column="seed"
    ).leaderboard(frame)
    assert len(board) == 3


def test_the_command_says_which_column_is_asked_and_why_nothing_came(tmp_path):
    runner, folder = CliRunner(), tmp_path / "tables"
    folder.mkdir()
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    frame.assign(label=rng.integers(2, size=60), city=rng.integers(3, size=60)).to_csv(folder / "one.csv", index=False)
    command = ["run", "baselines", "--panel", str(folder), "--backbone", "nano", "--quick", "-o", str(tmp_path / "r")]
    command += ["--arms", "logistic,scff"]
    wrong = runner.invoke(app, [*command, "--target", "lable"])
    assert isinstance(wrong.exception, DataError)
    assert "no column 'lable'" in str(wrong.exception)
    assert "'label', 'city'" in str(wrong.exception)
    assert not (tmp_path / "r").exists()  # nothing was begun
    wrong = runner.invoke(app, [*command[:-1], "svm"])
    assert "has no arm 'svm'" in str(wrong.exception)
    nothing = runner.invoke(app, [*command, "--target", "a"])  # a class to a row
    assert nothing.exit_code == 1
    assert "Left out: one (scff, logistic): No class of one has 5 rows" in nothing.output
    assert "nothing to show" in nothing.output
    unsaid = runner.invoke(app, command)
    assert unsaid.exit_code == 0, unsaid.output
    assert "one, label column: city (last)" in unsaid.output
    assert "2 cells done, 0 failed or excluded" in unsaid.output
    said = runner.invoke(app, [*command, "--target", "label"])
    assert "(last)" not in said.output
    assert {record.n_classes for record in cells(tmp_path / "r").values()} == {2}
    groups = load_panel(folder, groups="city").datasets[0]
    assert groups.label_column() == ("label", True)  # the column of groups holds no labels


def test_command_line(folder, tmp_path):
    runner = CliRunner()
    listing = runner.invoke(app, ["list"])
    assert listing.exit_code == 0
    assert "core-decomposition" in listing.output
    wrong = runner.invoke(app, ["run", "nope", "--panel", str(folder), "--results", str(tmp_path)])
    assert isinstance(wrong.exception, DataError)  # `scff` makes it one sentence and exit code 2
    assert "no study 'nope'" in str(wrong.exception)
    empty = runner.invoke(app, ["tables", "main", "--backbone", "nano", "--results", str(tmp_path)])
    assert isinstance(empty.exception, DataError)
    assert runner.invoke(app, ["run", "main", "-j", "0"]).exit_code == 2
    module = [sys.executable, "-m", "scff.bench", "tables", "main", "--backbone", "nano", "--results", str(tmp_path)]
    said = subprocess.run(module, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    arguments = ["--backbone", "nano", "--quick", "--results", str(tmp_path)]
    first = runner.invoke(app, ["run", "main", "--panel", str(folder), "--datasets", "wine", *arguments])
    assert first.exit_code == 0, first.output
    assert "3 cells done, 0 failed or excluded, 0 left" in first.output
    assert "### Main results" in first.output
    shown = runner.invoke(app, ["tables", "main", "--results", str(tmp_path)])  # finds protocol and backbone itself
    assert "Protocol quick, backbone nano" in shown.output
    assert "no interval from one table" in shown.output
    verdict = next(r.verdict for r in RecordStore(tmp_path).all() if r.key.arm == "auto")
    assert sum(one["weight"] for one in verdict["read"]) == pytest.approx(1)
    assert verdict["tried"][0]["name"] == "core"
    assert not any(r.verdict for r in RecordStore(tmp_path).all() if r.key.arm != "auto")  # the paper asks nothing
    shown = runner.invoke(app, ["tables", "main", *arguments])
    assert "### Main results" in shown.output
    assert "### What held-back rows let the default read" in shown.output
    assert (tmp_path / "tables" / "main.tex").is_file()
    drawn = runner.invoke(app, ["figures", "main", *arguments])
    assert "main-paired-effects-nano.svg" in drawn.output
    assert runner.invoke(app, ["collect", "--results", str(tmp_path)]).exit_code == 0
