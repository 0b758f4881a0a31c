"""The command line, as a user types it: in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from scff import FoldedClassifier, FoldPlan, __version__
from scff.cli.main import main
from scff.names import ENGINES, METHODS, ROUTINGS, TAILS, TRIALS


def scff(*args, cwd=None):
    command = [sys.executable, "-m", "scff.cli.main", *map(str, args)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    frame = load_breast_cancer(as_frame=True).frame
    frame["target"] = frame["target"].map({0: "malignant", 1: "benign"})
    frame[:200].to_csv(folder / "train.csv", index=False)
    frame[200:260].to_parquet(folder / "test.parquet")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("a,b,target\n")
    (folder / "twice.csv").write_text("a,a,target\n1,2,x\n3,4,y\n")
    (folder / "one.csv").write_text("a,target\n1,x\n2,x\n")
    (folder / "holes.csv").write_text("a,target\n1,x\n2,\n3,y\n")
    (folder / "infinite.csv").write_text("a,b,target\n1,2,x\n2,inf,y\n3,4,y\n")
    (folder / "noise.parquet").write_bytes(b"PAR1 this is not a table")
    (folder / "noise.scff").write_bytes(b"neither is this a model")
    (folder / "noise.ckpt").write_bytes(b"nor this a checkpoint")
    return folder


@pytest.fixture(scope="module")
def model(folder):
    done = scff(
        "fit", "train.csv", "--target", "target", "-o", "model.scff", "-b", "nano", "--leaf-width", 8, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split(maxsplit=1)[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert lines == ["train.csv:", "backbone", "plan", "read", "why", "written"]
    return folder / "model.scff"


@pytest.fixture(scope="module")
def expected(folder):
    """What the estimator says of the test table: probabilities, and labels."""
    train, test = pd.read_csv(folder / "train.csv"), pd.read_parquet(folder / "test.parquet")
    clf = FoldedClassifier(backbone="nano", leaf_width=8).fit(train.drop(columns="target"), train["target"])
    return clf.predict_proba(test.drop(columns="target")), clf.predict(test.drop(columns="target"))


@pytest.mark.parametrize("ending", ["csv", "parquet", "tsv"])
def test_fit_and_predict_equal_the_estimator(folder, model, expected, ending):
    out = folder / f"out.{ending}"
    done = scff("predict", model, folder / "test.parquet", "-o", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # quiet when nobody watches
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "tsv": lambda path: pd.read_csv(path, sep="\t")}[ending]
    result = read(out)
    np.testing.assert_allclose(result[["p_benign", "p_malignant"]], expected[0], atol=1e-5)
    assert (result["prediction"] == expected[1]).all()
    assert not list(folder.glob(".out*"))


def test_json_is_for_machines(folder):
    done = scff("fit", "train.csv", "-t", "target", "-o", "j.scff", "-b", "nano", "--json", cwd=folder)
    facts = json.loads(done.stdout)
    assert facts["rows"] == 200
    assert facts["classes"] == ["benign", "malignant"]
    assert facts["backbone"] == "nano"
    assert len(facts["checkpoint_sha256"]) == 64
    assert sum(facts["plan"]["core_leaves"]) == facts["plan"]["core"]
    assert sum(part["weight"] for part in facts["read"]) == pytest.approx(1.0)
    (verdict,) = facts["verdicts"]
    assert verdict["tried"][0]["name"] == "core"
    assert {one["words"] for one in verdict["tried"]} >= {part["words"].split(", at")[0] for part in facts["read"]}


def test_the_papers_method_and_no_trials_can_be_asked_for(folder):
    fit = ["fit", "train.csv", "-t", "target", "-b", "nano", "--leaf-width", 8, "--json"]
    paper = json.loads(scff(*fit, "-o", "paper.scff", "--method", "scff", cwd=folder).stdout)
    assert paper["verdicts"] == []
    assert paper["gate"] is not None
    core = json.loads(scff(*fit, "-o", "core.scff", "--trials", 0, cwd=folder).stdout)
    assert [verdict["reason"] for verdict in core["verdicts"]] == ["nothing was tried: trials=0"]
    assert [part["weight"] for part in core["read"]] == [1.0]


def test_choices_are_the_librarys_own(folder):
    text = " ".join(scff("fit", "--help").stdout.replace("│", " ").split())
    assert f"<auto|{'|'.join(METHODS)}>" in text
    assert f"<{'|'.join(ROUTINGS)}>" in text
    assert ", ".join(TAILS) in text
    assert ", ".join(map(str, TRIALS)) in text
    assert f"<{'|'.join(ENGINES)}>" in " ".join(scff("predict", "--help").stdout.split())
    assert "<auto|anova|linear|random>" in " ".join(scff("plan", "--help").stdout.split())


def heavy_imports(folder, *args):
    """Which of the packages that take a while to import a command has imported when it ends."""
    code = (
        "import atexit, sys; from scff.cli.main import main; "
        "atexit.register(lambda: sys.stderr.write('; heavy: ' + ' '.join("
        "name for name in ('torch', 'sklearn', 'pandas', 'numpy', 'huggingface_hub.file_download') "
        "if name in sys.modules))); main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, cwd=folder, check=False)
    return done.stderr.rpartition("; heavy: ")[2].split()


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "fit --help",
        "backbones",
        "fit nowhere.csv -t y -o m",
        "fit one.csv --samples nowhere.tsv -t y -o m",
        "plan rna=nowhere.csv -t y",
        "evaluate nowhere.csv -t y",
        "predict nowhere.scff one.csv -o p.csv",
        "report nowhere.scff -o r.html",
    ],
)
def test_what_has_nothing_to_compute_imports_nothing_heavy(folder, line):
    assert heavy_imports(folder, *line.split()) == []


def test_a_target_that_is_not_there_is_found_before_torch_is_imported(folder):
    assert "torch" not in heavy_imports(folder, "fit", "train.csv", "-t", "nowhere", "-o", "m")


def test_plan_shows_and_writes_what_would_be_folded(folder):
    done = scff("plan", "train.csv", "-t", "target", "--leaf-width", 10, "-o", "plan.json", "--top", 3, cwd=folder)
    assert done.returncode == 0, done.stderr
    plan = FoldPlan.from_json((folder / "plan.json").read_text())
    assert max(map(len, plan.leaves)) <= 10
    assert plan.name(plan.core[0]) in done.stdout
    facts = json.loads(scff("plan", "train.csv", "-t", "target", "--json", "--top", 2, cwd=folder).stdout)
    assert [row["column"] for row in facts["top"]] == [plan.name(j) for j in plan.core[:2]]
    drawn = scff("plan", "train.csv", "-t", "target", "--json", "--top", 2, "--routing", "random", cwd=folder).stdout
    assert json.loads(drawn)["core"] == facts["core"]
    assert json.loads(drawn)["hash"] != facts["hash"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["fit", "nowhere.csv", "-t", "target"], "There is no file nowhere.csv"),
        (["fit", "empty.csv", "-t", "target"], "empty.csv cannot be read"),
        (["fit", "header.csv", "-t", "target"], "header.csv holds no rows"),
        (["fit", "twice.csv", "-t", "target"], "'a' occurs more than once"),
        (["fit", "one.csv", "-t", "target"], "one class"),
        (["fit", "holes.csv", "-t", "target"], "1 of 3 target values are missing"),
        (["fit", "infinite.csv", "-t", "target"], "infinity in column 'b'"),
        (["fit", "noise.parquet", "-t", "target"], "noise.parquet cannot be read"),
        (["fit", "noise.scff", "-t", "target"], "of no kind that is known by its name"),
        (["fit", "train.csv", "-t", "Target"], "did you mean 'target'?"),
        (["fit", "train.csv", "-t", "target", "-b", "noise.ckpt"], "noise.ckpt is not a torch checkpoint"),
        (["fit", "train.csv", "-t", "target", "-b", "gpt"], "There is no backbone 'gpt'"),
        (["fit", "train.csv", "-t", "target", "--memory-limit", "1KiB"], "memory_limit is 1.0 KiB"),
        (["fit", "train.csv", "-t", "target", "--tail", "always"], "The 'tail' parameter"),
        (["fit", "train.csv", "-t", "target", "--trials", "all"], "The 'trials' parameter"),
        (["predict", "noise.scff", "test.parquet"], "noise.scff is not a model"),
        (["predict", "nowhere.scff", "test.parquet"], "There is no model nowhere.scff"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(folder, args, sentence, monkeypatch, capfd):
    # In this process, through the same function: most of a process of its own would be importing torch.
    extra = ["-b", "nano"] if args[0] == "fit" and "-b" not in args else []
    before = set(folder.iterdir())
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["scff", *args, *extra, "-o", "result.csv"])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capfd.readouterr()
    assert ended.value.code == 2
    assert sentence in err
    assert err.startswith("scff: ")
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert set(folder.iterdir()) == before  # nothing half-written


def test_columns_missing_at_predict_are_named(folder, model):
    pd.read_parquet(folder / "test.parquet").drop(columns=["mean radius", "mean area"]).to_csv(folder / "few.csv")
    done = scff("predict", model, folder / "few.csv", "-o", folder / "never.csv")
    assert done.returncode == 2
    assert "few.csv lacks the column 'mean radius' and 1 more that the model was fitted on" in done.stderr
    assert not (folder / "never.csv").exists()


def test_output_must_have_a_known_ending_and_an_existing_directory(folder, model):
    for output, sentence in (("x.xlsx", "must end in"), ("no/where/x.csv", "no/where; create it first")):
        done = scff("predict", model, folder / "test.parquet", "-o", output, cwd=folder)
        assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr


def test_version_and_help():
    assert scff("--version").stdout.strip() == __version__
    help_text = scff("--help").stdout
    for command in ("fit", "predict", "plan", "demo"):
        assert command in help_text


def test_demo_compares_native_the_paper_and_auto_on_both_tables():
    done = scff("demo", "-b", "nano", "--json")
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)["outcomes"]
    assert [(o["table"], o["columns"], o["method"]) for o in outcomes] == [
        (table, columns, method)
        for table, columns in (("breast cancer", 495), ("digits", 2144))
        for method in ("native", "scff", "auto")
    ]
    for native, paper, auto in zip(outcomes[::3], outcomes[1::3], outcomes[2::3], strict=True):
        assert paper["peak_bytes"] < native["peak_bytes"]
        assert auto["peak_bytes"] < native["peak_bytes"]
        assert min(paper["accuracy"], auto["accuracy"]) > 0.6
        assert "why" in auto["read"]


def test_what_libraries_write_to_standard_output_goes_to_the_other_stream():
    code = """
import os
from scff.cli.console import others_to_stderr, out
with others_to_stderr():
    os.write(1, b"core ")
    print("library")
out.print("answer")
print("and later")
os.write(1, b"late")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "answer\n"
    assert all(word in done.stderr for word in ("core ", "library", "and later", "late"))
