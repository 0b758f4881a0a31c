"""The rooms and their order, how deep the model lies, and what the file of the fold may not say."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

import scff
from scff import FoldedClassifier

ROOT = Path(scff.__file__).parent
ROOMS = (
    ("errors", "names", "processes", "progress"),
    ("memory",),
    ("tables",),
    ("backbones",),
    ("plan",),
    ("gate",),
    ("fold",),
    ("trials",),
    ("estimators",),
    ("models",),
    ("report", "evaluate", "serving"),
    ("integrations",),
    ("cli",),
    ("bench",),
    ("pretrain",),
)
FLOOR = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
# Methods that open another room when they are called: a plan draws itself, a model reports on itself and is saved, an
# evaluation reports on itself.
DOORS = {
    ("plan", "report"),
    ("gate", "report"),
    ("estimators", "report"),
    ("estimators", "models"),
    ("evaluate", "report"),
}


def imports(path):
    """Every module of this package that a file imports, wherever in the file; what only types need is free."""
    tree = ast.parse(path.read_text())
    free = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and getattr(test.test, "id", "") == "TYPE_CHECKING"
        for node in ast.walk(test)
    }
    for node in ast.walk(tree):
        if id(node) in free:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.col_offset > 0
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node.col_offset > 0) for alias in node.names)


def test_a_room_imports_only_from_the_rooms_below_it():
    wrong = []
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for module, inside in imports(path):
            parts = module.split(".")
            if parts[0] != "scff" or len(parts) < 2 or room == "__init__" or parts[1] == room:
                continue
            if FLOOR[parts[1]] >= FLOOR[room] and not (inside and (room, parts[1]) in DOORS):
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("room", "stranger"),
    [("tables", "torch"), ("plan", "torch"), ("models", "pickle"), ("models", "joblib"), ("models", "shelve")],
)
def test_what_may_not_come_in(room, stranger):
    for path in (ROOT / room).rglob("*.py"):
        assert all(module.split(".")[0] != stranger for module, _ in imports(path)), path


def test_few_files_stand_beside_the_rooms():
    assert len([path for path in ROOT.iterdir() if path.is_file()]) <= 8
    assert {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"} <= set(FLOOR)


def test_modules_are_concepts():
    long = {str(p.relative_to(ROOT)): n for p in ROOT.rglob("*.py") if (n := len(p.read_text().splitlines())) > 300}
    assert not long


def test_the_fold_is_the_paper():
    text = (ROOT / "fold" / "algorithm.py").read_text()
    assert len(text.splitlines()) <= 150
    assert not [word for word in ("trial", "verdict", "held", "mixture", "rehears") if word in text.lower()]


@pytest.mark.parametrize("backbone", ["nano", "tiny tabpfn-v1"])
@pytest.mark.parametrize(("method", "most"), [("scff", 9), ("auto", 11)])
def test_the_model_lies_a_few_frames_deep(backbone, method, most, monkeypatch, tmp_path):
    """Frames from `fit` to the first layer; the first one of `auto` is in a trial, in what a thread is given to do."""
    depths = []

    def spy(function):
        def called(*args, **options):
            depths.append(depth())
            return function(*args, **options)

        return called

    if backbone == "nano":
        from scff.backbones.tabicl.kernels import Kernels as encoder

        monkeypatch.setattr(encoder, "embed", spy(encoder.embed))
    else:
        from backbone_models import tiny_tabpfn_v1
        from scff.backbones.tabpfn.v1_net import TabPFNv1Net as encoder

        backbone = tiny_tabpfn_v1(tmp_path / "v1.cpkt")
        monkeypatch.setattr(encoder, "encode", spy(encoder.encode))
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 200))
    X[:, :20] += 1.5 * y[:, None]
    model = FoldedClassifier(backbone, method=method, leaf_width=64)
    model.fit(X, y)  # weights are loaded, and the probe of the seam is behind us
    del depths[:]
    model.fit(X, y)
    assert depths[0] <= most


def depth():
    """Frames between `fit` and here, `fit` included, this and the spy's not."""
    frame, count = sys._getframe(2), 0
    while frame is not None:
        count += 1
        if frame.f_code.co_name == "fit" and "classifier.py" in frame.f_code.co_filename:
            return count
        frame = frame.f_back
    raise AssertionError("not under fit")
