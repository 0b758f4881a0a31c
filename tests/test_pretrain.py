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

import numpy as np
import pytest
import torch
import typer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from typer.testing import CliRunner

import scff
from scff.backbones.weights.checkpoints import sha256
from scff.errors import PretrainError
from scff.pretrain import network, tutor
from scff.pretrain.batches import draw_batch, draw_for
from scff.pretrain.card import write_card
from scff.pretrain.cli import app
from scff.pretrain.config import Mix, ModelConfig, RecipeConfig, Stage
from scff.pretrain.growth import grow, restack
from scff.pretrain.measurements import contrast_tasks, factor_tasks
from scff.pretrain.muon import orthogonalise, split_parameters
from scff.pretrain.pool import Pool, PoolConfig, augment, draw_pool
from scff.pretrain.run import Job, run
from scff.pretrain.table_batch import MAX_CLASSES, UNSEEN, TableBatch, finish, native_view, relabel
from scff.pretrain.trainer import Trainer
from scff.pretrain.validation import real_tables, synthetic_tables, validate

WEIGHTS = Path(scff.__file__).parent / "backbones" / "weights"

TOY_MODEL = ModelConfig(
    embed_dim=8, col_num_inds=2, col_nhead=2, row_num_blocks=1, row_nhead=2, icl_num_blocks=1, icl_nhead=2
)


def toy_recipe(steps: int = 24) -> RecipeConfig:
    half = steps // 2
    stage = Stage("first", half, 3e-3, 2e-3, Mix(easy=1.0), 2, 4, (24,), 2, max_cells=1_000, warmup=3)
    other = Stage("second", steps - half, 2e-3, 1e-4, Mix(easy=0.5, latent=0.5), 2, 6, (24, 32), 1, max_cells=1_000)
    return RecipeConfig(TOY_MODEL, (stage, other), seed=5, validate_every=10_000)


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    """Tables whose first column is the label, so that any misalignment shows."""
    for i in range(3):
        generator = torch.Generator().manual_seed(i)
        y = torch.randint(0, 4, (6, 40), generator=generator)
        x = torch.randn(6, 40, 8, generator=generator)
        x[..., 0] = 10.0 + y
        d = torch.tensor([2, 3, 5, 8, 8, 4])
        torch.save({"x": x.half(), "y": y.to(torch.uint8), "d": d.to(torch.int16)}, tmp_path / f"{i:06d}.pt")
    return Pool(tmp_path)


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


@pytest.mark.parametrize("source", ["easy", "latent", "contrast", "factor", "pool"])
def test_batches_are_valid(source: str, pool: Pool) -> None:
    stage = Stage("s", 1, 1e-3, 1e-3, Mix(**{source: 1.0}), 1, 40, (16, 40, 96), max_cells=8_000)
    for step in range(20):
        check_batch(draw_batch(stage, pool, (0, step, 0)))


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


def test_new_blocks_change_nothing_at_first() -> None:
    shallow = dataclasses.replace(TOY_MODEL, row_num_blocks=2, icl_num_blocks=2)
    deep = dataclasses.replace(shallow, row_num_blocks=4, icl_num_blocks=3)
    trained = network.build(shallow, 1)
    for p in trained.parameters():  # fresh blocks would hide a block in the wrong place
        torch.nn.init.normal_(p, std=0.2, generator=torch.Generator().manual_seed(p.numel()))
    grown = network.build(deep, 2)
    grown.load_state_dict(grow(shallow, trained.state_dict(), deep, 3))
    x, y = torch.randn(2, 20, 5, generator=torch.Generator().manual_seed(0)), torch.arange(12).repeat(2, 1) % 3
    with torch.no_grad():
        assert torch.equal(trained(x, y.float()), grown(x, y.float()))


def test_grouped_columns_are_read_alone_at_first() -> None:
    grouped = dataclasses.replace(TOY_MODEL, col_feature_group=True)
    trained, grown = network.build(TOY_MODEL, 1), network.build(grouped, 2)
    grown.load_state_dict(grow(TOY_MODEL, trained.state_dict(), grouped, 3))
    x, y = torch.randn(2, 20, 5, generator=torch.Generator().manual_seed(0)), torch.arange(12).repeat(2, 1) % 3
    with torch.no_grad():  # a group begins with the column's neighbour
        torch.testing.assert_close(trained(x.roll(-1, dims=2), y.float()), grown(x, y.float()))


def test_new_class_tokens_are_not_heard_at_first() -> None:
    layout, weights = network.load(WEIGHTS / "nano.ckpt")
    cls, heads = layout.row_num_cls, layout.icl_nhead
    wider = dataclasses.replace(layout, row_num_cls=cls * 3 // 2, icl_nhead=heads * 3 // 2)
    before = validate(network.build(layout, 0), weights, 0.9)
    after = validate(network.build(wider, 0), grow(layout, weights, wider, 1), 0.9)
    assert after.total < before.total + 0.1
    assert after.accuracy > before.accuracy - 0.03


def test_restacked_blocks_stand_where_the_order_says() -> None:
    two = dataclasses.replace(TOY_MODEL, icl_num_blocks=2)
    trained = network.build(two, 1)
    weights = restack(trained.state_dict(), (0, 1, 0))
    deeper = network.build(dataclasses.replace(two, icl_num_blocks=3), 2)
    deeper.load_state_dict(weights)
    stack = trained.get_submodule("icl_predictor.tf_icl.blocks")
    assert isinstance(stack, torch.nn.ModuleList)
    stack.append(stack[0])
    x, y = torch.randn(2, 20, 5, generator=torch.Generator().manual_seed(0)), torch.arange(12).repeat(2, 1) % 3
    with torch.no_grad():
        assert torch.equal(trained(x, y.float()), deeper(x, y.float()))
    # Copies, not the same memory: they are to go different ways.
    first, last = (weights[f"icl_predictor.tf_icl.blocks.{i}.linear1.weight"] for i in (0, 2))
    assert first.data_ptr() != last.data_ptr()
    with pytest.raises(PretrainError, match="3 context blocks, and block 3"):
        restack(weights, (0, 3))


def test_a_run_begins_with_the_blocks_of_its_recipe(tmp_path: Path) -> None:
    two = dataclasses.replace(TOY_MODEL, icl_num_blocks=2)
    trained = network.build(two, 1).state_dict()
    network.save(tmp_path / "two.ckpt", two, trained)
    recipe = dataclasses.replace(toy_recipe(2), model=two, context_blocks=(1, 1))
    run(Job(tmp_path / "run", recipe, init=tmp_path / "two.ckpt", steps=0), processes=1)
    began = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
    assert RecipeConfig.from_dict(began["recipe"]) == recipe
    for place in (0, 1):
        name = f"icl_predictor.tf_icl.blocks.{place}.linear1.weight"
        assert torch.equal(began["model"][name], trained["icl_predictor.tf_icl.blocks.1.linear1.weight"])


def context_blocks(weights: dict[str, torch.Tensor], *places: int) -> list[dict[str, torch.Tensor]]:
    prefixes = [f"icl_predictor.tf_icl.blocks.{place}." for place in places]
    return [{name.removeprefix(p): value for name, value in weights.items() if name.startswith(p)} for p in prefixes]


def test_tied_blocks_stay_alike_and_are_stored_once(tmp_path: Path) -> None:
    two = dataclasses.replace(TOY_MODEL, icl_num_blocks=2)
    trained = network.build(two, 1).state_dict()
    network.save(tmp_path / "two.ckpt", two, trained)
    three = dataclasses.replace(two, icl_num_blocks=3)
    sizes = {}
    for tied in (True, False):
        recipe = dataclasses.replace(toy_recipe(6), model=three, context_blocks=(0, 1, 1), tied=tied)
        folder = tmp_path / f"tied-{tied}"
        # Broken off and resumed: copies are still alike then.
        run(Job(folder, recipe, init=tmp_path / "two.ckpt", steps=3), processes=1)
        run(Job(folder), processes=1)
        layout, weights = network.load(folder / "nano.ckpt")
        assert layout == three
        first, second, third = context_blocks(weights, 0, 1, 2)
        assert all(torch.equal(second[part], third[part]) for part in second) == tied
        assert not torch.equal(first["linear1.weight"], second["linear1.weight"])
        assert not torch.equal(second["linear1.weight"], context_blocks(trained, 1)[0]["linear1.weight"])
        sizes[tied] = (folder / "nano.ckpt").stat().st_size
    n_bytes = sum(value.nbytes for value in context_blocks(trained, 1)[0].values())
    assert sizes[True] <= sizes[False] - n_bytes


def test_components_of_a_recipe_reach_its_checkpoint(tmp_path: Path) -> None:
    from scff.pretrain.averaging import average

    recipe = dataclasses.replace(toy_recipe(2), components=2)
    widths = []
    trainer = Trainer(recipe, None)
    trainer.model.register_forward_pre_hook(lambda _, args: widths.append(args[0].shape[2]))
    trainer.train_step()
    # A stage of two to four columns: one component where there are three.
    drawn = [draw_batch(recipe.stages[0], None, (recipe.seed, 0, i)).x_BTD.shape[2] for i in range(2)]
    assert widths == [width + width // 3 for width in drawn]
    run(Job(tmp_path / "run", recipe), processes=1)
    trained = tmp_path / "run" / "nano.ckpt"
    written = [
        trained,
        average([trained], tmp_path / "same.ckpt"),
        average([trained], tmp_path / "5.ckpt", components=5),
    ]
    assert [torch.load(path, weights_only=True)["view"]["components"] for path in written] == [2, 2, 5]
    assert json.loads((tmp_path / "5.json").read_text())["view"] == {"components": 5}


def test_a_stage_for_the_context_leaves_the_encoder_alone() -> None:
    recipe = toy_recipe(6)
    first, second = recipe.stages
    trainer = Trainer(dataclasses.replace(recipe, stages=(first, dataclasses.replace(second, context_only=True))), None)
    for _ in range(first.steps):
        trainer.train_step()
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    for _ in range(second.steps):
        trainer.train_step()
    changed = {name for name, p in trainer.model.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {name for name in before if name.startswith("icl_predictor.")}


def linear_tables(n_classes: int = 2) -> TableBatch:
    generator = torch.Generator().manual_seed(n_classes)
    x = torch.randn(3, 90, 4, generator=generator)
    return TableBatch(x, (x[..., :n_classes]).argmax(-1), 60)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_tutor_answers_from_the_support(n_classes: int) -> None:
    batch = linear_tables(n_classes)
    lesson = tutor.teach(batch)
    assert lesson.p_BQK.shape == (3, 30, MAX_CLASSES)
    torch.testing.assert_close(lesson.p_BQK.sum(-1), torch.ones(3, 30))
    assert lesson.p_BQK[..., n_classes:].abs().max() == 0
    assert (lesson.p_BQK.argmax(-1) == batch.y_query_BQ).float().mean() > 0.9
    told = lesson.p_BQK.gather(2, batch.y_query_BQ[..., None])[..., 0]
    torch.testing.assert_close(lesson.loss_B, -told.log().mean(1))
    # Query labels choose between penalties; the answers themselves follow from the support.
    hidden = batch.y_BT.clone()
    hidden[:, batch.n_support + 5 :] = UNSEEN
    assert torch.isfinite(tutor.teach(dataclasses.replace(batch, y_BT=hidden)).loss_B).all()


def test_tutor_is_heard_where_it_is_ahead_and_nowhere_else() -> None:
    batch = linear_tables()
    lesson = tutor.teach(batch)
    sure = 20.0 * torch.nn.functional.one_hot(batch.y_query_BQ, MAX_CLASSES).float()
    unsure = torch.zeros(30, MAX_CLASSES)
    logits = torch.stack([sure[0], unsure, sure[2]]).requires_grad_()
    tutor.lag(logits, batch, lesson).backward()
    assert logits.grad is not None
    assert logits.grad[[0, 2]].abs().max() == 0
    # Following the gradient leads to the tutor's own answers.
    step = -logits.grad[1]
    assert (step.argmax(-1) == lesson.p_BQK[1].argmax(-1)).all()
    with torch.no_grad():
        assert float(tutor.lag(lesson.p_BQK.clamp_min(1e-12).log(), batch, lesson)) < 1e-6


def test_a_tutored_stage_is_another_lesson() -> None:
    recipe = toy_recipe(2)
    first, second = recipe.stages
    plain, tutored, again = (
        Trainer(dataclasses.replace(recipe, stages=(dataclasses.replace(first, tutor=weight), second)), None)
        for weight in (0.0, 3.0, 3.0)
    )
    for trainer in (plain, tutored, again):
        trainer.train_step()
    name = "icl_predictor.decoder.0.weight"
    assert not torch.equal(plain.model.state_dict()[name], tutored.model.state_dict()[name])
    assert torch.equal(again.model.state_dict()[name], tutored.model.state_dict()[name])


@pytest.mark.parametrize(
    "change",
    [{"embed_dim": 16}, {"row_num_blocks": 1}, {"icl_num_blocks": 1}, {"row_num_cls": 2}, {"row_num_cls": 6}],
)
def test_other_layouts_are_refused(change: dict[str, int]) -> None:
    shallow = dataclasses.replace(TOY_MODEL, row_num_blocks=2, icl_num_blocks=2)
    weights = network.build(shallow, 1).state_dict()
    with pytest.raises(PretrainError, match="another layout"):
        grow(shallow, weights, dataclasses.replace(shallow, **change), 0)


def test_validation_tables_are_valid() -> None:
    batches = [*synthetic_tables(), *real_tables()]
    for batch in batches:
        check_batch(batch)
    assert len(batches) >= 8


def test_batches_depend_on_their_key_alone(pool: Pool) -> None:
    stage = Stage("s", 1, 1e-3, 1e-3, Mix(0.3, 0.3, 0.4), 2, 20, (16, 32), max_cells=4_000)
    for step in range(6):
        once, again = (draw_batch(stage, pool, (3, step, 1), rank=1, world=2) for _ in range(2))
        assert torch.equal(once.x_BTD, again.x_BTD)
        assert torch.equal(once.y_BT, again.y_BT)
        other = draw_batch(stage, pool, (3, step, 1), rank=0, world=2)
        # Processes share the shape, so none waits, and never the tables.
        assert other.x_BTD.shape[1:] == once.x_BTD.shape[1:]
        assert other.x_BTD.shape != once.x_BTD.shape or not torch.equal(other.x_BTD, once.x_BTD)


def test_batches_leave_the_global_generators_alone(pool: Pool) -> None:
    before = torch.get_rng_state()
    draw_batch(toy_recipe().stages[1], pool, (0, 0, 0))
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


def test_augmentation_keeps_rows_and_labels_together(pool: Pool) -> None:
    for seed in range(20):
        x, y = pool.sample(draw_for(seed), draw_for(seed, 1), 10_000, 16)
        for x_TD, y_T in zip(x, y, strict=True):
            labels = 10.0 + y_T
            assert any(torch.equal(column.abs(), labels) for column in x_TD.T)


def test_widening_adds_columns_that_say_nothing() -> None:
    x = torch.arange(400.0)[:, None].repeat(1, 2) + 1.0
    wide = augment(draw_for(1), x, 9)
    assert wide.shape == (400, 9)
    informative = [abs(float(torch.corrcoef(torch.stack([column, x[:, 0]]))[0, 1])) > 0.99 for column in wide.T]
    assert sum(informative) == 2
    assert augment(draw_for(1), wide, 4).shape == (400, 4)


def test_pool_is_drawn_by_index(tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    config = PoolConfig(seed=3, n_files=2, tables_per_file=2, n_rows=24, max_columns=4)
    before = torch.get_rng_state()
    draw_pool(config, tmp_path / "whole")
    draw_pool(config, tmp_path / "parts", part=1, parts=2)
    assert torch.equal(before, torch.get_rng_state())
    assert len(Pool(tmp_path / "whole").files) == 2
    whole, part = (torch.load(tmp_path / name / "000001.pt") for name in ("whole", "parts"))
    assert all(torch.equal(whole[key], part[key]) for key in ("x", "y", "d"))
    with pytest.raises(PretrainError, match="pool"):
        Pool(tmp_path)


def test_recipe_survives_json(tmp_path: Path) -> None:
    recipe = dataclasses.replace(toy_recipe(), ema=0.9)
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(recipe.to_dict()))
    assert RecipeConfig.read(path) == recipe
    assert RecipeConfig.from_dict({}) == RecipeConfig()
    with pytest.raises(PretrainError, match="sede"):
        RecipeConfig.from_dict({"sede": 1})


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
    trainer = Trainer(RecipeConfig(TOY_MODEL, (stage,), seed=1), None)
    batches = [draw_batch(stage, None, (1, step, 0)) for step in range(40)]

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
        Trainer(toy_recipe(), None, world=2).restore(stored)


SCRIPT = """
import sys
from pathlib import Path
from scff.pretrain.config import RecipeConfig
from scff.pretrain.run import Job, run
from scff.pretrain.measurements import contrast_tasks, factor_tasks

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
        ["--out", "run", "--init", "missing.ckpt"],
        ["--out", "run", "--recipe", "toy.json", "--init", "empty.json"],
        ["--out", "run", "--pool", "missing"],
        ["--out", "run"],
        ["--out", "run", "-j", "0"],
        ["--out", "run", "--resume"],
        ["deliver", "run"],
        ["average", "out.ckpt", "missing.ckpt"],
        ["average", "out.ckpt", "empty.json"],
        ["pool", "pool", "--parts", "0"],
    ],
)
def test_errors_of_use_are_sentences_and_exit_code_2(arguments: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    from scff.cli.main import main

    (tmp_path / "empty.json").write_text("")
    (tmp_path / "toy.json").write_text(json.dumps(toy_recipe(2).to_dict()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["scff", "pretrain", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said
    assert "Traceback" not in said
    assert not (tmp_path / "run" / "nano.ckpt").exists()


def test_what_the_package_says_of_nano_is_what_its_card_says() -> None:
    card = json.loads((WEIGHTS / "nano.json").read_text())
    chain = []
    while isinstance(card, dict):
        chain.append(card)
        card = card.get("origin")
    averages = [one for one in chain if "average_of" in one]
    assert (len(chain) - len(averages), len(averages)) == (19, 4)
    made = RecipeConfig.from_dict(chain[0]["recipe"])
    assert (made.model.row_num_blocks, made.model.row_num_cls, made.model.icl_num_blocks) == (3, 6, 8)
    assert made.model != RecipeConfig().model
    assert chain[0]["view"] == {"components": 8}
    assert not any(one.get("recipe", {}).get("components") for one in chain)  # and none was trained with any


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
    assert layout == RecipeConfig.from_dict(card["recipe"]).model
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


def test_average_is_the_mean_and_its_card_names_what_went_in(tmp_path: Path) -> None:
    from scff.pretrain.averaging import average

    config = toy_recipe().model
    files = []
    for i in range(3):
        state = network.build(config, i).state_dict()
        network.save(tmp_path / f"{i}.ckpt", config, state)
        facts = {"recipe": toy_recipe().to_dict(), "steps": i, "tables_seen": 10 * i, "cpu_hours": 0.1 * i}
        write_card(tmp_path / f"{i}.ckpt", facts)
        files.append(tmp_path / f"{i}.ckpt")
    result = average(files, tmp_path / "mean.ckpt")
    layout, weights = network.load(result)
    assert layout == config
    name = "icl_predictor.decoder.0.weight"
    expected = torch.stack([network.load(path)[1][name] for path in files]).mean(0)
    torch.testing.assert_close(weights[name], expected)
    card = json.loads((tmp_path / "mean.json").read_text())
    assert [one["sha256"] for one in card["average_of"]] == [sha256(path) for path in files]
    assert card["tables_seen"] == 20
    small = average(files, tmp_path / "half.ckpt", half=True)
    torch.testing.assert_close(network.load(small)[1][name], expected, atol=1e-3, rtol=1e-3)
    assert network.load(small)[1][name].dtype == torch.float32
    assert small.stat().st_size < result.stat().st_size
    network.build(config, 0).load_state_dict(torch.load(small, weights_only=True)["state_dict"])
    (tmp_path / "1.json").write_text(json.dumps({"sha256": "0"}))
    with pytest.raises(PretrainError, match="another checkpoint's"):
        average(files, tmp_path / "mean.ckpt")
