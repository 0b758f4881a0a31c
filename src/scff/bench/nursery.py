"""What the fork server does once for every arm that is forked from it: lazy imports, and the digest of the weights.

Importing this module is the work. The weights themselves are loaded by each arm's process as ever, before its meter
starts, so that what the meter sees is the same; the server computes nothing and starts no thread, so it can be forked.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pandas as pd

import scff.backbones.tabicl.files
import scff.backbones.tabpfn.v1  # noqa: F401
from scff.backbones.registry import locate
from scff.errors import SCFFError
from scff.tables.table import as_table

__all__ = ["BACKBONE"]

#: Environment variable that tells the server which backbone is run.
BACKBONE = "SCFF_BENCH_BACKBONE"


def _prepare(backbone: str | None) -> None:
    as_table(pd.DataFrame({"a": [0.0, 1.0]})).numeric()  # imports what reading a frame needs
    if backbone:
        with suppress(SCFFError):  # an arm's process finds the same, and has somewhere to say it
            locate(backbone)  # takes the file's digest, and it is remembered


_prepare(os.environ.get(BACKBONE))
