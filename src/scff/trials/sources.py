"""Sources: what a few columns with company have in common.

Where most columns go with no other (:mod:`scff.trials.structure`), those that do are measurements of a few things that
cannot be seen themselves. Principal components of these columns alone, as many as tell more than a single column does
(Kaiser's rule), come close to them: twenty columns become five, and the noise of hundreds has no part in it. A model
reads them as a narrow table, and nearness among them is an answer by itself.

No label takes part in finding columns with company or their components.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scff.backbones.base import IntArray
from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.narrow import Summary, narrow
from scff.trials.presentations import Shown
from scff.trials.scales import EqualScale
from scff.trials.summaries import Components, Scores, calibrated
from scff.trials.whole import Kernel, Products, Whole

__all__ = ["NearSources", "Sources", "has_sources"]

FloatArray = npt.NDArray[np.float64]

#: Most sources that are looked for.
_MOST = 30

#: What is near, in median distances: in a few directions rows lie far apart, and a class may be many small heaps.
_RADII = (1.0, 0.25)


def has_sources(case: Case) -> bool:
    """Whether some columns have no company and those that have fit into one leaf."""
    n = len(_columns(case))
    return 0 < n <= min(case.leaf_width, case.support.n_columns - 1)


@dataclass(frozen=True)
class Sources:
    """Components of the columns with company, in one leaf of their own."""

    name: str = "sources"
    shares: tuple[float, ...] = (1.0,)
    prior: float = 1.0

    def show(self, case: Case) -> Shown | None:
        """A table of them."""
        return narrow(case, np.empty(0, dtype=np.int64), (_sources(case),))

    def columns(self, case: Case) -> IntArray:
        """Which columns they are made of."""
        return _columns(case)

    def words(self, case: Case) -> str:
        """What is read."""
        n = _sources(case).support_Sk.shape[1]
        return f"{n} summary column{'s' * (n != 1)} of the {len(_columns(case))} that go with another column"


@dataclass(frozen=True)
class NearSources:
    """Nearness among the sources taken as the answer itself: no pass of the model."""

    name: str = "near-sources"
    prior: float = 1.0

    def answer(self, case: Case) -> tuple[FloatArray | None, Callable[[Table], FloatArray]]:
        """Probabilities (or numbers) of the held-back rows, and of any others."""
        found, y = _sources(case), case.y[case.landmarks]
        # Each source counts the same, whatever the number of columns that measure it.
        width_k = np.maximum(found.support_Sk.std(axis=0), 1e-300)
        unit_Sk = found.support_Sk / width_k
        kernels = [Kernel(_met(unit_Sk, unit_Sk), True, radius) for radius in _RADII]
        scores = min((Scores.fit(kernel, y) for kernel in kernels), key=lambda one: one.error)
        calibration = calibrated(scores.support_SC, y)

        def say(sources_Tk: FloatArray) -> FloatArray:
            return calibration(scores(_met(sources_Tk / width_k, unit_Sk)))

        held = None if found.held_back is None else say(found.held_back)
        return held, lambda rows: say(found.of(rows))

    def columns(self, case: Case) -> IntArray:
        """Which columns they are made of."""
        return _columns(case)

    def words(self, case: Case) -> str:
        """What is read."""
        return f"no model: nearness over what the {len(_columns(case))} columns that go with another have in common"


def _columns(case: Case) -> IntArray:
    """Columns with company, in original order."""
    return np.flatnonzero(case.structured)


def _met(a_Tk: FloatArray, b_Sk: FloatArray) -> Products:
    return Products(a_Tk @ b_Sk.T, np.einsum("ij,ij->i", a_Tk, a_Tk))


def _sources(case: Case) -> Summary:
    """Of a case's rows; components of its own landmarks, at the scale of all of them."""
    found: Summary = case.of_rows("sources", lambda: _find(case))
    return found


def _find(case: Case) -> Summary:
    root = case if case.origin is None else case.origin[0]
    columns = _columns(case)

    def common() -> Whole:
        return Whole.of(root.numbers.take(root.landmarks).columns(columns), EqualScale)

    whole: Whole = root.of_rows("common", common)
    if case.origin is None:
        products, held, own = whole.products, None, np.arange(len(root.landmarks))
    else:
        own, new = (np.searchsorted(root.landmarks, rows) for rows in case.origin[1:])
        products, held = whole.products.of(own, own), whole.products.of(new, own)
    kernel = Kernel(products, False)
    # Every column has a variance of one: what tells more than one of them is above it.
    n_above = int((kernel.directions[0] / len(own) > 1).sum())
    components = Components.fit(kernel, min(max(n_above, 1), _MOST))

    def of(rows: Table) -> FloatArray:
        met = whole.meet(case.codes.transform(rows).columns(columns))
        return components(met.of(np.arange(rows.n_rows), own))

    return Summary(components.support_Sk, None if held is None else components(held), of)
