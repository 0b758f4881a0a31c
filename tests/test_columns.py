"""What may stand in a column, what becomes of it, and what is said about it."""

from __future__ import annotations

import datetime as dt
import json
import warnings

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from scipy import sparse
from typer.testing import CliRunner

from scff import FoldedClassifier, compile_plan, load
from scff.cli.main import app
from scff.errors import DataError, DataWarning
from scff.plan.leaks import find_leaks
from scff.tables.columns import usable
from scff.tables.table import as_table

N = 40
Y = np.arange(N) % 2
rng = np.random.default_rng(0)
BASE = pd.DataFrame(rng.normal(size=(N, 6)), columns=[f"g{j}" for j in range(6)])


def quick(**options):
    return FoldedClassifier("nano", method="raw-core", **options)


def test_dates_and_durations_are_numbers_that_count(monkeypatch):
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(Y * 100 + rng.integers(0, 50, N), unit="D")
    stay = pd.to_timedelta(Y * 5 + rng.random(N), unit="h")
    frame = BASE.assign(visit=days, stay=stay)
    clf = quick().fit(frame, Y)
    assert set(clf.plan_.core) >= {6, 7}
    assert clf.plan_.unused == {}
    expected = clf.predict_proba(frame)
    # The unit that pandas keeps them in, and where, is not the model's affair.
    other = frame.assign(visit=days.as_unit("ns").tz_localize("UTC"), stay=stay.as_unit("ms"))
    assert np.abs(clf.predict_proba(other) - expected).max() < 1e-3  # milliseconds cut microseconds off
    text = frame.assign(visit=[day.isoformat() for day in days])
    with pytest.raises(DataError, match="'visit' held dates at fit and holds text now"):
        clf.predict_proba(text)


def test_dates_in_a_text_file_are_dates(tmp_path):
    days = [(dt.date(2020, 1, 1) + dt.timedelta(days=int(k))).isoformat() for k in rng.permutation(N) + 100 * Y]
    BASE.assign(visit=days, y=Y).to_csv(tmp_path / "t.csv", index=False)
    clf = quick().fit(tmp_path / "t.csv", "y")
    assert clf.fitted_.support.is_numeric
    assert 6 in clf.plan_.core


def test_missing_values_of_every_kind_are_missing():
    words = [["a", "b"][k] for k in Y]
    holes = np.arange(N) % 7 == 0

    def holed(values, dtype, hole):
        column = pd.Series(values, dtype=object)
        column[holes] = hole
        return column.astype(dtype)

    kinds = {
        "object": holed(words, object, None),
        "str": holed(words, "str", np.nan),
        "string": holed(words, "string", pd.NA),
        "arrow": holed(words, pd.ArrowDtype(pa.string()), pd.NA),
        "category": holed(words, "category", np.nan),
    }
    answers = [quick().fit(BASE.assign(c=column), Y).predict_proba(BASE.assign(c=column)) for column in kinds.values()]
    for name, answer in zip(kinds, answers, strict=True):
        np.testing.assert_allclose(answer, answers[0], atol=1e-6, err_msg=name)
    whole = pd.Series(Y + 3 * (np.arange(N) % 3), dtype="float64").where(~holes)
    for dtype in ("Int64", "Float64", pd.ArrowDtype(pa.int64()), object):
        given = BASE.assign(k=whole.astype("Int64").astype(dtype))
        np.testing.assert_array_equal(as_table(given).values[:, 6], whole)


def test_codes_of_categories_are_named():
    codes = np.array([3, 1, 2, 10])[np.arange(N) % 4]
    frame = BASE.assign(site=codes)
    plain = quick().fit(frame, Y)
    named = quick(categorical=["site"]).fit(frame, Y)
    assert plain.fitted_.support.is_numeric
    assert not named.fitted_.support.is_numeric
    by_place = quick(categorical=[6]).fit(frame.to_numpy(), Y)
    np.testing.assert_allclose(by_place.predict_proba(frame.to_numpy()), named.predict_proba(frame), atol=1e-6)
    np.testing.assert_array_equal(named.predict_proba(frame.astype({"site": float})), named.predict_proba(frame))
    with pytest.raises(DataError, match="no column 'nowhere'"):
        quick(categorical=["nowhere"]).fit(frame, Y)


def test_the_command_reads_columns_as_python_does(tmp_path):
    days = [(dt.date(2020, 1, 1) + dt.timedelta(days=int(k))).isoformat() for k in rng.permutation(N) + 100 * Y]
    frame = BASE.assign(visit=days, site=np.array([3, 1, 2, 10])[np.arange(N) % 4], flat=1.0, y=Y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ["-t", "y", "--categorical", "site", "-b", "nano", "--method", "raw-core", "-o", str(tmp_path / "m")]
    facts = json.loads(CliRunner().invoke(app, ["fit", str(tmp_path / "t.csv"), *options, "--json"]).stdout)
    by_path = quick(categorical=["site"]).fit(tmp_path / "t.csv", "y")
    assert facts["plan"]["hash"] == by_path.plan_.hash
    assert facts["plan"]["unused"] == by_path.plan_.unused == {"flat": "one value on the labelled rows"}
    frame.assign(odd=[[1, 2]] * N).to_parquet(tmp_path / "lists.parquet")
    refused = CliRunner().invoke(app, ["fit", str(tmp_path / "lists.parquet"), *options])
    assert isinstance(refused.exception, DataError)
    assert "'odd'" in str(refused.exception)


BAD = {
    "lists": [[1, 2]] * N,
    "dicts": [{"a": 1}] * N,
    "objects": [object() for _ in range(N)],
    "sets": [{1}] * N,
    "arrays": [np.zeros(2)] * N,
    "bytes": [b"a"] * N,
    "complex": [1j] * N,
    "infinity": ["a", np.inf] * (N // 2),
}


@pytest.mark.parametrize("kind", [*BAD, "complex array", "infinite category", "infinite number", "interval", "list"])
def test_what_no_model_reads_is_refused_by_name(kind):
    more = {
        "complex array": np.ones(N) * 1j,
        "infinite category": pd.Categorical([1.0, np.inf] * (N // 2)),
        "infinite number": np.r_[np.inf, np.zeros(N - 1)],
        "interval": pd.interval_range(0, N),
        "list": pd.array([[1]] * N, dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
    }
    column = pd.Series(BAD[kind], dtype=object) if kind in BAD else more[kind]
    with pytest.raises(DataError, match="odd one"):
        quick().fit(BASE.assign(**{"odd one": column}), Y)


@pytest.mark.parametrize("value", [1e39, -1.7e308])
def test_a_number_that_no_model_can_hold_is_refused_by_its_column(value):
    cells = BASE.to_numpy().copy()
    cells[3, 2] = value
    frame = BASE.assign(g2=cells[:, 2])
    fitted = quick().fit(BASE, Y)
    for X, name in (
        (cells, "column 2"),
        (frame, "'g2'"),
        (frame.assign(word="a"), "'g2'"),
        (sparse.csr_array(cells), "column 2"),
    ):
        with pytest.raises(DataError, match=f"beyond 3.4e.38 in (column )?{name}"):
            quick().fit(X, Y)
    with pytest.raises(DataError, match="in column 'g2'"):
        fitted.predict_proba(frame)
    assert compile_plan(cells, Y).n_columns == 6  # a plan takes any number


@pytest.mark.parametrize(
    "names",
    [
        [True, False, "c", "d", "e", "f"],
        [0, "b", "c", "d", "e", "f"],
        [("a", place) for place in range(6)],
        [None, *"bcdef"],
        [b"a", *"bcdef"],
    ],
)
def test_names_that_are_no_text_are_refused(names):
    frame = BASE.copy()
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    with pytest.raises(DataError, match=r"Column name .* text"):
        quick().fit(frame, Y)
    with pytest.raises(DataError, match=r"Column name .* text"):
        compile_plan(frame, Y)


def test_columns_keep_their_kind():
    frame = BASE.assign(word=[["u", "v", "w"][k % 3] for k in range(N)])
    clf = quick().fit(frame, Y)
    expected = clf.predict_proba(frame)
    np.testing.assert_array_equal(clf.predict_proba(frame.astype({"g0": str})), expected)  # as a text file has it
    for column, value, said in (
        ("g1", "high", "'g1' was numeric at fit and holds 'high'"),
        ("word", 3, "'word' was text"),
    ):
        with pytest.raises(DataError, match=said):
            clf.predict_proba(frame.assign(**{column: value}))
    assert np.isfinite(clf.predict_proba(frame.assign(word=np.nan))).all()  # nothing known is no error
    numeric = quick().fit(BASE, Y)
    with pytest.raises(DataError, match="'g2' was numeric"):
        numeric.predict_proba(BASE.assign(g2="low"))


@pytest.mark.parametrize("make", [polars.from_pandas, pa.Table.from_pandas, lambda f: polars.from_pandas(f).lazy()])
def test_frames_of_other_libraries_are_read(make):
    frame = BASE.assign(word=[["u", "v"][k % 2] for k in range(N)], when=pd.Timestamp("2020-01-01"))
    expected = quick().fit(frame, Y)
    clf = quick().fit(make(frame), Y)
    assert clf.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(clf.predict_proba(make(frame)), expected.predict_proba(frame))


def test_whatever_speaks_the_dataframe_protocol_is_read():
    class Protocol:
        """A frame that offers nothing else."""

        def __init__(self, frame):
            self._frame = frame

        def __dataframe__(self, *args, **options):
            return pa.Table.from_pandas(self._frame).__dataframe__(*args, **options)

    np.testing.assert_array_equal(as_table(Protocol(BASE)).values, BASE)
    assert as_table(Protocol(BASE)).names == tuple(BASE.columns)


def test_anndata_is_read_with_its_labels():
    import anndata

    cells = sparse.random(N, 30, density=0.4, rng=1, format="csr")
    genes = [f"G{j}" for j in range(30)]
    obs = pd.DataFrame({"kind": np.where(Y == 1, "b", "a"), "donor": Y}, index=[f"cell{i}" for i in range(N)])
    adata = anndata.AnnData(sparse.csr_matrix(cells), obs=obs, var=pd.DataFrame(index=genes))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        clf = quick().fit(adata, "kind")
    assert clf.classes_.tolist() == ["a", "b"]
    assert clf.feature_names_in_.tolist() == genes
    assert clf.fitted_.support.row_names[0] == "cell0"
    dense = quick().fit(pd.DataFrame(cells.toarray(), columns=genes), obs["kind"].to_numpy())
    expected = dense.predict_proba(pd.DataFrame(cells.toarray(), columns=genes))
    np.testing.assert_array_equal(clf.predict_proba(adata), expected)


@pytest.mark.parametrize(("layout", "method"), [("csr", "auto"), ("csc", "scff"), ("coo", "scff")])
def test_a_sparse_table_gives_the_answers_of_the_dense_one_and_is_never_made_dense(
    layout, method, monkeypatch, tmp_path
):
    X = sparse.random(N, 300, density=0.1, rng=1, format="csr")
    X = X + sparse.csr_array(np.outer(Y, np.arange(300) % 40 == 0) * 1.0)
    dense = FoldedClassifier("nano", method=method, leaf_width=64).fit(X.toarray(), Y)
    expected = dense.predict_proba(X.toarray())
    monkeypatch.setattr("scff.tables.sparse.SparseColumns.__array__", None)
    clf = FoldedClassifier("nano", method=method, leaf_width=64).fit(X.asformat(layout), Y)
    assert clf.plan_ == dense.plan_
    np.testing.assert_array_equal(clf.predict_proba(X.asformat(layout)), expected)
    clf.save(tmp_path / "m.scff")
    np.testing.assert_array_equal(load(tmp_path / "m.scff").predict_proba(X), expected)


def test_a_sparse_table_belongs_to_the_model_once_it_is_fitted():
    X = sparse.random(N, 20, density=0.5, rng=1, format="csr")
    clf = quick().fit(X, Y)
    before = clf.predict_proba(X.copy())
    query = X.copy()
    X.data[:] = 0
    clf.fitted_._compiled = None
    np.testing.assert_array_equal(clf.predict_proba(query), before)


def test_no_column_vanishes_without_a_reason():
    frame = BASE.assign(flat=1.0, empty=np.nan, sample=[f"s{i}" for i in range(N)])
    with pytest.warns(DataWarning, match="'sample'"):
        clf = quick().fit(frame, Y)
    assert clf.plan_.unused == {
        "sample": "its text differs in every row",
        "flat": "one value on the labelled rows",
        "empty": "one value on the labelled rows",
    }
    clf = FoldedClassifier("nano", method="scff").fit(frame.drop(columns="sample"), Y)
    used = {clf.plan_.name(j) for j in np.concatenate(clf.plan_.leaves)}
    assert used | set(clf.plan_.unused) == set(frame.columns) - {"sample"}


def test_columns_that_look_too_good_are_flagged(tmp_path):
    labels = np.array(["ill", "well"])[Y]
    frame = BASE.assign(
        code=Y * 2.0, outcome=[["dead", "alive", "fine"][2 * k - (k and i % 3 == 0)] for i, k in enumerate(Y)]
    )
    frame["nr"] = np.sort(rng.normal(size=N))
    with pytest.warns(DataWarning, match="'code' alone tells every label"):
        clf = quick().fit(frame, labels)
    assert {(flag.column, flag.kind) for flag in clf.fitted_.flags} == {
        ("code", "label"),
        ("outcome", "label"),
        ("nr", "order"),
    }
    clf.save(tmp_path / "m.scff")
    assert load(tmp_path / "m.scff").fitted_.flags == clf.fitted_.flags
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        assert quick().fit(BASE, labels).fitted_.flags == ()


def test_noise_is_seldom_flagged():
    for seed in range(20):
        X = np.random.default_rng(seed).normal(size=(12, 2000))
        y = np.arange(12) % 2
        assert find_leaks(as_table(X), y, compile_plan(X, y), classes=True) == ()


def test_a_number_that_follows_the_target_is_flagged():
    y = rng.normal(size=N)
    X = BASE.to_numpy().copy()
    X[:, 2] = np.exp(y)
    plan = compile_plan(X, y, routing="linear")
    assert [flag.column for flag in find_leaks(as_table(X), y, plan, classes=False)] == ["x2"]


def test_a_column_of_many_labels_is_named_once():
    frame = BASE.loc[np.repeat(np.arange(N), 3)].reset_index(drop=True)
    frame["town"] = [f"t{i // 2}" for i in range(len(frame))]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        FoldedClassifier("nano").fit(frame, np.arange(len(frame)) % 2)
    about = [str(one.message) for one in told if "label" in str(one.message) or "cardinality" in str(one.message)]
    assert len(about) == 1
    assert "'town'" in about[0]


def test_usable_columns_leave_a_plain_frame_alone():
    assert usable(BASE) is BASE
