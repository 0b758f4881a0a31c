"""Text tables as instruments, spreadsheets and other countries write them: read as they are meant, or refused."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from hostile.judging import sentence
from scff import FoldedClassifier
from scff.errors import DataError
from scff.tables.hidden_numbers import refuse_hidden_numbers
from scff.tables.reading import read

N = 40
X = np.random.default_rng(0).normal(size=(N, 3)).round(3)
Y = ["ill", "well"] * (N // 2)


def text(write=str, sep=",", end="", head=("a", "b", "c", "y")):
    lines = [sep.join([*(write(float(v)) for v in row), label]) + end for row, label in zip(X, Y, strict=True)]
    return "\n".join([sep.join(head), *lines, ""])


def refused(path):
    with pytest.raises(DataError) as told:
        read(path, target="y")
    sentence(str(told.value))
    return str(told.value)


@pytest.mark.parametrize("sep", [",", "\t", ";", "|"])
def test_a_delimiter_at_the_end_of_lines_does_not_move_the_columns(tmp_path, sep, tally):
    (tmp_path / "t.csv").write_text(text(sep=sep, end=sep))
    assert "one field more than its header" in refused(tmp_path / "t.csv")
    # Where the target stands first, pandas would give it the values of its neighbour.
    lines = [sep.join([str(i % 2), str(i % 3), f"{X[i, 0]}", ""]) for i in range(N)]
    (tmp_path / "t.csv").write_text("\n".join([sep.join("yab"), *lines, ""]))
    assert "one field more than its header" in refused(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text(text(sep=sep, end=sep, head=("a", "b", "c", "y", "")))
    assert read(tmp_path / "t.csv", target="y").y.tolist() == Y
    tally("text files", "refused", 2)
    tally("text files", "served")


@pytest.mark.parametrize(
    ("above", "words"),
    [("My table\n", "'My table'"), ("sep=;\n", "'sep=;'"), ("x,y\n", "'x,y'"), ("x y\n", "first line has 2")],
)
def test_a_line_above_the_header_is_no_header(tmp_path, above, words, tally):
    sep = next((mark for mark in (";", ",") if mark in above), " " if above == "x y\n" else ",")
    (tmp_path / "t.csv").write_text(above + text(sep=sep))
    assert words in refused(tmp_path / "t.csv")
    tally("text files", "refused")


@pytest.mark.parametrize("sep", ["\t", ";", "|"])
def test_a_decimal_comma_is_one_wherever_no_field_ends_in_a_comma(tmp_path, sep, tally):
    (tmp_path / "t.csv").write_text(text(lambda v: str(v).replace(".", ","), sep=sep))
    data = read(tmp_path / "t.csv", target="y")
    np.testing.assert_array_equal(np.asarray(data.table.values), X)
    tally("text files", "served")


def test_what_may_be_thousands_is_no_fraction(tmp_path, tally):
    (tmp_path / "t.csv").write_text(text(lambda v: f"{1000 + abs(v * 1000):,.0f}", sep="\t"))
    assert "write plain numbers" in refused(tmp_path / "t.csv")
    tally("text files", "refused")


@pytest.mark.parametrize(
    "write",
    [
        lambda v: f'"{v:.1f}"'.replace(".", ","),
        lambda v: f'"{v * 10_000:,.0f}"',
        lambda v: f"{v * 100:.0f}%",
        lambda v: f"${v * 100:.0f}",
        lambda v: f"{v:.2f} €",
        lambda v: "<0.5" if v < 0.5 else str(v),
        *(lambda v, mark=mark: mark if v > 1 else str(v) for mark in ("?", "-", ".", "N.A.", "unknown", " NaN ")),
    ],
)
def test_numbers_in_disguise_are_neither_labels_nor_row_names(tmp_path, write, tally):
    (tmp_path / "t.csv").write_text(text(write))
    words = refused(tmp_path / "t.csv")
    assert "holds numbers, and" in words
    frame = pd.read_csv(tmp_path / "t.csv")
    with pytest.raises(DataError, match="holds numbers, and"):
        FoldedClassifier("nano", method="raw-core").fit(frame, "y")
    tally("text files", "refused", 2)


@pytest.mark.parametrize(
    "labels",
    [
        ["10%", "20%", "40%"],
        ["1", "2", "3", "unknown"],
        ["3", "3a", "3b"],
        [f"{i:03d}" for i in range(30)],
        [f"V{i}" for i in range(30)],
        ["250.1", "V27", *map(str, range(30))],
        [None, *map(str, range(30))],
    ],
)
def test_labels_with_digits_stay_labels(labels, tally):
    refuse_hidden_numbers(pd.DataFrame({"a": labels * 5}))
    tally("text files", "served")


def test_numbers_in_disguise_may_be_called_categories(tmp_path, tally):
    (tmp_path / "t.csv").write_text(text(lambda v: f"{v * 10:.0f}%"))
    data = read(tmp_path / "t.csv", target="y", categorical=("a", "b", "c"))
    assert data.table.names == ("a", "b", "c")
    tally("text files", "served")


def test_unusual_but_whole_files_are_read(tmp_path, tally):
    plain = text()
    named = '"two\nlines"' + plain[1:]
    for name, content in {
        "T.CSV.GZ": gzip.compress(plain.encode()),
        "utf32.csv": plain.encode("utf-32"),
        "newline.csv": named.encode(),
    }.items():
        (tmp_path / name).write_bytes(content)
        data = read(tmp_path / name, target="y")
        np.testing.assert_array_equal(np.asarray(data.table.values), X)
        assert data.y.tolist() == Y
        tally("text files", "served")


def test_a_spreadsheet_has_one_header_in_its_first_row(tmp_path, tally):
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=Y)
    frame.rename(columns={"b": "a"}).to_excel(tmp_path / "t.xlsx", index=False)
    assert "'a' occurs more than once" in refused(tmp_path / "t.xlsx")
    frame.to_excel(tmp_path / "t.xlsx", index=False, startrow=3)
    assert "does not name its columns" in refused(tmp_path / "t.xlsx")
    frame.to_excel(tmp_path / "t.xlsx")
    assert read(tmp_path / "t.xlsx", target="y").table.names == ("a", "b", "c")
    tally("text files", "refused", 2)
    tally("text files", "served")


def test_labels_of_a_square_array_are_not_its_column_names(tmp_path, tally):
    names = np.array(["p", "q", "r"])
    np.savez(tmp_path / "t.npz", X=X[:3], y=np.array(["u", "v", "u"]), names=names)
    data = read(tmp_path / "t.npz", target="y")
    assert data.table.names == ("p", "q", "r")
    assert data.y.tolist() == ["u", "v", "u"]
    np.save(tmp_path / "t.npy", X)
    assert "its columns have no names" in refused(tmp_path / "t.npy")
    tally("text files", "served")
    tally("text files", "refused")
