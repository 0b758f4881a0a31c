"""The recipe as data: network, curriculum and schedule, readable from and written to JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from scff.errors import PretrainError
from scff.pretrain.checks import check_recipe

__all__ = ["LessonConfig", "Mix", "ModelConfig", "RecipeConfig", "Stage"]


@dataclass(frozen=True)
class ModelConfig:
    """Layout of the backbone, in the words of ``tabicl``'s network.

    Target-aware columns as in TabICL v2. ``col_feature_group="valid"`` makes one token of ``col_feature_group_size``
    columns that stand side by side: a leaf then costs as many times less.
    """

    max_classes: int = 10
    embed_dim: int = 48
    col_num_blocks: int = 1
    col_nhead: int = 4
    col_num_inds: int = 16
    col_feature_group: bool | str = False
    col_feature_group_size: int = 3
    col_target_aware: bool = True
    row_num_blocks: int = 2
    row_nhead: int = 4
    row_num_cls: int = 4
    row_rope_interleaved: bool = False
    icl_num_blocks: int = 4
    icl_nhead: int = 4
    zero_init: bool = False


@dataclass(frozen=True)
class Mix:
    """Shares of the families of tables; they need not sum to one.

    See :mod:`scff.pretrain.synthetic` (easy, latent), :mod:`scff.pretrain.measurements` (contrast, factor),
    :mod:`scff.pretrain.causal` and :mod:`scff.pretrain.clusters`.
    """

    easy: float = 0.0
    latent: float = 0.0
    contrast: float = 0.0
    factor: float = 0.0
    causal: float = 0.0
    clusters: float = 0.0


@dataclass(frozen=True)
class LessonConfig:
    """Leaves of wide tables with a teacher's answers, see :mod:`scff.pretrain.lessons`.

    Parameters
    ----------
    teacher : str
        The backbone that answers.
    taught_width : int
        Most columns that the teacher reads.
    rows : tuple of int
        Labelled rows, drawn evenly; repeat a value to weigh it.
    queries : int
        New rows.
    widths : tuple of int
        Most columns of a leaf, drawn evenly.
    min_columns, max_columns : int
        Columns of a wide table, drawn log-uniformly.
    narrow : float
        Share of tables that are narrow, and read as they are.
    window : int
        Tables in use at a time.
    per_step : float
        New tables a step.
    """

    teacher: str = "tabpfn-v1"
    taught_width: int = 100
    rows: tuple[int, ...] = (32, 128)
    queries: int = 96
    widths: tuple[int, ...] = (100, 128)
    min_columns: int = 500
    max_columns: int = 5000
    narrow: float = 0.25
    window: int = 200
    per_step: float = 1.0


@dataclass(frozen=True)
class Stage:
    """One stretch of the curriculum.

    Parameters
    ----------
    name : str
        For the progress bar and the training card.
    steps : int
        Optimiser steps.
    lr, lr_end : float
        The learning rate moves from the first to the second along half a cosine.
    mix : Mix
        Where narrow tables come from.
    min_columns, max_columns : int
        Their widths, drawn log-uniformly so that the narrowest stay in every stage.
    rows : tuple of int
        Their row counts, drawn evenly; repeat a value to weigh it.
    micro_batches : int
        Gradients of this many batches are accumulated in each process: each has its own shape and source, so
        one step sees narrow and wide tables together.
    max_cells : int
        Bound on the cells of one batch, a row counting some more for what it costs in the context: wide or long tables
        come in small batches, the largest shortened.
    max_tables : int
        Bound on the tables of one batch.
    warmup : int
        Steps over which the learning rate rises from zero at the start of the stage.
    lessons : int
        Lessons in each step of each process.
    lesson_share : float
        Their share of the loss.
    teacher : float
        Weight of the divergence from the teacher on lessons where that is better, see :mod:`scff.pretrain.teacher`.
    """

    name: str
    steps: int
    lr: float
    lr_end: float
    mix: Mix
    min_columns: int = 2
    max_columns: int = 64
    rows: tuple[int, ...] = (128, 256)
    micro_batches: int = 3
    max_cells: int = 32_000
    max_tables: int = 32
    warmup: int = 0
    lessons: int = 0
    lesson_share: float = 0.5
    teacher: float = 0.0


@dataclass(frozen=True)
class RecipeConfig:
    """Everything that decides the result of a run, given the number of processes.

    Parameters
    ----------
    model : ModelConfig
        Network.
    stages : tuple of Stage
        Curriculum.
    lessons : LessonConfig
        Taught tables of the stages that have lessons.
    seed : int
        Seed of the initial weights and of every table.
    ema : float
        Decay of the exponential moving average of the weights, which is what a run delivers.
    clip : float
        Largest norm of a gradient.
    weight_decay : float
        Decoupled decay of the matrices.
    temperature : float
        Logits are divided by this before the loss, as TabICL divides them at inference: so probabilities are
        trained as they will be used.
    validate_every : int
        Steps between validations.
    """

    model: ModelConfig
    stages: tuple[Stage, ...]
    lessons: LessonConfig = field(default_factory=LessonConfig)
    seed: int = 0
    ema: float = 0.998
    clip: float = 1.0
    weight_decay: float = 0.01
    temperature: float = 0.9
    validate_every: int = 100

    @property
    def total_steps(self) -> int:
        """Steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    @property
    def has_lessons(self) -> bool:
        """Whether any stage has."""
        return any(stage.lessons for stage in self.stages)

    def stage_at(self, step: int) -> tuple[Stage, int]:
        """Find the stage of a step.

        Parameters
        ----------
        step : int
            Step from the start of the run.

        Returns
        -------
        stage : Stage
            The stage.
        step : int
            The step counted from the stage's start.

        Examples
        --------
        >>> recipe = RecipeConfig.named("nano")
        >>> recipe.stage_at(0)[0].name, recipe.stage_at(recipe.total_steps - 1)[0].name
        ('easy', 'again')
        """
        if step < 0:
            raise PretrainError(f"A step is not negative, {step} is.")
        for stage in self.stages:
            if step < stage.steps:
                return stage, step
            step -= stage.steps
        raise PretrainError("The step lies behind the last stage.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain containers, for JSON."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> RecipeConfig:
        """Build from plain containers; absent keys keep their defaults, unknown ones are an error.

        Parameters
        ----------
        plain : dict
            As :meth:`to_dict` returns it, or a part of it.

        Returns
        -------
        RecipeConfig
            The recipe.

        Raises
        ------
        PretrainError
            If it is something else.
        """
        try:
            plain = dict(plain)
            plain["model"] = ModelConfig(**plain["model"])
            plain["stages"] = tuple(Stage(**_tuples({**one, "mix": Mix(**one["mix"])})) for one in plain["stages"])
            plain["lessons"] = LessonConfig(**_tuples(plain.get("lessons", {})))
            recipe = cls(**plain)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise PretrainError(f"This is no recipe: {error}.") from error
        check_recipe(recipe)
        return recipe

    @classmethod
    def named(cls, name: str) -> RecipeConfig:
        """A recipe of the package, or one of the user's.

        Parameters
        ----------
        name : str
            Such as ``"nano"``, or the path of a file.

        Raises
        ------
        PretrainError
            If there is neither.
        """
        packaged = resources.files("scff.pretrain") / "recipes" / f"{name}.json"
        if "/" not in name and packaged.is_file():
            return cls.from_dict(json.loads(packaged.read_text(encoding="utf-8")))
        return cls.read(Path(name))

    @classmethod
    def read(cls, path: Path) -> RecipeConfig:
        """Read a JSON file.

        Raises
        ------
        PretrainError
            If it is not there, or holds something else.
        """
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise PretrainError(f"{path} cannot be read as a recipe in JSON ({error}).") from error
        return cls.from_dict(plain)


def _tuples(plain: dict[str, Any]) -> dict[str, Any]:
    """JSON knows lists only."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
