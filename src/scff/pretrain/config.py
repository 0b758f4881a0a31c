"""The recipe as data: network, curriculum and schedule, readable from and written to JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scff.errors import PretrainError


@dataclass(frozen=True)
class ModelConfig:
    """Layout of the backbone, in the words of ``tabicl``'s network.

    Target-aware columns as in TabICL v2. Without grouping a column is embedded alone; with it beside three others of
    its leaf, and the row stage sees more of a contrast between them.
    """

    max_classes: int = 10
    embed_dim: int = 48
    col_num_blocks: int = 1
    col_nhead: int = 4
    col_num_inds: int = 16
    col_feature_group: bool = False
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
    """Shares of the sources of tables; they need not sum to one.

    Parameters
    ----------
    easy, latent, contrast, factor : float
        The families of :mod:`scff.pretrain.synthetic` and :mod:`scff.pretrain.measurements`.
    pool : float
        Tables of ``tabicl.prior``, see :mod:`scff.pretrain.pool`.
    """

    easy: float = 0.0
    latent: float = 0.0
    pool: float = 0.0
    contrast: float = 0.0
    factor: float = 0.0


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
        Where tables come from.
    min_columns, max_columns : int
        Widths, drawn log-uniformly so that narrow tables stay in every stage.
    rows : tuple of int
        Row counts, drawn evenly; repeat a value to weigh it.
    micro_batches : int
        Gradients of this many batches are accumulated in each process: each has its own shape and source, so
        one step sees narrow and wide tables together.
    max_cells : int
        Bound on ``B T (D + 4)`` of one batch: wide or long tables come in small batches, the largest shortened.
    max_tables : int
        Bound on the tables of one batch.
    warmup : int
        Steps over which the learning rate rises from zero at the start of the stage.
    context_only : bool
        Leave the feature encoder as it is and train the context alone: a step costs little more than half, for when
        the row representations hold more than the context reads from them.
    tutor : float
        Weight of the divergence from logistic regression on tables where that is better, see
        :mod:`scff.pretrain.tutor`. Zero does without.
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
    context_only: bool = False
    tutor: float = 0.0


#: Long tables too: a context tutored on at most 512 rows gains little from 2,048.
_TUTORED_ROWS = (192, 256, 384, 512, 512, 1024, 2048)


def _curriculum() -> tuple[Stage, ...]:
    """Easy first, then causal tables, then those that look like real ones; wide, then long, then with a tutor."""
    return (
        Stage("easy", 450, 3e-3, 3e-3, Mix(easy=1.0), 1, 6, (96,), 1, warmup=100),
        Stage("narrow", 800, 3e-3, 2e-3, Mix(easy=0.35, pool=0.65), 2, 12, (128,), 1),
        Stage("medium", 800, 2e-3, 1.5e-3, Mix(0.2, 0.3, 0.3, contrast=0.1, factor=0.1), 2, 32, (128, 192, 256), 2),
        Stage("wide", 1200, 1.5e-3, 1e-3, Mix(0.1, 0.35, 0.25, contrast=0.15, factor=0.15), 3, 128, (128, 192, 256)),
        Stage(
            "long",
            600,
            1e-3,
            5e-5,
            Mix(easy=0.1, latent=0.35, pool=0.2, contrast=0.1, factor=0.25),
            3,
            128,
            (128, 256, 256, 512, 1024),
            4,
        ),
        Stage(
            "tutored context",
            300,
            1.2e-3,
            8e-4,
            Mix(easy=0.05, latent=0.25, contrast=0.25, factor=0.45),
            6,
            64,
            _TUTORED_ROWS,
            4,
            36_000,
            12,
            warmup=10,
            context_only=True,
            tutor=6.0,
        ),
        Stage(
            "tutored",
            150,
            8e-4,
            1e-5,
            Mix(easy=0.05, latent=0.3, contrast=0.2, factor=0.45),
            6,
            112,
            _TUTORED_ROWS,
            4,
            36_000,
            12,
            tutor=6.0,
        ),
    )


@dataclass(frozen=True)
class RecipeConfig:
    """Everything that decides the result of a run, given the pool and the number of processes.

    The defaults train a small network from random weights in one run. The embedded ``nano`` is another, larger network,
    made by a chain of runs (see :mod:`scff.pretrain`).

    Parameters
    ----------
    model : ModelConfig
        Network.
    stages : tuple of Stage
        Curriculum.
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
    context_blocks : tuple of int
        For runs that begin from a checkpoint: which of its context blocks stands where, see
        :func:`scff.pretrain.growth.restack`. Empty leaves them as they are.
    components : int
        Most principal components that stand behind the columns of a table, as they will at inference, see
        :mod:`scff.backbones.tabicl.components`; the checkpoint states it.
    tied : bool
        A context block that stands in several places stays one: its copies learn the same, and a checkpoint stores it
        once. The context runs deeper for the same size.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    stages: tuple[Stage, ...] = field(default_factory=_curriculum)
    seed: int = 0
    ema: float = 0.998
    clip: float = 1.0
    weight_decay: float = 0.01
    temperature: float = 0.9
    validate_every: int = 100
    context_blocks: tuple[int, ...] = ()
    tied: bool = False
    components: int = 0

    @property
    def total_steps(self) -> int:
        """Steps of all stages."""
        return sum(stage.steps for stage in self.stages)

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
        >>> recipe = RecipeConfig()
        >>> recipe.stage_at(0)[0].name, recipe.stage_at(450)[0].name
        ('easy', 'narrow')
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
        """Build from plain containers; absent keys keep their defaults, unknown keys are an error.

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
            if "model" in plain:
                plain["model"] = ModelConfig(**plain["model"])
            plain["context_blocks"] = tuple(plain.get("context_blocks", ()))
            if "stages" in plain:
                plain["stages"] = tuple(
                    Stage(**{**stage, "mix": Mix(**stage["mix"]), "rows": tuple(stage.get("rows", (128, 256)))})
                    for stage in plain["stages"]
                )
            return cls(**plain)
        except (TypeError, KeyError, ValueError) as error:
            raise PretrainError(f"This is no recipe: {error}.") from error

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
        except (OSError, ValueError) as error:
            raise PretrainError(f"{path} cannot be read as a recipe in JSON ({error}).") from error
        return cls.from_dict(plain)
