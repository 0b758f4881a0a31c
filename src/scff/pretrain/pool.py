"""A pool of causal tables from ``tabicl.prior``, drawn once to disk and read with augmentation.

A ``mix_scm`` table of 256 rows costs a tenth of a second of CPU, more than a training step should wait for.
Drawn once, a table serves many times: other rows become the support, columns are permuted and reflected,
classes renamed, and columns of noise join in.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scff.errors import MissingDependency, PretrainError
from scff.pretrain import network
from scff.pretrain.draws import Draw
from scff.pretrain.table_batch import MAX_CLASSES

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PoolConfig:
    """What a pool holds.

    Parameters
    ----------
    seed : int
        File ``i`` depends on ``(seed, i)`` alone, so a pool can be continued or drawn by several processes.
    n_files : int
        Number of files.
    tables_per_file : int
        Tables in each file.
    n_rows : int
        Rows of every table.
    max_columns : int
        Most columns of a table.
    prior : str
        Kind of prior, as ``tabicl.prior.PriorDataset`` names it.
    """

    seed: int = 0
    n_files: int = 400
    tables_per_file: int = 16
    n_rows: int = 256
    max_columns: int = 64
    prior: str = "mix_scm"


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global generators, which ``tabicl.prior`` draws from, and put them back afterwards."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])


def _draw_file(config: PoolConfig, index: int) -> dict[str, Tensor]:
    """Draw the tables of one file."""
    try:
        from tabicl.prior import PriorDataset
    except ImportError as error:
        raise MissingDependency("tabicl.prior needs xgboost: pip install 'scff[pretrain]'.") from error

    with _seeded(config.seed * 1_000_003 + index):
        # Half of the files are binary: so are most wide tables.
        max_classes = random.choices((2, 4, MAX_CLASSES), (0.45, 0.2, 0.35))[0]
        max_columns = random.choice((12, max(12, config.max_columns // 2), max(12, config.max_columns)))
        prior: Any = PriorDataset(
            batch_size=config.tables_per_file,
            batch_size_per_gp=2,
            min_features=2,
            max_features=max_columns,
            max_classes=max_classes,
            max_seq_len=config.n_rows,
            min_train_size=0.4,
            max_train_size=0.8,
            prior_type=config.prior,
            n_jobs=1,
        )
        x, y, d, _, _ = prior.get_batch()
    if x.is_nested:
        x = x.to_padded_tensor(0.0)
    x = torch.nan_to_num(x, 0.0, 30.0, -30.0).clamp(-30.0, 30.0)
    # float16 halves the disk; the prior standardises, so three digits are plenty.
    return {"x": x.half(), "y": y.to(torch.uint8), "d": d.to(torch.int16)}


def draw_pool(config: PoolConfig, folder: Path, part: int = 0, parts: int = 1) -> None:
    """Draw the missing files of a pool.

    Parameters
    ----------
    config : PoolConfig
        What to draw.
    folder : Path
        Where; created when absent.
    part, parts : int
        This process draws files ``part, part + parts, ...``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pool.json").write_text(json.dumps(asdict(config), indent=2) + "\n")
    for index in range(part, config.n_files, parts):
        path = folder / f"{index:06d}.pt"
        if path.exists():
            continue
        network.write(path, _draw_file(config, index))
        logger.debug("pool file %d of %d", index + 1, config.n_files)


class Pool:
    """A finished pool, opened for training.

    Parameters
    ----------
    folder : Path
        Folder that :func:`draw_pool` filled.
    """

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("[0-9]*.pt"))
        if not self.files:
            raise PretrainError(f"There are no pool files in {folder}; draw them with `scff pretrain pool {folder}`.")

    @property
    def digest(self) -> str:
        """Hash of names and sizes: a resumed run must find the pool it began with."""
        text = "\n".join(f"{p.name} {p.stat().st_size}" for p in self.files)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def describe(self) -> dict[str, Any]:
        """Return what the training card says about the pool."""
        recorded = self.files[0].parent / "pool.json"
        config = json.loads(recorded.read_text()) if recorded.exists() else {}
        return {**config, "files_read": len(self.files), "digest": self.digest}

    def sample(
        self, shared: Draw, own: Draw, max_cells: int, max_columns: int, rank: int = 0, world: int = 1
    ) -> tuple[Tensor, Tensor]:
        """Take some tables of one file and augment them.

        Parameters
        ----------
        shared, own : Draw
            The file and the shape come from the first, which all processes share; the augmentations from the
            second.
        max_cells : int
            Take at most as many tables as keep ``B T (D + 4)`` below this, and at least one.
        max_columns : int
            Wider tables lose columns at random; noise columns never make a table wider than this.
        rank, world : int
            Processes divide the tables of a file among themselves.

        Returns
        -------
        x_BTD, y_BT : Tensor
            Raw values and labels; any prefix of the rows can be the support.
        """
        stored = torch.load(self.files[shared.integer(0, len(self.files) - 1)], weights_only=True)
        x, y, d = stored["x"], stored["y"].long().clamp_max(MAX_CLASSES - 1), stored["d"].long()
        n_rows = x.shape[1]
        # Neighbours in width, so that little of a batch is filling.
        order = d.argsort(stable=True)
        start = shared.integer(0, len(order) - 1)
        width = min(max_columns, int(d[order[start]]))
        if bool(shared.flag(0.3, 1)):
            width = min(max_columns, shared.integer(width, 2 * width))
        n_tables = max(1, max_cells // (n_rows * (width + 4)))
        # Narrower tables are filled up to the width; each process takes every world-th.
        chosen = order[: start + 1].flip(0)[rank % (start + 1) :: world][:n_tables]
        rows = torch.randperm(n_rows, generator=own.generator)
        tables = [augment(own, x[i, rows, : int(d[i])].float(), width) for i in chosen.tolist()]
        return torch.stack(tables), y[chosen][:, rows]


def augment(draw: Draw, x_TD: Tensor, width: int) -> Tensor:
    """Reflect and permute the columns of a table, and fill up to a width with noise.

    Parameters
    ----------
    draw : Draw
        Source of randomness.
    x_TD : Tensor
        The table.
    width : int
        Number of columns to return.

    Returns
    -------
    Tensor
        Table of ``width`` columns. Half of the noise columns are white; the rest are the table's own columns
        with their rows shuffled, which keeps their marginals.
    """
    n_rows, n_columns = x_TD.shape
    if n_columns > width:
        x_TD = x_TD[:, torch.randperm(n_columns, generator=draw.generator)[:width]]
        n_columns = width
    sign = 1.0 - 2.0 * draw.flag(0.5, n_columns).float()
    x_TD = x_TD * sign
    extra = width - n_columns
    if extra > 0:
        copies = x_TD[:, torch.randint(0, n_columns, (extra,), generator=draw.generator)]
        copies = copies[torch.randperm(n_rows, generator=draw.generator)]
        white = draw.flag(0.5, extra)
        x_TD = torch.cat([x_TD, torch.where(white, draw.normal(n_rows, extra), copies)], 1)
    return x_TD[:, torch.randperm(width, generator=draw.generator)]
