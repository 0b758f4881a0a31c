"""What the commands promise beside their result: the task, the plan, the log, a listing that can be copied."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from typer.testing import CliRunner

import scff
from backbone_models import tiny_tabicl_regressor
from scff.backbones import listing
from scff.cli import console
from scff.cli.main import app
from scff.errors import DataError
from scff.evaluate import evaluate
from scff.tables.task import find_task

N = 40
BASE = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 30)).round(4), columns=[f"g{j}" for j in range(30)])


def run(*args):
    done = CliRunner().invoke(app, list(map(str, args)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(1)
    target = {
        "label": np.array(["ill", "well"])[np.arange(N) % 2],
        "weight": (50 + 10 * BASE["g0"] + rng.normal(size=N)).round(2),
        "grade": rng.integers(0, 5, N) * 2,
    }
    BASE.assign(**target).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def test_a_numeric_target_is_fitted_as_numbers(tables, tmp_path):
    checkpoint = tiny_tabicl_regressor(tmp_path / "r.ckpt")
    fit = ["fit", tables / "t.csv", "--drop", "label", "--drop", "grade", "-b", checkpoint]
    facts = json.loads(run(*fit, "-t", "weight", "-o", tmp_path / "m.scff", "--json"))
    assert (facts["task"], facts["classes"]) == ("number", None)
    model = scff.load(tmp_path / "m.scff")
    assert isinstance(model, scff.FoldedRegressor)
    assert "numbers" in run(*fit, "-t", "weight", "-o", tmp_path / "m.scff")
    with pytest.raises(DataError, match="--tail is a matter of classes"):
        run(*fit, "-t", "weight", "-o", tmp_path / "m.scff", "--tail", "off")
    planned = json.loads(run("plan", *fit[1:], "-t", "weight", "--json"))
    assert planned["hash"] == model.plan_.hash
    with pytest.raises(DataError, match="compares classes and the target is of numbers"):
        run("plan", *fit[1:], "-t", "weight", "--routing", "anova")


def test_an_evaluation_of_numbers_has_the_figures_of_the_regressor_on_the_same_folds(tables, tmp_path):
    checkpoint = tiny_tabicl_regressor(tmp_path / "r.ckpt")
    models = ["-b", checkpoint, "--baseline", "ridge", "--baseline", "mean", "--folds", 2, "--repeats", 1, "-j", 1]
    asked = ["evaluate", tables / "t.csv", "-t", "weight", "--drop", "label", "--drop", "grade", *models]
    facts = json.loads(run(*asked, "--json").splitlines()[-1])
    assert facts["task"] == "regression"
    frame = pd.read_csv(tables / "t.csv")
    X, y = frame.drop(columns=["weight", "label", "grade"]), frame["weight"].to_numpy()
    regressor = scff.FoldedRegressor(checkpoint, random_state=0)
    found = evaluate(X, y, estimator=regressor, folds=2, repeats=1, baselines=["ridge", "mean"])
    said = np.zeros(N)
    for train, test in found.splits.pairs:
        said[test] = scff.FoldedRegressor(checkpoint).fit(X.iloc[train], y[train]).predict(X.iloc[test])
    figures = {"r2": r2_score(y, said), "rmse": root_mean_squared_error(y, said), "mae": mean_absolute_error(y, said)}
    assert {name: one.value for name, one in found.scores["scff"].items()} == pytest.approx(figures, rel=1e-5)
    assert {name: one["value"] for name, one in facts["scores"]["scff"].items()} == pytest.approx(figures, rel=1e-5)
    shown = run(*asked, "-o", tmp_path / "e.html")
    assert "R² (95 %)" in shown
    assert "ridge regression" in shown
    page = (tmp_path / "e.html").read_text()
    assert 'data-figure="scatter"' in page  # predicted against true
    assert f'data-value="r2">{figures["r2"]:.3f}<' in page
    with pytest.raises(DataError, match="--class-weight is a matter of classes"):
        run(*asked, "--class-weight", "balanced")


def test_predictions_carry_row_names_and_columns_to_keep(tables, tmp_path):
    frame = pd.read_csv(tables / "t.csv").drop(columns=["weight", "grade"])
    frame.insert(0, "sample", [f"S{i}" for i in range(N)])
    frame["batch"] = np.arange(N) % 3
    frame.to_csv(tmp_path / "train.csv", index=False)
    run(
        "fit",
        tmp_path / "train.csv",
        "-t",
        "label",
        "--drop",
        "batch",
        "-b",
        "nano",
        "--method",
        "raw-core",
        "-o",
        tmp_path / "m",
    )
    run(
        "predict",
        tmp_path / "m",
        tmp_path / "train.csv",
        "--keep",
        "batch",
        "--keep",
        "label",
        "-o",
        tmp_path / "p.csv",
    )
    out = pd.read_csv(tmp_path / "p.csv")
    for name in ("sample", "batch", "label"):
        assert out[name].tolist() == frame[name].tolist()


def test_doubt_about_the_task_is_said_and_can_be_settled(tables, tmp_path):
    fit = ["fit", tables / "t.csv", "--drop", "label", "--drop", "weight", "-t", "grade", "-o", tmp_path / "m.scff"]
    shown = run(*fit, "-b", "nano", "--trials", 0)
    assert "5 classes" in shown
    assert "5 different whole numbers in 40 rows; --task number takes them the other way" in shown
    assert "task      " not in run(*fit, "-b", "nano", "--trials", 0, "--task", "class")
    with pytest.raises(DataError, match="is no number; use --task class"):
        run("fit", tables / "t.csv", "-t", "label", "-o", tmp_path / "m.scff", "--task", "number")


@pytest.mark.parametrize(
    ("values", "name", "doubt"),
    [
        (["a", "b"] * 20, "class", False),
        ([True, False] * 20, "class", False),
        ([0, 1] * 20, "class", False),
        ([1, 2, 3, 4] * 10, "class", False),
        ([2.0, 4.0, 8.0, np.nan] * 10, "class", True),
        (list(range(40)), "number", False),
        (list(range(30)) * 10, "number", True),
        ([0.5, 1.5] * 20, "number", False),
    ],
)
def test_the_task_is_told_by_the_values(values, name, doubt):
    found = find_task(values)
    assert (found.name, found.doubt) == (name, doubt)


@pytest.mark.parametrize("options", [[], ["--leaf-width", 8], ["--routing", "random", "--seed", 3]])
def test_plan_shows_what_fit_does(tables, tmp_path, options):
    common = [tables / "t.csv", "-t", "label", "--drop", "weight", "--drop", "grade", "-b", "nano", *options]
    run("fit", *common, "-o", tmp_path / "m.scff", "--method", "scff")
    planned = json.loads(run("plan", *common, "--json"))
    model = scff.load(tmp_path / "m.scff")
    assert planned["hash"] == model.plan_.hash
    assert planned["backbone"] == model.backbone_


def test_leaks_row_names_and_blocks_are_in_the_output(tmp_path):
    frame = BASE.assign(code=np.arange(N) % 2 * 1.5, label=np.array(["ill", "well"])[np.arange(N) % 2])
    frame.insert(0, "sample", [f"s{i}" for i in range(N)])
    frame.iloc[:, :10].to_csv(tmp_path / "rna.csv", index=False)
    frame.iloc[:, [0, *range(10, frame.shape[1])]].to_csv(tmp_path / "other.csv", index=False)
    args = [tmp_path / "rna.csv", tmp_path / "other.csv", "-t", "label", "-b", "nano"]
    shown = run("fit", *args, "-o", tmp_path / "m.scff", "--method", "raw-core")
    assert "column 'other:code' alone tells every label" in shown
    assert "column 'sample' is the row name, not a feature" in shown
    assert "40 samples are in all tables" in shown
    assert "rna: 0 of its 9 columns in the Core" in shown
    assert "other: 1 of its" in run("plan", *args)


def test_the_report_shows_blocks_rows_flags_and_test_rows_from_two_files(tmp_path):
    y = np.array(["ill", "well"])[np.arange(N) % 2]
    names = [f"s{i}" for i in range(N)]
    frame = BASE.assign(code=np.arange(N) % 2 * 1.5, flat=1.0).set_axis(names, axis=0).rename_axis("sample")
    frame.iloc[:, :10].to_csv(tmp_path / "rna.csv")
    frame.iloc[:, 10:].T.to_csv(tmp_path / "other.csv")  # features in rows
    pd.DataFrame({"sample": names, "dx": y}).to_csv(tmp_path / "meta.csv", index=False)
    both = [tmp_path / "rna.csv", tmp_path / "other.csv"]
    sheet = ["--samples", tmp_path / "meta.csv", "-t", "dx"]
    run("fit", *both, *sheet, "-b", "nano", "-o", tmp_path / "m.scff", "--method", "raw-core")
    test = ["--test", both[0], "--test", both[1]]
    run("report", tmp_path / "m.scff", "-o", tmp_path / "r.html", *test, *sheet)
    page = (tmp_path / "r.html").read_text()
    assert "Core columns by table: <b>rna</b> 0 of 10 columns, <b>other</b> 1 of 22 columns" in page
    assert "The 40 labelled rows" in page
    assert "s39" in page
    assert "alone tells every label" in page
    assert "one value on the labelled rows" in page
    evidence = scff.load(tmp_path / "m.scff").column_evidence(shuffled=0)
    assert evidence.loc["other:code", "block"] == "other"
    assert evidence.loc["rna:g0", "block"] == "rna"


def test_the_listing_can_be_read_and_copied_at_80_columns():
    done = CliRunner().invoke(app, ["backbones"], env={"COLUMNS": "80"})
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in done.stdout
    got = [row for row in listing.listing() if row.command.startswith("scff")]
    assert all(f"  get it with: {row.command}" in lines for row in got)
    assert any(line.split() == ["nano", "embedded"] for line in lines)


def command(*args):
    return [sys.executable, "-m", "scff.cli.main", *map(str, args)]


def test_the_log_can_be_seen(tables, tmp_path):
    args = ["fit", tables / "t.csv", "-t", "label", "-o", tmp_path / "m.scff", "-b", "nano", "--method", "raw-core"]
    quiet = subprocess.run(command(*args), capture_output=True, text=True, check=True)
    told = subprocess.run(command("-v", *args), capture_output=True, text=True, check=True)
    assert quiet.stderr == ""
    assert "scff." in told.stderr


def test_somebody_who_watches_sees_the_clock_go_on_and_others_see_nothing(capsys, monkeypatch):
    with console.busy("fitting"):
        time.sleep(0.6)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(console, "wants_bars", lambda as_json: 1)
    with console.busy("fitting\x1b[2J"):
        time.sleep(1.2)
    shown = capsys.readouterr().err.split("\r")
    assert "fitting\\x1b[2J, 00:00" in shown  # a name from a file moves no cursor
    assert "fitting\\x1b[2J, 00:01" in shown
    assert shown[-1] == ""  # gone when it is done


def test_an_interruption_says_what_is_not_written(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 1500)), columns=[f"g{j}" for j in range(1500)])
    frame.assign(y=np.arange(300) % 2).to_parquet(tmp_path / "t.parquet")
    args = command("-v", "fit", tmp_path / "t.parquet", "-t", "y", "-o", tmp_path / "m.scff", "-b", "nano")
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(args, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as running:
        for line in running.stderr:  # until it is at work
            if "scff." in line:
                break
        time.sleep(2)  # torch is being imported, or it fits
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
    assert running.returncode == 130
    assert "interrupted" in rest
    assert "m.scff is not written" in rest
    assert not (tmp_path / "m.scff").exists()


def test_an_interrupted_evaluation_says_what_was_done_and_goes_on_from_there(tables, tmp_path):
    page, folder = tmp_path / "e.html", tmp_path / ".e.html.folds"
    options = ["-t", "label", "--drop", "weight", "--drop", "grade", "-b", "nano", "--method", "raw-core", "-j", 1]
    args = command("evaluate", tables / "t.csv", *options, "--baseline", "majority", "-o", page)
    with subprocess.Popen(args, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        while running.poll() is None and not (folder.is_dir() and any(folder.glob("fold-*.npz"))):
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
    assert running.returncode == 130
    assert f"{page} is not written; what was done is in {folder}, and the same command goes on" in " ".join(
        said.split()
    )
    assert not page.exists()
    done = len(list(folder.glob("fold-*.npz")))
    assert 1 <= done < 30
    subprocess.run(args, check=True, capture_output=True)
    assert page.exists()
    assert not folder.exists()


def test_an_interruption_while_torch_is_imported_is_heard_behind_it():
    program = (
        "import os, signal, sys, builtins\n"
        "from scff.cli.console import import_torch\n"
        "own = builtins.__import__\n"
        "def pressed(name, *rest):\n"
        "    if name == 'torch':\n"
        "        builtins.__import__ = own\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return own(name, *rest)\n"
        "builtins.__import__ = pressed\n"
        "try:\n"
        "    import_torch()\n"
        "except KeyboardInterrupt:\n"
        "    print('torch' in sys.modules, signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
