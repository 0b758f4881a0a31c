"""Tables that stay on disk."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from conftest import make_wide, paper
from scff import compile_plan
from scff.cli.main import app
from scff.errors import DataError
from scff.tables.on_disk import ParquetColumns, open_labelled, open_wide
from scff.tables.reading import read


def frame_of(X, dtype=np.float32):
    return pd.DataFrame(X.astype(dtype), columns=[f"g{j}" for j in range(X.shape[1])])


@pytest.fixture
def files(tmp_path):
    """Support and query of one table as Parquet (several row groups) and as .npy, with missing values."""
    X, y, Q = make_wide(n_support=70)
    X[3, 5] = X[10:20, 7] = Q[2, 9] = np.nan
    X, Q = frame_of(X), frame_of(Q)
    X.assign(label=np.where(y == 0, "no", "yes")).to_parquet(tmp_path / "support.parquet", row_group_size=32)
    Q.to_parquet(tmp_path / "query.parquet", row_group_size=7)
    np.save(tmp_path / "support.npy", X.to_numpy())
    np.save(tmp_path / "query.npy", np.asfortranarray(Q.to_numpy()))
    return tmp_path, X, y, Q


def test_a_parquet_table_is_the_array_it_stores(files):
    folder, X, _, _ = files
    columns = open_labelled(folder / "support.parquet", "label")[0].values
    assert isinstance(columns, ParquetColumns)
    whole = X.to_numpy()
    assert (columns.shape, len(columns), columns.dtype) == (whole.shape, 70, whole.dtype)
    for rows in (slice(None), slice(0, 1), slice(31, 33), slice(40, 70), slice(5, 5)):
        for some in (np.array([7, 3, 299]), slice(10, 20)):
            np.testing.assert_array_equal(columns[rows, some], whole[rows, some])
            np.testing.assert_array_equal(columns[20:60][rows, some], whole[20:60][rows, some])
    np.testing.assert_array_equal(np.asarray(columns[10:40]), whole[10:40])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(columns)), whole)


@pytest.mark.parametrize("kind", ["parquet", "npy"])
@pytest.mark.parametrize("settings", [{}, {"cache": False, "query_chunk": 4}])
def test_a_table_on_disk_gives_the_same_predictions(files, kind, settings):
    folder, X, y, Q = files
    if kind == "npy":
        X, Q = X.to_numpy(), Q.to_numpy()
    settings |= {"leaf_width": 32, "tail": "raw-residual"}
    expected = paper("nano", **settings).fit(X, y)
    if kind == "parquet":
        support, labels = open_labelled(folder / "support.parquet", "label")
        lazy = paper("nano", **settings).fit(support, labels == "yes")
    else:
        lazy = paper("nano", **settings).fit(folder / "support.npy", y)
    assert lazy.plan_ == expected.plan_
    proba = expected.predict_proba(Q)
    np.testing.assert_array_equal(lazy.predict_proba(folder / f"query.{kind}"), proba)
    again = pickle.loads(pickle.dumps(lazy))
    for file in folder.iterdir():
        file.unlink()  # a saved model stands on its own
    np.testing.assert_array_equal(again.predict_proba(Q), proba)


def test_routing_and_folding_never_load_the_whole_file(files, monkeypatch):
    folder, _, y, _ = files
    largest = []
    decode = ParquetColumns._decode

    def watched(self, groups, indices):
        largest.append(len(indices))
        return decode(self, groups, indices)

    monkeypatch.setattr(ParquetColumns, "_decode", watched)
    monkeypatch.setattr("scff.plan.column_scores._BLOCK_BYTES", 8 * 70 * 50)
    monkeypatch.setattr("scff.backbones.shared.varying.BLOCK", 50)
    monkeypatch.setattr("scff.plan.leaks._BLOCK", 50)
    support, _ = open_labelled(folder / "support.parquet", "label")
    clf = paper("nano", leaf_width=32, tail="raw-residual").fit(support, y)
    assert max(largest) == 50
    # Looking for constants, scoring, what looks too good (twice), encoding; the Core once more, for its unit.
    assert sum(largest) == 5 * 300 + len(clf.plan_.core)
    del largest[:]
    clf.predict_proba(open_wide(folder / "query.parquet"))
    assert max(largest) <= 32
    assert sum(largest) == 300  # all chunks of rows of a leaf come from one read


def test_integers_and_truth_values_are_numbers(tmp_path):
    X, y, _ = make_wide(n_columns=20)
    frame = frame_of(X, np.float64).assign(count=np.arange(60) % 7, flag=y == 1)
    frame["gap"] = pd.array([None, *range(59)], dtype="Int64")
    frame.index = frame.index[::-1] + 100  # which pandas stores as one more column
    frame.to_parquet(tmp_path / "mixed.parquet")
    assert compile_plan(open_wide(tmp_path / "mixed.parquet"), y) == compile_plan(frame, y)


@pytest.mark.parametrize("name", ["t.parquet", "t.npy"])
def test_infinity_is_found_and_named(tmp_path, name):
    X, y, _ = make_wide(n_columns=20)
    X[4, 11] = np.inf
    X[5, 3] = np.nan
    frame_of(X).to_parquet(tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", X)
    with pytest.raises(DataError, match=r"infinity in column .*11"):
        paper("nano").fit(tmp_path / name, y)


def test_what_cannot_be_opened_is_one_sentence(tmp_path):
    frame_of(np.ones((3, 2))).assign(text="a").to_parquet(tmp_path / "text.parquet")
    np.save(tmp_path / "flat.npy", np.ones(3))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and then nothing")
    (tmp_path / "broken.npy").write_bytes(b"")
    (tmp_path / "table.csv").write_text("a\n1\n")
    for name, message in {
        "text.parquet": "'text' .* is .*string, not a number",
        "flat.npy": "1 dimensions",
        "broken.parquet": "cannot be read as Parquet",
        "broken.npy": "cannot be read as a NumPy array",
        "missing.parquet": "no file",
        "table.csv": "neither Parquet nor",
    }.items():
        with pytest.raises(DataError, match=message):
            open_wide(tmp_path / name)
    with pytest.raises(DataError, match="no column 'colour'"):
        open_labelled(tmp_path / "text.parquet", "colour")


def test_the_model_wants_its_own_columns(files):
    folder, X, y, _ = files
    clf = paper("nano").fit(X, y)
    with pytest.raises(DataError, match="feature"):
        clf.predict_proba(open_wide(folder / "query.parquet", [f"g{j}" for j in range(299)]))
    with pytest.raises(DataError, match="feature"):
        clf.predict_proba(open_wide(folder / "query.parquet", [f"g{j}" for j in range(300)][::-1]))


def test_the_command_line_leaves_wide_parquet_on_disk(files, monkeypatch):
    folder, _, _, Q = files
    run = CliRunner().invoke
    fit = ["fit", str(folder / "support.parquet"), "-t", "label", "-b", "nano", "-o"]
    predict = [str(folder / "query.parquet"), "-o"]
    assert run(app, [*fit, str(folder / "loaded.scff")]).exit_code == 0
    monkeypatch.setattr("scff.tables.on_disk._WIDE", 100)
    monkeypatch.setattr("pandas.read_parquet", None)
    assert isinstance(read(folder / "support.parquet", target="label").table.values, ParquetColumns)
    assert run(app, [*fit, str(folder / "wide.scff")]).exit_code == 0
    outputs = []
    for name in ("loaded", "wide"):
        out = folder / f"{name}.csv"
        assert run(app, ["predict", str(folder / f"{name}.scff"), *predict, str(out)]).exit_code == 0
        outputs.append(pd.read_csv(out))
    pd.testing.assert_frame_equal(*outputs)
    assert len(outputs[0]) == len(Q)
