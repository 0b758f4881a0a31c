"""Row names in the guises that programs give them: never a feature in silence, never matched where there is none."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from scff import FoldedClassifier
from scff.errors import DataWarning
from scff.tables.naming import as_row_names, find_row_names
from scff.tables.reading import read

N = 40
X = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 3)), columns=list("abc"))
Y = np.array(["ill", "well"] * (N // 2))
NAMES = [f"s{i}" for i in range(N)]

IN_DISGUISE = {
    "whole numbers beyond any float": ("patient_id", 2**60 + 17 * np.arange(N)),
    "counting beyond any float": ("c1", 2**62 + np.arange(N)),
    "beyond 64 bits": ("id", pd.Series([2**70 + i for i in range(N)], dtype=object)),
    "floats": ("patient_id", 1e6 + 17.0 * np.arange(N)),
    "counting floats": ("c1", np.arange(float(N))),
    "floats, one missing": ("id", np.where(np.arange(N) == 5, np.nan, 100.0 + np.arange(N))),
    "whole numbers, one missing": ("id", pd.array([None, *range(100, 99 + N)], dtype="Int64")),
    "text, one missing": ("sample", [None, *NAMES[1:]]),
    "text, one twice": ("sample", ["s1", *NAMES[1:]]),
    "categories": ("c1", pd.Categorical(NAMES)),
    "several types": ("c1", pd.Series([i if i % 2 else f"s{i}" for i in range(N)], dtype=object)),
}


@pytest.mark.parametrize("kind", IN_DISGUISE)
def test_row_names_in_disguise_are_no_features(kind, tally):
    name, values = IN_DISGUISE[kind]
    naming = find_row_names(X.assign(**{name: values}))
    assert [one for one, _ in naming.aside] == [name]
    assert naming.id_column == name
    tally("row names", "served")


def test_measurements_are_no_row_names(tally):
    ranks = X.rank()
    for column in (
        ranks["a"],
        pd.Series(np.round(X["a"] * 1e6)),
        pd.Series(pd.date_range("2020", periods=N)),
        pd.Series(np.arange(N) // 2 * 2.0),
    ):
        assert not find_row_names(X.assign(x=column)).aside
    assert not find_row_names(X.assign(sample=X["a"])).aside
    assert not find_row_names(X.assign(index=pd.date_range("2020", periods=N))).aside
    tally("row names", "served", 6)


def test_large_and_missing_names_keep_their_digits(tally):
    assert as_row_names(pd.Series([1e20, 2e20])).tolist() == ["100000000000000000000", "200000000000000000000"]
    assert as_row_names(pd.Series([1.0, np.nan, 3.0])).tolist() == ["1", "", "3"]
    assert as_row_names(pd.Series([1.5, np.inf])).tolist() == ["1.5", "inf"]
    tally("row names", "served", 3)


def test_a_second_column_of_row_names_is_said_to_be_a_feature(tmp_path, tally):
    frame = X.assign(nr=range(N), barcode=NAMES)
    with pytest.warns(DataWarning, match="'nr' is a feature \\(it counts the rows\\)"):
        FoldedClassifier("nano", method="raw-core", id_column="barcode").fit(frame, Y)
    frame.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
    (note,) = read(tmp_path / "t.csv", target="y", id="barcode").notes
    assert "'nr' is a feature (it counts the rows)" in note
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Look at this")
        FoldedClassifier("nano", method="raw-core", id_column="barcode", keep_id=True).fit(frame, Y)
    tally("row names", "served", 3)


def join(tmp_path, ours, theirs, **columns):
    X.assign(id=ours, **columns).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame({"id": theirs, "dx": [f"of {i}" for i in range(N)]}).to_csv(tmp_path / "s.csv", index=False)
    return read(tmp_path / "t.csv", samples=tmp_path / "s.csv", target="dx")


def test_a_row_without_a_name_has_no_line_in_the_sample_sheet(tmp_path, tally):
    ours = [None if i == 5 else name for i, name in enumerate(NAMES)]
    theirs = [None if i in (3, 9) else name for i, name in enumerate(NAMES)]
    data = join(tmp_path, ours, theirs)
    kept = [i for i in range(N) if i not in (3, 5, 9)]
    assert data.y.tolist() == [f"of {i}" for i in kept]
    assert data.row_names.tolist() == [NAMES[i] for i in kept]
    assert "1 without a name in" in data.notes[0]
    assert "2 without a name in" in data.notes[0]
    tally("row names", "served")


def test_names_that_became_floats_are_joined_and_no_feature(tmp_path, tally):
    back = np.arange(N)[::-1]
    data = join(tmp_path, np.arange(100.0, 100 + N), back + 100)
    assert data.table.names == ("a", "b", "c")
    assert data.y.tolist() == [f"of {i}" for i in back]
    data = join(tmp_path, np.arange(100, 100 + N), np.where(back == 7, np.nan, back + 100.0))
    assert data.y.tolist() == [f"of {i}" for i in back if back[i] != 7]
    tally("row names", "served", 2)


def test_joining_by_one_column_makes_no_feature_of_other_names(tmp_path, tally):
    frame = X.assign(patient=NAMES, tube=np.arange(900, 900 + N))
    frame.to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame({"tube": frame["tube"], "dx": Y}).to_csv(tmp_path / "s.csv", index=False)
    data = read(tmp_path / "t.csv", samples=tmp_path / "s.csv", target="dx")
    assert data.table.names == ("a", "b", "c")
    assert "'patient' (its text differs in every row)" in data.notes[-1]
    tally("row names", "served")


def test_blocks_are_not_joined_by_names_that_are_missing(tmp_path, tally):
    for file, gone in (("one.csv", 2), ("two.csv", 4)):
        X.assign(id=[None if i == gone else name for i, name in enumerate(NAMES)]).to_csv(tmp_path / file, index=False)
    data = read([tmp_path / "one.csv", tmp_path / "two.csv"], id="id")
    assert data.row_names.tolist() == [name for i, name in enumerate(NAMES) if i not in (2, 4)]
    tally("row names", "served")
