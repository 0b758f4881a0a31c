"""Cases for tests of single readings: leaves of 32."""

from __future__ import annotations

import numpy as np

from scff.tables.table import as_table
from scff.trials.case import Case
from scff.trials.settings import Settings


def case_of(backbone, X, y):
    """A table with its labels, as trials see it."""
    return Case(backbone, as_table(X), np.asarray(y), Settings(leaf_width=32))
