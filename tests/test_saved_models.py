"""A model goes through a file and comes back as it was: rows, labels, decisions and every bit of its predictions."""

from __future__ import annotations

import datetime
import io
import pickle
import re
import subprocess
import sys
import zipfile
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from safetensors.numpy import load as load_safetensors

import scff
from backbone_models import tiny_tabicl_regressor, tiny_tabpfn_v1
from conftest import make_wide, paper
from scff import FoldedClassifier, FoldedRegressor, TailRule
from scff.backbones.shared.probe import _one_leaf as one_leaf
from scff.backbones.shared.probe import probed
from scff.errors import CheckpointError, CheckpointMissing, ModelFileError
from scff.estimators.fitted import Fitted
from scff.models.record import decode_fitted, encode_fitted
from scff.models.support import describe_table, read_table, write_table
from scff.models.values import decode_array, decode_value, encode_array, encode_value
from scff.tables.on_disk import open_wide
from scff.tables.table import Table, as_table
from scff.trials.coded import Coded
from scff.trials.narrow import Company, Digest, Direct, Frequencies, Summarised
from scff.trials.presentations import Core, LinkedCore, Paper, WithTail
from scff.trials.reading import Choice
from scff.trials.sources import NearSources, Sources
from scff.trials.tallies import Tallies
from scff.trials.whole import Whole


def equal(a, b):
    """Whether two records are the same to the last bit, arrays included."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return a == b or (a != a and b != b)


def round_trip(model, folder):
    model.save(folder / "model.scff")
    return scff.load(folder / "model.scff")


def assert_same_record(model, again):
    before, after = model.fitted_, again.fitted_
    for field in fields(Fitted):
        if field.name in ("_compiled", "_compiling", "_kept", "_recalled", "support", "checkpoint"):
            continue
        assert equal(getattr(before, field.name), getattr(after, field.name)), field.name
    assert after.checkpoint.sha256 == before.checkpoint.sha256
    assert again.get_params() == model.get_params()
    assert again.n_features_in_ == model.n_features_in_


@pytest.mark.parametrize("options", [{}, {"method": "scff", "tail": "raw-residual", "n_estimators": 2}])
def test_a_model_comes_back_as_it_was(options, tmp_path):
    X, y, Q = make_wide(n_columns=60)
    clf = FoldedClassifier("nano", leaf_width=16, **options).fit(X, y)
    again = round_trip(clf, tmp_path)
    assert_same_record(clf, again)
    assert equal(again.predict_proba(Q), clf.predict_proba(Q))
    assert equal(again.predict(Q), clf.predict(Q))
    assert again.plan_ == clf.plan_
    assert (again.gate_ is None or again.gate_.accepted) == (clf.gate_ is None or clf.gate_.accepted)


def test_an_accepted_tail_of_either_kind_comes_back(tmp_path, checkpoint_dir):
    X, y, Q = make_wide(n_columns=60)
    for tail, accepted in (("raw-residual", "raw"), ("fixed-prototype", "prototype")):
        clf = paper(checkpoint_dir / "v2.ckpt", leaf_width=16, tail=tail).fit(X, y)
        assert clf.gate_.accepted == accepted
        (tmp_path / "v2.ckpt").write_bytes((checkpoint_dir / "v2.ckpt").read_bytes())  # beside the model
        again = round_trip(clf, tmp_path)
        assert equal(again.fitted_.gates, clf.fitted_.gates)
        assert equal(again.predict_proba(Q), clf.predict_proba(Q))


def test_a_regressor_comes_back_as_it_was(tmp_path):
    weights = tiny_tabicl_regressor(tmp_path / "numbers.ckpt")
    X, _, Q = make_wide(n_columns=40)
    y = X[:, :5].sum(axis=1)
    model = FoldedRegressor(weights, leaf_width=16).fit(X, y)
    again = round_trip(model, tmp_path)
    assert isinstance(again, FoldedRegressor)
    assert equal(again.fitted_.y, model.fitted_.y)
    assert equal(again.predict(Q), model.predict(Q))
    flat = FoldedRegressor(weights).fit(X, np.full(len(X), 2.5))
    assert equal(round_trip(flat, tmp_path).predict(Q), flat.predict(Q))


def test_a_new_process_predicts_the_same(tmp_path):
    X, y, Q = make_wide(n_columns=60)
    clf = paper("nano", leaf_width=16).fit(X, y)
    clf.save(tmp_path / "model.scff")
    np.save(tmp_path / "q.npy", Q)
    code = (
        "import sys, numpy as np, scff\n"
        "clf = scff.load(sys.argv[1] + '/model.scff')\n"
        "np.save(sys.argv[1] + '/p.npy', clf.predict_proba(np.load(sys.argv[1] + '/q.npy')))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert equal(np.load(tmp_path / "p.npy"), clf.predict_proba(Q))


@pytest.mark.parametrize(
    "presentation",
    [
        Paper("mass-huber"),
        Core(),
        LinkedCore(),
        WithTail(),
        Company(0.5),
        Summarised(10, True),
        Digest(),
        Direct("shares", True),
        Sources(),
        NearSources(),
        Tallies(),
        Frequencies(),
        Coded(Digest(), 10),
    ],
)
def test_whatever_may_be_read_has_a_name_in_the_file(presentation):
    X, y, _ = make_wide(n_columns=20)
    fitted = paper("nano", method="raw-core").fit(X, y).fitted_
    fitted = replace(fitted, choices=(Choice(presentation, 0.75, 0.5),))
    data, arrays = encode_fitted(fitted)
    assert decode_fitted(data, arrays, fitted.support, fitted.classes).choices == fitted.choices


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes"],
        [0, 1],
        [2.0, 3.0],
        [False, True],
        np.array([3, 250], dtype=np.uint8),
        np.array([-7, 1 << 40]),
        np.array([1.0, 2.0], dtype=np.float32),
        np.array(["a", "longer"], dtype="U12"),
        np.array(["a", "b"], dtype=object),
        pd.Series(["a", "b"]),
        pd.Series(["low", "high"]).astype("category"),
        pd.Series([1, 2], dtype="Int64"),
        ["ärger", "glück"],
    ],
    ids=repr,
)
def test_classes_keep_their_type(labels, tmp_path):
    X, y, Q = make_wide(n_columns=6)
    labels = labels.take(y % 2) if isinstance(labels, pd.Series) else np.asarray(labels)[y % 2]
    clf = paper("nano", method="raw-core").fit(X, labels)
    again = round_trip(clf, tmp_path)
    assert equal(again.classes_, clf.classes_) or list(again.classes_) == list(clf.classes_)
    assert again.classes_.dtype == clf.classes_.dtype
    assert [type(one) for one in again.predict(Q)] == [type(one) for one in clf.predict(Q)]
    assert list(again.predict(Q)) == list(clf.predict(Q))


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        True,
        3,
        -(2**63),
        2.5,
        float("inf"),
        np.int16(4),
        np.float32(0.1),
        np.str_("s"),
        np.bool_(True),
        np.datetime64("2024-02-29", "s"),
        pd.Timestamp("2024-02-29 12:00"),
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 12, 30),
        b"\x00bytes",
        ("level", 2),
        pd.NaT,
        pd.NA,
    ],
    ids=repr,
)
def test_a_single_value_keeps_its_type(value):
    again = decode_value(encode_value(value))
    assert type(again) is type(value)
    assert again is value or again == value


def test_arrays_of_labels_keep_their_type():
    for array in (
        np.array(["2024-01-01", "2025-01-01"], dtype="M8[s]"),
        np.array([1, 2], dtype="m8[ms]"),
        np.array([b"x", b"yy"]),
        np.array([float("nan"), float("-inf"), 0.1]),
        np.empty(0, dtype=np.int64),
    ):
        assert equal(decode_array(encode_array(array)), array)


COLUMNS = {
    "number": pd.Series([1.5, np.nan, 3.0]),
    "single": pd.Series([1.5, np.nan, 3.0], dtype="float32"),
    "whole": pd.Series([1, -2, 3], dtype="int16"),
    "nullable": pd.Series([1, None, 3], dtype="Int64"),
    "nullable float": pd.Series([0.5, None, 3], dtype="Float32"),
    "unsigned": pd.Series([1, None, 255], dtype="UInt8"),
    "text": pd.Series(["a", None, "ü"]),
    "python text": pd.Series(["a", None, "b"], dtype=pd.StringDtype("python")),
    "arrow text": pd.Series(["a", None, "b"], dtype=pd.StringDtype("pyarrow")),
    "arrow's own text": pd.Series(["a", None, "b"], dtype=pd.ArrowDtype(pa.string())),
    "arrow's own numbers": pd.Series([1, None, 3], dtype="int64[pyarrow]"),
    "objects": pd.Series(["a", None, 3], dtype=object),
    "objects alike": pd.Series([1, 1.0, True], dtype=object),
    "objects missing": pd.Series([float("nan"), None, pd.NA], dtype=object),
    "dates": pd.Series([datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 2)], dtype=object),
    "half a pair": pd.Series(["\ud800", "a", "b"], dtype=object),
    "category": pd.Series(["low", None, "high"], dtype=pd.CategoricalDtype(["low", "mid", "high"], ordered=True)),
    "unordered": pd.Series(["x", "y", "x"]).astype("category"),
    "numbers as categories": pd.Series([3, 1, 3]).astype("category"),
    "floats as categories": pd.Series([0.5, None, 1.5]).astype("category"),
    "objects as categories": pd.Series(["x", 1, "x"], dtype=object).astype("category"),
    "intervals": pd.cut(pd.Series([0.1, 0.5, 0.9]), [0, 0.4, 1.0]),
    "time": pd.Series(pd.to_datetime(["2024-01-01", None, "2024-03-01"])),
    "zone": pd.Series(pd.to_datetime(["2024-01-01", None, "2024-07-01"])).dt.tz_localize("Europe/Berlin"),
    "seconds": pd.Series(np.array(["2024-01-01", "NaT", "2024-03-01"], dtype="M8[s]")),
    "duration": pd.Series(pd.to_timedelta(["1h", None, "3h"])),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_keeps_its_type_its_categories_and_what_is_missing(name):
    frame = pd.DataFrame({"other text": ["p", "q", "r"], "x": COLUMNS[name]})
    table = Table(frame, ("other text", "x"))
    out = io.BytesIO()
    write_table(out, table)
    again = read_table(memoryview(out.getvalue()), describe_table(table))
    assert again.names == table.names
    pd.testing.assert_frame_equal(again.values, frame, check_exact=True, check_freq=False)
    assert again.values["x"].dtype == frame["x"].dtype
    if frame["x"].dtype == object:
        assert [type(cell) for cell in again.values["x"]] == [type(cell) for cell in frame["x"]]


def test_a_column_that_no_file_holds_is_named():
    frame = pd.DataFrame({"fine": ["a"], "period": pd.period_range("2024", periods=1, freq="M")})
    with pytest.raises(TypeError, match="'period'"):
        describe_table(Table(frame, ("fine", "period")))
    frame = pd.DataFrame({"odd": [{1, 2}, object()]}, dtype=object)
    with pytest.raises(TypeError, match="'odd'"):
        describe_table(Table(frame, ("odd",)))


def test_names_and_labels_of_columns_come_back(tmp_path):
    X, y, _ = make_wide(n_columns=4)
    frame = pd.DataFrame(X, columns=["a", "b b", "ü", "=1+1"])
    frame["kind"] = np.where(X[:, 0] > 0, "warm", "cold")
    clf = paper("nano", method="raw-core").fit(frame, y)
    again = round_trip(clf, tmp_path)
    assert list(again.feature_names_in_) == list(clf.feature_names_in_)
    assert equal(again.predict_proba(frame), clf.predict_proba(frame))
    numbered = pd.DataFrame(X).assign(**{"4": frame["kind"]}).set_axis([10, 11, 12, 13, 14], axis=1)
    table = as_table(numbered)
    out = io.BytesIO()
    write_table(out, table)
    read = read_table(memoryview(out.getvalue()), describe_table(table))
    pd.testing.assert_frame_equal(read.values, numbered)


def test_a_table_on_disk_is_embedded(tmp_path):
    X, y, _ = make_wide(n_columns=40)
    pd.DataFrame(X, columns=[f"c{j}" for j in range(40)]).to_parquet(tmp_path / "x.parquet")
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    for file, support in (("x.parquet", X), ("x.npy", X.astype(np.float32))):
        clf = paper("nano", method="raw-core").fit(open_wide(tmp_path / file), y)
        expected = clf.predict_proba(open_wide(tmp_path / file))
        clf.save(tmp_path / "model.scff")
        del clf
        rows = open_wide(tmp_path / file)
        again = scff.load(tmp_path / "model.scff")
        assert equal(again.fitted_.support.values, support)
        assert equal(again.predict_proba(rows), expected)


def test_a_file_says_nothing_about_where_it_was_made(tmp_path, checkpoint_dir, monkeypatch):
    monkeypatch.setenv("USER", "someone-in-particular")
    X, y, Q = make_wide(n_columns=20)
    clf = paper(checkpoint_dir / "v2.ckpt", method="raw-core", tail=TailRule(project=False)).fit(X, y)
    clf.save(tmp_path / "model.scff")
    content = (tmp_path / "model.scff").read_bytes()
    for part in (str(checkpoint_dir), str(tmp_path), "someone-in-particular", "/home", "/root", "/tmp"):
        assert part.encode() not in content
    again = scff.load(tmp_path / "model.scff")
    assert again.backbone == "v2.ckpt"
    assert again.tail == TailRule(project=False)
    with pytest.raises(CheckpointMissing, match=r"v2\.ckpt.*beside the model"):
        again.predict(Q)
    monkeypatch.setenv("SCFF_CHECKPOINT_DIR", str(checkpoint_dir))
    assert equal(again.predict_proba(Q), clf.predict_proba(Q))


def test_missing_weights_name_the_command_that_fetches_them(tmp_path):
    X, y, Q = make_wide(n_columns=20)
    clf = paper("nano", method="raw-core").fit(X, y)
    clf.fitted_.checkpoint = replace(clf.fitted_.checkpoint, backbone="tabicl-v1", path="other.ckpt", sha256="0" * 64)
    again = round_trip(clf, tmp_path)
    with pytest.raises(CheckpointMissing, match="`scff backbones fetch tabicl-v1`"):
        again.predict(Q)


def test_other_weights_in_their_place_are_refused(tmp_path, checkpoint_dir):
    X, y, Q = make_wide(n_columns=20)
    clf = paper(checkpoint_dir / "v2.ckpt", method="raw-core").fit(X, y)
    clf.save(tmp_path / "model.scff")
    (tmp_path / "v2.ckpt").write_bytes((checkpoint_dir / "v1.ckpt").read_bytes())
    with pytest.raises(CheckpointError, match="not those this model was fitted with"):
        scff.load(tmp_path / "model.scff").predict(Q)


def test_the_parts_of_a_file_are_what_other_tools_read(tmp_path):
    X, y, _ = make_wide(n_columns=20)
    clf = paper("nano", method="raw-core").fit(X, y)
    clf.save(tmp_path / "model.scff")
    with zipfile.ZipFile(tmp_path / "model.scff") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["model.json", "support.arrow", "arrays.safetensors"]
        arrays = load_safetensors(archive.read("arrays.safetensors"))
        rows = pa.ipc.open_file(archive.read("support.arrow")).read_all()
    assert equal(arrays["fitted.y"], clf.fitted_.y)
    assert np.array_equal(np.stack(rows["row"].to_pylist()), X)


def test_two_saves_of_one_model_are_the_same_bytes(tmp_path):
    X, y, _ = make_wide(n_columns=20)
    clf = paper("nano", method="raw-core").fit(X, y)
    clf.save(tmp_path / "a.scff")
    scff.load(tmp_path / "a.scff").save(tmp_path / "b.scff")
    assert (tmp_path / "a.scff").read_bytes() == (tmp_path / "b.scff").read_bytes()


def test_nothing_that_a_fit_leaves_behind_is_forgotten():
    """An attribute that a new version adds to estimators must be written too, or be left out on purpose."""
    X, y, _ = make_wide(n_columns=5)
    clf = paper("nano", method="raw-core").fit(pd.DataFrame(X, columns=list("abcde")), y)
    assert set(vars(clf)) - set(clf.get_params()) == {"n_features_in_", "feature_names_in_", "fitted_"}


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(AttributeError, match="not fitted yet"):
        FoldedClassifier("nano").save(tmp_path / "model.scff")
    assert not list(tmp_path.iterdir())


def test_what_a_file_cannot_hold_is_said_before_anything_is_written(tmp_path):
    X, y, _ = make_wide(n_columns=5)
    clf = paper("nano", method="raw-core").fit(X, y)
    frame = pd.DataFrame({"when": pd.period_range("2024", periods=len(X), freq="M")})
    clf.fitted_.support = Table(frame, ("when",))
    with pytest.raises(ModelFileError, match="'when' is period"):
        clf.save(tmp_path / "model.scff")
    assert not list(tmp_path.iterdir())


def test_old_files_and_strangers_are_refused_with_the_reason(tmp_path):
    import joblib

    X, y, _ = make_wide(n_columns=5)
    clf = paper("nano", method="raw-core").fit(X, y)
    for name, write in {
        "joblib": lambda path: joblib.dump(("scff-model-1", "0.1.0", clf), path),
        "compressed": lambda path: joblib.dump(clf, path, compress=3),
        "gzip": lambda path: joblib.dump(clf, path, compress=("gzip", 1)),
        "pickle": lambda path: path.write_bytes(pickle.dumps(clf)),
    }.items():
        write(tmp_path / name)
        with pytest.raises(ModelFileError, match=r"is a pickle.*not opened.*Fit the model again"):
            scff.load(tmp_path / name)
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").write_bytes(b"")
    for name, sentence in {"text": "is not a model", "empty": "is not a model", "nowhere": "There is no model"}.items():
        with pytest.raises(ModelFileError, match=re.escape(sentence)):
            scff.load(tmp_path / name)


@pytest.mark.parametrize(
    ("backbone", "options"),
    [
        ("nano", {"method": "scff", "leaf_width": 16, "tail": "raw-residual", "n_estimators": 2}),
        ("nano", {"method": "raw-core"}),
        ("nano", {"method": "native"}),
        ("nano", {"leaf_width": 24}),
        ("nano", {"method": "bounded-core", "leaf_width": 16, "cache": False}),
        ("nano", {"method": "bounded-core", "leaf_width": 16, "cache": "disk", "fdr": 0.9}),
        ("nano", {"method": "mass-huber", "leaf_width": 16}),
        ("tiny tabpfn-v1", {"method": "scff", "leaf_width": 16}),
        ("tiny tabpfn-v1", {"method": "native"}),
    ],
    ids=str,
)
def test_kept_caches_change_no_bit(backbone, options, tmp_path, monkeypatch):
    X, y, Q = make_wide(n_columns=60)
    weights = tiny_tabpfn_v1(tmp_path / "v1.cpkt") if backbone != "nano" else "nano"
    clf = FoldedClassifier(weights, **options).fit(X, y)
    expected = clf.predict_proba(Q)
    clf.save(tmp_path / "model.scff", caches=True)
    again = scff.load(tmp_path / "model.scff")
    asked = []
    if options.get("method") != "mass-huber" and options.get("cache", True):
        # The support is not encoded again.
        for view in {type(view.view) for reading in clf.fitted_.readings for view in reading.views}:
            for name in ("encode_support", "compile_native", "build_context"):
                monkeypatch.setattr(view, name, lambda *_, name=name: asked.append(name))
    assert equal(again.predict_proba(Q), expected)
    assert not asked
    assert equal(again.fitted_.predict(as_table(Q), tail=True), expected)


def test_caches_of_a_regressor_are_kept_too(tmp_path):
    weights = tiny_tabicl_regressor(tmp_path / "numbers.ckpt")
    X, _, Q = make_wide(n_columns=40)
    model = FoldedRegressor(weights, leaf_width=16).fit(X, X[:, :5].sum(axis=1))
    model.save(tmp_path / "model.scff", caches=True)
    assert equal(scff.load(tmp_path / "model.scff").predict(Q), model.predict(Q))


def with_caches(tmp_path, checkpoint_dir, **options):
    X, y, Q = make_wide(n_columns=60)
    (tmp_path / "v2.ckpt").write_bytes((checkpoint_dir / "v2.ckpt").read_bytes())
    clf = paper(tmp_path / "v2.ckpt", leaf_width=16, fdr=0.9, **options).fit(X, y)
    clf.save(tmp_path / "model.scff", caches=True)
    return clf, Q


def test_caches_stay_in_the_file_and_are_not_written_to(tmp_path, checkpoint_dir):
    clf, Q = with_caches(tmp_path, checkpoint_dir)
    before = (tmp_path / "model.scff").read_bytes()
    again = scff.load(tmp_path / "model.scff")
    (kept,) = again.fitted_._kept[0]
    assert all(tensor.data_ptr() % tensor.element_size() == 0 for tensor in kept.tensors.values())
    again.predict_proba(Q)
    for tensor in kept.tensors.values():
        tensor.zero_()  # pages of its own from here on
    assert (tmp_path / "model.scff").read_bytes() == before
    (tmp_path / "model.scff").unlink()  # a file that is replaced or removed stays readable to those who have it open
    assert equal(scff_proba_after_pickle(again, Q), clf.predict_proba(Q))


def scff_proba_after_pickle(model, rows):
    return pickle.loads(pickle.dumps(model)).predict_proba(rows)


def test_a_model_with_caches_goes_over_its_rows_and_weights_no_more_than_it_must(tmp_path, monkeypatch):
    X, y, Q = make_wide(n_columns=200)
    clf = scff.FoldedClassifier("nano").fit(X, y)
    clf.save(tmp_path / "model.scff", caches=True)
    clf.save(tmp_path / "plain.scff")
    assert set(scff.load(tmp_path / "model.scff").fitted_._recalled) >= {"equal/products", "shares/products"}
    asked = []
    monkeypatch.setattr("scff.backbones.loaded._LOADED", {})
    monkeypatch.setattr(
        "scff.backbones.tabicl.files.probed", lambda backbone: asked.append("probe") or probed(backbone)
    )
    of = Whole.of
    monkeypatch.setattr(Whole, "of", lambda *args: asked.append("rows") or of(*args))
    monkeypatch.setattr("scff.backbones.shared.probe._one_leaf", lambda *args: asked.append("pass") or one_leaf(*args))
    assert equal(scff.load(tmp_path / "model.scff").predict_proba(Q), clf.predict_proba(Q))
    assert asked == ["probe"]  # which asks nothing of the model
    assert equal(scff.load(tmp_path / "plain.scff").predict_proba(Q), clf.predict_proba(Q))
    assert {"pass", "rows"} <= set(asked)  # weights that nobody has probed are not taken over by those who want it


def test_caches_of_other_versions_are_left_aside(tmp_path, checkpoint_dir, monkeypatch):
    clf, Q = with_caches(tmp_path, checkpoint_dir)
    monkeypatch.setattr("scff.models.file.__version__", "9.9")
    again = scff.load(tmp_path / "model.scff")
    assert again.fitted_._kept == ()
    assert again.fitted_._recalled == {}
    assert equal(again.predict_proba(Q), clf.predict_proba(Q))


def test_caches_that_do_not_fit_are_left_aside(tmp_path, checkpoint_dir, caplog):
    clf, Q = with_caches(tmp_path, checkpoint_dir)
    for spoil in ("shape", "missing", "layout"):
        again = scff.load(tmp_path / "model.scff")
        (kept,) = again.fitted_._kept[0]
        names = [name for name in kept.tensors if name.startswith("core/0")]
        if spoil == "shape":
            kept.tensors[names[0]] = kept.tensors[names[0]][:, :1]
        elif spoil == "missing":
            del kept.tensors[names[0]]
        else:
            again.fitted_._kept = ((replace(kept, layout="0" * 64),),)
        assert equal(again.predict_proba(Q), clf.predict_proba(Q))
