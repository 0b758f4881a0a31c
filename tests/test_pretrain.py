"""The recipe of the embedded backbone: tables, augmentation, resuming, card and checkpoint."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from typer.testing import CliRunner

import scff
from scff.backbones import get_spec
from scff.backbones.weights.checkpoints import sha256
from scff.errors import PretrainError
from scff.pretrain import network
from scff.pretrain.batches import draw_batch
from scff.pretrain.card import write_card
from scff.pretrain.cli import app
from scff.pretrain.config import LessonConfig, Mix, ModelConfig, RecipeConfig, Stage
from scff.pretrain.draws import draw_for
from scff.pretrain.measurements import contrast_tasks, factor_tasks
from scff.pretrain.muon import orthogonalise, split_parameters
from scff.pretrain.run import Job, run
from scff.pretrain.table_batch import MAX_CLASSES, UNSEEN, TableBatch, finish, native_view, relabel
from scff.pretrain.trainer import Trainer
from scff.pretrain.validation import real_tables, synthetic_tables, wide_leaves

WEIGHTS = Path(scff.__file__).parent / "backbones" / "weights"

TOY_MODEL = ModelConfig(
    embed_dim=8, col_num_inds=2, col_nhead=2, row_num_blocks=1, row_nhead=2, icl_num_blocks=1, icl_nhead=2
)


def toy_recipe(steps: int = 24) -> RecipeConfig:
    half = steps // 2
    stage = Stage("first", half, 3e-3, 2e-3, Mix(easy=1.0), 2, 4, (24,), 2, max_cells=1_000, warmup=3)
    other = Stage("second", steps - half, 2e-3, 1e-4, Mix(easy=0.5, latent=0.5), 2, 6, (24, 32), 1, max_cells=1_000)
    return RecipeConfig(TOY_MODEL, (stage, other), seed=5, validate_every=10_000)


def check_batch(batch: TableBatch) -> None:
    assert torch.isfinite(batch.x_BTD).all()
    assert batch.x_BTD.dtype == torch.float32
    assert 0 < batch.n_support < batch.x_BTD.shape[1]
    for y_T in batch.y_BT:
        support, query = y_T[: batch.n_support], y_T[batch.n_support :]
        n_classes = int(support.max()) + 1
        assert 2 <= n_classes <= MAX_CLASSES
        # Every class from 0 on is in the support, and queries ask for nothing else.
        assert support.unique().tolist() == list(range(n_classes))
        assert set(query.tolist()) <= {UNSEEN, *range(n_classes)}


@pytest.mark.parametrize("source", ["easy", "latent", "contrast", "factor", "causal", "clusters"])
def test_batches_are_valid(source: str) -> None:
    stage = Stage("s", 1, 1e-3, 1e-3, Mix(**{source: 1.0}), 1, 40, (16, 40, 96), max_cells=8_000)
    for step in range(20):
        check_batch(draw_batch(stage, (0, step, 0)))


def test_contrasts_are_told_by_columns_together_and_by_none_alone() -> None:
    def accuracy(x: np.ndarray, y: np.ndarray) -> float:
        return LogisticRegression(max_iter=500).fit(x[:400], y[:400]).score(x[400:], y[400:])

    x_BTD, y_BT = (values.numpy() for values in contrast_tasks(draw_for(11), 12, 800, 10))
    x_BTD = (x_BTD - x_BTD.mean(1, keepdims=True)) / x_BTD.std(1, keepdims=True)
    together = [accuracy(x, y) for x, y in zip(x_BTD, y_BT, strict=True)]
    alone = [max(accuracy(x[:, [j]], y) for j in range(10)) for x, y in zip(x_BTD, y_BT, strict=True)]
    assert np.mean(together) > np.mean(alone) + 0.15


def test_factors_are_told_by_columns_together_and_repeats_tell_little_more() -> None:
    def loss(x: np.ndarray, y: np.ndarray) -> float:
        model = LogisticRegression(max_iter=2_000).fit(x[:400], y[:400])
        return log_loss(y[400:], model.predict_proba(x[400:]), labels=model.classes_)

    ratios = []
    for seed in range(12):
        batch = finish(*factor_tasks(draw_for(seed), 1, 800, 24), 400, draw_for(seed, 1).generator)
        assert batch is not None
        x, y = batch.x_BTD[0].numpy(), batch.y_BT[0].numpy()
        x, y = x[y >= 0], y[y >= 0]
        ratios.append((min(loss(x[:, [j]], y) for j in range(24)) / loss(x, y), loss(x[:, :12], y) / loss(x, y)))
    alone, half = np.median(ratios, axis=0)
    assert alone > 1.3
    assert 1.0 < half < alone


def test_validation_tables_are_valid() -> None:
    for batch in (*synthetic_tables(), *wide_leaves(), *real_tables()):
        check_batch(batch)
    rows = {batch.n_support for batch in wide_leaves()}
    assert min(rows) < 32
    assert max(rows) > 256


def test_batches_depend_on_their_key_alone() -> None:
    stage = Stage("s", 1, 1e-3, 1e-3, Mix(0.3, 0.3, 0.4), 2, 20, (16, 32), max_cells=8_000)
    for step in range(6):
        once, again = (draw_batch(stage, (3, step, 1), rank=1) for _ in range(2))
        assert torch.equal(once.x_BTD, again.x_BTD)
        assert torch.equal(once.y_BT, again.y_BT)
        other = draw_batch(stage, (3, step, 1), rank=0)
        # Processes share the shape, so none waits, and never the tables.
        assert other.x_BTD.shape[1:] == once.x_BTD.shape[1:]
        assert other.x_BTD.shape != once.x_BTD.shape or not torch.equal(other.x_BTD, once.x_BTD)


def test_batches_leave_the_global_generators_alone() -> None:
    before = torch.get_rng_state()
    draw_batch(toy_recipe().stages[1], (0, 0, 0))
    assert torch.equal(before, torch.get_rng_state())


def test_view_is_what_tabicl_shows_its_network() -> None:
    from tabicl._sklearn.preprocessing import PreprocessingPipeline

    rng = np.random.default_rng(0)
    x = rng.standard_t(1.5, size=(300, 12)) * 10.0 ** rng.integers(-3, 4, 12)
    theirs = PreprocessingPipeline(normalization_method="none").fit(x[:200])
    ours = native_view(torch.from_numpy(x)[None], 200)[0].numpy()
    np.testing.assert_allclose(ours[:200], theirs.X_transformed_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours, theirs.transform(x), rtol=1e-6, atol=1e-9)


def test_relabelling_renames_and_hides_only_the_unseen() -> None:
    y = torch.tensor([[7, 3, 3, 9, 7, 9, 1, 3], [4, 4, 4, 4, 4, 4, 4, 2]])
    new, usable = relabel(y, 4, torch.Generator().manual_seed(0))
    assert usable.tolist() == [True, False]
    pairs = set(zip(y[0].tolist(), new[0].tolist(), strict=True))
    assert len(pairs) == 4
    assert (1, UNSEEN) in pairs
    assert {b for _, b in pairs} == {UNSEEN, 0, 1, 2}


def test_unusable_tables_are_dropped() -> None:
    x, y = torch.randn(2, 8, 3), torch.zeros(2, 8, dtype=torch.long)
    y[0, 0] = 1
    batch = finish(x, y, 4, torch.Generator())
    assert batch is not None
    assert batch.n_tables == 1
    assert finish(x[1:], y[1:], 4, torch.Generator()) is None


def test_recipe_survives_json(tmp_path: Path) -> None:
    recipe = dataclasses.replace(toy_recipe(), ema=0.9)
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(recipe.to_dict()))
    assert RecipeConfig.read(path) == recipe
    assert RecipeConfig.named(str(path)) == recipe
    with pytest.raises(PretrainError, match="sede"):
        RecipeConfig.from_dict({**recipe.to_dict(), "sede": 1})
    with pytest.raises(PretrainError, match="stages"):
        RecipeConfig.from_dict({"model": {}})


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("seed", -1, "seed is a whole number"),
        ("ema", "most", "ema is a number from 0 to 1"),
        ("stages", [], "at least one stage"),
        ("stages", 3, "no recipe"),
        ("stages.0.steps", 0, "'first': steps"),
        ("stages.0.rows", [], "'first': rows"),
        ("stages.1.rows", ["many"], "'second': rows"),
        ("stages.1.max_columns", 1, "max_columns is a whole number of at least 2"),
        ("stages.0.mix", {}, "give at least one family a share"),
        ("stages.0.mix", {"easy": -1.0}, "mix of easy"),
        ("stages.0.mix", {"hard": 1.0}, "hard"),
        ("lessons.widths", [2], "lessons: widths"),
        ("lessons.teacher", 1, "name or the path of a backbone"),
        ("lessons", [], "no recipe"),
    ],
)
def test_a_recipe_is_looked_at_before_it_is_run(entry: str, value: object, said: str) -> None:
    plain = toy_recipe().to_dict()
    *way, last = entry.split(".")
    part: Any = plain
    for step in way:
        part = part[int(step) if step.isdigit() else step]
    part[last] = value
    with pytest.raises(PretrainError, match=said):
        RecipeConfig.from_dict(plain)


@pytest.mark.parametrize("change", [{"embed_dim": 7}, {"icl_nhead": 5}, {"col_num_inds": "few"}])
def test_a_layout_that_is_none_is_said_so(change: dict[str, Any]) -> None:
    with pytest.raises(PretrainError, match="No network"):
        network.build(ModelConfig(**{**dataclasses.asdict(TOY_MODEL), **change}), 0)


def test_muon_orthogonalises_and_gets_only_matrices() -> None:
    u = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(u))
    assert ((values > 0.6) & (values < 1.3)).all()
    model = network.build(TOY_MODEL, 0)
    matrices, rest = split_parameters(model)
    assert all(p.ndim == 2 for p in matrices)
    assert len(matrices) + len(rest) == len(list(model.parameters()))


def test_training_lowers_the_loss() -> None:
    """A few steps: the optimisers pull the right way."""
    stage = Stage("s", 40, 5e-3, 5e-3, Mix(easy=1.0), 2, 2, (48,), 1, max_cells=4_000)
    trainer = Trainer(RecipeConfig(TOY_MODEL, (stage,), seed=1))
    batches = [draw_batch(stage, (1, step, 0)) for step in range(40)]

    def loss() -> float:
        with torch.no_grad():
            losses = [network.cross_entropy(network.query_logits(trainer.model, batch), batch) for batch in batches]
            return float(torch.stack(losses).mean())

    before = loss()
    for _ in range(40):
        trainer.train_step()
    assert loss() < before


def test_a_folder_holds_one_run(tmp_path: Path) -> None:
    with pytest.raises(PretrainError, match="resume"):
        run(Job(tmp_path / "a"), processes=1)
    assert not run(Job(tmp_path / "a", toy_recipe(), steps=1), processes=1)
    with pytest.raises(PretrainError, match="resume"):
        run(Job(tmp_path / "a", toy_recipe()), processes=1)
    stored = torch.load(tmp_path / "a" / "state.pt", weights_only=True)
    with pytest.raises(PretrainError, match="processes"):
        Trainer(toy_recipe(), world=2).restore(stored)


SCRIPT = """
import sys
from pathlib import Path
from scff.pretrain.config import RecipeConfig
from scff.pretrain.run import Job, run

if __name__ == "__main__":
    folder, recipe = Path(sys.argv[1]), sys.argv[2:]
    run(Job(folder, RecipeConfig.read(Path(recipe[0])) if recipe else None, save_seconds=0.0), processes=2)
"""


def test_killed_run_continues_bit_for_bit(tmp_path: Path) -> None:
    script, recipe = tmp_path / "script.py", tmp_path / "recipe.json"
    script.write_text(SCRIPT)
    recipe.write_text(json.dumps(toy_recipe().to_dict()))

    def start(*args: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(script), *map(str, args)]
        return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    reference, victim = start(whole, recipe), start(cut, recipe)
    deadline = time.monotonic() + 600
    while not (cut / "state.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    assert reference.wait(600) == 0
    at = torch.load(cut / "state.pt", weights_only=True)["step"]
    assert 0 < at < toy_recipe().total_steps
    assert not (cut / "nano.ckpt").exists()

    assert start(cut).wait(600) == 0
    one, two = (torch.load(folder / "state.pt", weights_only=True) for folder in (whole, cut))
    assert one["step"] == two["step"] == toy_recipe().total_steps
    assert one["tables"] == two["tables"]
    assert one["history"] == two["history"]
    for part in ("model", "ema"):
        assert all(torch.equal(value, two[part][name]) for name, value in one[part].items())
    delivered, resumed = (network.load(folder / "nano.ckpt") for folder in (whole, cut))
    assert delivered[0] == resumed[0] == TOY_MODEL
    assert all(torch.equal(value, resumed[1][name]) for name, value in delivered[1].items())
    card = json.loads((cut / "nano.json").read_text())
    assert card["sha256"] == sha256(cut / "nano.ckpt")
    assert card["tables_seen"] == two["tables"]
    assert RecipeConfig.from_dict(card["recipe"]) == toy_recipe()


def test_command_line(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(toy_recipe(2).to_dict()))
    outer = typer.Typer()
    outer.add_typer(app, name="pretrain")
    invoke = CliRunner().invoke
    folder = str(tmp_path / "run")
    first = invoke(outer, ["pretrain", "--out", folder, "--recipe", str(recipe), "--steps", "1", "--processes", "1"])
    assert first.exit_code == 0
    assert "--resume" in first.output
    assert invoke(outer, ["pretrain", "--out", folder, "--resume", "--seed", "1"]).exit_code == 2
    second = invoke(outer, ["pretrain", "--out", folder, "--resume", "--processes", "1"])
    assert "is ready" in second.output
    assert invoke(outer, ["pretrain", "deliver", folder]).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--out", "run", "--recipe", "missing.json"],
        ["--out", "run", "--recipe", "empty.json"],
        ["--out", "run", "--recipe", "untaught.json"],
        ["--recipe", "toy.json"],
        ["--out", "run", "-j", "0"],
        ["--out", "run", "--resume"],
        ["deliver", "run"],
    ],
)
def test_errors_of_use_are_sentences_and_exit_code_2(arguments: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    from scff.cli.main import main

    (tmp_path / "empty.json").write_text("")
    toy = toy_recipe(2)
    (tmp_path / "toy.json").write_text(json.dumps(toy.to_dict()))
    untaught = dataclasses.replace(
        toy, stages=(dataclasses.replace(toy.stages[0], lessons=1),), lessons=LessonConfig(teacher="no/such.ckpt")
    )
    (tmp_path / "untaught.json").write_text(json.dumps(untaught.to_dict()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["scff", "pretrain", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said
    assert "Traceback" not in said
    assert not (tmp_path / "run" / "nano.ckpt").exists()


def test_the_package_ships_what_its_recipe_makes() -> None:
    """One run from random weights to its end, by the recipe that is here: nothing came before it, nothing after."""
    card = json.loads((WEIGHTS / "nano.json").read_text())
    assert RecipeConfig.from_dict(card["recipe"]) == RecipeConfig.named("nano")
    assert card["steps"] == card["steps_planned"] == RecipeConfig.named("nano").total_steps
    assert not {"origin", "average_of", "view", "note"} & set(card)
    assert card["teacher"] == {"name": "tabpfn-v1", "sha256": get_spec("tabpfn-v1").weights.sha256}
    assert sum(card["best"][part] for part in ("synthetic", "wide", "real")) == min(
        sum(one[part] for part in ("synthetic", "wide", "real")) for one in card["history"]
    )


def test_card_names_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    network.save(path, TOY_MODEL, network.build(TOY_MODEL, 0).state_dict())
    card = json.loads(write_card(path, {"note": 1}).read_text())
    assert card["sha256"] == sha256(path)
    assert card["bytes"] == path.stat().st_size
    assert card["versions"]["torch"] == torch.__version__


def test_packaged_card_matches_the_packaged_checkpoint() -> None:
    card = json.loads((WEIGHTS / "nano.json").read_text())
    assert card["sha256"] == sha256(WEIGHTS / "nano.ckpt")
    assert card["tables_seen"] > 0
    layout, state_dict = network.load(WEIGHTS / "nano.ckpt")
    assert layout == ModelConfig(**card["recipe"]["model"])
    assert all(value.dtype == torch.float32 for value in state_dict.values())
    assert (WEIGHTS / "nano.ckpt").stat().st_size <= 10_000_000


def test_packaged_checkpoint_is_a_tabicl_checkpoint() -> None:
    from sklearn.datasets import load_iris
    from tabicl import TabICLClassifier

    x, y = load_iris(return_X_y=True)
    classifier = TabICLClassifier(
        n_estimators=1, model_path=WEIGHTS / "nano.ckpt", allow_auto_download=False, device="cpu", use_amp=False
    )
    assert classifier.fit(x[::2], y[::2]).score(x[1::2], y[1::2]) > 0.9
