"""An honest estimate: figures against scikit-learn's on the same folds, intervals, resuming, and what is refused."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scff import FoldedClassifier
from scff.errors import DataError
from scff.evaluate import evaluate
from scff.evaluate.linear import LOGISTIC_CS, RIDGE_ALPHAS, elastic_net_path
from scff.evaluate.question import Question
from scff.evaluate.scores import Asked, draw, estimate, figures


def table(n=60, columns=40, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = rng.normal(size=(n, columns))
    tell = min(8, columns)
    X[:, :tell] += 1.2 * (y[:, None] == rng.integers(0, classes, tell))
    return pd.DataFrame(X, columns=[f"g{j}" for j in range(columns)]), np.array(["a", "b", "c"])[y]


def by_scikit_learn(model, X, y, splits, fit=lambda model, X, y, rows: model.fit(X, y)):
    """The same figures by a script that knows nothing of this library: probabilities in folds, then its metrics."""
    classes = np.unique(y)
    codes = np.searchsorted(classes, y)
    scores, won, pairs = [], np.zeros(len(classes)), np.zeros(len(classes))
    rounds = {}
    for (train, test), r in zip(splits.pairs, splits.repeats, strict=True):
        p = fit(model, X[train], codes[train], train).predict_proba(X[test])
        rounds.setdefault(r, np.zeros((len(y), len(classes))))[test] = p
        for k in range(len(classes)):
            weight = (codes[test] == k).sum() * (codes[test] != k).sum()
            if weight:
                won[k] += weight * roc_auc_score(codes[test] == k, p[:, k])
                pairs[k] += weight
    for p in rounds.values():
        said = p.argmax(axis=1)
        p = np.clip(p, np.finfo(np.float32).eps, 1)
        scores.append(
            {
                "accuracy": accuracy_score(codes, said),
                "balanced_accuracy": balanced_accuracy_score(codes, said),
                "log_loss": -np.log(p[np.arange(len(y)), codes]).mean(),
                "brier": brier_score_loss(codes, p[:, 1] if len(classes) == 2 else p / p.sum(axis=1, keepdims=True)),
            }
        )
    area = won / pairs
    means = {name: np.mean([one[name] for one in scores]) for name in scores[0]}
    return means | {"auc": area[1] if len(classes) == 2 else area.mean()}


def assert_same(found, script, **tolerance):
    assert {name: one.value for name, one in found.items()} == pytest.approx(script, **({"abs": 1e-6} | tolerance))


def tuned_logistic(groups=None):
    """Logistic regression as a scikit-learn user writes it: all columns, the penalty by log-loss on inner folds."""

    def fit(model, X, y, rows):
        del model
        X = np.asarray(X)
        inner = StratifiedKFold(3, shuffle=True, random_state=0).split(X, y)
        if groups is not None:
            inner = StratifiedGroupKFold(3, shuffle=True, random_state=0).split(X, y, groups[rows])
        search = LogisticRegressionCV(
            Cs=list(LOGISTIC_CS),
            cv=list(inner),
            scoring="neg_log_loss",
            l1_ratios=(0.0,),
            tol=1e-6,
            max_iter=10_000,
            use_legacy_attributes=False,
        )
        return make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), search).fit(X, y)

    return fit


@pytest.mark.parametrize("classes", [2, 3])
def test_figures_are_those_of_a_scikit_learn_script_on_the_same_folds(classes):
    X, y = table(columns=70, classes=classes)
    X.iloc[::7, 3] = np.nan
    naive = make_pipeline(SimpleImputer(), GaussianNB())
    names = ["logistic", "majority"] + ["random-forest"] * (classes == 2)
    found = evaluate(X, y, estimator=naive, folds=2, repeats=2, baselines=names)
    assert found.splits.words == "2 folds of 60 rows, classes dealt evenly, 2 times over"
    values = X.to_numpy()
    assert_same(found.scores["scff"], by_scikit_learn(naive, values, y, found.splits))
    if classes == 2:
        forest = make_pipeline(SimpleImputer(strategy="median"), RandomForestClassifier(300, random_state=0))
        assert_same(found.scores["random-forest"], by_scikit_learn(forest, values, y, found.splits))
    assert_same(found.scores["majority"], by_scikit_learn(DummyClassifier(strategy="prior"), values, y, found.splits))
    logistic = by_scikit_learn(None, values, y, found.splits, tuned_logistic())
    assert_same(found.scores["logistic"], logistic, abs=2e-3)
    assert found.scores["logistic"]["accuracy"].value == pytest.approx(logistic["accuracy"], abs=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_elastic_net_finds_scikit_learns_minimum(classes):
    X, y = table(40, 60, classes)
    X = StandardScaler().fit_transform(X)
    codes = np.unique(y, return_inverse=True)[1]
    Cs = (0.2, 0.5)  # where some columns have a weight: saga is slow to find a lone intercept
    path = elastic_net_path(X[:30], codes[:30], X[30:], Cs, classes)
    for C, p in zip(Cs, path, strict=True):
        slow = LogisticRegression(l1_ratio=0.5, C=C, solver="saga", tol=1e-6, max_iter=20_000).fit(X[:30], codes[:30])
        np.testing.assert_allclose(p, slow.predict_proba(X[30:]), atol=2e-3)


def test_numbers_have_the_figures_of_a_scikit_learn_script():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 80))
    y = X[:, 0] * 2 + X[:, 1] + rng.normal(size=50) + 100
    found = evaluate(X, y, estimator=Ridge(5.0), folds=5, repeats=1, baselines=["ridge", "mean"])
    assert found.task == "regression"

    def said(fit):
        out = np.zeros(50)
        for train, test in found.splits.pairs:
            out[test] = fit(train).predict(X[test])
        return {
            "r2": r2_score(y, out),
            "rmse": root_mean_squared_error(y, out),
            "mae": mean_absolute_error(y, out),
        }

    assert_same(found.scores["scff"], said(lambda rows: Ridge(5.0).fit(X[rows], y[rows])))

    def tuned(rows):
        from sklearn.model_selection import KFold

        inner = list(KFold(3, shuffle=True, random_state=0).split(rows))
        search = RidgeCV(RIDGE_ALPHAS, cv=inner, scoring="neg_mean_squared_error")
        return make_pipeline(StandardScaler(), search).fit(X[rows], y[rows])

    assert_same(found.scores["ridge"], said(tuned))
    assert found.metric == "r2"
    assert found.scores["mean"]["r2"].value < 0.05
    assert found.verdict in ("worse", "undecided", "better")


def test_labels_of_test_rows_never_reach_a_model():
    X, y = table(48, 30)
    train, test = np.arange(32), np.arange(32, 48)
    turned = y.copy()
    turned[test] = np.where(y[test] == "a", "b", "a")
    options = {
        "estimator": FoldedClassifier("nano", method="raw-core"),
        "folds": [(train, test)],
        "baselines": ["logistic", "elastic-net", "random-forest"],
    }
    right, wrong = evaluate(X, y, **options), evaluate(X, turned, **options)
    for model in right.models:
        np.testing.assert_array_equal(right.answers[model], wrong.answers[model])
    pd.testing.assert_frame_equal(right.columns, wrong.columns)
    assert right.scores["scff"]["accuracy"].value == pytest.approx(1 - wrong.scores["scff"]["accuracy"].value)


def test_groups_are_never_parted_and_draw_together():
    X, y = table(60, 20)
    groups = np.repeat(np.arange(30), 2)
    y = np.repeat(y[:30], 2)
    X = pd.DataFrame(np.repeat(X.to_numpy()[:30], 2, axis=0))  # every row twice: 30 rows' worth of evidence
    found = evaluate(X, y, estimator=GaussianNB(), groups=groups, baselines=["majority"])
    for train, test in found.splits.pairs:
        assert not set(groups[train]) & set(groups[test])
    as_rows = evaluate(X, y, estimator=GaussianNB(), folds=found.splits.pairs, baselines=["majority"])
    assert found.n_groups == 30
    assert found.scores["scff"] != as_rows.scores["scff"]

    def width(one):
        return one.high - one.low

    honest, naive = found.scores["scff"]["log_loss"], as_rows.scores["scff"]["log_loss"]
    assert honest.value == naive.value
    assert width(honest) > 1.2 * width(naive)


def test_more_rounds_of_the_same_rows_make_no_interval_narrower():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    p = rng.uniform(size=40)
    answer = np.stack([1 - p, p], axis=1)
    widths = []
    for rounds in (1, 10):
        fold = np.zeros((rounds, 40), dtype=np.int64) + np.arange(rounds)[:, None]
        asked = Asked(y, 2, fold, alone=False)
        weights, n_units = draw(asked, None, 0)
        found = figures(asked, np.repeat(answer[None], rounds, axis=0), weights)
        one = estimate(found["log_loss"], n_units)
        widths.append(one.high - one.low)
    assert widths[0] == pytest.approx(widths[1])


def test_the_interval_of_a_mean_is_students():
    rng = np.random.default_rng(1)
    y = rng.normal(size=12)
    asked = Asked(np.zeros(12), 0, np.zeros((1, 12), dtype=np.int64), alone=False)
    weights, n_units = draw(asked, None, 0)
    means = weights @ y / weights.sum(axis=1)
    one = estimate(means, n_units)
    low, high = stats.t.interval(0.95, 11, y.mean(), y.std(ddof=1) / np.sqrt(12))
    assert (one.low, one.high) == pytest.approx((low, high), abs=0.12 * (high - low))


def test_a_perfect_score_is_not_certain():
    X, y = table(30, 4)
    X["g0"] = (y == "a") * 10.0
    found = evaluate(X, y, estimator=GaussianNB(), folds=3, repeats=1, baselines=[])
    assert found.scores["scff"]["accuracy"].value == 1
    assert found.scores["scff"]["accuracy"].low == pytest.approx(1 - 3 / 30)
    assert found.scores["scff"]["auc"].low == pytest.approx(1 - 3 / 15)
    assert found.verdict == "alone"


@pytest.mark.parametrize(
    ("n", "groups", "words"),
    [
        (20, None, "each of 20 rows left out alone (row by row)"),
        (60, 10, "each of 10 groups left out alone (group by group)"),
        (60, 30, "5 folds of 60 rows in 30 groups that are never parted, classes dealt evenly, 3 times over"),
        (600, None, "5 folds of 600 rows, classes dealt evenly, once"),
    ],
)
def test_folds_are_chosen_by_rows_and_groups_and_said(n, groups, words):
    X, y = table(n, 4)
    groups = None if groups is None else np.arange(n) % groups
    y = y if groups is None else np.where(np.arange(n) < n // 2, "a", "b")
    found = evaluate(X, y, estimator=GaussianNB(), groups=groups, baselines=["majority"])
    assert found.splits.words == words
    assert found.metric == ("log_loss" if "alone" in words else "auc")


def test_an_evaluation_that_was_stopped_goes_on_where_it_was(tmp_path, monkeypatch):
    X, y = table(40, 10)
    options = {"estimator": GaussianNB(), "folds": 6, "repeats": 1, "baselines": ["majority"]}
    whole = evaluate(X, y, **options)
    asked = []

    def stop_after(n, answer=Question.answer):
        def one(self, fold, model):
            if len(asked) == n:
                raise KeyboardInterrupt
            asked.append((fold, model))
            return answer(self, fold, model)

        return one

    monkeypatch.setattr(Question, "answer", stop_after(7))
    with pytest.raises(KeyboardInterrupt):
        evaluate(X, y, resume=tmp_path / "folds", **options)
    (tmp_path / "folds" / ".fold-0003-scff.npz.abc.tmp").write_bytes(b"half of a rec")
    monkeypatch.undo()
    monkeypatch.setattr(Question, "answer", stop_after(12))
    resumed = evaluate(X, y, resume=tmp_path / "folds", **options)
    assert len(asked) == len(set(asked)) == 12
    assert resumed.to_json().split('"seconds"')[0] == whole.to_json().split('"seconds"')[0]
    with pytest.raises(DataError, match="another evaluation"):
        evaluate(X + 1, y, resume=tmp_path / "folds", **options)
    (tmp_path / "folds" / "fold-0000-scff.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="delete it and run again"):
        evaluate(X, y, resume=tmp_path / "folds", **options)


def test_weights_stay_loaded_from_fold_to_fold_and_no_longer(monkeypatch):
    from scff.backbones import loaded, registry

    known, loads = registry.locate("nano")[0], []

    class Spec:
        def __getattr__(self, name):
            return getattr(known, name)

        def load(self, path, device):
            loads.append(path)
            return known.load(path, device)

    monkeypatch.setattr(loaded, "_LOADED", type(loaded._LOADED)())
    spec, path = Spec(), registry.checkpoints.fetch(known)
    monkeypatch.setattr(loaded, "locate", lambda backbone, task="classification": (spec, path))
    X, y = table(40, 10)
    model = FoldedClassifier("nano", method="raw-core")
    evaluate(X, y, estimator=model, folds=4, repeats=1, baselines=["majority"])
    assert len(loads) == 1
    assert loaded._KEEPERS == [loaded._BETWEEN_FITS]


def test_processes_change_nothing(tmp_path):
    X, y = table(40, 10)
    options = {"estimator": GaussianNB(), "folds": 3, "repeats": 1, "baselines": ["majority"]}
    alone, together = evaluate(X, y, **options), evaluate(X, y, n_jobs=2, **options)
    assert alone.scores == together.scores


def test_how_often_a_column_was_in_the_core():
    X, y = table(60, 60)
    X["noise"] = 1.0
    found = evaluate(
        X, y, estimator=FoldedClassifier("nano", method="raw-core"), folds=3, repeats=1, baselines=["majority"]
    )
    from scff import compile_plan

    plans = [compile_plan(X.iloc[train], y[train]) for train, _ in found.splits.pairs]
    for name in ("g0", "g30", "noise"):
        j = list(X.columns).index(name)
        row = found.columns.loc[name]
        assert row["core_share"] == np.mean([j in plan.core for plan in plans])
        ranks = [int((plan.f > plan.f[j]).sum()) + 1 for plan in plans]
        if name != "noise":
            assert row["rank"] == np.median(ranks)
    assert found.columns["core_share"].is_monotonic_decreasing
    facts = json.loads(found.to_json())
    assert facts["selection"][0]["column"] == found.columns.index[0]
    assert found.verdict == "better"
    assert found.sentence.startswith("Better than class frequencies, the best baseline, by 0.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": ["a"] * 29 + ["b"]}, "cannot be both learned and asked"),
        ({"y": ["a"] * 30}, "one class"),
        ({"y": ["a", "b"] * 14}, "one label per row"),
        ({"groups": [1] * 30}, "in one group only"),
        ({"folds": 31}, "between 2 and the number of rows, 30"),
        ({"folds": "all"}, "leave-one-out"),
        ({"folds": [([0, 1], [1, 2])]}, "a row is in both"),
        ({"folds": [([0, 1], [99])]}, "below 30"),
        ({"repeats": 0, "folds": 3}, "from 1 to 1,000"),
        ({"baselines": ["svm"]}, "no baseline 'svm'"),
        ({"estimator": StandardScaler()}, "neither a classifier nor a regressor"),
        ({"estimator": Ridge()}, "numbers"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_with_what_to_do(change, message):
    X, y = table(30, 4)
    arguments = {"y": y, "estimator": GaussianNB(), "baselines": ["majority"]} | change
    with pytest.raises(DataError, match=message):
        evaluate(X, **arguments)


def test_a_baseline_that_is_not_installed_is_named_with_its_reason(monkeypatch, tmp_path):
    monkeypatch.setattr("scff.evaluate.baselines.find_spec", lambda name: None)
    X, y = table(30, 4)
    found = evaluate(X, y, estimator=GaussianNB(), folds=3, repeats=1, baselines=["lightgbm", "majority"])
    assert "pip install lightgbm" in found.absent["LightGBM"]
    assert list(found.models) == ["scff", "majority"]
    assert "LightGBM did not take part" in found.save_html(tmp_path / "e.html").read_text()


def test_the_page_shows_the_figures_and_names_stay_text(tmp_path):
    X, y = table(45, 30, 3)
    X = X.rename(columns={"g0": "<b>gene</b>"})
    y = np.where(y == "a", "<i>a</i>", y)
    model = FoldedClassifier("nano", method="raw-core")
    found = evaluate(X, y, estimator=model, folds=3, repeats=2, baselines=["majority", "lightgbm"])
    html = found.save_html(tmp_path / "e.html").read_text()
    assert "<i>a</i>" not in html
    assert "<b>gene</b>" not in html
    assert f'data-value="auc">{found.scores["scff"]["auc"].value:.3f}<' in html
    assert html.count('data-figure="roc"') == html.count('data-figure="calibration"') == 1
    for name in found.models.values():
        assert name in html
    assert found.plot().ax_.get_xlabel() == "auc, 95 % intervals"
    with pytest.raises(DataError, match="no figure 'f1'"):
        found.plot("f1")


@pytest.fixture(scope="module")
def gene_table(tmp_path_factory):
    """Genes in rows, compressed, and a sample sheet with patients: what people have."""
    folder = tmp_path_factory.mktemp("genes")
    rng = np.random.default_rng(0)
    samples = [f"S{i:02d}" for i in range(40)]
    dx = np.where(np.arange(40) // 2 % 2, "tumour", "normal")
    X = rng.normal(size=(40, 60)) + 1.4 * (np.arange(60) < 6) * (dx == "tumour")[:, None]
    expression = pd.DataFrame(X.T, index=pd.Index([f"GENE{j}" for j in range(60)], name="gene"), columns=samples)
    expression.to_csv(folder / "expr.tsv.gz", sep="\t")
    order = rng.permutation(40)
    sheet = pd.DataFrame({"sample": samples, "dx": dx, "patient": [f"p{i // 2}" for i in range(40)]}).iloc[order]
    sheet.to_csv(folder / "meta.tsv", sep="\t", index=False)
    return folder


def command(*arguments, catch_exceptions=False):
    from typer.testing import CliRunner

    from scff.cli.main import app

    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)], catch_exceptions=catch_exceptions)


def test_the_command_reads_genes_in_rows_with_a_sample_sheet_and_patients(gene_table):
    page = gene_table / "report.html"
    options = ["--samples", gene_table / "meta.tsv", "--target", "dx", "--group", "patient", "-o", page, "-j", 1]
    models = ["--baseline", "logistic", "--baseline", "majority", "-b", "nano", "--method", "raw-core", "--folds", 2]
    done = command(gene_table / "expr.tsv.gz", *options, *models, "--repeats", 1, "--json")
    assert done.exit_code == 0
    facts = json.loads(done.stdout.splitlines()[-1])
    assert (facts["rows"], facts["columns"], facts["groups"]) == (40, 60, 20)
    assert facts["classes"] == ["normal", "tumour"]
    assert "GENE" in facts["selection"][0]["column"]
    expression = pd.read_csv(gene_table / "expr.tsv.gz", sep="\t", index_col=0).T
    sheet = pd.read_csv(gene_table / "meta.tsv", sep="\t", index_col="sample").loc[expression.index]
    found = evaluate(
        expression,
        sheet["dx"].to_numpy(),
        groups=sheet["patient"].to_numpy(),
        estimator=FoldedClassifier("nano", method="raw-core"),
        folds=2,
        repeats=1,
        baselines=["logistic", "majority"],
    )
    assert facts["scores"]["scff"]["auc"]["value"] == pytest.approx(found.scores["scff"]["auc"].value, abs=1e-6)
    codes = np.unique(sheet["patient"], return_inverse=True)[1]
    script = by_scikit_learn(None, expression.to_numpy(), sheet["dx"].to_numpy(), found.splits, tuned_logistic(codes))
    for name, value in script.items():
        assert facts["scores"]["logistic"][name]["value"] == pytest.approx(value, abs=2e-3)
    assert facts["sentence"] in page.read_text().replace("&#x27;", "'")
    assert not list(gene_table.glob(".*.folds"))


def test_an_evaluation_that_could_not_begin_leaves_no_folder(gene_table, monkeypatch):
    def refuse(self, fold, model):
        raise DataError("not today")

    monkeypatch.setattr(Question, "answer", refuse)
    sheet = ["--samples", gene_table / "meta.tsv", "-t", "dx"]
    with pytest.raises(DataError, match="not today"):
        command(gene_table / "expr.tsv.gz", *sheet, "-j", 1, "-o", gene_table / "never.html")
    assert not list(gene_table.glob("*never*"))
    assert not list(gene_table.glob(".never*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--folds", "many"], "--folds must be a number"),
        (["-o", "no/such/folder/e.html"], "There is no directory"),
        (["--baseline", "svm"], "no baseline 'svm'"),
    ],
)
def test_the_command_refuses_with_one_sentence(gene_table, options, message):
    with pytest.raises(DataError, match=message):
        command(gene_table / "expr.tsv.gz", "--samples", gene_table / "meta.tsv", "-t", "dx", "-j", 1, *options)


def test_colon_by_the_command_has_the_figures_of_a_scikit_learn_script(data_dir, tmp_path):
    """62 x 2,000, genes in rows, gzip, a sample sheet with patients."""
    frame = pd.read_parquet(data_dir / "hdlss" / "colon.parquet")
    y = frame.pop("target").to_numpy()
    frame.index = [f"T{i:02d}" for i in range(len(y))]
    frame.T.rename_axis("gene").to_csv(tmp_path / "expr.tsv.gz", sep="\t")
    sheet = pd.DataFrame({"sample": frame.index, "dx": np.where(y == y.min(), "normal", "tumour")})
    sheet["patient"] = [f"p{i // 2:02d}" for i in range(len(y))]  # the published pairs of tissues are not in the file
    sheet.to_csv(tmp_path / "meta.tsv", sep="\t", index=False)
    options = ["--samples", tmp_path / "meta.tsv", "--target", "dx", "--group", "patient", "--repeats", 1, "-j", 1]
    models = ["--baseline", "logistic", "--baseline", "majority", "-b", "nano", "--method", "raw-core"]
    done = command(tmp_path / "expr.tsv.gz", *options, *models, "-o", tmp_path / "report.html", "--json")
    facts = json.loads(done.stdout.splitlines()[-1])
    assert (facts["rows"], facts["columns"], facts["groups"]) == (62, 2000, 31)
    patients = np.unique(sheet["patient"], return_inverse=True)[1]
    codes = (sheet["dx"] == "tumour").to_numpy().astype(int)
    folds = list(StratifiedGroupKFold(5, shuffle=True, random_state=0).split(frame, codes, patients))
    splits = type("Splits", (), {"pairs": folds, "repeats": [0] * 5})
    script = by_scikit_learn(None, frame.to_numpy(np.float64), sheet["dx"].to_numpy(), splits, tuned_logistic(patients))
    for name, value in script.items():
        assert facts["scores"]["logistic"][name]["value"] == pytest.approx(value, abs=2e-3)
    assert facts["scores"]["logistic"]["accuracy"]["value"] == pytest.approx(script["accuracy"], abs=1e-12)


def test_processes_that_joblib_exchanges_are_not_told_of(monkeypatch):
    from scff.evaluate import run

    def jobs(tasks):
        list(tasks)
        warnings.warn("A worker stopped while some jobs were given to the executor.", UserWarning, stacklevel=2)
        yield "answer"

    monkeypatch.setattr(run, "_pool", lambda n_jobs: jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(run._answers(None, [(0, "scff"), (1, "scff")], 2)) == ["answer"]
