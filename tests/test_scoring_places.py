"""Where scores go and what is read: files not written, several tables and folders, keys, parts without rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from scff import FoldedClassifier
from scff.errors import DataError
from scff.serving import Scorer, score
from scff.serving.parts import Job, score_part
from scff.serving.places import place_of
from scff.serving.source import source_of
from serving_tables import NAMES, arrow, keys, parts, rows, scff, seven_parts, small_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.scff"
    small_model().save(path)
    return path


@pytest.fixture
def table(tmp_path):
    return seven_parts(tmp_path / "table")


def broken(table):
    (table / "part-3.parquet").write_bytes(b"PAR1 this is not a table")
    return table


def test_a_file_with_a_bad_part_is_not_written_and_says_so(model, table, tmp_path):
    out, waiting = tmp_path / "out.csv", tmp_path / ".out.csv.parts"
    done = score(model, broken(table), out, keep=["key"])
    assert (done.written, done.waiting, done.rows) == (False, str(waiting), 180)
    assert not out.exists()
    with pytest.raises(DataError, match=r"out\.csv was begun with other columns.*\.out\.csv\.parts.*--overwrite"):
        score(model, table, out, proba=False)
    rows(30, seed=3, key=np.arange(90, 120)).to_parquet(table / "part-3.parquet")
    done = score(model, table, out, keep=["key"])
    assert (done.written, done.waiting, done.skipped, done.rows) == (True, None, 6, 30)
    assert sorted(pd.read_csv(out)["key"]) == list(range(210))
    assert not waiting.exists()


def test_parts_that_waited_for_a_file_go_when_a_part_alone_makes_it(model, table, tmp_path):
    score(model, broken(table), tmp_path / "out.csv", keep=["key"])
    score(model, table / "part-1.parquet", tmp_path / "out.csv", keep=["key"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "table"]
    for part in table.rglob("*.parquet"):
        part.write_bytes(b"PAR1 nor is this")
    with pytest.raises(DataError, match="cannot be read"):  # no part says what is carried
        score(model, table, tmp_path / "out2.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "table"]


def test_the_command_says_that_a_file_is_not_written(model, table, tmp_path):
    out = tmp_path / "out.csv"
    for old in ("", " (what is there is of an earlier run)"):
        done = scff("predict", model, broken(table), "-o", out, "--keep", "key")
        assert done.returncode == 1
        assert f"{out} is not written{old}; 6 parts wait in {tmp_path}/.out.csv.parts; mend what" in done.stderr
        assert "written" not in done.stdout
        out.write_text("of last year")
    said = json.loads(scff("predict", model, table, "-o", out, "--keep", "key", "--json").stdout)
    assert (said["written"], said["skipped"]) == (False, 6)


def test_tables_named_one_by_one_leave_room_beside_them(model, tmp_path):
    for i, name in enumerate("ab"):
        rows(5, seed=i, key=np.arange(5 * i, 5 * i + 5)).to_parquet(tmp_path / f"{name}.parquet")
    tables = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    score(model, tables, tmp_path / "both.csv", keep=["key"])
    assert list(pd.read_csv(tmp_path / "both.csv")["key"]) == list(range(10))
    score(model, tables, tmp_path / "both", keep=["key"])
    assert keys(tmp_path / "both") == list(range(10))
    (tmp_path / "link.parquet").symlink_to(tables[1])
    for output in (tables[1], tmp_path / "link.parquet", tmp_path):
        with pytest.raises(DataError, match="is one of the files that are read"):
            score(model, tables, output, keep=["key"])


def test_several_folders_are_their_files(model, table, tmp_path):
    """A part for every file, with partitions; a file that changes is scored again, and a broken one fails alone."""
    more = parts(tmp_path / "more" / "day=9", ("p.parquet", arrow(4, key=range(500, 504))))
    out = tmp_path / "out"
    sources = [table, more.parent]
    assert score(model, sources, out, keep=["key"]).parts == 8
    assert (out / "more" / "day=9" / "p.parquet").exists()
    assert (out / "table" / "day=5" / "part-5.parquet").exists()
    rows(31, key=np.arange(1000, 1031)).to_parquet(table / "part-1.parquet")
    broken(table)
    done = score(model, sources, out, keep=["key"])
    assert (done.skipped, done.rows, [failure.part for failure in done.failed]) == (6, 31, ["table/part-3.parquet"])
    with pytest.raises(DataError, match="lies in the folder that is read"):
        score(model, sources, more / "out")
    with pytest.raises(DataError, match="lies in the folder that is read"):
        score(model, pyarrow.dataset.dataset(table, partitioning="hive", exclude_invalid_files=True), table / "out")
    with pytest.raises(DataError, match=r"part-5\.parquet is named twice"):
        score(model, [table, table / "day=5"], tmp_path / "out2")
    assert source_of([table]).parts == source_of(table).parts


def test_a_folder_of_10x_is_one_table(tmp_path):
    import gzip

    from scipy.io import mmwrite
    from scipy.sparse import csr_array

    folder = tmp_path / "cells"
    folder.mkdir()
    counts = np.random.default_rng(0).poisson(2, size=(40, 12))
    counts[::2, :4] += 5
    mmwrite(folder / "matrix.mtx", csr_array(counts.T))
    (folder / "barcodes.tsv").write_text("".join(f"c{i}\n" for i in range(40)))
    (folder / "features.tsv").write_text("".join(f"{name}\t{name}\tGene Expression\n" for name in NAMES))
    for name in ("matrix.mtx", "barcodes.tsv", "features.tsv"):
        with gzip.open(folder / f"{name}.gz", "wb") as file:
            file.write((folder / name).read_bytes())
        (folder / name).unlink()
    frame = pd.DataFrame(counts, columns=NAMES)
    clf = FoldedClassifier("nano", method="raw-core").fit(frame, np.arange(40) % 2)
    clf.save(tmp_path / "m.scff")
    score(tmp_path / "m.scff", folder, tmp_path / "out.csv")
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["p_0"], clf.predict_proba(frame)[:, 0], atol=1e-6)
    assert score(tmp_path / "m.scff", [folder], tmp_path / "out").rows == 40
    assert score(tmp_path / "m.scff", [folder], tmp_path / "out").skipped == 1


@pytest.mark.parametrize(("start", "step"), [(100, 1), (0, 1), (9, -3)])
def test_keys_that_pandas_does_not_write_are_keys(model, tmp_path, start, step):
    """An index in even steps stands in a Parquet file as start and step."""
    keys = np.arange(start, start + 20 * step, step)
    rows(20, key=keys).set_index("key").to_parquet(tmp_path / "in.parquet")
    assert pq.read_schema(tmp_path / "in.parquet").names == NAMES
    for asked in ({}, {"keep": ["key"]}, {"id": "key"}):
        score(model, tmp_path / "in.parquet", tmp_path / "out.parquet", memory_limit="64MiB", **asked)
        out = pd.read_parquet(tmp_path / "out.parquet")
        assert list(out) == ["key", "prediction", "p_ill", "p_well"]
        assert list(out["key"]) == list(keys)
    read = source_of(tmp_path / "in.parquet").parts[0]
    few = Job(Scorer(model), place_of(tmp_path / "few.parquet"), is_folder=False, room=32 * 12 * 3)
    assert few.rows == 3  # the fourth row is the first of the second batch
    score_part(few, read)
    assert list(pd.read_parquet(tmp_path / "few.parquet")["key"]) == list(keys)
    # The note of a table that somebody has cut says nothing of the piece.
    pq.write_table(pq.read_table(tmp_path / "in.parquet").slice(3, 5), tmp_path / "cut.parquet")
    score(model, tmp_path / "cut.parquet", tmp_path / "out.parquet")
    assert "key" not in pd.read_parquet(tmp_path / "out.parquet")


def test_a_first_part_without_rows_does_not_decide_what_is_carried(model, tmp_path):
    empty = arrow(1, key=["x"], note=[1.5]).slice(0, 0)
    table = parts(tmp_path / "in", ("p0.parquet", empty), ("p1.parquet", arrow(9, key=range(9), note=["late"] * 9)))
    for asked in ({"keep": ["key", "note"]}, {"keep": ["note"], "id": "key"}):
        done = score(model, table, tmp_path / "out", overwrite=True, **asked)
        assert (done.rows, done.failed) == (9, ())
        schema = pq.read_schema(tmp_path / "out" / "p0.parquet")
        assert schema.equals(pq.read_schema(tmp_path / "out" / "p1.parquet"))
        assert [schema.field(name).type for name in ("key", "note")] == [pa.int64(), pa.string()]


def test_a_part_without_rows_is_an_empty_part_in_every_format(model, tmp_path):
    full = rows(6).assign(sample=[f"s{i}" for i in range(6)])
    for name, frame in (("a", full[:0]), ("b", full)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    tables = [tmp_path / "a.csv", tmp_path / "b.csv"]
    done = score(model, tables, tmp_path / "out", keep=["sample"])
    assert (done.parts, done.rows, done.failed) == (2, 6, ())
    written = [pq.read_table(tmp_path / "out" / f"{name}.csv.parquet") for name in "ab"]
    assert written[0].schema == written[1].schema
    assert [part.num_rows for part in written] == [0, 6]
    score(model, tables[0], tmp_path / "alone.csv")
    assert (tmp_path / "alone.csv").read_text() == "prediction,p_ill,p_well\n"
    full[:0].drop(columns="g3").to_csv(tables[0], index=False)
    done = score(model, tables, tmp_path / "out2", keep=["sample"])
    assert "holds no rows" in done.failed[0].reason


def test_row_names_that_are_to_be_kept_come_out_once(model, tmp_path):
    frame = rows(6, sample=[f"s{i}" for i in range(6)], site=list("aabbcc"))
    frame.to_parquet(tmp_path / "in.parquet")
    frame.to_csv(tmp_path / "in.csv", index=False)
    for name in ("in.parquet", "in.csv"):
        score(model, tmp_path / name, tmp_path / "out.csv", keep=["site", "sample"], id="sample")
        out = pd.read_csv(tmp_path / "out.csv")
        assert list(out) == ["sample", "site", "prediction", "p_ill", "p_well"]
        assert list(out["sample"]) == list(frame["sample"])


def test_what_is_outdated_does_not_stay_beside_not_scored(model, table, tmp_path):
    out = tmp_path / "out"
    score(model, table, out, keep=["key"])
    broken(table)
    (table / "part-1.parquet").unlink()
    done = score(model, table, out, keep=["key"])
    assert [failure.part for failure in done.failed] == ["part-3.parquet"]
    assert not (out / "part-3.parquet").exists()
    assert done.gone == ("part-1.parquet",)
    said = scff("predict", model, table, "-o", out, "--keep", "key")
    assert "part-1.parquet is of a table that is gone" in said.stderr
    assert said.stdout == f"{out} has nothing new\n5 parts were there already\n"


def test_files_that_are_passed_over_are_counted(model, table, tmp_path):
    assert score(model, table, tmp_path / "out").notes == ()
    rows(2).to_csv(table / "more.csv")
    assert score(model, table, tmp_path / "out").notes == ("more.csv is no Parquet file and was passed over",)
    rows(2).to_csv(table / "day=5" / "more.csv")
    said = scff("predict", model, table, "-o", tmp_path / "out")
    assert "2 files are no Parquet (day=5/more.csv, ...) and were passed over" in said.stdout


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"engine": "spark"}, 'engine must be "local" or "ray", not \'spark\''),
        ({"keep": "key"}, "keep must be a list of names of columns, not key"),
        ({"workers": "2"}, "workers is '2'; use a whole number"),
        ({"workers": 0}, "workers is '0'; use a whole number"),
    ],
)
def test_arguments_of_a_wrong_kind_are_refused_in_a_sentence(model, table, tmp_path, asked, message):
    with pytest.raises(DataError, match=message):
        score(model, table, tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()


def test_notes_stop_where_nobody_reads_on(model, tmp_path):
    for i in range(14):
        rows(6, sample=[f"s{i}" for i in range(6)]).to_csv(tmp_path / f"{i:02d}.csv", index=False)
    tables = sorted(tmp_path.glob("*.csv"))
    said = scff("predict", model, *tables, "-o", tmp_path / "out")
    assert said.stdout.count("is the row name") == 10
    assert "and 4 more notes" in said.stdout
    assert len(score(model, tables, tmp_path / "out2").notes) == 14
    again = scff("predict", model, *tables, "-o", tmp_path / "out")
    assert again.stdout == f"{tmp_path / 'out'} is up to date\n14 parts were there already\n"


def test_whoever_reads_a_log_sees_a_line_now_and_then(monkeypatch, capsys):
    from scff.cli import predict
    from scff.serving import Progress

    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(predict.time, "monotonic", lambda: next(clock))
    show, quiet = predict._Lines(shown=True), predict._Lines(shown=False)
    for parts_done in range(8):
        show(Progress(parts_done, 8, 100 * parts_done, 50.0, 75.0))
        quiet(Progress(parts_done, 8, 100 * parts_done, 50.0, 75.0))
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert lines[0].startswith("scff: ")
    assert lines[0].endswith("a second, 1:15 to go")
    assert len(lines) < 8
