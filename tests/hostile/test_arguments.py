"""What `evaluate`, a report, a batch, a reading of files and a target of numbers are called with."""

from __future__ import annotations

import decimal
import functools
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import RidgeClassifier

from backbone_models import tiny_tabicl_regressor
from hostile.bad_inputs import N, Odd, frame, labels, numbers
from hostile.judging import refusal
from scff import FoldedClassifier, FoldedRegressor, TailRule
from scff.errors import DataError, DataWarning
from scff.evaluate import evaluate
from scff.memory.budget import parse_bytes
from scff.serving import Scorer
from scff.tables.reading import read


def outcome(tally, kind, call, served=False):
    """Assert that a call is refused by one of ours, or served where it should be."""

    def quiet():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # what looks odd in these tables is worth saying
            call()

    refused = refusal(quiet)
    assert (refused is None) == served, refused
    tally(kind, "served" if served else "refused")


def fair(X=None, y=None, **changes):
    """An evaluation that takes no time."""
    X, y = numbers() if X is None else X, labels() if y is None else y
    options = {"estimator": DummyClassifier(), "folds": 3, "repeats": 1, "baselines": []}
    return evaluate(X, y, **(options | changes))


EVALUATE = {
    "folds": [3.0, "3", b"ab", True, [], {}, object(), float("nan"), np.int64(1), 13, 24, 25, -1, 10**30],
    "repeats": [1.0, True, "1", [1], object(), float("nan"), 0, 10**9],
    "seed": [True, 1.0, "1", None, [1], np.float64(1), -1, 2**32, object()],
    "n_jobs": [True, 1.0, "1", None, 0, -2, object()],
    "baselines": ["logistic", 3, [3], [["logistic"]], [None], object(), (one for one in ["majority"]), ["mean"]],
    "engine": [None, [], "x", b"local", np.array(["local"]), object()],
    "verbose": ["x", None, 1j, [], object()],
    "resume": [3, "", "\x00", b"x", object(), True, "/dev/null", "/proc/x"],
    "groups": [np.zeros(N), labels(), [None] * N, "nope", 3, object()],
    "estimator": [FoldedClassifier, "nano", 3, object(), len, KMeans(), RidgeClassifier(), FoldedClassifier(trials=-1)],
}


@pytest.mark.parametrize("name", EVALUATE)
def test_what_evaluate_cannot_mean_is_refused(name, tally):
    for value in EVALUATE[name]:
        outcome(tally, "bad inputs: evaluate", functools.partial(fair, **{name: value}))


def test_an_estimator_says_what_is_predicted_and_otherwise_the_task_does(tally):
    for task in (None, [], "x", 3, object()):
        outcome(tally, "bad inputs: evaluate", functools.partial(fair, estimator=None, task=task))


@pytest.mark.parametrize(
    "pair",
    [
        (0, 1),
        ([[0, 1]], [[2]]),
        ([0, 1, 2, 3], [4, 4]),
        ([0, 1, 1], [5]),
        (np.ones(N, bool), np.zeros(N, bool)),
        ("a", "b"),
        ([0.5], [1]),
        ([0, 1], [99]),
        ([0, 1], [-30]),
        (None, None),
    ],
    ids=str,
)
def test_folds_of_rows_that_are_none_are_refused(pair, tally):
    outcome(tally, "bad inputs: evaluate", lambda: fair(folds=[pair]))


def test_whole_numbers_of_numpy_are_whole_numbers(tally):
    for name in ("folds", "repeats", "seed", "n_jobs"):
        value = np.int64(3 if name == "folds" else 1)
        outcome(tally, "bad inputs: evaluate", functools.partial(fair, **{name: value}), served=True)
    assert parse_bytes(np.int64(1 << 30)) == 1 << 30
    assert refusal(lambda: parse_bytes(object())) is not None


def test_a_class_of_fewer_rows_than_folds_is_no_noise(tally):
    outcome(tally, "bad inputs: evaluate", lambda: fair(y=np.repeat([0, 1], [N - 2, 2]), folds=10), served=True)


def test_one_row_or_group_cannot_be_both_learned_and_asked(tally):
    y = numbers()[:, 0]
    for changes in ({"groups": np.zeros(N), "folds": None}, {"X": numbers()[:1], "y": y[:1], "folds": None}):
        options = {"estimator": DummyRegressor(), "y": y} | changes
        outcome(tally, "bad inputs: evaluate", functools.partial(fair, **options))


def other(path, **changed):
    """A record with other arrays."""
    with np.load(path) as file:
        arrays = dict(file) | changed
    with path.open("wb") as file:
        np.savez(file, **arrays)


RECORDS = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "empty": lambda path: path.write_bytes(b""),
    "an array": lambda path: path.write_bytes(b"\x93NUMPY\x01\x00" + bytes(20)),
    "another zip": lambda path: zipfile.ZipFile(path, "w").close(),
    "too wide": lambda path: other(path, values=np.ones((8, 5))),
    "too short": lambda path: other(path, values=np.ones((3, 2))),
    "no numbers": lambda path: other(path, values=np.full((8, 2), np.nan)),
    "words": lambda path: other(path, values=np.full((8, 2), "a")),
    "no time": lambda path: other(path, seconds=np.nan),
    "ranks of another table": lambda path: other(path, rank=np.ones(99, np.int32), core=np.ones(99, bool)),
}


@pytest.mark.parametrize("damage", RECORDS)
def test_records_of_folds_that_are_none_are_refused(damage, tmp_path, tally):
    fair(resume=tmp_path)
    RECORDS[damage](tmp_path / "fold-0001-scff.npz")
    outcome(tally, "bad inputs: evaluate", lambda: fair(resume=tmp_path))


@pytest.mark.parametrize("text", ["[" * 100_000, "[1]", "null", "{}", "\x00"])
def test_a_folder_of_records_that_says_nothing_is_refused(text, tmp_path, tally):
    (tmp_path / "question.json").write_text(text)
    outcome(tally, "bad inputs: evaluate", lambda: fair(resume=tmp_path))


@pytest.fixture(scope="module")
def model(checkpoint_dir):
    return FoldedClassifier(str(checkpoint_dir / "v2.ckpt"), method="raw-core").fit(frame(), labels())


LABELS = {
    "dicts": [{"a": 1}] * N,
    "lists of lengths": [[1], [1, 2]] * (N // 2),
    "sets": [{1}] * N,
    "a set": {0, 1},
    "a dict": dict.fromkeys(range(N), 1),
    "a generator": (one for one in labels()),
    "an object": object(),
    "odd objects": [Odd()] * N,
    "sparse": sparse.csr_matrix(labels()),
    "another length": labels()[:-1],
    "two columns": np.stack([labels(), labels()], axis=1),
    "missing": [None] * N,
    "a number": 3,
}


@pytest.mark.parametrize("kind", LABELS)
def test_test_labels_that_are_none_are_refused(model, kind, tally):
    outcome(tally, "bad inputs: reports", lambda: model.report(frame(), LABELS[kind]))


@pytest.mark.parametrize("options", [{"title": 3}, {"title": object()}, {"evaluation": 3}, {"evaluation": "page.html"}])
def test_a_report_of_nonsense_is_refused(model, options, tally):
    outcome(tally, "bad inputs: reports", lambda: model.report(**options))


def test_evidence_of_nonsense_is_refused(model, tally):
    for shuffled in (-1, 2.5, "x", None, True, [1], float("nan"), object()):
        outcome(tally, "bad inputs: reports", functools.partial(model.column_evidence, shuffled=shuffled))
    outcome(tally, "bad inputs: reports", lambda: model.column_evidence(shuffled=0, evaluation=3))


def test_a_page_is_written_where_a_file_can_be(model, tmp_path, tally):
    page = model.report()
    for path in (3, None, b"x.html", True, object(), "", ".", tmp_path, "/dev/null", "\x00", "x" * 300, "/proc/x.html"):
        outcome(tally, "bad inputs: reports", functools.partial(page.save, path))


def batches():
    names = frame().columns
    return {
        "none": None,
        "a number": 3,
        "of lengths": {name: [1] * i for i, name in enumerate(names)},
        "of scalars": dict.fromkeys(names, 1),
        "of nothing": dict.fromkeys(names),
        "of tables": {name: np.ones((3, 2)) for name in names},
        "of generators": {name: (one for one in "ab") for name in names},
        "no columns": {},
    }


@pytest.mark.parametrize("kind", batches())
def test_a_batch_that_is_none_is_refused(model, kind, tally):
    outcome(tally, "bad inputs: batches", lambda: Scorer(model)(batches()[kind]))


SCORERS = {
    "keep": ["a", ["nope"], [3], 3, None],
    "memory_limit": ["x", -1, 0, object(), [1]],
    "device": ["toaster", 3, "meta", ""],
    "model": [3, None, b"x", object(), FoldedClassifier, FoldedClassifier(), "nope.scff", "/"],
}


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_of_nonsense_is_refused(model, name, tally):
    for value in SCORERS[name]:
        options = {"model": model, name: value}
        outcome(tally, "bad inputs: batches", lambda options=options: Scorer(options.pop("model"), **options)(frame()))


READINGS = {
    "target": [3, ["t"], "nope", object()],
    "group": [3, "nope"],
    "id": [3, "nope"],
    "layer": [3],
    "on": [3],
    "samples": [3, object(), "nope.csv"],
    "keep": [3, "t", [None], None, ["nope"]],
    "drop": [3, "a", [[]], None],
    "categorical": [3, "a", [None], None, ["nope"]],
    "orient": [3, None, "nope"],
}


@pytest.mark.parametrize("name", READINGS)
def test_a_reading_of_nonsense_is_refused(name, tmp_path, tally):
    frame().assign(t=labels()).to_csv(tmp_path / "t.csv", index=False)
    for value in READINGS[name]:
        outcome(tally, "bad inputs: files", functools.partial(read, tmp_path / "t.csv", **{name: value}))


@pytest.mark.parametrize("tables", [None, 3, b"x", [], [3], "x" * 5000, "=", object()], ids=lambda one: str(one)[:20])
def test_tables_that_are_no_paths_are_refused(tables, tally):
    outcome(tally, "bad inputs: files", lambda: read(tables))


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, tally, monkeypatch):
    path = tmp_path / "zeros.csv"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    outcome(tally, "bad inputs: files", lambda: read(path))
    monkeypatch.setattr("scff.tables.delimited._LONGEST", 1000)
    path.write_text("a" * 2000)
    outcome(tally, "bad inputs: files", lambda: read(path))
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    outcome(tally, "bad inputs: files", lambda: read(path))


@pytest.fixture(scope="module")
def regressor(tmp_path_factory):
    return str(tiny_tabicl_regressor(tmp_path_factory.mktemp("numbers") / "regressor.ckpt"))


x = numbers()[:, 0]
TARGETS = {
    "beyond single precision": (x * 1e307, False),
    "beyond all precision": (np.where(labels(), 1.7e308, -1.7e308), False),
    "long doubles beyond any float": (x.astype(np.longdouble) * np.longdouble("1e400"), False),
    "too small": (x * 1e-300, False),
    "smaller still": (x * 5e-320, False),
    "one outlier": (np.where(np.arange(N) == 0, 1e300, x), False),
    "times in nanoseconds": (1.7e18 + 1e3 * x, False),
    "times in seconds": (1.7e9 + 1e6 * x, True),
    "years": (2000 + 5 * x, True),
    "decimals": ([decimal.Decimal(str(one)) for one in x], True),
    "the same far away": (np.full(N, 1e300), True),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_numbers_that_a_model_cannot_tell_apart_are_refused(regressor, kind, tally):
    target, served = TARGETS[kind]

    def use():
        said = FoldedRegressor(regressor, method="raw-core").fit(numbers(), target).predict(numbers())
        far = np.abs(said - np.mean(np.asarray(target, dtype=np.float64)))
        assert (far <= 1e-6 * np.abs(said) + 20 * np.std(np.asarray(target, dtype=np.float64))).all()

    outcome(tally, "bad inputs: targets", use, served)


@pytest.mark.parametrize(
    "weights",
    [{0: 10**400}, {0: "2"}, {0: None}, {0: 1j}, {0: np.inf}, {0: [1]}, {(0,): 1}, {None: 1}],
    ids=lambda one: str(one)[:20],
)
def test_class_weights_that_are_none_are_refused(weights, tally):
    fit = functools.partial(FoldedClassifier("nano", class_weight=weights).fit, numbers(), labels())
    outcome(tally, "bad inputs: parameters", fit)


@pytest.mark.parametrize("weights", [{0: 1e-320, 1: 1e-320}, {0: 1e308, 1: 1e308}])
def test_class_weights_of_any_size_say_the_same(model, checkpoint_dir, weights, tally):
    with_weights = FoldedClassifier(str(checkpoint_dir / "v2.ckpt"), method="raw-core", class_weight=weights)
    P = with_weights.fit(frame(), labels()).predict_proba(frame())
    np.testing.assert_allclose(P, model.predict_proba(frame()), atol=1e-6)
    tally("bad inputs: parameters", "served")


@pytest.mark.parametrize("weights", [{0: 5e-324}, {0: 1e-300, 1: 1e300}, {1: 1e308}])
def test_class_weights_of_different_worlds_still_give_probabilities(checkpoint_dir, weights, tally):
    extreme = FoldedClassifier(str(checkpoint_dir / "v2.ckpt"), method="raw-core", class_weight=weights)
    P = extreme.fit(frame(), labels()).predict_proba(frame())
    np.testing.assert_allclose(P, [[0.0, 1.0]] * N, atol=1e-6)
    tally("bad inputs: parameters", "served")


@pytest.mark.parametrize(
    "options",
    [
        *({"candidates": one} for one in (("nope",), (), "raw", ["raw"], None, 3)),
        *({name: one} for name in ("step", "check") for one in ("nope", None, 3)),
        *({name: one} for name in ("project", "single_leaf_fallback", "binary_only") for one in ("x", None, 1)),
    ],
    ids=str,
)
def test_a_rule_for_the_tail_that_is_none_is_refused(options, tally):
    outcome(tally, "bad inputs: parameters", lambda: TailRule(**options))


@pytest.mark.parametrize("categorical", [[["a"]], [{}], [None], [True], [1.5], [float("nan")], [b"a"], [-1], [99]])
def test_columns_of_categories_that_are_none_are_refused(categorical, tally):
    for X in (numbers(), frame()):
        call = functools.partial(FoldedClassifier("nano", categorical=categorical).fit, X, labels())
        outcome(tally, "bad inputs: parameters", call)


def test_a_table_of_labels_and_row_names_has_no_features(tally):
    table = pd.DataFrame({"y": labels(), "sample": [f"s{i}" for i in range(N)]})
    for columns in (["y"], ["y", "sample"]):
        outcome(tally, "bad inputs: arrays", functools.partial(FoldedClassifier("nano").fit, table[columns], "y"))


def test_rows_may_be_named_on_several_levels(checkpoint_dir, tally):
    table = frame().set_axis(pd.MultiIndex.from_product([list("abcdef"), range(4)]), axis=0)
    fitted = FoldedClassifier(str(checkpoint_dir / "v2.ckpt"), method="raw-core").fit(table, labels())
    assert fitted.fitted_.support.row_names[:2].tolist() == ["a 0", "a 1"]
    tally("bad inputs: names", "served")


def test_labels_that_are_numbers_beyond_any_unit_are_refused(tally):
    huge = np.where(labels(), 1e308, -1e308)
    category = frame().assign(a=pd.Categorical(huge))
    outcome(tally, "bad inputs: cells", lambda: FoldedClassifier("nano").fit(category, labels()))
    codes = FoldedClassifier("nano", categorical=["a"])
    outcome(tally, "bad inputs: cells", lambda: codes.fit(frame().assign(a=huge), labels()))


def test_long_doubles_beside_words_are_saved(checkpoint_dir, tmp_path, tally):
    table = frame().assign(a=numbers()[:, 0].astype(np.longdouble))
    FoldedClassifier(str(checkpoint_dir / "v2.ckpt"), method="raw-core").fit(table, labels()).save(tmp_path / "m.scff")
    beyond = table.assign(a=np.longdouble("1e400"))
    assert isinstance(refusal(lambda: FoldedClassifier("nano").fit(beyond, labels())), DataError)
    tally("bad inputs: cells", "served")
