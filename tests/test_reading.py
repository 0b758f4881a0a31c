"""From files to a table: row names, two files, orientation, blocks, formats; as a command and in Python."""

from __future__ import annotations

import gzip
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from scipy import io, sparse
from typer.testing import CliRunner

import scff
from scff import FoldedClassifier
from scff.cli.main import app
from scff.errors import DataError, DataWarning
from scff.tables.on_disk import ParquetColumns
from scff.tables.reading import Request, read
from scff.tables.sparse import SparseColumns

N, D = 24, 12
LABELS = np.array(["ill", "well"] * (N // 2))
SAMPLES = [f"S{i:02d}" for i in range(N)]
GENES = [f"G{j}" for j in range(D)]


@pytest.fixture(scope="module")
def expression():
    """Samples in rows, genes in columns; the first gene tells the classes apart."""
    cells = np.random.default_rng(0).normal(size=(N, D)).round(3)
    cells[:, 0] += 3 * (LABELS == "ill")
    return pd.DataFrame(cells, index=SAMPLES, columns=GENES)


@pytest.fixture(scope="module")
def sheet():
    """The sample sheet: in another order, with a line too many and one too few."""
    lines = pd.DataFrame({"sample": SAMPLES, "dx": LABELS, "patient": [f"P{i // 2}" for i in range(N)], "age": 40})
    extra = pd.DataFrame({"sample": ["T99"], "dx": ["ill"], "patient": ["P99"], "age": [50]})
    return pd.concat([lines[1:], extra]).sample(frac=1, random_state=1)


@pytest.fixture
def folder(tmp_path, expression, sheet):
    expression.T.rename_axis("gene").to_csv(tmp_path / "genes_in_rows.tsv.gz", sep="\t")
    expression.rename_axis("sample").to_csv(tmp_path / "samples_in_rows.csv")
    expression.rename_axis("sample").assign(dx=LABELS).to_csv(tmp_path / "labelled.csv")
    sheet.to_csv(tmp_path / "meta.tsv", sep="\t", index=False)
    return tmp_path


def run(*args):
    done = CliRunner().invoke(app, list(map(str, args)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def planned(*args):
    return json.loads(run("plan", *args, "-b", "nano", "--json"))


# Row names


def sorted_noise(n=40, d=30):
    """Nothing but noise, with rows sorted by class."""
    frame = pd.DataFrame(np.random.default_rng(3).normal(size=(n, d)), columns=[f"x{j}" for j in range(d)])
    return frame, np.repeat(["a", "b"], n // 2)


IDS = {
    "text": lambda n: [f"sample{i:03d}" for i in range(n)],
    "count": lambda n: np.arange(n) + 1,
    "id": lambda n: np.arange(n) * 7 + 100_003,
}


@pytest.mark.parametrize("kind", [*IDS, "nameless"])
def test_a_row_name_finds_nothing_in_noise_sorted_by_class(tmp_path, kind):
    frame, y = sorted_noise()
    names = IDS["text" if kind == "nameless" else kind](len(frame))
    frame.insert(0, {"nameless": "", "count": "nr"}.get(kind, kind), names)
    path = tmp_path / "noise.csv"
    frame.assign(label=y).to_csv(path, index=False)
    facts = planned(path, "-t", "label")
    assert facts["discoveries"] == 0
    assert facts["columns"] == 30
    assert "row name, not a feature" in facts["notes"][0]
    in_python = frame.rename(columns={"": "Unnamed: 0"})
    with pytest.warns(DataWarning, match="row names") as told:
        clf = FoldedClassifier("nano", method="raw-core").fit(in_python, y)
    assert len([one for one in told if issubclass(one.category, DataWarning)]) == 1
    assert clf.plan_.discoveries == 0
    assert clf.fitted_.support.row_names.tolist() == [str(name) for name in names]
    forced = planned(path, "-t", "label", "--keep-id")
    assert forced["columns"] == 31
    assert forced["discoveries"] == 1
    with pytest.warns(DataWarning, match="Look at this before you believe the model") as told:
        FoldedClassifier("nano", method="raw-core", keep_id=True).fit(in_python, y)
    assert not [one for one in told if "row names" in str(one.message)]  # asked for, so not told again


def test_an_id_can_be_named_and_queries_may_have_it_or_not(tmp_path, expression):
    frame = expression.reset_index(names="barcode").assign(batch=1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Look at this")  # a gene that tells every label is none of this
        clf = FoldedClassifier("nano", method="raw-core", id_column="barcode").fit(frame, LABELS)
    assert clf.feature_names_in_.tolist() == [*GENES, "batch"]
    with_id, without = clf.predict_proba(frame), clf.predict_proba(frame.drop(columns="barcode"))
    np.testing.assert_array_equal(with_id, without)
    frame.assign(dx=LABELS).to_csv(tmp_path / "t.csv", index=False)
    data = read(tmp_path / "t.csv", target="dx", id="batch")
    assert data.table.names == ("barcode", *GENES)
    with pytest.raises(DataError, match="no column 'nobody'"):
        read(tmp_path / "t.csv", target="dx", id="nobody")


def test_the_index_of_a_frame_names_its_rows(expression):
    clf = FoldedClassifier("nano", method="raw-core").fit(expression, LABELS)
    assert clf.fitted_.support.row_names.tolist() == SAMPLES


def test_names_keep_their_zeros_and_the_index_of_a_parquet_file(tmp_path, expression):
    numbered = expression.set_axis([f"{i:03d}" for i in range(N)], axis=0).assign(dx=LABELS)
    numbered.to_csv(tmp_path / "t.csv")
    numbered.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert read(tmp_path / name, target="dx").row_names[:2].tolist() == ["000", "001"]


# Two files


def test_labels_and_groups_come_from_a_sample_sheet_and_features_in_rows_are_turned(folder, expression, sheet):
    data = read(folder / "genes_in_rows.tsv.gz", samples=folder / "meta.tsv", target="dx", group="patient")
    known = [name for name in SAMPLES if name in set(sheet["sample"])]
    assert data.row_names.tolist() == known
    assert data.table.names == tuple(GENES)
    np.testing.assert_allclose(data.table.values, expression.loc[known])
    assert data.y.tolist() == [LABELS[SAMPLES.index(name)] for name in known]
    assert data.groups.tolist() == [f"P{SAMPLES.index(name) // 2}" for name in known]
    said = " ".join(data.notes)
    assert "23 samples are in" in said
    assert "1 only in" in said
    assert "S00" in said
    assert "T99" in said
    same = read(folder / "samples_in_rows.csv", samples=folder / "meta.tsv", target="dx", on="sample")
    np.testing.assert_array_equal(same.table.values, data.table.values)
    assert same.table.names == data.table.names


def test_the_command_line_reads_two_files(folder):
    facts = planned(folder / "genes_in_rows.tsv.gz", "--samples", folder / "meta.tsv", "-t", "dx", "--group", "patient")
    assert (facts["columns"], facts["top"][0]["column"]) == (D, "G0")
    assert any("was turned" in note for note in facts["notes"])
    with pytest.raises(DataError, match="No sample of"):
        planned(folder / "genes_in_rows.tsv.gz", "--samples", folder / "meta.tsv", "-t", "dx", "--orient", "rows")


def test_what_cannot_be_joined_is_said(folder, sheet):
    pd.concat([sheet, sheet[:1]]).to_csv(folder / "twice.csv", index=False)
    with pytest.raises(DataError, match="more than one line"):
        read(folder / "samples_in_rows.csv", samples=folder / "twice.csv", target="dx")
    with pytest.raises(DataError, match="has no column 'nobody'"):
        read(folder / "samples_in_rows.csv", samples=folder / "meta.tsv", target="dx", on="nobody")
    with pytest.raises(DataError, match="did you mean 'dx'"):
        read(folder / "samples_in_rows.csv", samples=folder / "meta.tsv", target="DX")


def test_a_feature_that_occurs_twice_is_named(tmp_path):
    (tmp_path / "t.tsv").write_text("gene\ts1\ts2\nA\t1\t2\nA\t3\t4\n")
    with pytest.raises(DataError, match="Feature 'A' occurs more than once"):
        read(tmp_path / "t.tsv", orient="columns")


def test_a_row_of_labels_among_features_in_rows_is_the_target(tmp_path, expression):
    turned = pd.concat([pd.DataFrame([LABELS], index=["dx"], columns=SAMPLES), expression.T])
    turned.to_csv(tmp_path / "t.csv")
    data = read(tmp_path / "t.csv", target="dx")
    assert data.y.tolist() == LABELS.tolist()
    np.testing.assert_allclose(data.table.values, expression)


# Several tables


def test_several_tables_are_blocks_joined_by_sample(folder, expression):
    expression.iloc[::-1, :5].rename_axis("sample").to_csv(folder / "rna.csv")
    expression.iloc[2:, 5:].rename_axis("sample").to_csv(folder / "protein.csv")
    args = {"samples": folder / "meta.tsv", "target": "dx"}
    data = read([folder / "rna.csv", f"prot={folder / 'protein.csv'}"], **args)
    assert [(block.name, block.start, block.stop) for block in data.table.blocks] == [("rna", 0, 5), ("prot", 5, D)]
    assert data.table.names[4:6] == ("rna:G4", "prot:G5")
    np.testing.assert_allclose(data.table.values, expression.loc[list(data.row_names)])
    facts = planned(folder / "rna.csv", folder / "protein.csv", "--samples", folder / "meta.tsv", "-t", "dx")
    assert facts["top"][0]["column"] == "rna:G0"
    assert facts["top"][0]["block"] == "rna"


def test_blocks_with_features_in_rows_are_turned_and_joined(folder, expression):
    expression.iloc[:, :5].T.rename_axis("gene").assign(symbol="?").to_csv(folder / "rna.tsv", sep="\t")
    expression.iloc[::-1, 5:].T.rename_axis("protein").to_csv(folder / "protein.csv", sep=";")
    data = read([folder / "rna.tsv", folder / "protein.csv"], samples=folder / "meta.tsv", target="dx", group="patient")
    np.testing.assert_allclose(data.table.values, expression[1:])
    assert data.y.tolist() == LABELS[1:].tolist()
    assert any("symbol left out" in note for note in data.notes)


def test_blocks_in_python_are_a_dict_of_tables(folder, expression):
    blocks = {"rna": expression.iloc[:, :5], "protein": expression.iloc[::-1, 5:]}
    clf = FoldedClassifier("nano", method="raw-core").fit(blocks, LABELS)
    assert [block.name for block in clf.fitted_.support.blocks] == ["rna", "protein"]
    assert "rna:G0" in clf.feature_names_in_
    expected = clf.predict_proba(blocks)
    renamed = {"b": expression.iloc[:, 5:], "a": expression.iloc[:, :5]}
    with pytest.raises(DataError, match="lacks the column"):  # other names: the model's order counts
        clf.predict_proba(renamed)
    np.testing.assert_array_equal(clf.predict_proba({"a": renamed["a"], "b": renamed["b"]}), expected)
    np.testing.assert_array_equal(clf.predict_proba({"protein": renamed["b"], "rna": renamed["a"]}), expected)
    expression.iloc[:, :5].to_csv(folder / "rna.csv")
    np.testing.assert_array_equal(clf.predict_proba({"rna": folder / "rna.csv", "protein": renamed["b"]}), expected)
    with pytest.raises(DataError, match="fitted on 2 tables"):
        clf.predict_proba({"rna": renamed["a"]})


# Formats


def writers(folder):
    """Every format: how the labelled table is written, and the path to read."""

    def text(name, **options):
        return name, lambda frame: frame.rename_axis("sample").to_csv(folder / name, **options)

    def zstd(frame):
        cells = frame.rename_axis("sample").to_csv().encode()
        (folder / "t.csv.zst").write_bytes(pa.compress(cells, codec="zstd", asbytes=True))

    def r_table(frame):  # as R's write.table has it: no head above the row names
        lines = frame.to_csv(sep="\t").splitlines()
        (folder / "r.txt").write_text("\n".join([lines[0].removeprefix("\t"), *lines[1:]]))

    def arrow(frame):
        table = pa.Table.from_pandas(frame.rename_axis("sample").reset_index())
        with pa.ipc.new_stream(folder / "t.arrow", table.schema) as writer:
            writer.write_table(table)

    def npz(frame):
        np.savez(folder / "t.npz", X=frame[GENES].to_numpy(), names=np.array(GENES), dx=frame["dx"].to_numpy(str))

    def h5ad(frame):
        anndata_of(frame).write_h5ad(folder / "t.h5ad")

    return dict(
        [
            text("t.csv"),
            text("t.tsv", sep="\t"),
            text("semicolon.csv", sep=";"),
            text("german.csv", sep=";", decimal=","),
            text("t.txt", sep=" "),
            text("t.tab.gz", sep="\t"),
            text("utf16.txt", sep="\t", encoding="utf-16"),
            ("t.csv.zst", zstd),
            ("r.txt", r_table),
            ("t.parquet", lambda frame: frame.to_parquet(folder / "t.parquet")),
            ("t.feather", lambda frame: pa.feather.write_feather(frame.reset_index(), str(folder / "t.feather"))),
            ("t.arrow", arrow),
            ("t.xlsx", lambda frame: frame.rename_axis("sample").to_excel(folder / "t.xlsx")),
            ("t.h5ad", h5ad),
            ("t.npz", npz),
        ]
    )


def anndata_of(frame):
    import anndata

    cells = sparse.csr_matrix(frame[GENES].to_numpy())
    # Plain objects: the package does not write pandas' own strings.
    codes = pd.Categorical.from_codes([0, 1] * (N // 2), categories=pd.Index(["ill", "well"], dtype=object))
    obs = pd.DataFrame({"dx": codes}, index=pd.Index(SAMPLES, dtype=object))
    var = pd.DataFrame(index=pd.Index(GENES, dtype=object))
    return anndata.AnnData(cells, obs=obs, var=var, layers={"double": 2 * cells})


@pytest.mark.parametrize("name", list(writers(None)))
def test_every_format_gives_the_same_table(tmp_path, expression, name):
    writers(tmp_path)[name](expression.assign(dx=LABELS))
    data = read(tmp_path / name, target="dx")
    assert data.table.names == tuple(GENES)
    assert data.y.tolist() == LABELS.tolist()
    np.testing.assert_allclose(np.asarray(data.table.values), expression, rtol=1e-12)
    if name != "t.npz":
        assert data.row_names.tolist() == SAMPLES
    facts = planned(tmp_path / name, "-t", "dx")
    assert (facts["columns"], facts["top"][0]["column"]) == (D, "G0")


def test_arrays_and_sparse_matrices_have_no_names_and_take_labels_from_a_sheet(tmp_path, expression):
    pd.DataFrame({"dx": LABELS}).to_csv(tmp_path / "labels.csv", index=False)
    np.save(tmp_path / "t.npy", expression.to_numpy())
    sparse.save_npz(tmp_path / "t.npz", sparse.csr_matrix(expression.to_numpy()))
    io.mmwrite(tmp_path / "t.mtx", sparse.coo_matrix(expression.to_numpy()))
    for name in ("t.npy", "t.npz", "t.mtx"):
        data = read(tmp_path / name, samples=tmp_path / "labels.csv", target="dx")
        np.testing.assert_allclose(np.asarray(data.table.values), expression)
        assert data.y.tolist() == LABELS.tolist()
        assert isinstance(data.table.values, np.ndarray if name == "t.npy" else SparseColumns)
        facts = planned(tmp_path / name, "--samples", tmp_path / "labels.csv", "-t", "dx")
        assert (facts["columns"], facts["top"][0]["column"]) == (D, "x0")
        clf = FoldedClassifier("nano", method="raw-core").fit(tmp_path / name, LABELS)
        assert clf.plan_.hash == facts["hash"]


def test_a_10x_folder_is_read_with_cells_in_rows(tmp_path, expression, sheet):
    counts = sparse.coo_matrix(np.round(np.abs(expression.to_numpy()) * 3).astype(int))
    with gzip.open(tmp_path / "matrix.mtx.gz", "wb") as file:
        io.mmwrite(file, counts.T)
    features = "".join(f"ENSG{j}\t{gene}\tGene Expression\n" for j, gene in enumerate(GENES))
    with gzip.open(tmp_path / "features.tsv.gz", "wt") as file:
        file.write(features)
    with gzip.open(tmp_path / "barcodes.tsv.gz", "wt") as file:
        file.write("\n".join(SAMPLES) + "\n")
    sheet.to_csv(tmp_path / "cells.csv", index=False)
    data = read(tmp_path, samples=tmp_path / "cells.csv", target="dx")
    assert isinstance(data.table.values, SparseColumns)
    assert data.table.names == tuple(GENES)
    np.testing.assert_array_equal(np.asarray(data.table.values), counts.toarray()[1:])
    facts = planned(tmp_path, "--samples", tmp_path / "cells.csv", "-t", "dx")
    assert (facts["columns"], facts["top"][0]["column"]) == (D, "G0")
    assert any("23 samples are in" in note for note in facts["notes"])
    clf = FoldedClassifier("nano", method="raw-core").fit(tmp_path, LABELS)
    assert clf.fitted_.support.row_names.tolist() == SAMPLES
    assert isinstance(clf.fitted_.support.values, SparseColumns)
    (tmp_path / "barcodes.tsv.gz").unlink()
    with pytest.raises(DataError, match=r"has no barcodes.tsv"):
        read(tmp_path)


def test_a_layer_of_an_h5ad_file_can_be_read(tmp_path, expression):
    anndata_of(expression.assign(dx=LABELS)).write_h5ad(tmp_path / "t.h5ad")
    data = read(tmp_path / "t.h5ad", target="dx", layer="double")
    np.testing.assert_allclose(np.asarray(data.table.values), 2 * expression)
    cells = anndata_of(expression.assign(dx=LABELS))
    cells.layers["noise"] = np.random.default_rng(5).normal(size=(N, D))
    cells.write_h5ad(tmp_path / "t.h5ad")
    facts, other = (planned(tmp_path / "t.h5ad", "-t", "dx", "--layer", layer) for layer in ("double", "noise"))
    assert facts["top"][0]["column"] == "G0"
    assert facts["discoveries"] > other["discoveries"] == 0
    with pytest.raises(DataError, match="its layers are: double"):
        read(tmp_path / "t.h5ad", target="dx", layer="raw")


def test_a_very_wide_parquet_file_stays_on_disk_beside_its_names(tmp_path, expression, sheet, monkeypatch):
    monkeypatch.setattr("scff.tables.on_disk._WIDE", 5)
    expression.reset_index(names="sample").assign(dx=LABELS).to_parquet(tmp_path / "t.parquet")
    sheet.to_csv(tmp_path / "meta.csv", index=False)
    data = read(tmp_path / "t.parquet", target="dx")
    assert isinstance(data.table.values, ParquetColumns)
    assert data.row_names.tolist() == SAMPLES
    assert data.table.names == tuple(GENES)
    joined = read(tmp_path / "t.parquet", samples=tmp_path / "meta.csv", target="dx", group="patient")
    np.testing.assert_allclose(joined.table.columns(np.arange(D)), expression[1:])
    categories = expression.reset_index(names="sample").assign(dx=LABELS, site=["x", "y"] * (N // 2))
    categories.to_parquet(tmp_path / "c.parquet")
    assert not read(tmp_path / "c.parquet", target="dx").table.is_numeric


@pytest.mark.parametrize("command", ["fit", "plan", "evaluate"])
def test_every_option_of_reading_reaches_the_reader(folder, monkeypatch, command):
    asked = []

    def seen(request, like=None):
        asked.append(request)
        raise DataError("seen")

    monkeypatch.setattr("scff.tables.reading.read_dataset", seen)
    options = ["--samples", folder / "meta.tsv", "--on", "sample", "--orient", "rows", "--id", "name", "--keep-id"]
    options += ["--group", "patient", "--drop", "G1", "--drop", "G2", "--categorical", "G3", "--layer", "counts"]
    output = ["-o", folder / "m"] if command == "fit" else []
    with pytest.raises(DataError, match="seen"):
        run(command, f"rna={folder / 'labelled.csv'}", folder / "samples_in_rows.csv", "-t", "dx", *options, *output)
    assert asked == [
        Request(
            (("rna", folder / "labelled.csv"), ("samples_in_rows", folder / "samples_in_rows.csv")),
            target="dx",
            samples=folder / "meta.tsv",
            on="sample",
            orient="rows",
            id="name",
            keep_id=True,
            group="patient",
            drop=("G1", "G2"),
            categorical=("G3",),
            layer="counts",
        )
    ]


def test_a_path_in_python_is_read_as_by_a_command(folder, expression):
    with pytest.warns(DataWarning, match="'sample'"):
        clf = FoldedClassifier("nano", method="raw-core").fit(str(folder / "labelled.csv"), "dx")
    assert clf.feature_names_in_.tolist() == GENES
    assert clf.fitted_.support.row_names.tolist() == SAMPLES
    expected = clf.predict_proba(expression)
    for path in ("samples_in_rows.csv", "genes_in_rows.tsv.gz", "labelled.csv"):
        np.testing.assert_array_equal(clf.predict_proba(folder / path), expected)
    clf.save(folder / "m.scff")
    again = scff.load(folder / "m.scff")
    assert again.fitted_.support.row_names.tolist() == SAMPLES
    np.testing.assert_array_equal(again.predict_proba(folder / "genes_in_rows.tsv.gz"), expected)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.csv", b"", "cannot be read"),
        ("t.csv", b"a,b\n", "holds no rows"),
        ("t.csv", b"a,a\n1,2\n", "'a' occurs more than once"),
        ("t.csv", b"a,b\n1,\xff\xfe\xff\n", "not UTF-8"),
        ("t.csv.gz", b"not gzip", "cannot be read"),
        ("t.csv.zst", b"not zstd", "cannot be read"),
        ("t.parquet", b"PAR1 nothing", "cannot be read"),
        ("t.feather", b"nothing", "cannot be read"),
        ("t.xlsx", b"nothing", "cannot be read"),
        ("t.h5ad", b"nothing", "cannot be read"),
        ("t.npy", b"nothing", "cannot be read"),
        ("t.npz", b"nothing", "cannot be read"),
        ("t.mtx", b"nothing", "cannot be read"),
        ("t.docx", b"nothing", "of no kind that is known"),
    ],
)
def test_a_file_that_is_no_table_is_one_sentence(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        read(tmp_path / name)
