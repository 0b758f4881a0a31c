"""What is packaged says what the project says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from scff import __version__

ROOT = Path(__file__).parents[1]
PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Names that conda-forge has for packages of PyPI.
CONDA = {"torch": "pytorch"}


def test_the_conda_recipe_asks_for_what_the_project_asks_for():
    recipe = (PACKAGING / "conda" / "recipe.yaml").read_text()
    run = recipe[recipe.index("  run:\n") : recipe.index("\ntests:")]
    listed = dict(re.findall(r"^    - (?!python )([\w-]+) (\S+)$", run, re.M))
    asked = dict(re.fullmatch(r"([\w-]+)(.*)", one).groups() for one in PROJECT["dependencies"])
    assert listed == {CONDA.get(name, name): wanted for name, wanted in asked.items()}
    assert f'version: "{__version__}"' in recipe
    assert f'python_min: "{PROJECT["requires-python"].removeprefix(">=")}"' in recipe


def test_classifiers_name_the_python_that_runs_the_tests_and_no_other():
    named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert named == ["3.11"]


@pytest.fixture
def tool():
    return ElementTree.parse(PACKAGING / "galaxy" / "scff.xml").getroot()


def test_the_galaxy_tool_is_of_this_version_and_knows_its_own_parameters(tool):
    assert tool.find("macros/token").text == __version__
    names = {param.get("name") for param in tool.find("inputs").iter("param")}
    command = tool.find("command").text
    for used in re.findall(r"\$(?:advanced\.)?([a-z]\w*)", command):
        assert used in names | {"name", "train_file", "test_file"}, used
    for test in tool.iter("test"):
        for param in test.iter("param"):
            assert param.get("name") in names


def filled(tool, ending):
    """The command with the values of the tool's own test; Cheetah is Galaxy's, so what it would do is done by hand."""
    values = {param.get("name"): param.get("value") for param in tool.find("inputs").iter("param")}
    for select in tool.find("inputs").iter("param"):
        for option in select.iter("option"):
            if option.get("selected") == "true":
                values[select.get("name")] = option.get("value")
    values |= {param.get("name"): param.get("value") for param in tool.find("tests/test").iter("param")}
    text = tool.find("command").text
    for name, expression in re.findall(r"^#set \$(\w+) = (.*)$", text, re.M):
        values[name] = eval(re.sub(r"\$\w+\.ext", repr(ending), expression))
    text = text[text.index("scff fit") :].replace("\\${GALAXY_MEMORY_MB:-4096}", "4096")
    text = re.sub(r"#if \$keep.*?#end if\n", f"--keep {values['keep']}\n", text, count=1, flags=re.S)
    text = re.sub(r"#if 'report'[^\n]*\n(.*?)#end if\n", r"\1", text, flags=re.S)
    text = re.sub(r"\$(?:advanced\.)?([a-z]\w*)", lambda found: values[found[1]], text)
    return text, values["train_file"], values["test_file"]


@pytest.mark.parametrize(
    ("ending", "labels"), [("csv", {"ill": "ill", "well": "well"}), ("tabular", {"ill": 1, "well": 2})]
)
def test_the_command_of_the_galaxy_tool_runs_on_its_test_data(tool, tmp_path, ending, labels):
    data = PACKAGING / "galaxy" / "test-data"
    text, train_file, test_file = filled(tool, ending)
    assert "--task class" in text  # whole numbers of any range are classes: the tool predicts nothing else
    train = pd.read_csv(data / "train.csv")
    separator = "," if ending == "csv" else "\t"
    train["diagnosis"] = train["diagnosis"].map(labels)
    train.to_csv(tmp_path / train_file, index=False, sep=separator)
    pd.read_csv(data / "new.csv").to_csv(tmp_path / test_file, index=False, sep=separator)
    for command in " ".join(text.split()).split("&&"):
        arguments = shlex.split(command)
        assert arguments[0] == "scff"
        done = subprocess.run(
            [sys.executable, "-m", "scff.cli.main", *arguments[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    out = pd.read_csv(tmp_path / "predictions.tsv", sep="\t")
    wanted = tool.find("tests/test/output[@name='predictions']/assert_contents")
    assert len(out) + 1 == int(wanted.find("has_n_lines").get("n"))
    lines = (tmp_path / "predictions.tsv").read_text().splitlines()
    for pattern in wanted.iter("has_line_matching"):
        expected = pattern.get("expression")
        for label, written in labels.items():
            expected = expected.replace(label, str(written))
        assert any(re.fullmatch(expected, line) for line in lines), expected
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
