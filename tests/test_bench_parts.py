"""Panels, folds, variants, metrics, arms: each on its own."""

import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sk

from bench_tools import shared_data, write_panel
from scff import FoldedClassifier
from scff.bench import starting
from scff.bench.arms import ARMS, build, get_arm
from scff.bench.folds import get_protocol, make_split, protocols, stratified_order
from scff.bench.generate import FeatureGenerator
from scff.bench.metrics import measure
from scff.bench.panels import Dataset, load_panel
from scff.bench.studies import get_study, studies
from scff.bench.variants import Variant, make_task, nuisance_columns
from scff.errors import DataError
from scff.fold.methods import METHODS

PAPER = get_protocol("paper")


@pytest.fixture(scope="module")
def panel(tmp_path_factory):
    return load_panel(write_panel(tmp_path_factory.mktemp("panel")))


def test_the_papers_registry_and_its_context_tables():
    registry = load_panel("paper-18")
    assert len(registry.datasets) == 18
    widths = [d.features for d in registry.datasets]
    assert (min(widths), max(widths)) == (128, 7200)
    chosen = get_study("context-width").panel(registry)
    assert chosen.names == ("kddcup09_appetency", "philippine", "dilbert", "guillermo")  # the paper's four
    reinvested = get_study("context-reinvestment").panel(registry)
    assert set(reinvested.names) == {"dilbert", "guillermo", "riccardo", "robert"}
    assert len(load_panel("tabprep-11").datasets) == 11


def test_folder_panel_checks_what_it_loads(panel, tmp_path):
    table = panel["wine"].load()
    assert table.X.shape == (90, 150)
    assert sorted(set(table.y)) == ["0", "1", "2"]
    assert table.digest == f"sha256:{panel['wine'].sha256}"
    with pytest.raises(DataError, match="declared with 91"):
        replace(panel["wine"], rows=91).load()
    with pytest.raises(DataError, match="get it again"):
        replace(panel["wine"], sha256="0" * 64).load()
    with pytest.raises(DataError, match="no table 'beer'"):
        panel["beer"]
    with pytest.raises(DataError, match="is no panel"):
        load_panel(tmp_path)


def test_openml_first_then_scikit_learn(monkeypatch):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]})
    asked = []

    class Version:
        default_target_attribute = "class"
        md5_checksum = "abc"

        def get_data(self, target):
            asked.append(target)
            return frame, pd.Series(["x", "y"]), [False, False], ["a", "b"]

    fake = types.ModuleType("openml")
    fake.datasets = types.SimpleNamespace(get_dataset=lambda data_id, download_data: Version())
    monkeypatch.setitem(sys.modules, "openml", fake)
    dataset = Dataset("tiny", 2, 2, 2, openml_id=5)
    assert dataset.load().digest == "md5:abc"
    assert asked == ["class"]

    def offline(data_id, download_data):
        raise OSError("no network")

    def fetch(data_id, as_frame, parser):
        assert parser == "liac-arff"  # the other parser deletes its cache on a failure
        return types.SimpleNamespace(data=frame, target=pd.Series(["x", "y"]), details={"md5_checksum": "def"})

    fake.datasets.get_dataset = offline
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    assert dataset.load().digest == "md5:def"
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: (_ for _ in ()).throw(OSError("neither")))
    with pytest.raises(DataError, match=r"no network.*neither"):
        dataset.load()


def test_real_panel_matches_its_index():
    folder = shared_data()
    if folder is None:
        pytest.skip("no folder of real tables: set SCFF_DATA or put one at ../shared/data")
    panel = load_panel(folder)
    assert {d.openml_id for d in panel.datasets} >= {5, 312, 41143, 41144}  # tables of the paper's registry
    for name in ("arrhythmia", "hmp_diverse16S"):
        assert panel[name].load().X.shape == (panel[name].rows, panel[name].features)


def test_folds_are_disjoint_capped_and_fixed():
    y = np.repeat(["a", "b", "c"], [3000, 900, 30])
    splits = [make_split(y, "t", fold, PAPER) for fold in range(5)]
    assert all(len(s.support) == 2048 for s in splits)
    assert all(len(s.query) == min(1024, 786) for s in splits)
    queries = np.concatenate([s.query for s in splits])
    assert len(np.unique(queries)) == len(y)  # the five query folds are a partition
    assert all(not set(s.support) & set(s.query) for s in splits)
    again = make_split(y, "t", 3, PAPER)
    assert (again.support_hash, again.query_hash) == (splits[3].support_hash, splits[3].query_hash)
    other = make_split(y, "another", 3, PAPER)
    assert other.query_hash == again.query_hash
    assert other.support_hash != again.support_hash  # the cap's seed is derived per table
    shares = [np.mean(y[s.support] == "b") for s in splits]
    assert np.allclose(shares, 900 / 3930, atol=0.01)


def test_contexts_are_nested_and_stratified():
    y = np.repeat(["a", "b"], [4000, 1000])
    full = make_split(y, "t", 0, PAPER, capped=False)
    assert len(full.support) == 4000
    for n in (50, 128, 512, 2048):
        assert np.mean(y[full.prefix(n).support] == "b") == pytest.approx(0.2, abs=2 / n)
    rare = np.repeat(["a", "b"], [999, 1])
    assert "b" in rare[stratified_order(rare, 0, cover=True)[:2]]


def test_protocols_are_complete():
    paper = protocols()["paper"]
    assert (paper.split_seed, paper.query_seed, paper.support_cap, paper.query_cap) == (20260904, 20260905, 2048, 1024)
    assert paper.choose("development") == (0,)
    assert paper.choose("locked") == (1, 2, 3, 4)
    with pytest.raises(DataError, match="no protocol"):
        get_protocol("nope")


def test_nuisance_columns_are_nested_and_know_no_label():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 500)
    frame = pd.DataFrame(rng.normal(size=(1000, 4)) + 3 * y[:, None])
    small, large = nuisance_columns(frame, 20, 1, 0), nuisance_columns(frame, 200, 1, 0)
    pd.testing.assert_frame_equal(small, large.iloc[:, :20])
    assert not small.equals(nuisance_columns(frame, 20, 2, 0))
    gap = large[y == 1].mean() - large[y == 0].mean()
    assert (gap.abs() < 5 * large.std() * np.sqrt(4 / 1000)).all()


def test_generator_is_fitted_on_the_support_alone():
    rng = np.random.default_rng(0)
    support = pd.DataFrame({"a": rng.normal(size=40), "b": rng.integers(0, 3, 40), "c": rng.normal(size=40)})
    query = pd.DataFrame({"a": rng.normal(size=9), "b": [0, 1, 2, 7, 0, 1, 2, 0, 1], "c": rng.normal(size=9)})
    generator = FeatureGenerator(max_columns=12).fit(support)
    wide = generator.transform(query)
    assert wide.shape == (9, 12)
    assert list(wide.columns) == list(generator.transform(support).columns)
    alone = generator.transform(query.iloc[[3]])  # a row's features do not depend on the other query rows
    np.testing.assert_allclose(alone.to_numpy(), wide.iloc[[3]].to_numpy())


def test_variants_change_the_table_and_nothing_else(panel):
    table = panel["cancer"].load()
    plain = make_task(panel["cancer"], table, 1, PAPER)
    dosed = make_task(panel["cancer"], table, 1, PAPER, Variant(nuisance=8, seed=2))
    assert dosed.X_support.shape[1] == plain.X_support.shape[1] + 8
    assert dosed.split.query_hash == plain.split.query_hash
    small = make_task(panel["cancer"], table, 1, PAPER, Variant(context=20))
    assert len(small.y_support) == 20
    assert set(small.split.support) <= set(plain.split.support)
    names = {Variant(context=128).name, Variant(nuisance=64, seed=1).name, Variant(generated=True).name}
    assert names == {"context-128", "nuisance-64-s1", "generated"}


@pytest.mark.parametrize("n_classes", [2, 4])
def test_metrics_agree_with_scikit_learn(n_classes):
    rng = np.random.default_rng(0)
    classes = np.array(["c", "a", "d", "b"][:n_classes])  # in no order
    proba = rng.dirichlet(np.ones(n_classes), 200)
    y = classes[rng.integers(0, n_classes, 200)]
    got = measure(proba, classes, y)
    order = np.argsort(classes)
    ranked, names = proba[:, order], classes[order]
    assert got["accuracy"] == pytest.approx(sk.accuracy_score(y, classes[proba.argmax(1)]))
    assert got["balanced_accuracy"] == pytest.approx(sk.balanced_accuracy_score(y, classes[proba.argmax(1)]))
    assert got["nll"] == pytest.approx(sk.log_loss(y, ranked, labels=names))
    expected = sk.roc_auc_score(y, ranked[:, 1]) if n_classes == 2 else sk.roc_auc_score(y, ranked, multi_class="ovr")
    assert got["auc"] == pytest.approx(expected)
    onehot = (y[:, None] == classes).astype(float)
    assert got["brier"] == pytest.approx(((proba - onehot) ** 2).sum(1).mean())


def test_metrics_at_their_edges():
    classes = np.array(["a", "b"])
    perfect = measure(np.array([[1.0, 0.0], [0.0, 1.0]]), classes, np.array(["a", "b"]))
    assert (perfect["accuracy"], perfect["nll"], perfect["brier"], perfect["ece"]) == (1.0, 0.0, 0.0, 0.0)
    unseen = measure(np.array([[0.6, 0.4]]), classes, np.array(["z"]))
    assert unseen["accuracy"] == 0.0
    assert unseen["nll"] == pytest.approx(-np.log(np.finfo(np.float32).eps))
    assert unseen["auc"] is None


def test_scff_and_its_controls_are_the_papers_method_and_auto_is_the_default():
    default = FoldedClassifier().get_params()
    paper = {name: arm for name, arm in ARMS.items() if arm.kind == "fold" and name != "auto"}
    assert all(arm.options["method"] in METHODS for arm in paper.values())
    assert build(ARMS["auto"], "nano", "cpu", 8).method == default["method"] == "auto"
    model = build(ARMS["scff"], "nano", "cpu", 8)
    assert (model.method, model.tail, model.routing, model.n_estimators) == ("scff", "paper", "anova", 1)
    hashes = {arm.settings_hash for arm in ARMS.values()}
    assert len(hashes) == len(ARMS)  # no two arms do the same


CHEAP = sorted(set(ARMS) - {"lightgbm", "geneicl"}) + [
    "prefix-5",
    "scff-leaf-16",
    "bounded-core-leaf-16",
]


@pytest.mark.parametrize("name", CHEAP)
def test_every_arm_predicts(name, panel):
    rng = np.random.default_rng(0)
    y = np.tile(["n", "y"], 24)  # LightGBM as it comes wants 20 rows in a leaf
    X = pd.DataFrame(rng.normal(size=(48, 40)) + 2 * (y == "y")[:, None] * (np.arange(40) < 20))
    X.iloc[0, 3] = np.nan
    model = build(get_arm(name), "nano", "cpu", 8).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    assert (model.classes_[proba.argmax(1)] == y).mean() > 0.7
    if name == "prefix-5":
        assert len(model.columns_) == 5
        assert set(model.columns_) <= set(range(20))


def test_baselines_take_categories():
    X = pd.DataFrame({"n": [0.0, 1.0] * 10, "s": ["u", "v"] * 10})
    y = np.array(["0", "1"] * 10)
    fresh = pd.DataFrame({"n": [1.0, np.nan], "s": ["v", "never seen"]})
    for name in ("logistic", "random-forest"):
        model = build(get_arm(name), "", "cpu", 8).fit(X, y)
        assert model.predict_proba(fresh)[0].argmax() == 1


def test_studies_name_arms_and_reports_that_exist():
    from scff.bench.figures import DRAWERS
    from scff.bench.rendering import MAKERS

    required = {
        "main", "core-decomposition", "core-width", "tail", "components", "leaf-width", "context-width", "equal-memory",
        "same-k", "nuisance", "context-reinvestment", "generated-features",
    }  # fmt: skip
    assert required <= set(studies())
    for study in studies().values():
        assert {r["kind"] for r in study.reports} <= set(MAKERS)
        assert {f["kind"] for f in study.figures} <= set(DRAWERS)
        assert study.reports
        assert "auto" not in study.arms[:2]  # the paper's arms first
    doses = get_study("nuisance").variants
    assert len(doses) == 13  # dose zero once, four doses with three seeds each
    with pytest.raises(DataError, match="no arm"):
        get_arm("prefix-")
    with pytest.raises(DataError, match="no study"):
        get_study("nope")


def test_arms_need_no_socket_where_its_name_would_be_too_long(monkeypatch, tmp_path):
    monkeypatch.setattr(starting, "_start_server", lambda backbone: None)
    for folder, method in ((tmp_path / ("x" * 100), "spawn"), (Path("/tmp/x"), "forkserver")):
        scratch = types.SimpleNamespace(path=folder)
        monkeypatch.setattr(starting, "_meet_in_scratch", lambda scratch=scratch: scratch)
        assert starting.context_for("").get_start_method() == method
