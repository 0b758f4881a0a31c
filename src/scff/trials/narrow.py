"""Presentations that make a narrow table of a wide one: strong columns, and summaries of all of them.

A narrow table is one leaf, read by the backbone's own inference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.backbones.base import IntArray
from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.presentations import Shown
from scff.trials.scales import EqualScale, ShareScale
from scff.trials.summaries import Components, Scores, calibrated
from scff.trials.whole import Products

__all__ = ["Company", "Digest", "Direct", "Frequencies", "Summarised", "Summary", "narrow"]

FloatArray = npt.NDArray[np.float64]

_SCALES: dict[str, Any] = {"equal": EqualScale, "shares": ShareScale}
_KERNELS = (("equal", False), ("shares", False), ("equal", True), ("shares", True))


@dataclass(frozen=True, eq=False)
class Summary:
    """Columns that sum up many.

    Attributes
    ----------
    support_Sk : ndarray
        Of a case's landmarks.
    held_back : ndarray or None
        Of its held-back rows.
    of : callable
        Of any other rows.
    """

    support_Sk: FloatArray
    held_back: FloatArray | None
    of: Callable[[Table], FloatArray]

    @classmethod
    def at(cls, case: Case, scale: str, support_Sk: FloatArray, made: Callable[[Products], FloatArray]) -> Summary:
        """Made of products over all columns at a scale."""
        held = case.products(_SCALES[scale])[1]
        return cls(
            support_Sk,
            None if held is None else made(held),
            lambda rows: made(case.meet(rows, _SCALES[scale])),
        )


@dataclass(frozen=True)
class Company:
    """The strongest columns among those that go with another one, in one leaf.

    Attributes
    ----------
    share : float
        Of the leaf that is filled.
    """

    share: float = 1.0
    name: str = "company"
    shares: tuple[float, ...] = (1.0,)
    prior: float = 1.0

    def show(self, case: Case) -> Shown | None:
        """A table of these columns."""
        return narrow(case, self.columns(case))

    def columns(self, case: Case) -> IntArray:
        """Which columns these are, in original order."""
        return _in_company(case, round(self.share * case.leaf_width))

    def words(self, case: Case) -> str:
        """What is read."""
        which = "" if case.structured.all() else " that go with another column"  # all of them, or hardly any, do
        return f"the {len(self.columns(case))} strongest columns{which}"


@dataclass(frozen=True)
class Summarised:
    """Principal components of all columns in one leaf, the strongest columns of the Core beside them.

    Attributes
    ----------
    components : int
        How many components, at most.
    strongest : bool
        Whether the rest of the leaf is filled with the strongest columns of the Core.
    """

    components: int
    strongest: bool
    shares: tuple[float, ...] = (1.0,)
    prior: float = 1.0

    @property
    def name(self) -> str:
        """Such as ``"core+30"``."""
        return f"{'core+' if self.strongest else 'all'}{self.components}"

    def show(self, case: Case) -> Shown | None:
        """A table of components and columns."""
        most = min(self.components, case.leaf_width)
        found = Components.fit(case.kernel(EqualScale, False), most)
        room = case.leaf_width - found.support_Sk.shape[1] if self.strongest else 0
        return narrow(case, np.sort(case.plan.core[:room]), (Summary.at(case, "equal", found.support_Sk, found),))

    def words(self, case: Case) -> str:
        """What is read."""
        said = f"{self.components} summary columns of all {case.support.n_columns:,}"
        return f"the strongest columns and {said}" if self.strongest else said


@dataclass(frozen=True)
class Digest:
    """A bit of everything: scores and components of the whole table at two scales, and the strongest columns."""

    name: str = "digest"
    shares: tuple[float, ...] = (1.0,)
    prior: float = 1.0

    def show(self, case: Case) -> Shown | None:
        """A table of all of them, each with its share of the leaf."""
        width = case.leaf_width
        summaries: list[Summary] = []
        for scale, radial in _KERNELS[: int(0.4 * width) // case.n_scores]:
            scores = Scores.fit(case.kernel(_SCALES[scale], radial), case.y[case.landmarks])
            summaries.append(Summary.at(case, scale, scores.support_SC, scores))
        for scale, fitted in _SCALES.items():
            found = Components.fit(case.kernel(fitted, False), max(1, round(0.15 * width)))
            summaries.append(Summary.at(case, scale, found.support_Sk, found))
        room = min(round(0.3 * width), width - sum(one.support_Sk.shape[1] for one in summaries))
        return narrow(case, _in_company(case, room), tuple(summaries))

    def words(self, case: Case) -> str:
        """What is read."""
        return f"summary columns and scores of all {case.support.n_columns:,}, and the strongest columns"


@dataclass(frozen=True)
class Direct:
    """A score of the whole table taken as the answer itself: no pass of the model.

    Attributes
    ----------
    scale : {"equal", "shares"}
    radial : bool
        Whether nearness counts instead of the product.
    """

    scale: str
    radial: bool
    prior: float = 1.0

    @property
    def name(self) -> str:
        """Such as ``"near-equal"``."""
        return f"{'near' if self.radial else 'linear'}-{self.scale}"

    def answer(self, case: Case) -> tuple[FloatArray | None, Callable[[Table], FloatArray]]:
        """Probabilities (or numbers) of the held-back rows, and of any others."""
        y = case.y[case.landmarks]
        scores = Scores.fit(case.kernel(_SCALES[self.scale], self.radial), y)
        calibration = calibrated(scores.support_SC, y)
        held = case.products(_SCALES[self.scale])[1]

        def answer(rows: Table) -> FloatArray:
            return calibration(scores(case.meet(rows, _SCALES[self.scale])))

        return None if held is None else calibration(scores(held)), answer

    def words(self, case: Case) -> str:
        """What is read."""
        how = "nearness over" if self.radial else "a weighted sum of"
        kind = "each column counting the same" if self.scale == "equal" else "columns counting by how much they vary"
        return f"no model: {how} all {case.support.n_columns:,} columns, {kind}"


@dataclass(frozen=True)
class Frequencies:
    """The class frequencies of the labelled rows, or the mean of their numbers: what is known without looking."""

    name: str = "frequencies"
    prior: float = 0.25

    def answer(self, case: Case) -> tuple[FloatArray | None, Callable[[Table], FloatArray]]:
        """The same for every row."""
        share_K = np.bincount(case.y) / len(case.y) if case.classified else case.y.mean(keepdims=True)
        held = None if case.held_back is None else np.tile(share_K, (case.held_back.n_rows, 1))
        return held, lambda rows: np.tile(share_K, (rows.n_rows, 1))

    def words(self, case: Case) -> str:
        """What is read."""
        return "nothing: how frequent the classes are" if case.classified else "nothing: the mean of the labelled rows"


def _in_company(case: Case, most: int) -> IntArray:
    """The strongest columns among those that go with another one, in original order."""
    ranked = case.ranked
    found = ranked[case.structured[ranked]][:most]
    return np.sort(found if len(found) else ranked[:most])


def narrow(case: Case, columns: IntArray, summaries: tuple[Summary, ...] = ()) -> Shown | None:
    """A table of some columns and of summaries of many, for support, held-back and query rows."""
    if len(columns) + sum(one.support_Sk.shape[1] for one in summaries) == 0:
        return None

    def table(rows: Table, parts: list[FloatArray] | None = None) -> Table:
        numbers = case.codes.transform(rows)
        if parts is None:
            parts = [one.of(rows) for one in summaries]
        return Table(np.hstack([numbers.columns(columns), *parts]).astype(np.float32))

    held_back = None
    if case.held_back is not None:
        held_back = table(case.held_back, [one.held_back for one in summaries if one.held_back is not None])
    parts = [one.support_Sk for one in summaries]
    if len(case.landmarks) < case.support.n_rows:  # the other labelled rows are to the landmarks what new rows are
        for i, one in enumerate(summaries):
            parts[i] = one.of(case.support)
            parts[i][case.landmarks] = one.support_Sk
    return Shown(case.views_of(table(case.support, parts)), "native", None, None, held_back, table, narrow=True)
