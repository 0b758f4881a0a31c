"""Scoring: one class for batches, and tables that are killed, drift, lack rows, or are never read."""

from __future__ import annotations

import functools
import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from scff import FoldedClassifier
from scff.errors import DataError, ModelFileError
from scff.memory.meter import PeakMemory
from scff.serving import Scorer, score
from scff.serving.manifest import Head, Manifest, Record
from scff.serving.parts import Job, score_part
from scff.serving.places import place_of
from scff.serving.source import Part, source_of
from scff.serving.workers import score_in_processes
from serving_models import Deadly
from serving_tables import NAMES, arrow, keys, outputs, parts, rows, scff, seven_parts, small_model


@pytest.fixture(scope="module")
def fitted():
    return small_model()


@pytest.fixture(scope="module")
def model(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.scff"
    fitted.save(path)
    return path


@pytest.fixture
def table(tmp_path):
    """A folder of seven parts of 30 rows, two of them in partitions; keys count through."""
    folder = seven_parts(tmp_path / "table")
    (folder / "_SUCCESS").touch()
    (folder / "_old").mkdir()
    (folder / "_old" / "part.parquet").write_bytes(b"no part of it")
    return folder


# Batches


def test_every_kind_of_batch_gives_the_models_predictions(fitted, model):
    frame = rows(9, key=[f"s{i}" for i in range(9)]).set_index("key", drop=False)
    expected = fitted.predict_proba(frame[NAMES])
    scorer = Scorer(model, keep=["key"])
    shuffled = frame[[*NAMES[::-1], "key"]]
    for batch in (shuffled, {name: shuffled[name].to_numpy() for name in shuffled}, pa.Table.from_pandas(frame)):
        out = scorer(batch)
        assert list(out.column_names if isinstance(out, pa.Table) else out) == ["key", "prediction", "p_ill", "p_well"]
        columns = out.to_pydict() if isinstance(out, pa.Table) else {name: list(out[name]) for name in out}
        np.testing.assert_allclose(np.c_[columns["p_ill"], columns["p_well"]], expected, atol=1e-6)
        assert columns["key"] == list(frame["key"])
        assert columns["prediction"] == list(fitted.predict(frame[NAMES]))
    assert list(scorer(frame).index) == list(frame.index)
    batch = pa.RecordBatch.from_pandas(frame)
    assert scorer(batch).equals(scorer(pa.Table.from_pandas(frame)))
    assert list(Scorer(fitted, proba=False)(frame)) == ["prediction"]


def test_a_scorer_is_small_to_send_and_loads_once_in_a_process(fitted, model):
    scorer = Scorer(model)
    sent = pickle.dumps(scorer)
    assert len(sent) < 2000
    assert pickle.loads(sent).model is scorer.model
    unsaved = Scorer(fitted)
    assert pickle.loads(pickle.dumps(unsaved)).model is unsaved.model


def test_an_empty_batch_has_the_columns_and_types_of_a_full_one(model):
    scorer = Scorer(model, keep=["key"])
    full = pa.Table.from_pandas(rows(3, key=["a", "b", "c"]), preserve_index=False)
    assert scorer(full.slice(0, 0)).schema == scorer(full).schema
    frame = full.to_pandas()
    assert list(scorer(frame[:0]).dtypes) == list(scorer(frame).dtypes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns=["g3", "g5"]), "'g3' and 1 more that the model was fitted on is missing"),
        (lambda f: f.assign(g2="text"), "'g2' was numeric at fit and holds 'text' now"),
        (lambda f: f.drop(columns="key"), "'key' that is to be kept is missing"),
        (lambda f: f.to_numpy(), "A batch is a ndarray"),
    ],
)
def test_a_batch_that_drifts_is_refused_by_the_name_of_its_column(model, change, message):
    with pytest.raises(DataError, match=message):
        Scorer(model, keep=["key"])(change(rows(5, key=1)))


def test_numbers_where_there_was_text_are_refused_and_missing_text_is_not():
    frame = rows(40, kind=["a", "b"] * 20)
    model = FoldedClassifier("nano", method="raw-core").fit(frame, np.arange(40) % 2)
    scorer = Scorer(model)
    with pytest.raises(DataError, match="'kind' was text at fit and is float64 now"):
        scorer(frame.assign(kind=1.5))
    missing = scorer(frame.assign(kind=np.nan))["p_0"]
    np.testing.assert_allclose(missing, scorer(frame.assign(kind=None))["p_0"])


def test_truth_values_and_missing_numbers_of_arrow_are_numbers(fitted):
    frame = rows(4).assign(g0=[True, False, None, True], g1=pd.array([1, None, 3, 4], dtype="Int64"))
    as_floats = frame.assign(g0=[1.0, 0.0, np.nan, 1.0], g1=[1.0, np.nan, 3.0, 4.0])
    got = Scorer(fitted)(pa.Table.from_pandas(frame)).column("p_ill").to_numpy()
    np.testing.assert_allclose(got, fitted.predict_proba(as_floats)[:, 0], atol=1e-6)


def test_a_model_that_is_replaced_under_way_is_noticed(fitted, tmp_path):
    path = tmp_path / "m.scff"
    fitted.save(path)
    scorer = pickle.loads(pickle.dumps(Scorer(path, memory_limit="1GiB")))
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ModelFileError, match="not the model it was"):
        scorer(rows(2))
    path.unlink()
    with pytest.raises(ModelFileError, match="no longer there"):
        scorer(rows(2))
    with pytest.raises(ModelFileError, match="There is no model"):
        Scorer(tmp_path / "other.scff")


def test_a_column_cannot_be_kept_under_a_name_that_predictions_have(model):
    with pytest.raises(DataError, match="'p_ill' cannot be kept"):
        Scorer(model, keep=["p_ill"])(rows(2, p_ill=1))


# Tables


def test_a_part_becomes_a_part_with_keys_and_partitions(fitted, model, table, tmp_path):
    seen = []
    done = score(model, table, tmp_path / "out", keep=["key"], on_progress=seen.append)
    assert (done.parts, done.skipped, done.rows, done.failed) == (7, 0, 210, ())
    written = [str(part.relative_to(tmp_path / "out")) for part in outputs(tmp_path / "out")]
    assert written == sorted(part.name for part in source_of(table).parts)
    assert "day=6/part-6.parquet" in written
    assert keys(tmp_path / "out") == list(range(210))
    one = pd.read_parquet(tmp_path / "out" / "part-2.parquet")
    assert list(one) == ["key", "prediction", "p_ill", "p_well"]
    np.testing.assert_allclose(one[["p_ill", "p_well"]], fitted.predict_proba(rows(30, seed=2)), atol=1e-6)
    assert seen[-1].parts == seen[-1].total == 7
    assert seen[-1].rows == 210
    assert seen[-1].seconds_left == pytest.approx(0, abs=1e-6)
    # The folder is a dataset to whoever reads it, notes and all.
    assert pyarrow.dataset.dataset(tmp_path / "out", partitioning="hive").count_rows() == 210


def test_finished_parts_are_skipped_and_changed_ones_are_not(model, table, tmp_path):
    out = tmp_path / "out"
    score(model, table, out, keep=["key"])
    before = {part: part.stat().st_mtime_ns for part in outputs(out)}
    assert score(model, table, out, keep=["key"]).skipped == 7
    rows(31, key=np.arange(1000, 1031)).to_parquet(table / "part-1.parquet")
    (out / "part-3.parquet").unlink()
    done = score(model, table, out, keep=["key"])
    assert (done.skipped, done.rows) == (5, 61)
    after = {part: part.stat().st_mtime_ns for part in outputs(out)}
    assert {part.name for part in after if after[part] != before[part]} == {"part-1.parquet", "part-3.parquet"}
    assert keys(out) == [*range(30), *range(60, 210), *range(1000, 1031)]


def test_the_manifest_says_what_was_written(model, table, tmp_path):
    import hashlib

    out = tmp_path / "out"
    score(model, table, out, keep=["key"])
    (journal,) = (out / "_scff").glob("done-*.jsonl")
    records = [Record(**json.loads(line)) for line in journal.read_text().splitlines()]
    assert sorted(record.part for record in records) == sorted(part.name for part in source_of(table).parts)
    for record in records:
        content = (out / record.output).read_bytes()
        assert (record.bytes, record.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert record.size == (table / record.part).stat().st_size
        assert record.rows == 30
    head = json.loads((out / "_scff" / "head.json").read_text())
    assert head["model"] == hashlib.sha256(model.read_bytes()).hexdigest()
    assert head["columns"][0] == ["key", "int64"]


def test_another_model_or_other_columns_need_a_word(fitted, model, table, tmp_path):
    out = tmp_path / "out"
    score(model, table, out, keep=["key"])
    other = tmp_path / "other.scff"
    FoldedClassifier("nano", method="raw-core", leaf_width=64).fit(rows(40), np.arange(40) % 2).save(other)
    with pytest.raises(DataError, match="predictions of another model"):
        score(other, table, out, keep=["key"])
    with pytest.raises(DataError, match="predictions of other columns"):
        score(model, table, out, keep=["key"], proba=False)
    done = score(other, table, out, keep=["key"], overwrite=True)
    assert (done.skipped, done.rows) == (0, 210)
    assert list(pd.read_parquet(out / "part-0.parquet")) == ["key", "prediction", "p_0", "p_1"]


def test_a_folder_that_is_not_ours_is_left_alone(model, table, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "diary.txt").write_text("dear diary")
    with pytest.raises(DataError, match=r"diary.txt.*choose an empty folder"):
        score(model, table, out)
    with pytest.raises(DataError, match="choose an empty folder"):
        score(model, table, out, overwrite=True)
    for inside in (table, table / "out", table / "out.parquet"):
        with pytest.raises(DataError, match="lies in the folder that is read"):
            score(model, table, inside)


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    head = Head("model", (("prediction", "string"),))
    with (
        Manifest(place_of(tmp_path / "out"), head),
        pytest.raises(DataError, match="Another run is writing"),
        Manifest(place_of(tmp_path / "out"), head),
    ):
        pass


def test_what_cannot_be_scored_is_named_and_the_rest_goes_on(model, table, tmp_path):
    (table / "part-0.parquet").write_bytes(b"PAR1 this is not a table")
    rows(3, key=[1, 2, 3]).drop(columns="g7").to_parquet(table / "part-1.parquet")
    rows(3, key=[1, 2, 3]).assign(g4="oops").to_parquet(table / "part-2.parquet")
    rows(3, key=["x", "y", "z"]).to_parquet(table / "part-3.parquet")
    rows(0, key=np.array([], dtype=int)).to_parquet(table / "part-4.parquet")
    done = score(model, table, tmp_path / "out", keep=["key"])
    reasons = {failure.part: failure.reason for failure in done.failed}
    assert list(reasons) == [f"part-{i}.parquet" for i in range(4)]
    assert reasons["part-0.parquet"].startswith("part-0.parquet cannot be read (")
    assert reasons["part-1.parquet"] == ("part-1.parquet: The column 'g7' that the model was fitted on is missing.")
    assert "part-2.parquet: Column 'g4' was numeric at fit and holds 'oops' now" in reasons["part-2.parquet"]
    assert reasons["part-3.parquet"] == "part-3.parquet: The column 'key' holds string, and in the first part int64."
    assert done.rows == 60
    empty = pq.read_schema(tmp_path / "out" / "part-4.parquet")
    assert empty.equals(pq.read_schema(tmp_path / "out" / "day=5" / "part-5.parquet"))
    # Mended, the same call does what is left.
    for i in range(4):
        rows(30, seed=i, key=np.arange(30 * i, 30 * i + 30)).to_parquet(table / f"part-{i}.parquet")
    done = score(model, table, tmp_path / "out", keep=["key"])
    assert (done.skipped, done.rows, done.failed) == (3, 120, ())
    assert keys(tmp_path / "out") == [*range(120), *range(150, 210)]


def test_row_names_of_pandas_come_out_as_keys(model, tmp_path):
    frame = rows(5)
    frame.index = pd.Index([f"patient {i}" for i in range(5)], name="patient")
    frame.to_parquet(tmp_path / "in.parquet")
    score(model, tmp_path / "in.parquet", tmp_path / "out.parquet")
    out = pd.read_parquet(tmp_path / "out.parquet")
    assert list(out["patient"]) == list(frame.index)


def test_row_names_are_found_asked_for_or_known_to_the_model(model, tmp_path):
    frame = rows(6).assign(visit=[1, 1, 2, 2, 3, 3], sample=[f"s{i}" for i in range(6)])
    frame.to_parquet(tmp_path / "in.parquet")
    frame.to_csv(tmp_path / "in.csv", index=False)
    for name in ("in.parquet", "in.csv"):
        score(model, tmp_path / name, tmp_path / "out.csv")
        assert list(pd.read_csv(tmp_path / "out.csv"))[:2] == ["sample", "prediction"]
        score(model, tmp_path / name, tmp_path / "out.csv", id="visit", keep=["sample"])
        assert list(pd.read_csv(tmp_path / "out.csv"))[:3] == ["visit", "sample", "prediction"]
    unnamed = rows(6).set_axis([f"p{i}" for i in range(6)], axis=0)
    unnamed.to_parquet(tmp_path / "in.parquet")
    score(model, tmp_path / "in.parquet", tmp_path / "out.csv")
    assert list(pd.read_csv(tmp_path / "out.csv")["row"]) == list(unnamed.index)


def test_features_in_rows_and_a_sample_sheet_are_read_as_a_whole(fitted, model, tmp_path):
    frame = rows(6).set_axis([f"s{i}" for i in range(6)], axis=0)
    frame.T.rename_axis("gene").reset_index().to_csv(tmp_path / "turned.tsv", sep="\t", index=False)
    sheet = pd.DataFrame({"sample": [f"s{i}" for i in range(5, -1, -1)], "site": list("fedcba")})
    sheet.to_csv(tmp_path / "sheet.csv", index=False)
    reading = {"samples": tmp_path / "sheet.csv"}
    done = score(model, tmp_path / "turned.tsv", tmp_path / "out.csv", keep=["site"], reading=reading)
    out = pd.read_csv(tmp_path / "out.csv")
    assert list(out["site"]) == list("abcdef")
    np.testing.assert_allclose(out["p_ill"], fitted.predict_proba(frame)[:, 0], atol=1e-6)
    assert any("turned" in note for note in done.notes)


def test_a_model_of_two_tables_takes_two(tmp_path):
    left, right = rows(40).iloc[:, :6], rows(40, seed=1).iloc[:, 6:]
    index = [f"s{i}" for i in range(40)]
    left, right = left.set_axis(index, axis=0), right.set_axis(index, axis=0)
    clf = FoldedClassifier("nano", method="raw-core").fit({"rna": left, "mirna": right}, np.arange(40) % 2)
    clf.save(tmp_path / "m.scff")
    left.to_csv(tmp_path / "a.csv")
    right[::-1].to_csv(tmp_path / "b.csv")
    tables = [f"rna={tmp_path / 'a.csv'}", f"mirna={tmp_path / 'b.csv'}"]
    score(tmp_path / "m.scff", tables, tmp_path / "out.parquet")
    out = pd.read_parquet(tmp_path / "out.parquet")
    np.testing.assert_allclose(out["p_0"], clf.predict_proba({"rna": left, "mirna": right})[:, 0], atol=1e-6)
    assert list(out.iloc[:, 0]) == index


def test_a_folder_becomes_one_file_with_its_partitions_as_columns(model, table, tmp_path):
    for name in ("out.parquet", "out.csv"):
        done = score(model, table, tmp_path / name, keep=["key"])
        assert (done.parts, done.rows) == (7, 210)
    out = pd.read_parquet(tmp_path / "out.parquet")
    assert sorted(out["key"]) == list(range(210))
    assert dict(out.groupby("day")["key"].min()) == {"5": 150, "6": 180}
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out.csv", dtype={"day": str}), out, check_dtype=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.parquet", "table"]


def test_a_partition_can_be_a_feature(tmp_path):
    frame = rows(40, day=np.arange(40) % 2 * 5.0)
    model = tmp_path / "m.scff"
    fitted = FoldedClassifier("nano", method="raw-core").fit(frame, np.arange(40) % 2)
    fitted.save(model)
    for day in (0, 5):
        (tmp_path / "in" / f"day={day}").mkdir(parents=True)
        rows(6).to_parquet(tmp_path / "in" / f"day={day}" / "a.parquet")
        score(model, tmp_path / "in", tmp_path / f"out-{day}", overwrite=True)
    for day in (0, 5):
        got = pd.read_parquet(tmp_path / "out-5" / f"day={day}" / "a.parquet")["p_0"]
        np.testing.assert_allclose(got, fitted.predict_proba(rows(6, day=float(day)))[:, 0], atol=1e-6)


def test_places_of_fsspec_and_datasets_of_arrow(model, table, tmp_path):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(table), "memory://in", recursive=True)
    memory.put(str(model), "memory://m.scff")
    for run in range(2):
        done = score("memory://m.scff", "memory://in", "memory://out", keep=["key"])
        assert (done.skipped, done.rows) == ((7, 0) if run else (0, 210))
    memory.get("memory://out", str(tmp_path / "out"), recursive=True)
    assert keys(tmp_path / "out") == list(range(210))
    assert len([name for name in memory.ls("/out/_scff", detail=False) if "done-" in name]) == 1
    memory.rm("/out", recursive=True)
    memory.rm("/in", recursive=True)
    dataset = pyarrow.dataset.dataset(table, partitioning="hive")
    assert score(model, dataset, tmp_path / "from dataset", keep=["key"]).rows == 210
    some = [table / "part-1.parquet", table / "day=5" / "part-5.parquet"]
    assert score(model, some, tmp_path / "some", keep=["key"]).rows == 60
    assert keys(tmp_path / "some") == [*range(30, 60), *range(150, 180)]


def test_what_is_not_there_is_said_in_one_sentence(model, tmp_path):
    (tmp_path / "in").mkdir()
    for source, message in [
        (tmp_path / "nowhere", "There is no file"),
        (tmp_path / "in", "There is no .parquet file in"),
        ([], "There is no file to score"),
        ("nonsense://in", "cannot be reached"),
    ]:
        with pytest.raises(DataError, match=message):
            score(model, source, tmp_path / "out")


def test_rows_stream_within_the_limit_whatever_the_part(tmp_path):
    """One row group of 60,000 rows is 115 MB in memory; the limit is less than half of it."""
    wide = [f"c{j}" for j in range(240)]
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 240)).astype(np.float32), columns=wide)
    FoldedClassifier("nano", method="scff", fdr=0.01).fit(X, np.arange(30) % 2).save(tmp_path / "m.scff")
    big = pd.DataFrame(np.zeros((60_000, 240)), columns=wide)
    big.to_parquet(tmp_path / "big.parquet", row_group_size=60_000)
    del big
    seen = []

    class Counted(Scorer):
        def predictions(self, rows):
            seen.append(len(rows))
            return {"prediction": np.zeros(len(rows), int), "p_0": np.ones(len(rows)), "p_1": np.zeros(len(rows))}

    scorer = Counted(tmp_path / "m.scff")
    assert scorer.names == wide  # loaded before we measure
    job = Job(scorer, place_of(tmp_path / "out.parquet"), is_folder=False, room=8 << 20)
    with PeakMemory() as memory:
        record = score_part(job, source_of(tmp_path / "big.parquet").parts[0])
    assert record.rows == sum(seen) == 60_000
    assert max(seen) <= (8 << 20) // (32 * 240)
    assert memory.added < 48 << 20


def test_the_name_of_the_output_says_whether_it_is_a_folder(model, table, tmp_path):
    some = table / "part-1.parquet"
    for output in ("plain", "with.dot/"):
        score(model, some, f"{tmp_path}/{output}")
        assert outputs(tmp_path / output) == [tmp_path / output / "part-1.parquet"]
    score(model, table, tmp_path / "with.dot", overwrite=True)
    assert len(outputs(tmp_path / "with.dot")) == 7
    with pytest.raises(DataError, match="must end in"):
        score(model, some, tmp_path / "x.xlsx")
    with pytest.raises(DataError, match="create it first"):
        score(model, some, tmp_path / "no" / "x.csv")


# Kills


def test_killed_anywhere_and_run_again_every_row_is_there_once(model, table, tmp_path):
    """Killed at its first touch of the output, at its fourth and so on: no clock decides how far it comes."""
    out = tmp_path / "out"
    Scorer(model)(rows(1))  # compiled before the forks
    killed = 0
    for touch in itertools.count(1, 3):  # faster than the journals of killed runs add touches
        child = os.fork()
        if child == 0:
            try:
                killed_at(touch, out)
                score(model, table, out, keep=["key"])
            finally:
                os._exit(0)
        if os.waitpid(child, 0)[1] != signal.SIGKILL:
            break
        killed += 1
    assert killed > 10
    assert score(model, table, out, keep=["key"]).failed == ()
    assert keys(out) == list(range(210))


def killed_at(touch, folder):
    """Kill this process as it is about to open, rename or remove something in a folder for the n-th time."""
    touches = itertools.count(1)
    kinds = {"open", "os.rename", "os.remove", "os.mkdir", "os.truncate"}

    def hook(event, arguments):
        if event in kinds and str(folder) in str(arguments[0]) and next(touches) == touch:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def test_half_a_line_of_a_killed_run_is_no_line(tmp_path):
    head = Head("model", (("prediction", "string"),))
    out = tmp_path / "out"
    with Manifest(place_of(out), head) as manifest:
        for name in ("a", "b"):
            (out / name).write_bytes(b"xyz")
            manifest.add(Record(name, 1, "", name, 1, 3, ""))
    (journal,) = (out / "_scff").glob("done-*")
    journal.write_text(journal.read_text()[:-20])
    with Manifest(place_of(out), head) as manifest:
        assert set(manifest.done) == {"a"}
        assert manifest.has(Part("a", place_of(out / "a"), 1))
        assert not manifest.has(Part("b", place_of(out / "b"), 1))


def test_a_worker_that_dies_is_replaced_and_its_part_scored_again(model, table, tmp_path, monkeypatch):
    note = tmp_path / "note"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    monkeypatch.setattr("scff.serving.run.Scorer", functools.partial(Deadly, note=note))
    first = rows(30, key=np.arange(30))
    first.iloc[0, 0] = 1e6
    first.to_parquet(table / "part-0.parquet")
    done = score(model, table, tmp_path / "out", keep=["key"], workers=2)
    assert not Path(f"/proc/{note.read_text()}").exists()
    assert (done.rows, done.failed) == (210, ())
    assert keys(tmp_path / "out") == list(range(210))


def test_a_part_that_nobody_survives_is_given_up(tmp_path, monkeypatch):
    asked = []

    def dies(self, part):
        asked.append(part.name)
        yield "rows", 5, 0.5
        raise EOFError

    monkeypatch.setattr("scff.serving.workers._Process._ask", dies)
    seen = []
    score_in_processes(None, [Part("a.parquet", place_of(tmp_path), 1)], seen.append, 1)
    assert asked == ["a.parquet"] * 3
    assert sum(event.rows for event in seen) == sum(event.share for event in seen) == 0
    assert "a.parquet: 3 workers died on it" in seen[-1].failed


def test_a_worker_ends_with_whoever_started_it():
    worker = subprocess.Popen(
        [sys.executable, "-c", "from scff.serving.worker import main; main()"], stdin=subprocess.PIPE
    )
    worker.stdin.close()
    assert worker.wait(60) == 0


# Many parts


def test_parts_are_given_out_one_by_one(monkeypatch):
    """Whatever their number: nothing is submitted before somebody is free for it."""
    taken, open_now, most = [], [0], [0]

    class Process:
        def __init__(self, *_):
            pass

        def score(self, part):
            open_now[0] += 1
            most[0] = max(most[0], open_now[0])
            open_now[0] -= 1
            yield part

        def end(self):
            pass

    monkeypatch.setattr("scff.serving.workers._Process", Process)

    def parts():
        for i in range(10_000):
            taken.append(i)
            assert len(taken) - len(seen) <= 4 * 2 + 2 * 2  # the queue of events, and one part a process
            yield i

    seen = []
    score_in_processes(None, parts(), seen.append, 2)
    assert sorted(seen) == list(range(10_000))


def test_noting_ten_thousand_parts_costs_a_line_each(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    head = Head("model", (("prediction", "string"),))
    sizes = []
    with Manifest(place_of(out), head) as manifest:
        (journal,) = (out / "_scff").glob("done-*")
        for i in range(10_000):
            manifest.add(Record(f"part-{i:05d}", 1, "", f"part-{i:05d}", 1, 0, ""))
            if i % 1000 == 0:
                sizes.append(journal.stat().st_size)
    steps = np.diff(sizes)
    assert steps.max() == steps.min()
    for record in list(manifest.done.values()):
        (out / record.output).touch()
    started = time.process_time()
    with Manifest(place_of(out), head) as again:
        assert len(again.done) == 10_000
    assert time.process_time() - started < 5


# The command


def test_the_exit_code_says_that_a_part_was_not_scored(model, table, tmp_path):
    (table / "part-3.parquet").write_bytes(b"PAR1 this is not a table")
    done = scff("predict", model, table, "-o", tmp_path / "out", "--keep", "key")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "not scored: part-3.parquet cannot be read" in done.stderr
    assert done.stdout.startswith("180 predictions written to ")
    assert done.stdout.rstrip().endswith("in 6 parts")


# Folders that others made


def test_folders_spell_out_columns_with_signs_and_missing_ones(model, tmp_path):
    some = arrow(2, key=[0, 1])
    table = parts(
        tmp_path / "in", ("a%20day=1%2F2/p 1#?.parquet", some), ("a%20day=__HIVE_DEFAULT_PARTITION__/p.parquet", some)
    )
    score(model, table, tmp_path / "out.csv", keep=["key", "a day"])
    out = pd.read_csv(tmp_path / "out.csv")
    assert list(out) == ["a day", "key", "prediction", "p_ill", "p_well"]
    assert list(out["a day"].fillna("-")) == ["1/2", "1/2", "-", "-"]
    done = score(model, table, tmp_path / "out", keep=["key", "a day"])
    assert (done.rows, done.failed) == (4, ())
    assert [part.relative_to(tmp_path / "out") for part in outputs(tmp_path / "out")] == [
        part.relative_to(table) for part in outputs(table)
    ]


def test_a_folder_that_says_a_word_for_a_number_is_named(model, tmp_path):
    some = arrow(2).drop_columns("g0")
    table = parts(tmp_path / "in", ("g0=0.5/p.parquet", some), ("g0=high/p.parquet", some))
    done = score(model, table, tmp_path / "out")
    assert done.rows == 2
    assert [failure.reason for failure in done.failed] == [
        "g0=high/p.parquet: The column 'g0' was numeric at fit, and its folder says 'high'; give a number."
    ]


def test_a_column_that_is_empty_in_the_first_part_has_the_type_of_the_next(model, tmp_path):
    first = arrow(2).append_column("note", pa.nulls(2))
    table = parts(tmp_path / "in", ("p0.parquet", first), ("p1.parquet", arrow(2, note=["late", None])))
    done = score(model, table, tmp_path / "out", keep=["note"])
    assert (done.rows, done.failed) == (4, ())
    assert pq.read_schema(tmp_path / "out" / "p0.parquet").field("note").type == pa.string()
    alone = parts(tmp_path / "alone", ("p0.parquet", first), ("p1.parquet", first))
    assert score(model, alone, tmp_path / "out2", keep=["note"]).failed == ()


def test_two_columns_of_one_name_are_named(model, tmp_path):
    some = arrow(2, key=[0, 1])
    for name in ("g3", "key"):
        twice = pa.Table.from_arrays([*some.columns, some[name]], names=[*some.column_names, name])
        table = parts(tmp_path / name, ("p0.parquet", some), ("p1.parquet", twice))
        done = score(model, table, tmp_path / f"out-{name}", keep=["key"])
        assert [failure.reason for failure in done.failed] == [
            f"p1.parquet: There are two columns {name!r}; rename one."
        ]
    # One that nobody reads is nobody's business.
    other = pa.Table.from_arrays([*some.columns, some["g0"], some["g0"]], names=[*some.column_names, "x", "x"])
    assert score(model, parts(tmp_path / "x", ("p.parquet", other)), tmp_path / "out-x", keep=["key"]).rows == 2


def test_tables_that_would_write_over_each_other_are_refused(model, tmp_path):
    rows(2).to_csv(tmp_path / "a.csv", index=False)
    rows(2).to_parquet(tmp_path / "a.csv.parquet")
    out = tmp_path / "out" / "er"
    with pytest.raises(DataError, match=r"a\.csv\.parquet is named twice"):
        score(model, [tmp_path / "a.csv.parquet"] * 2, out)
    with pytest.raises(DataError, match=r"a\.csv and a\.csv\.parquet would have one name"):
        score(model, [tmp_path / "a.csv", tmp_path / "a.csv.parquet"], out)


def test_an_output_in_a_folder_of_one_part_is_refused_as_in_any_other(model, tmp_path):
    table = parts(tmp_path / "in", ("p.parquet", arrow(2)))
    with pytest.raises(DataError, match="lies in the folder that is read"):
        score(model, table, table / "out")
    score(model, table / "p.parquet", table / "out.csv")  # beside a file there is room


def test_notes_of_others_in_the_output_are_no_strangers(model, table, tmp_path):
    out = tmp_path / "out"
    (out / "_logs").mkdir(parents=True)
    for name in (".DS_Store", "_SUCCESS", "_logs/run.txt"):
        (out / name).touch()
    assert score(model, table, out).rows == 210
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").touch()
    with pytest.raises(DataError, match=r"mine\.txt"):
        score(model, table, tmp_path / "other")


def test_a_part_that_changes_in_memory_is_scored_again(model):
    import fsspec

    files = fsspec.filesystem("memory")
    for seed in range(2):
        with files.open("/changing/in/p.parquet", "wb") as file:
            pq.write_table(arrow(5, seed), file)
        done = score(model, "memory://changing/in", "memory://changing/out")
        assert (done.rows, done.skipped) == (5, 0)
    assert score(model, "memory://changing/in", "memory://changing/out").skipped == 1
