"""What a recipe may say: every number is looked at before a run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scff.errors import PretrainError

if TYPE_CHECKING:
    from scff.pretrain.config import LessonConfig, RecipeConfig, Stage

__all__ = ["check_recipe"]


def check_recipe(recipe: RecipeConfig) -> None:
    """Refuse a recipe that no run could follow.

    Raises
    ------
    PretrainError
        With the entry, and what it may be.
    """
    if not recipe.stages:
        raise PretrainError("A recipe has at least one stage.")
    _whole("seed", recipe.seed, 0)
    _whole("validate_every", recipe.validate_every, 1)
    _between("ema", recipe.ema, 0, 1)
    for name in ("clip", "temperature"):
        _between(name, getattr(recipe, name), 1e-6, 1e6)
    _between("weight_decay", recipe.weight_decay, 0, 1e6)
    for stage in recipe.stages:
        _check_stage(stage)
    _check_lessons(recipe.lessons)


def _check_stage(stage: Stage) -> None:
    where = f"stage {stage.name!r}: "
    for name in ("steps", "min_columns", "micro_batches", "max_cells", "max_tables"):
        _whole(where + name, getattr(stage, name), 1)
    for name in ("warmup", "lessons"):
        _whole(where + name, getattr(stage, name), 0)
    _whole(where + "max_columns", stage.max_columns, stage.min_columns)
    _several(where + "rows", stage.rows, 8)
    for name in ("lr", "lr_end", "teacher"):
        _between(where + name, getattr(stage, name), 0, 1e6)
    _between(where + "lesson_share", stage.lesson_share, 0, 1)
    shares = vars(stage.mix)
    for name, share in shares.items():
        _between(f"{where}mix of {name}", share, 0, 1e6)
    if not sum(shares.values()) > 0:
        raise PretrainError(f"{where}its mix is empty; give at least one family a share.")


def _check_lessons(lessons: LessonConfig) -> None:
    where = "lessons: "
    _several(where + "rows", lessons.rows, 4)
    _several(where + "widths", lessons.widths, 4)
    for name, least in (("queries", 1), ("taught_width", 4), ("min_columns", 8), ("window", 4)):
        _whole(where + name, getattr(lessons, name), least)
    _whole(where + "max_columns", lessons.max_columns, lessons.min_columns)
    _between(where + "narrow", lessons.narrow, 0, 1)
    _between(where + "per_step", lessons.per_step, 0, 1e6)
    if not isinstance(lessons.teacher, str):
        raise PretrainError(f"{where}teacher is the name or the path of a backbone, not {lessons.teacher!r}.")


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PretrainError(f"{name} is a whole number of at least {least}, not {value!r}.")


def _several(name: str, values: Any, least: int) -> None:
    if not isinstance(values, tuple) or not values:
        raise PretrainError(f"{name} is a list of whole numbers, not {values!r}.")
    for value in values:
        _whole(name, value, least)


def _between(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise PretrainError(f"{name} is a number from {low:g} to {high:g}, not {value!r}.")
