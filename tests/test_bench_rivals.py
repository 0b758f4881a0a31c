"""Rivals as arms, folders without an index, and folds that others published."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.utils import shuffle

from backbone_models import geneicl_proba
from bench_tools import record, write_panel
from scff.backbones import get_spec
from scff.backbones.weights import checkpoints
from scff.bench import rivals
from scff.bench.baselines import rival
from scff.bench.folds import get_protocol, make_split
from scff.bench.layout import Cell, ReportTable, to_rst
from scff.bench.panels import load_panel
from scff.bench.paper import printed
from scff.bench.records import RecordStore
from scff.bench.rendering import study_tables
from scff.bench.reports_published import theirs_on
from scff.bench.results import Results, seconds_of
from scff.bench.studies import get_study
from scff.bench.variants import make_task
from scff.errors import DataError

UPRIGHT = rivals._Rows


@pytest.fixture(scope="module")
def panel(tmp_path_factory):
    return load_panel(write_panel(tmp_path_factory.mktemp("panel")))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_lightgbm_chooses_inside_the_labelled_rows(n_classes):
    pytest.importorskip("lightgbm", reason="an optional package")
    rng = np.random.default_rng(0)
    y = np.arange(60) % n_classes
    X = rng.normal(size=(60, 5)) + 2.5 * np.eye(5)[y]
    model = rival("lightgbm").fit(X[:45], y[:45])
    assert (model.classes_[model.predict_proba(X[45:]).argmax(1)] == y[45:]).mean() > 0.7
    assert {"trees", "num_leaves", "feature_fraction"} <= set(model.facts_)


def test_geneicl_is_the_mean_of_its_three_checkpoints():
    pytest.importorskip("geneicl", reason="an optional package")
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    X = (rng.normal(size=(20, 12)) + y[:, None]).astype(np.float32)
    first = checkpoints.fetch(get_spec("geneicl"))
    paths = [first.with_name(f"trm_segmented8_s{i}.pt") for i in range(3)]
    theirs = np.mean([geneicl_proba(path, X[:14], y[:14], X[14:]) for path in paths], axis=0)
    np.testing.assert_allclose(rival("geneicl").fit(X[:14], y[:14]).predict_proba(X[14:]), theirs, atol=1e-5)


@pytest.mark.parametrize("name", ["logistic", "svm-linear", "svm-rbf"])
def test_rotating_into_the_row_space_changes_no_answer(name, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    X = rng.normal(size=(32, 60)) + 0.5 * (np.arange(32) % 2)[:, None] * (np.arange(60) < 10)
    turned = rival(name).fit(X[:24], y)
    assert turned.rows(X[24:]).shape[1] < 60
    monkeypatch.setattr(rivals, "_Rows", lambda X, **_: UPRIGHT(X, rotate=False))
    upright = rival(name).fit(X[:24], y)
    assert upright.rows(X[24:]).shape[1] == 60
    np.testing.assert_allclose(turned.predict_proba(X[24:]), upright.predict_proba(X[24:]), atol=2e-3)


def test_a_folder_without_an_index_is_a_panel(panel, tmp_path):
    for name, suffix in (("cancer", "parquet"), ("wine", "csv")):
        table = panel[name].load()
        frame = table.X.assign(patient=np.arange(len(table.y)) // 3, label=table.y)
        path = tmp_path / f"{name}.{suffix}"
        frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)
    bare = load_panel(tmp_path, target="label", groups="patient")
    assert [(d.name, d.rows, d.features) for d in bare.datasets] == [("cancer", 90, 150), ("wine", None, 150)]
    for name in bare.names:
        mine, table = bare[name].load(), panel[name].load()
        np.testing.assert_allclose(mine.X.to_numpy(), table.X.to_numpy())
        assert list(mine.y) == list(table.y)
        for fold in range(5):
            split = make_split(mine.y, name, fold, get_protocol("paper"), groups=mine.groups)
            assert not set(mine.groups[split.support]) & set(mine.groups[split.query])
        assert make_task(bare[name], mine, 0, get_protocol("paper")).n_groups == 30
    with pytest.raises(DataError, match="no column 'nope'"):
        load_panel(tmp_path, target="nope")["wine"].load()
    with pytest.raises(DataError, match="is no panel"):
        load_panel(tmp_path / "nowhere")


def test_the_published_folds_are_cut_as_published():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 62)
    rows, labels = shuffle(np.arange(62), y, random_state=42)
    theirs = list(RepeatedStratifiedKFold(n_splits=3, n_repeats=10, random_state=42).split(rows[:, None], labels))
    protocol = get_protocol("tabpfn-wide")
    assert protocol.folds == tuple(range(len(theirs)))
    for fold in (0, 7, 29):
        split = make_split(y.astype(str), "colon", fold, protocol)
        np.testing.assert_array_equal(split.support, rows[theirs[fold][0]])
        np.testing.assert_array_equal(split.query, rows[theirs[fold][1]])
    with pytest.raises(DataError, match="9 folds"):
        make_split(rng.integers(0, 2, 2600), "madelon", 9, protocol)
    assert protocol.choose("all", 2600) == tuple(range(9))
    assert protocol.choose("all", 62) == protocol.choose("all") == protocol.folds
    assert {len(scores) for scores in theirs_on("tabpfn-wide.csv", "skf_madelon").values()} == {9}
    assert theirs_on("tabpfn-wide.csv", "musk") == {}


def test_one_table_alone_says_that_it_has_no_interval(tmp_path):
    store = RecordStore(tmp_path)
    for fold in range(3):
        store.write(record("scff", "a", fold, accuracy=0.6, nll=0.9))
        store.write(record("native", "a", fold))
    tables = study_tables(get_study("main"), [Results.load(tmp_path, get_protocol("laptop"), "nano")])
    row = next(table for table in tables if table.title == "All folds").rows[0]
    assert [cell.text for cell in row[3:]] == [
        "+10.000 (no interval from one table)",
        "-0.10000 (no interval from one table)",
    ]


def test_a_results_folder_tells_what_was_run(tmp_path):
    with pytest.raises(DataError, match="has no records"):
        Results.find(tmp_path)
    RecordStore(tmp_path).write(record("scff", "a", 0))
    RecordStore(tmp_path).write(record("logistic", "a", 0))
    assert Results.find(tmp_path) == ("laptop", ["nano"])
    with pytest.raises(DataError, match="under the protocol 'paper'"):
        Results.find(tmp_path, "paper")


def test_a_file_of_records_is_read_like_a_folder(tmp_path):
    records = [record(arm, "a", fold, accuracy=0.1 * fold) for fold in range(3) for arm in ("native", "scff")]
    older = replace(records[0], key=replace(records[0].key, checkpoint="d" * 12))
    packed = tmp_path / "records.jsonl"
    lines = [json.dumps(json.loads(one.to_json()), separators=(",", ":")) + "\n" for one in (older, *records)]
    packed.write_text("".join(lines))
    for one in records:
        RecordStore(tmp_path).write(one)
    assert Results.find(packed) == Results.find(tmp_path) == ("laptop", ["nano"])
    loaded = [Results.load(root, get_protocol("laptop"), "nano") for root in (packed, tmp_path)]
    assert loaded[0].checkpoint == "c" * 12
    tables = [study_tables(get_study("main"), [results]) for results in loaded]
    assert tables[0] == tables[1]
    text = packed.read_text()
    quick, paper = (
        json.dumps(json.loads(replace(one, key=replace(one.key, protocol=name)).to_json())) + "\n"
        for one, name in ((records[0], "quick"), (records[1], "paper"))
    )
    packed.write_text(text + quick)
    with pytest.raises(DataError, match="--protocol laptop or quick"):  # the lines of a file have no age
        Results.find(packed)
    packed.write_text(paper + text + quick)
    assert Results.find(packed) == ("paper", ["nano"])
    assert Results.find(packed, "laptop") == ("laptop", ["nano"])
    with pytest.raises(DataError, match="no records of 'tabicl-v2'"):
        Results.load(packed, get_protocol("laptop"), "tabicl-v2")


def test_tables_of_the_papers_registry_stand_beside_its_backbones(tmp_path):
    store = RecordStore(tmp_path)
    for name in ("scene", "not in the registry"):
        for fold in (1, 2):
            store.write(record("scff", name, fold, accuracy=0.6 + 0.1 * fold, nll=0.9))
            store.write(record("native", name, fold))
    tables = study_tables(get_study("main"), [Results.load(tmp_path, get_protocol("laptop"), "nano")])
    found = next(table for table in tables if table.title == "Tables of the paper's registry")
    assert [cell.text for cell in found.rows[0][:3]] == ["scene", "nano", "+25.00 / -0.1000"]
    tabicl_v2 = found.columns.index("tabicl-v2, paper")
    accuracy, nll = (printed("effects", "tabicl-v2", metric, "scene") for metric in ("accuracy", "nll"))
    assert found.rows[0][tabicl_v2].text == f"{accuracy:+.2f} / {nll:+.4f}"
    assert len(found.rows) == 1


def test_time_is_the_processors_where_there_is_no_accelerator():
    one = record("scff", seconds=9.0)
    assert seconds_of(one) == 9.0  # a record from before the processor's time was kept
    one = replace(one, seconds={**one.seconds, "cpu": 2.0})
    assert seconds_of(one) == 2.0
    assert seconds_of(replace(one, memory={**one.memory, "meter": "cuda"})) == 9.0
    assert seconds_of(one, "predict") == 0.5


def test_tables_as_restructured_text_are_read_back_as_they_were():
    docutils = pytest.importorskip("docutils.core", reason="an optional package")
    cells = ("name_", "+0.5 [-1, 2]", "a*b | `c`")
    table = ReportTable("Title", ("One", "Two", "Three"), (tuple(Cell(text) for text in cells),), ("A *note*.",))
    tree = docutils.publish_doctree(to_rst([table]), settings_overrides={"halt_level": 2})
    shown = [entry.astext() for entry in tree.findall() if entry.tagname == "entry"]
    assert shown == ["One", "Two", "Three", *cells]
    assert "A *note*." in tree.astext()
