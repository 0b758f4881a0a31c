"""The command line with what it should not be given: every answer is one line and exit code 2.

Commands run in this process, through the same function as ``scff``: a refusal costs milliseconds, not an interpreter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from hostile.judging import sentence
from scff import FoldedClassifier
from scff.cli.console import visible
from scff.cli.main import main
from scff.tables.files import write_table

NAMES = ["[bold]x", "[/]", "a\x1b[31mred\x1b]0;title\x07", "\u202egnp.exe", "[link=file:///]", "ok", "=1+1"]


@pytest.fixture
def scff(capfd, monkeypatch):
    """Run a command; its exit code, standard output and standard error."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["scff", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capfd.readouterr()

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    frame = pd.DataFrame(rng.normal(size=(30, len(NAMES))) + y[:, None], columns=NAMES)
    frame["y"] = np.where(y, "=cmd|' /C calc'!A0", "@sum")
    frame.to_csv(folder / "train.csv", index=False)
    frame.to_csv(folder / "[red]train[bold].csv", index=False)
    frame.to_parquet(folder / "train.parquet")
    frame.assign(y=rng.normal(size=30)).to_csv(folder / "numbers.csv", index=False)
    (folder / "sub").mkdir()
    (folder / "noise.bin").write_bytes(bytes(range(256)) * 8)
    (folder / "noise.csv").write_bytes(bytes(range(256)) * 8)
    (folder / "noise.scff").write_bytes(bytes(range(256)) * 8)
    (folder / "noise.ckpt").write_bytes(bytes(range(256)) * 8)
    (folder / "noise.toml").write_text("[[[")
    (folder / "empty.toml").write_text("")
    (folder / "recipe.json").write_text('{"seed": "seven"}')
    (folder / "list.json").write_text("[1]")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "panel").mkdir()
    (folder / "panel" / "index.csv").write_text("a,b\n1,2\n")
    (folder / "tables").mkdir()
    (folder / "tables" / "index.csv").write_bytes(bytes(range(256)))
    (folder / "locked").mkdir(mode=0o500)
    os.mkfifo(folder / "pipe.csv")
    return folder


def test_names_reach_the_terminal_as_text(scff, folder, tally):
    for table in ("train.csv", "[red]train[bold].csv"):
        code, out, err = scff("plan", folder / table, "-t", "y")
        assert (code, err) == (0, "")
        assert table in out
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "\u202e" not in out
        assert [name for name in NAMES if visible(name) not in out] == []
        tally("names and markup", "served", len(NAMES) + 1)


@pytest.mark.parametrize("bad", ["\x1b[2J", "[bold]", "[/x]", "a\nb", "\x00", "\x9b31m"])
def test_what_a_user_types_is_not_obeyed_by_the_terminal(scff, folder, bad, tally):
    for args in (
        ["plan", folder / "train.csv", "-t", bad],
        ["plan", folder / bad, "-t", "y"],
        [bad],
        ["backbones", "path", bad],
    ):
        code, out, err = scff(*args)
        assert (code, out) == (2, "")
        assert not {"\x1b", "\x00", "\x9b"} & set(err)
        sentence(err.strip())
        tally("names and markup", "refused")


PLAN = ["plan", "train.csv", "-t", "y"]
FIT = ["fit", "train.csv", "-t", "y", "-b", "nano", "--trials", "0", "-o"]
EVALUATE = ["evaluate", "train.csv", "-t", "y", "-b", "nano", "--method", "raw-core", "--baseline", "majority"]
BENCH = ["bench", "run", "main", "--quick", "--backbone", "nano", "-o", "results"]
BAD = [
    ["nope"],
    ["--nope"],
    ["plan"],
    ["plan", "nope.csv", "-t", "y"],
    ["plan", "sub", "-t", "y"],
    ["plan", "noise.bin", "-t", "y"],
    ["plan", "noise.csv", "-t", "y"],
    ["plan", "/dev/null", "-t", "y"],
    ["plan", "train.csv", "-t", "nope"],
    ["plan", "train.csv", "-t", ""],
    ["plan", "train.csv"],
    ["plan", "train.csv", "-t"],
    [*PLAN, "--leaf-width", "0"],
    [*PLAN, "--leaf-width", "x"],
    [*PLAN, "--leaf-width", "1e3"],
    [*PLAN, "--leaf-width", "-5"],
    [*PLAN, "--fdr", "0"],
    [*PLAN, "--fdr", "2"],
    [*PLAN, "--fdr", "nan"],
    [*PLAN, "--fdr", "x"],
    [*PLAN, "--routing", "nope"],
    [*PLAN, "--drop", "okk"],
    [*PLAN, "--drop", "y"],
    [*PLAN, "--drop", "ok", "--group", "ok"],
    [*PLAN, "--group", "y"],
    [*PLAN, "--on", "ok"],
    [*PLAN, "--layer", "counts"],
    ["plan", "train.csv", "train.parquet", "-t", "y"],
    [*PLAN, "-o", "/"],
    [*PLAN, "-o", "train.csv"],
    [*PLAN, "-o", "sub/../train.csv"],
    [*PLAN, "--samples", "numbers.csv", "-o", "numbers.csv"],
    [*FIT, "train.csv"],
    [*EVALUATE, "-o", "train.csv"],
    [*EVALUATE, "--folds", "²"],
    [*PLAN, "-o", "sub"],
    [*PLAN, "-o", "pipe.csv"],
    [*PLAN, "-o", "/dev/null"],
    [*PLAN, "-o", "/proc/plan.json"],
    [*PLAN, "-o", "nope/plan.json"],
    [*PLAN, "-o", "train.csv/plan.json"],
    [*PLAN, "-o", "x" * 300],
    [*PLAN, "--nope"],
    [*PLAN, "more"],
    ["fit", "train.csv", "-t", "y"],
    ["fit", "numbers.csv", "-t", "y", "-o", "m.scff", "-b", "nano"],
    [*FIT, "m.scff", "--device", "cuda"],
    [*FIT, "m.scff", "--device", "cuda:99"],
    [*FIT, "m.scff", "--device", "meta"],
    [*FIT, "m.scff", "--device", "toaster"],
    [*FIT, "m.scff", "--memory-limit", "some"],
    [*FIT, "m.scff", "--memory-limit", "-1"],
    [*FIT, "m.scff", "--memory-limit", "0"],
    [*FIT, "m.scff", "--memory-limit", "1e99999"],
    [*FIT, "m.scff", "--method", "nope"],
    [*FIT, "m.scff", "--tail", "nope"],
    [*FIT, "m.scff", "--n-estimators", "0"],
    [*FIT, "m.scff", "--seed", "-1"],
    [*FIT, "m.scff", "--seed", str(2**70)],
    [*FIT, "m.scff", "-b", "nope"],
    [*FIT, "m.scff", "-b", ""],
    [*FIT, "m.scff", "-b", "sub"],
    [*FIT, "m.scff", "-b", "noise.ckpt"],
    [*FIT, "m.scff", "-b", "noise.bin"],
    [*FIT, "m.scff", "-b", "/dev/null"],
    ["predict", "nope.scff", "train.csv", "-o", "out.csv"],
    ["predict", "noise.scff", "train.csv", "-o", "out.csv"],
    ["predict", "train.csv", "train.csv", "-o", "out.csv"],
    ["predict", "sub", "train.csv", "-o", "out.csv"],
    ["predict", "/dev/null", "train.csv", "-o", "out.csv"],
    ["report", "nope.scff", "-o", "out.html"],
    ["report", "noise.scff", "-o", "out.html"],
    ["report", "noise.scff", "-o", "out.html", "--test", "train.csv"],
    ["evaluate", "nope.csv", "-t", "y"],
    ["evaluate", "train.csv", "-t", "nope"],
    ["evaluate", "/dev/null", "-t", "y"],
    [*EVALUATE, "--folds", "1"],
    [*EVALUATE, "--folds", "-3"],
    [*EVALUATE, "--folds", "999999"],
    [*EVALUATE, "--folds", "some"],
    [*EVALUATE, "--folds", "nan"],
    [*EVALUATE, "--repeats", "0"],
    [*EVALUATE, "--repeats", "-1"],
    [*EVALUATE, "--repeats", "99999999999"],
    [*EVALUATE, "--repeats", "x"],
    [*EVALUATE, "-j", "-5"],
    [*EVALUATE, "-j", "x"],
    [*EVALUATE, "--seed", "-1"],
    [*EVALUATE, "--seed", str(2**70)],
    [*EVALUATE, "--baseline", "nope"],
    [*EVALUATE, "--task", "nope"],
    [*EVALUATE, "--trials", "-1"],
    [*EVALUATE, "--leaf-width", "99999999999999999999999"],
    [*EVALUATE, "-o", "sub"],
    [*EVALUATE, "-o", "/dev/full"],
    [*EVALUATE, "-o", "nope/page.html"],
    [*FIT, "m.scff", "--leaf-width", "99999999999999999999999"],
    ["bench", "nope"],
    ["bench", "run"],
    ["bench", "run", "nope"],
    ["bench", "run", "nope.toml"],
    ["bench", "run", "noise.toml"],
    ["bench", "run", "empty.toml"],
    ["bench", "run", "sub"],
    [*BENCH, "-j", "0"],
    [*BENCH, "-j", "-1"],
    [*BENCH, "-j", "x"],
    [*BENCH, "--threads", "0"],
    [*BENCH, "--panel", "nope"],
    [*BENCH, "--panel", "sub"],
    [*BENCH, "--panel", "panel"],
    [*BENCH, "--panel", "tables"],
    [*BENCH, "--panel", "train.csv"],
    [*BENCH, "--datasets", "nope"],
    [*BENCH, "--datasets", ""],
    [*BENCH, "--protocol", "nope"],
    [*BENCH, "--engine", "nope"],
    [*BENCH, "--reuse", "nope"],
    [*BENCH, "--time-limit", "x"],
    [*BENCH, "--time-limit", "-1"],
    [*BENCH, "--device", "toaster"],
    [*BENCH, "--backbone", "nope"],
    [*BENCH, "--backbone", "noise.ckpt"],
    ["bench", "collect", "-o", "nope"],
    ["bench", "collect", "-o", "train.csv"],
    ["bench", "tables", "main", "-o", "nope"],
    ["bench", "tables", "nope"],
    ["bench", "tables", "main", "--protocol", "nope"],
    ["bench", "figures", "main", "-o", "nope"],
    ["bench", "figures", "main", "-o", "nope", "--format", "exe"],
    ["pretrain", "-j", "0", "--out", "run"],
    ["pretrain", "-j", "x", "--out", "run"],
    ["pretrain", "-j", "999999", "--out", "run"],
    ["pretrain", "--out", "/proc/run"],
    ["pretrain", "--out", "train.csv"],
    ["pretrain", "--out", "run", "--recipe", "nope"],
    ["pretrain", "--out", "run", "--recipe", "sub"],
    ["pretrain", "--out", "run", "--recipe", "noise.bin"],
    ["pretrain", "--out", "run", "--recipe", "recipe.json"],
    ["pretrain", "--out", "run", "--recipe", "list.json"],
    ["pretrain", "--out", "run", "--recipe", "deep.json"],
    ["pretrain", "--out", "run", "--resume"],
    ["pretrain", "--out", "sub", "--resume", "--seed", "3"],
    ["pretrain", "--out", "run", "--steps", "x"],
    ["pretrain", "--out", "run", "--steps", "-1"],
    ["pretrain", "--out", "run", "--seed", "-1"],
    ["pretrain", "--out", "run", "--minutes", "-1"],
    ["pretrain", "deliver", "nope"],
    ["pretrain", "deliver", "sub"],
    ["pretrain", "deliver", "train.csv"],
    ["backbones", "nope"],
    ["backbones", "fetch"],
    ["backbones", "fetch", "nope"],
    ["backbones", "path", "nope"],
    ["backbones", "verify", "nope"],
    ["demo", "-b", "nope"],
]


@pytest.mark.parametrize("args", BAD, ids=lambda args: " ".join(args)[:80])
def test_a_bad_command_is_one_sentence_and_exit_code_2(scff, folder, args, monkeypatch, tally):
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    code, out, err = scff(*args)
    assert (code, out) == (2, ""), err
    assert err.startswith("scff: ")
    sentence(err.strip())
    assert sorted(folder.rglob("*")) == before
    tally("bad inputs: commands", "refused")


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "  =1", "=", "-", "+", "@"]
PLAIN = ["benign", "-1", "+1.5e3", "-.5", "a=b", "'=1", "3 - 2", "x@y", ""]


def test_no_command_writes_over_what_it_reads(scff, folder, tmp_path, monkeypatch, tally):
    monkeypatch.chdir(folder)
    model = tmp_path / "m.scff"
    FoldedClassifier("nano", method="raw-core").fit(pd.read_csv("train.csv"), "y").save(model)
    (tmp_path / "link.csv").symlink_to(folder / "train.csv")
    shutil.copy(model, tmp_path / "model.csv")
    kept = {path: path.read_bytes() for path in (model, tmp_path / "model.csv", folder / "train.csv")}
    for args in (
        [*PLAN, "-o", tmp_path / "link.csv"],
        ["plan", f"a={folder / 'train.csv'}", "-t", "y", "-o", "train.csv"],
        ["report", model, "-o", model],
        ["report", model, "--test", "train.csv", "-t", "y", "-o", "train.csv"],
        ["predict", model, "train.parquet", "--samples", "train.csv", "-o", "train.csv"],
        ["predict", tmp_path / "model.csv", "train.csv", "-o", tmp_path / "model.csv"],
    ):
        code, out, err = scff(*args)
        assert (code, out) == (2, "")
        assert "one of the files that are read" in err
        sentence(err.strip())
        tally("commands", "unharmed")
    assert kept == {path: path.read_bytes() for path in kept}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_without_the_letters_of_a_name_gets_them_spelt_out(folder, tmp_path, encoding, tally):
    pd.read_csv(folder / "train.csv").rename(columns={"ok": "\u5e74\u9f62"}).to_csv(tmp_path / "t.csv", index=False)
    run = [sys.executable, "-m", "scff.cli.main", "plan", tmp_path / "t.csv", "-t", "y", "-b", "nano"]
    told = subprocess.run(
        run, capture_output=True, check=False, timeout=120, env=os.environ | {"PYTHONIOENCODING": encoding}
    )
    assert (told.returncode, told.stderr) == (0, b"")
    assert rb"\u5e74\u9f62" in told.stdout
    tally("commands", "served")


def test_a_reader_who_leaves_early_is_no_failure(folder, tally):
    run = [sys.executable, "-m", "scff.cli.main", "backbones"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as left:
        left.stdout.close()
        assert left.stderr.read() == b""
    assert left.returncode == 0
    tally("commands", "served")


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_labels_are_written_so_that_a_spreadsheet_does_not_run_them(tmp_path, ending, tally):
    cells = FORMULAS + PLAIN
    frame = pd.DataFrame({"=now()": cells, "kind": pd.Categorical(cells), "n": -1.5})
    for raw in (False, True):
        write_table(frame, tmp_path / f"out.{ending}", raw=raw)
        sep = "\t" if ending == "tsv" else ","
        read = pd.read_csv(tmp_path / f"out.{ending}", sep=sep, dtype=str, keep_default_na=False)
        kept = cells if raw else [f"'{cell}" for cell in FORMULAS] + PLAIN
        assert list(read.iloc[:, 0]) == list(read["kind"]) == kept
        assert read.columns[0] == ("=now()" if raw else "'=now()")
        assert set(read["n"]) == {"-1.5"}
        assert list(frame["kind"]) == cells
        tally("formulas in labels", "served", 2 * len(cells) + 1)


def test_a_carriage_return_does_not_begin_a_row_of_its_own(tmp_path):
    write_table(pd.DataFrame({"label": ["a\r=1+1", "b"]}), tmp_path / "out.csv")
    assert b"\r" not in (tmp_path / "out.csv").read_bytes()
    assert list(pd.read_csv(tmp_path / "out.csv")["label"]) == ["a\n=1+1", "b"]
