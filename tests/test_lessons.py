"""Leaves of wide tables as training sees them, and what a teacher says of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from backbone_models import tiny_tabpfn_v1
from scff.backbones import load_backbone
from scff.backbones.weights.checkpoints import sha256
from scff.pretrain.causal import causal_tasks
from scff.pretrain.clusters import cluster_tasks
from scff.pretrain.config import LessonConfig, RecipeConfig
from scff.pretrain.draws import Draw, draw_for
from scff.pretrain.leaves import Kind, show
from scff.pretrain.lessons import Lessons, _changed, draw_leaves
from scff.pretrain.run import Job, run
from scff.pretrain.table_batch import MAX_CLASSES, UNSEEN, TableBatch, native_view
from scff.pretrain.teacher import lag
from scff.pretrain.trainer import Trainer
from scff.pretrain.wide import wide_table
from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.narrow import Company, Digest
from scff.trials.settings import Settings
from test_pretrain import TOY_MODEL, toy_recipe


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_tabpfn_v1(tmp_path_factory.mktemp("teacher") / "teacher.ckpt"))


@pytest.fixture
def few(teacher: str) -> LessonConfig:
    return LessonConfig(
        teacher, rows=(16, 24), queries=8, widths=(20,), min_columns=60, max_columns=90, window=8, per_step=1.0
    )


def wide(seed: int = 0, n_support: int = 40) -> tuple[np.ndarray, np.ndarray]:
    x, y = wide_table(draw_for(seed), n_support + 20, 300)
    return x.numpy(), np.unique(y.numpy()[:n_support], return_inverse=True)[1]


@pytest.mark.parametrize(("kind", "presentation"), [("digest", Digest()), ("company", Company())])
def test_training_shows_what_inference_will(kind: Kind, presentation: Digest | Company) -> None:
    x, y = wide()
    leaf, _ = show(x, y, 32, kind)
    nano = load_backbone("nano", torch.device("cpu"))
    shown = presentation.show(Case(nano, Table(x[:40]), y, Settings(leaf_width=32)))
    assert shown is not None
    view = shown.views.view(0)
    _, cache = view.encode_support([view.columns])
    (step,) = cache.state
    query = shown.table(Table(x[40:]))
    read = np.vstack([step(view._source.numbers), step(query)])[:, : leaf.x_TW.shape[1]]
    ours = native_view(torch.from_numpy(leaf.x_TW).double()[None], 40)[0].numpy()
    np.testing.assert_allclose(ours, read, atol=1e-4, rtol=1e-4)


def test_labels_of_new_rows_are_no_part_of_a_leaf_and_holes_are_filled() -> None:
    x, y = wide(3)
    x[::3, ::2] = np.nan
    for kind in ("digest", "company", "core"):
        leaf, _ = show(x, y, 24, kind)
        assert leaf.x_TW.shape[0] == 60
        assert 0 < leaf.x_TW.shape[1] <= 24
        assert np.isfinite(leaf.x_TW).all()
        other = x.copy()
        other[-1] = 7.0  # another new row, and nothing else moves
        np.testing.assert_allclose(show(other, y, 24, kind)[0].x_TW[:-1], leaf.x_TW[:-1], rtol=1e-4, atol=1e-4)


def test_a_case_is_shared_between_the_leaves_of_a_table() -> None:
    x, y = wide(1)
    first, case = show(x, y, 32, "digest")
    again, _ = show(x, y, 32, "digest", show(x, y, 20, "company", case)[1])
    np.testing.assert_array_equal(first.x_TW, again.x_TW)


def test_wide_tables_are_of_many_kinds() -> None:
    tables = [wide_table(draw_for(7, i), 40, 120) for i in range(60)]
    assert any(torch.isnan(x).any() for x, _ in tables)
    whole = [x for x, _ in tables if not torch.isnan(x).any()]
    assert any((x >= 0).all() and torch.equal(x, x.round()) for x in whole)  # counts
    assert any((x < 0).any() for x in whole)
    assert {2, 3} < {len(y.unique()) for _, y in tables}
    assert all(int(y.max()) < MAX_CLASSES and torch.isfinite(x.nan_to_num()).all() for x, y in tables)


def test_causes_and_effects_tell_the_label() -> None:
    x_BTD, y_BT = causal_tasks(draw_for(5), 12, 400, 12)
    gains = []
    for x, y in zip(x_BTD.numpy(), y_BT.numpy(), strict=True):
        forest = RandomForestClassifier(30, random_state=0).fit(x[:300], y[:300])
        gains.append(forest.score(x[300:], y[300:]) - np.bincount(y[300:]).max() / 100)
    assert np.mean(gains) > 0.15


def test_scattered_clusters_are_told_by_neighbours_and_not_by_sums() -> None:
    x_BTD, y_BT = cluster_tasks(draw_for(6), 16, 600, 6, silence=0.0)
    near, linear = [], []
    for x, y in zip(x_BTD.numpy(), y_BT.numpy(), strict=True):
        near.append(KNeighborsClassifier(7).fit(x[:400], y[:400]).score(x[400:], y[400:]))
        linear.append(LogisticRegression(max_iter=300).fit(x[:400], y[:400]).score(x[400:], y[400:]))
    assert np.mean(near) > np.mean(linear) + 0.08


def test_a_lesson_depends_on_its_number_alone(few: LessonConfig, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    lessons, same, other = (Lessons(few, tmp_path / name, 1, rank) for name, rank in (("a", 0), ("b", 0), ("c", 1)))
    drawn, again, apart = ([one.sample(3, draw_for(9, i)) for i in range(6)] for one in (lessons, same, other))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a.x_BTD, b.x_BTD) and torch.equal(a.y_BT, b.y_BT) for a, b in zip(drawn, again, strict=True))
    assert not all(torch.equal(a.y_BT, b.y_BT) for a, b in zip(drawn, apart, strict=True))
    for batch in drawn:
        assert batch.taught_BQK is not None
        torch.testing.assert_close(batch.taught_BQK.sum(-1), torch.ones(1, 8))
        assert batch.taught_BQK[..., int(batch.n_classes_B) :].abs().max() == 0
        assert torch.isfinite(batch.x_BTD).all()


def test_lessons_move_on_and_leave_nothing_behind(few: LessonConfig, tmp_path: Path) -> None:
    lessons = Lessons(few, tmp_path, 1)
    for i in range(12):
        lessons.sample(0, draw_for(i))
    assert {path.name for path in tmp_path.iterdir()} == {f"0-{i:06d}.pt" for i in range(3)}
    lessons.tidy(8)  # numbers 2 to 10 are in use then
    assert [path.name for path in tmp_path.iterdir()] == ["0-000002.pt"]
    first = {lessons.sample(100, draw_for(i)).x_BTD.shape for i in range(4)}
    assert first
    assert min(int(path.stem[2:]) for path in tmp_path.iterdir() if path.stem != "0-000002") >= 94


def test_answers_keep_to_their_rows_and_classes_under_other_names() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(30) % 3
    x = torch.randn(30, 12, generator=generator)
    x[:, 5] = 10.0 + y  # a column that is the label
    taught = torch.nn.functional.one_hot(y[20:], MAX_CLASSES).half()
    y[25] = UNSEEN
    leaf = {"x": x.half(), "y": y.to(torch.int8), "taught": taught}
    seen = set()
    for seed in range(20):
        batch = _changed(leaf, draw_for(seed))
        assert batch.taught_BQK is not None
        asked = batch.y_query_BQ[0] != UNSEEN
        assert asked.tolist() == [i != 5 for i in range(10)]
        assert torch.equal(batch.taught_BQK[0].argmax(-1)[asked], batch.y_query_BQ[0][asked])
        for column in batch.x_BTD[0].abs().T:
            if column.min() >= 10.0:
                name = {(round(float(v)), int(c)) for v, c in zip(column, batch.y_BT[0], strict=True) if c != UNSEEN}
                assert len(name) == 3
                seen.add(frozenset(name))
    assert len(seen) > 2


def test_a_table_without_a_column_that_varies_is_no_lesson(monkeypatch: pytest.MonkeyPatch) -> None:
    def constant(draw: Draw, b: int, t: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ones(b, t, d), torch.arange(t).repeat(b, 1) % 2

    for family in ("latent_tasks", "contrast_tasks", "factor_tasks", "causal_tasks", "cluster_tasks"):
        monkeypatch.setattr(f"scff.pretrain.lessons.{family}", constant)
    teacher = load_backbone("nano", torch.device("cpu"))
    assert draw_leaves(LessonConfig(rows=(16,), narrow=1.0), draw_for(0), teacher) == []


def taught_tables(known: bool) -> TableBatch:
    y = torch.arange(30).repeat(3, 1) % 2
    sure = torch.nn.functional.one_hot(y[:, 20:], MAX_CLASSES).float()
    half = torch.zeros(MAX_CLASSES)
    half[:2] = 0.5
    taught = 0.9 * sure + 0.1 * half if known else half.expand(3, 10, MAX_CLASSES)
    return TableBatch(torch.randn(3, 30, 4, generator=torch.Generator().manual_seed(0)), y, 20, taught)


def test_a_teacher_is_heard_where_it_is_ahead_and_nowhere_else() -> None:
    batch = taught_tables(known=True)
    sure = 20.0 * torch.nn.functional.one_hot(batch.y_query_BQ, MAX_CLASSES).float()
    logits = torch.stack([sure[0], torch.zeros(10, MAX_CLASSES), sure[2]]).requires_grad_()
    lag(logits, batch).backward()
    assert logits.grad is not None
    assert logits.grad[[0, 2]].abs().max() == 0
    assert batch.taught_BQK is not None
    # Following the gradient leads to the teacher's own answers.
    assert torch.equal((-logits.grad[1]).argmax(-1), batch.taught_BQK[1].argmax(-1))
    assert float(lag(batch.taught_BQK.clamp_min(1e-12).log(), batch)) < 1e-6
    assert float(lag(sure, taught_tables(known=False))) == 0


def taught_recipe(few: LessonConfig, weight: float = 2.0) -> RecipeConfig:
    recipe = toy_recipe(4)
    stages = tuple(dataclasses.replace(stage, lessons=2, teacher=weight) for stage in recipe.stages)
    return dataclasses.replace(recipe, stages=stages, lessons=few)


def test_what_the_teacher_says_is_learned(few: LessonConfig, tmp_path: Path) -> None:
    weights = []
    for weight in (0.0, 2.0):
        recipe = taught_recipe(few, weight)
        trainer = Trainer(recipe, Lessons(few, tmp_path / "lessons", recipe.seed))
        trainer.train_step()
        weights.append(trainer.model.state_dict()["icl_predictor.decoder.0.weight"])
    assert not torch.equal(*weights)


def test_a_run_with_lessons_goes_on_bit_for_bit(few: LessonConfig, tmp_path: Path) -> None:
    recipe = taught_recipe(few)
    assert run(Job(tmp_path / "whole", recipe), processes=1)
    assert not run(Job(tmp_path / "cut", recipe, steps=2), processes=1)
    for path in (tmp_path / "cut" / "lessons").iterdir():
        path.unlink()  # what is missing is drawn again
    assert run(Job(tmp_path / "cut"), processes=1)
    cards = [json.loads((tmp_path / name / "nano.json").read_text()) for name in ("whole", "cut")]
    assert cards[0]["sha256"] == cards[1]["sha256"] == sha256(tmp_path / "cut" / "nano.ckpt")
    assert "origin" not in cards[0]
    assert cards[0]["teacher"] == {"name": few.teacher, "sha256": sha256(Path(few.teacher))}
    assert cards[0]["recipe"]["model"]["embed_dim"] == TOY_MODEL.embed_dim
    assert set(cards[0]["best"]) == {"synthetic", "wide", "real", "accuracy"}


def test_the_packaged_recipe_can_be_read_and_its_lessons_drawn() -> None:
    recipe = RecipeConfig.named("nano")
    assert recipe.has_lessons
    assert recipe.lessons.rows[0] == 16
    assert recipe.lessons.rows[-1] == 512
    assert (recipe.lessons.min_columns, recipe.lessons.max_columns) == (500, 5000)
    assert recipe.model.max_classes == MAX_CLASSES
    # Rates meet where the descent begins, and rise slowly to the second one.
    *_, constant, decay, again = recipe.stages
    assert constant.lr_end == decay.lr
    assert again.warmup
    config = dataclasses.replace(recipe.lessons, rows=(16,), max_columns=510)
    assert draw_leaves(config, draw_for(2), None)
