"""Tables at fit and at predict: values, types, shapes and names that people do hand in.

What can be read is answered with probabilities; everything else is one sentence. Weights are tiny and loaded once.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from hostile.bad_inputs import SCALARS, Liar, N, Odd, frame, labels, numbers
from hostile.judging import refusal
from scff import FoldedClassifier, FoldedRegressor, load
from scff.backbones import load_backbone
from scff.errors import DataWarning


@pytest.fixture(scope="module")
def weights(checkpoint_dir):
    path = str(checkpoint_dir / "v2.ckpt")
    return path, load_backbone(path, torch.device("cpu"))


@pytest.fixture
def folded(weights, monkeypatch):
    """An estimator whose weights are here already."""
    path, loaded = weights
    monkeypatch.setattr("scff.estimators.classifier.load_backbone", lambda *_, **__: loaded)
    return functools.partial(FoldedClassifier, path, method="raw-core")


def answered(model, X) -> None:
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-5)


CELLS = {
    "a list": [1],
    "a dict": {"a": 1},
    "a set": {1},
    "a tuple": (1, 2),
    "an array": np.array([1.0, 2.0]),
    "an object": object(),
    "an odd object": Odd(),
    "a function": len,
    "a type": int,
    "a frame": pd.DataFrame({"a": [1]}),
    "bytes": b"x",
    "a word": "x",
    "a number word": "1.5",
    "an empty word": "",
    "a long word": "x" * 100_000,
    "a control word": "\x1b[31m\x00",
    "a decimal": decimal.Decimal("1.5"),
    "a decimal that is none": decimal.Decimal("NaN"),
    "a decimal that signals": decimal.Decimal("sNaN"),
    "a decimal beyond any float": decimal.Decimal("1e5000"),
    "a whole number beyond any float": 10**400,
    "half a character": "\ud800",
    "a fraction": fractions.Fraction(1, 3),
    "a complex": 1 + 2j,
    "a date": datetime.date(2020, 1, 1),
    "a time": datetime.datetime(2020, 1, 1),
    "a zone": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "a span": datetime.timedelta(days=1),
    "a far date": datetime.date(9999, 12, 31),
    "a period": pd.Period("2020"),
    "an interval": pd.Interval(0, 1),
    "infinity": float("inf"),
    "minus infinity": -float("inf"),
    "1e308": 1e308,
    "-1e308": -1e308,
    "1e-320": 1e-320,
    "a huge integer": 10**400,
    "an integer of 65 bits": 2**65,
    "none": None,
    "nan": float("nan"),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "truth": True,
    "numpy truth": np.bool_(True),
    "an exception": ValueError("x"),
    "ellipsis": ...,
}


@pytest.mark.parametrize("column", ["a", "word", "kind", "flag"])
@pytest.mark.parametrize("kind", CELLS)
def test_one_odd_cell_is_read_or_refused(folded, kind, column, tally):
    table = frame()
    table[column] = table[column].astype(object)
    values = list(table[column])
    values[3] = CELLS[kind]
    table[column] = pd.Series(values, dtype=object)
    refused = refusal(lambda: answered(folded().fit(table, labels()), table.iloc[:5]))
    if "infinity" in kind and column == "a":
        assert refused
    tally("bad inputs: cells", "refused" if refused else "served")


@pytest.fixture(scope="module")
def fitted(weights):
    """Models of a plain array, a frame of numbers and a mixed frame."""
    path, loaded = weights
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scff.estimators.classifier.load_backbone", lambda *_, **__: loaded)
        named = pd.DataFrame(numbers(3), columns=["a", "b", "c"])
        fit = [FoldedClassifier(path, method="raw-core").fit(X, labels()) for X in (numbers(3), named, frame())]
    return dict(zip(("array", "numbers", "mixed"), fit, strict=True))


@pytest.mark.parametrize("column", ["a", "word"])
@pytest.mark.parametrize("kind", CELLS)
def test_one_odd_cell_at_predict_is_read_or_refused(fitted, kind, column, tally):
    table = frame()
    values = list(table[column].astype(object))
    values[3] = CELLS[kind]
    table[column] = pd.Series(values, dtype=object)
    refused = refusal(lambda: answered(fitted["mixed"], table))
    if "infinity" in kind and column == "a":
        assert refused
    tally("bad inputs: cells", "refused" if refused else "served")


def arrays() -> dict[str, tuple[object, bool]]:
    """Tables of six columns, and whether they can be read."""
    X = numbers()
    wild = {
        name: np.where((np.arange(N) == 3)[:, None] & (np.arange(6) == 2), value, X)
        for name, value in {"inf": np.inf, "-inf": -np.inf, "nan": np.nan, "1e308": 1e308, "1e-320": 1e-320}.items()
    }
    return {
        "plain": (X, True),
        "float32": (X.astype(np.float32), True),
        "float16": (X.astype(np.float16), True),
        "longdouble": (X.astype(np.longdouble), True),
        "int8": ((4 * X).astype(np.int8), True),
        "uint64": (np.abs(4 * X).astype(np.uint64) + 2**63, True),
        "bool": (X > 0, True),
        "big-endian": (X.astype(">f8"), True),
        "fortran": (np.asfortranarray(X), True),
        "reversed": (X[:, ::-1], True),
        "read-only": (np.broadcast_to(X, X.shape), True),
        "list": (X.tolist(), True),
        "object numbers": (X.astype(object), True),
        "decimals": (np.vectorize(decimal.Decimal, otypes=[object])(X), True),
        "decimals that signal": (np.full((N, 6), decimal.Decimal("sNaN"), dtype=object), False),
        "whole numbers beyond any float": (np.full((N, 6), 10**400, dtype=object), False),
        "long doubles": (X.astype(np.longdouble), True),
        "long doubles beyond any float": (np.full((N, 6), np.finfo(np.longdouble).max), False),
        "strided": (np.repeat(X, 2, axis=1)[:, ::2], True),
        "unsigned beyond 2**63": (np.full((N, 6), 2**64 - 1, dtype=np.uint64), True),
        "masked": (np.ma.masked_array(X, mask=X > 2), True),
        "all nan": (np.full((N, 6), np.nan), True),
        "constant": (np.ones((N, 6)), True),
        "one nan column": (np.where(np.arange(6) == 1, np.nan, X), True),
        "nan": (wild["nan"], True),
        "1e-320": (wild["1e-320"], True),
        "inf": (wild["inf"], False),
        "-inf": (wild["-inf"], False),
        "words": (np.full((N, 6), "x"), False),
        "bytes": (np.full((N, 6), b"x"), False),
        "complex": (X.astype(complex), False),
        "dates": (np.zeros((N, 6), dtype="datetime64[s]"), False),
        "void": (np.zeros((N, 6), dtype="V8"), False),
        "records": (np.zeros(N, dtype=[("a", float), ("b", int)]), False),
        "objects": (np.full((N, 6), None), True),
        "odd objects": (np.array([[Odd()] * 6] * N, dtype=object), False),
        "ragged": ([[1.0, 2.0], [3.0]] * (N // 2), False),
        "one dimension": (X[:, 0], False),
        "three dimensions": (X[:, :, None], False),
        "no columns": (X[:, :0], False),
        "no rows": (X[:0], False),
        "one row less": (X[1:], False),
        "a scalar array": (np.array(3.0), False),
        "a liar": (Liar(), False),
        "a dict": ({"a": X[:, 0]}, False),
        "a generator": ((row for row in X), False),
        "a string": ("table.csv", False),
        "a function": (len, False),
        "a series": (pd.Series(X[:, 0]), False),
        "an index": (pd.Index(X[:, 0]), False),
        "torch": (torch.from_numpy(X), True),
        "csr": (sparse.csr_matrix(np.where(X > 1, X, 0)), True),
        "coo": (sparse.coo_matrix(np.where(X > 1, X, 0)), True),
        "csr with inf": (sparse.csr_matrix(np.where(X > 1, np.inf, 0)), False),
    }


@pytest.mark.parametrize("kind", arrays())
def test_arrays_of_every_kind(folded, kind, tally):
    X, readable = arrays()[kind]
    refused = refusal(lambda: answered(folded().fit(X, labels()), numbers()))
    assert (refused is None) == readable, refused
    tally("bad inputs: arrays", "refused" if refused else "served")


@pytest.mark.parametrize("kind", [kind for kind in arrays() if kind not in ("no rows",)])
def test_arrays_of_every_kind_at_predict(fitted, folded, kind, tally):
    model = folded().fit(numbers(), labels())
    X, readable = arrays()[kind]
    refused = refusal(lambda: answered(model, X))
    assert readable is False or refused is None, refused
    if not readable and kind != "one row less":
        assert refused
    tally("bad inputs: arrays", "refused" if refused else "served")


@pytest.mark.parametrize("value", range(len(SCALARS)))
def test_what_is_no_table_is_refused(folded, fitted, value, tally):
    X = SCALARS[value]
    assert refusal(lambda: folded().fit(X, labels()))
    assert refusal(lambda: fitted["array"].predict(X))
    tally("bad inputs: arrays", "refused", 2)


NAMES: dict[str, list[object]] = {
    "integers": [0, 1, 2, 3, 4, 5],
    "truth": [True, False, 2, 3, 4, 5],
    "floats": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
    "none": [None, "b", "c", "d", "e", "f"],
    "nan": [float("nan"), "b", "c", "d", "e", "f"],
    "tuples": [("a", 1), ("b", 2), "c", "d", "e", "f"],
    "mixed": ["a", 1, 2.5, None, True, ("x",)],
    "dates": list(pd.date_range("2020", periods=6)),
    "bytes": [b"a", b"b", b"c", b"d", b"e", b"f"],
    "objects": [object() for _ in range(6)],
    "empty": ["", "b", "c", "d", "e", "f"],
    "blank": [" ", "  ", "c", "d", "e", "f"],
    "twice": ["a", "a", "c", "d", "e", "f"],
    "twice as text": ["1", 1, "c", "d", "e", "f"],
    "long": ["x" * 100_000, "b", "c", "d", "e", "f"],
    "control": ["\x00", "\x1b[31m", "\n", "\t", "\r", "\u202e"],
    "markup": ["[bold]", "[/]", "<script>", "&amp;", "{x}", "%s"],
    "paths": ["../../x", "/etc/passwd", "C:\\x", "~", "..", "."],
    "surrogates": ["\ud800", "b", "c", "d", "e", "f"],
    "emoji": ["🙂", "é", "é", "ß", "ẞ", "İ"],
    "names of the library": ["target", "prediction", "p_0", "F", "leaf", "__index__"],
}


@pytest.mark.parametrize("kind", NAMES)
def test_column_names_of_every_kind(folded, kind, tally):
    table = pd.DataFrame(numbers())
    table.columns = pd.Index(NAMES[kind], dtype=object)

    def use():
        model = folded().fit(table, labels())
        answered(model, table.iloc[:4])
        repr(model)
        model.plan_.to_json()

    refused = refusal(use)
    if kind.startswith("twice"):
        assert refused
    tally("bad inputs: names", "refused" if refused else "served")


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("row_names", ["counted", "words", "decimals that are none"])
def test_column_names_of_every_kind_over_a_column_of_row_names(folded, kind, row_names, tally):
    named = {
        "counted": np.arange(N),
        "words": [f"s{i}" for i in range(N)],
        "decimals that are none": [decimal.Decimal("NaN")] * N,
    }
    table = pd.DataFrame(numbers())
    table[0] = pd.Series(named[row_names])
    table.columns = pd.Index(NAMES[kind], dtype=object)

    def use():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # that a column names the rows is worth saying
            model = folded().fit(table, labels())
        answered(model, table.iloc[:4])
        if row_names == "counted":
            assert model.n_features_in_ == 5

    refused = refusal(use)
    if kind.startswith("twice"):
        assert refused
    if kind == "integers" and row_names != "decimals that are none":
        assert not refused
    tally("bad inputs: names", "refused" if refused else "served")


BLOCKS: dict[str, dict[object, object]] = {
    "none": {},
    "words": {"a": "nowhere.csv"},
    "ragged": {"a": [[1, 2], [3]] * (N // 2)},
    "tuples": {"a": [(0, 1), 2] * (N // 2)},
    "one dimension": {"a": np.arange(N)},
    "nothing": {"a": None, "b": None},
    "no text for a name": {None: numbers(), 3: numbers()},
    "other rows": {"a": numbers(), "b": numbers()[:5]},
    "objects": {"a": object()},
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_that_are_no_tables_are_refused(folded, kind, tally):
    refused = refusal(lambda: folded().fit(BLOCKS[kind], labels()))
    assert refused or kind == "no text for a name"
    tally("bad inputs: arrays", "refused" if refused else "served")


def queries() -> dict[str, pd.DataFrame]:
    table = frame()
    words = table.assign(a=[f"w{i}" for i in range(N)])
    return {
        "a column less": table.drop(columns="b"),
        "a column more": table.assign(z=1.0),
        "another order": table[table.columns[::-1]],
        "another name": table.rename(columns={"b": "B"}),
        "no columns": table[[]],
        "twice": pd.concat([table, table[["a"]]], axis=1),
        "no rows": table.iloc[:0],
        "words for numbers": words,
        "numbers for words": table.assign(word=np.arange(N) * 1.0),
        "infinity": table.assign(a=np.inf),
        "new words": table.assign(word="never seen", kind="new"),
        "all missing": table.assign(a=np.nan, word=None),
        "dates for numbers": table.assign(a=pd.Timestamp("2020-01-01")),
        "spans for numbers": table.assign(a=pd.Timedelta("1s")),
        "lists": table.assign(word=[[1]] * N),
        "an array": table.to_numpy(),
        "numbers alone": table[["a", "b", "c"]],
    }


MUST = {"a column less", "another name", "no columns", "twice", "no rows", "words for numbers", "infinity", "an array"}
MUST |= {"dates for numbers", "spans for numbers"}


@pytest.mark.parametrize("kind", queries())
def test_query_rows_that_do_not_fit_the_model(fitted, kind, tally):
    refused = refusal(lambda: answered(fitted["mixed"], queries()[kind]))
    assert kind not in MUST or refused
    tally("bad inputs: queries", "refused" if refused else "served")


def times() -> dict[str, tuple[object, str]]:
    """Columns by name: their cells, and what a message calls them."""
    days = pd.date_range("2020-01-01", periods=N)
    return {
        "numbers": (np.arange(N) * 1.5, "numbers"),
        "dates": (days, "dates"),
        "dates with a zone": (days.tz_localize("Europe/Berlin"), "dates"),
        "python dates": ([day.date() for day in days], "dates"),
        "dates of arrow": (pd.Series(days).astype("timestamp[us][pyarrow]"), "dates"),
        "days of arrow": (pd.Series([day.date() for day in days], dtype="date32[day][pyarrow]"), "dates"),
        "periods": (pd.period_range("2020-01-01", periods=N, freq="D"), "dates"),
        "spans": (days - days[0], "durations"),
        "python spans": ([datetime.timedelta(days=i) for i in range(N)], "durations"),
        "spans of arrow": (pd.Series(days - days[0]).astype("duration[us][pyarrow]"), "durations"),
        "words": ([f"2020-01-{i + 1:02}, noon" for i in range(N)], "text"),
    }


@pytest.mark.parametrize("now", times())
@pytest.mark.parametrize("at_fit", ["numbers", "dates", "spans", "words"])
@pytest.mark.parametrize("others", ["numbers", "mixed"])
def test_days_are_not_taken_for_numbers_nor_numbers_for_days(
    folded, at_fit, now, others, tmp_path, checkpoint_dir, monkeypatch, tally
):
    monkeypatch.setenv("SCFF_CHECKPOINT_DIR", str(checkpoint_dir))
    table = frame() if others == "mixed" else frame()[["a", "b"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # that the column follows the order of the rows
        model = folded(keep_id=True).fit(table.assign(when=times()[at_fit][0]), labels())
    model.save(tmp_path / "m.scff")
    query = table.assign(when=times()[now][0])
    for one in (model, load(tmp_path / "m.scff")):
        refused = refusal(lambda one=one: answered(one, query))
        if times()[at_fit][1] == times()[now][1]:
            assert not refused
        else:
            assert "Column 'when'" in str(refused)
            assert "at fit" in str(refused)
        tally("bad inputs: queries", "refused" if refused else "served")
    assert refusal(lambda: answered(model, table.assign(when=pd.NaT))) is None  # what is missing is of any kind


@pytest.mark.parametrize("use", ["predict", "predict_proba", "column_evidence", "report", "save", "score"])
@pytest.mark.parametrize("kind", [FoldedClassifier, FoldedRegressor])
def test_nothing_is_asked_of_a_model_before_it_is_fitted(kind, use, tmp_path, tally):
    model = kind("nano")
    if not hasattr(model, use):
        return
    arguments = {"save": [tmp_path / "m.scff"], "score": [numbers(), labels()]}.get(use, [numbers()])
    if use in ("column_evidence", "report"):
        arguments = []
    assert "fit" in str(refusal(lambda: getattr(model, use)(*arguments)))
    tally("bad inputs: queries", "refused")
