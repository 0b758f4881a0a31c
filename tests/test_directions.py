"""Which column, which way, and what it is worth to the model; numbers have a report too; classes may be weighed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import scff
from backbone_models import tiny_tabicl_regressor
from scff import FoldedClassifier, FoldedRegressor
from scff.errors import DataError
from scff.evaluate import evaluate


def table(n=80, columns=30, seed=0):
    rng = np.random.default_rng(seed)
    y = np.array(["ill", "well"])[np.arange(n) % 2]
    X = pd.DataFrame(rng.normal(size=(n, columns)), columns=[f"g{j}" for j in range(columns)])
    X["g0"] += 2.5 * (y == "ill")
    X["g1"] -= 1.5 * (y == "ill")
    return X, y


@pytest.fixture(scope="module")
def model():
    X, y = table()
    X["text"] = np.where(np.arange(80) % 3, "u", "v")
    X.loc[3, "g0"] = np.nan
    return FoldedClassifier("nano", method="raw-core", fdr=0.5).fit(X, y)


def test_class_means_effect_and_the_class_a_column_is_high_in(model):
    frame = model.column_evidence(shuffled=0)
    X, y = model.fitted_.support.values, model.classes_[model.fitted_.y]
    assert list(frame.columns[4:8]) == ["effect", "high_in", "mean_ill", "mean_well"]
    for name in ("g0", "g1", "g7"):
        ill, well = X[name][y == "ill"].dropna(), X[name][y == "well"].dropna()
        free = len(ill) + len(well) - 2
        spread = np.sqrt(((ill - ill.mean()) ** 2).sum() / free + ((well - well.mean()) ** 2).sum() / free)
        row = frame.loc[name]
        assert (row["mean_ill"], row["mean_well"]) == pytest.approx((ill.mean(), well.mean()))
        assert row["effect"] == pytest.approx((well.mean() - ill.mean()) / spread)
        assert row["high_in"] == ("ill" if ill.mean() > well.mean() else "well")
    assert frame.loc["g0", "effect"] < -1.5
    assert np.isnan(frame.loc["text", "effect"])
    assert frame.loc["text", "high_in"] == ""


def test_of_three_classes_the_highest_stands_against_the_others():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 5))
    X[:, 2] += 3 * (y == 1)
    X[:, 4] = 1.0
    frame = FoldedClassifier("nano", method="raw-core").fit(X, y).column_evidence(shuffled=0)
    row = frame.loc["x2"]
    within = np.sqrt(sum(((X[y == k, 2] - X[y == k, 2].mean()) ** 2).sum() for k in range(3)) / 57)
    assert row["high_in"] == "1"
    assert row["effect"] == pytest.approx((X[y == 1, 2].mean() - X[y != 1, 2].mean()) / within)
    assert frame.loc["x4", "high_in"] == ""
    assert np.isnan(frame.loc["x4", "effect"])


def test_shuffling_tells_the_column_that_counts_from_noise():
    frame = FoldedClassifier("nano", method="native").fit(*table()).column_evidence(shuffled=6)
    assert frame["shuffle_loss_change"].notna().sum() == 6
    change, noise = frame["shuffle_loss_change"], frame["shuffle_noise"]
    assert change["g0"] > 3 * noise["g0"] > 0
    assert set(change.nlargest(2).index) == {"g0", "g1"}
    others = change.dropna().drop(["g0", "g1"])
    assert (others.abs() < change["g0"] / 3).all()


def test_a_shuffled_column_is_the_only_thing_that_changes():
    """By hand: each half read from the other, this column's values permuted as the library permutes them."""
    X, y = table(40, 4)
    model = FoldedClassifier("nano", method="native").fit(X, y)
    frame = model.column_evidence(shuffled=1)
    (name,) = frame.index[frame["shuffle_loss_change"].notna()]
    j = list(X.columns).index(name)
    codes = model.fitted_.y
    first = np.sort(np.concatenate([np.flatnonzero(codes == k)[::2] for k in (0, 1)]))
    second = np.setdiff1d(np.arange(40), first)
    rng = np.random.default_rng(0)
    changes = []
    for learn, ask in ((first, second), (second, first)):
        half = FoldedClassifier("nano", method="native").fit(X.iloc[learn], y[learn])
        values = X.iloc[ask].to_numpy()
        shuffled = values.copy()
        shuffled[:, j] = values[rng.permutation(len(ask)), j]
        own = np.arange(len(ask)), codes[ask]
        p, q = (half.predict_proba(pd.DataFrame(one, columns=X.columns))[own] for one in (values, shuffled))
        changes.append(np.log(p) - np.log(q))
    change = np.concatenate(changes)
    assert frame.loc[name, "shuffle_loss_change"] == pytest.approx(change.mean(), abs=1e-5)
    assert frame.loc[name, "shuffle_noise"] == pytest.approx(change.std(ddof=1) / np.sqrt(40), abs=1e-5)


def test_an_evaluation_adds_how_steadily_a_column_was_chosen():
    X, y = table(48, 20)
    model = FoldedClassifier("nano", method="raw-core").fit(X, y)
    found = evaluate(X, y, estimator=model, folds=3, repeats=1, baselines=[])
    frame = model.column_evidence(evaluation=found, shuffled=0)
    for name in X.columns:
        assert frame.loc[name, "core_share"] == found.columns.loc[name, "core_share"]
        assert frame.loc[name, "rank_high"] == found.columns.loc[name, "rank_high"]
    with pytest.raises(DataError, match="evaluate the table that the model was fitted on"):
        FoldedClassifier("nano", method="raw-core").fit(X.iloc[:, :9], y).column_evidence(evaluation=found, shuffled=0)
    assert evaluate(X, y, estimator=GaussianNB(), folds=3, repeats=1, baselines=[]).columns is None


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 25)), columns=[f"g{j}" for j in range(25)])
    y = 5 * X["g3"] - 3 * X["g5"] + rng.normal(size=60)
    path = tiny_tabicl_regressor(tmp_path_factory.mktemp("tabicl") / "regressor.ckpt")
    return FoldedRegressor(path).fit(X[:45], y[:45]), X[45:], y[45:]


def test_a_regressor_says_which_way_a_column_goes(numbers):
    model, _, _ = numbers
    frame = model.column_evidence(shuffled=3)
    X, y = model.fitted_.support.values, model.fitted_.y
    assert frame.loc["g3", "goes"] == "up"
    assert frame.loc["g5", "goes"] == "down"
    for j in (3, 5, 9):
        assert frame.loc[f"g{j}", "effect"] == pytest.approx(np.corrcoef(X[:, j], y)[0, 1])
    assert frame["shuffle_loss_change"].notna().sum() == min(3, int(frame["used"].sum()))
    assert frame["leaf_out_nll_change"].isna().all() or (frame["leaf_out_nll_change"].fillna(0) == 0).all()


def test_a_regressor_has_a_report(numbers):
    model, X_test, y_test = numbers
    report = model.report(X_test, y_test)
    said = model.predict(X_test)
    assert report.quality.rmse == pytest.approx(np.sqrt(np.mean((said - y_test) ** 2)))
    assert f'data-value="r2">{report.quality.r2:.3f}<' in report.html
    assert 'data-figure="scatter"' in report.html
    assert "No test table was given" in model.report().html
    assert set(model.seconds_) == {"load", "plan", "compile"}
    constant = FoldedRegressor(model.backbone).fit(X_test, np.ones(len(X_test)))
    with pytest.raises(DataError, match="the same number"):
        constant.report()


@pytest.fixture(scope="module")
def uneven():
    rng = np.random.default_rng(0)
    y = np.array(["rare"] * 9 + ["usual"] * 51)
    X = rng.normal(size=(60, 12))
    X[:, 0] += 1.2 * (y == "rare")
    return X, y


@pytest.mark.parametrize(("weight", "factors"), [("balanced", (60 / 18, 60 / 102)), ({"rare": 4}, (4.0, 1.0))])
def test_a_class_weight_multiplies_its_probability(uneven, weight, factors, tmp_path):
    X, y = uneven
    plain = FoldedClassifier("nano", method="raw-core").fit(X, y)
    weighed = FoldedClassifier("nano", method="raw-core", class_weight=weight).fit(X, y)
    p = plain.predict_proba(X) * factors
    np.testing.assert_allclose(weighed.predict_proba(X), p / p.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_array_equal(weighed.predict_log_proba(X), np.log(weighed.predict_proba(X)))
    assert (weighed.predict(X) == "rare").sum() > (plain.predict(X) == "rare").sum()
    weighed.save(tmp_path / "m.scff")
    again = scff.load(tmp_path / "m.scff")
    assert again.class_weight == weight
    np.testing.assert_array_equal(again.predict_proba(X), weighed.predict_proba(X))


def test_the_report_says_that_classes_are_uneven_and_what_would_help(uneven):
    X, y = uneven
    plain = FoldedClassifier("nano", method="raw-core").fit(X, y).report().html
    assert "85% of the labelled rows are usual" in plain
    assert 'class_weight="balanced"' in plain
    even = np.arange(60) % 2
    assert "uneven" not in FoldedClassifier("nano", method="raw-core").fit(X, even).report().html


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"rar": 2.0}, "is no class"),
        ({"rare": 0.0}, "positive number"),
        ({"rare": "x"}, "positive number"),
        (3, "dict"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(uneven, weight, message):
    with pytest.raises(DataError, match=message):
        FoldedClassifier("nano", class_weight=weight).fit(*uneven)


def test_columns_that_look_too_good_and_columns_not_used_stand_in_the_report():
    X, y = table(40, 10)
    X["told"] = np.where(y == "ill", 5.0, 1.0)
    X["still"] = 3.0
    html = FoldedClassifier("nano", method="raw-core").fit(X, y).report().html
    assert "column &#x27;told&#x27; alone tells every label" in html
    assert "1 column not used, and why" in html
    assert "<b>still</b>: one value on the labelled rows" in html


def test_the_command_reports_on_a_model_of_numbers_with_a_sample_sheet(numbers, tmp_path):
    from typer.testing import CliRunner

    from scff.cli.main import app

    model, X_test, y_test = numbers
    model.save(tmp_path / "m.scff")
    X_test = X_test.set_axis([f"S{i}" for i in range(len(X_test))])
    X_test.T.rename_axis("gene").to_csv(tmp_path / "expr.tsv.gz", sep="\t")
    pd.DataFrame({"sample": X_test.index, "dose": y_test.to_numpy()}).to_csv(tmp_path / "meta.csv", index=False)
    options = ["--test", tmp_path / "expr.tsv.gz", "--samples", tmp_path / "meta.csv", "--target", "dose"]
    command = ["report", tmp_path / "m.scff", "-o", tmp_path / "r.html", *options]
    model.fitted_.compiled()  # the weights of this test are found by their path, which a file does not keep
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scff.models.file.load", lambda path: model)
        done = CliRunner().invoke(app, list(map(str, command)), catch_exceptions=False)
    assert done.exit_code == 0
    expected = model.report(X_test, y_test.to_numpy()).quality
    assert f'data-value="r2">{expected.r2:.3f}<' in (tmp_path / "r.html").read_text()
