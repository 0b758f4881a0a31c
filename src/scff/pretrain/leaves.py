"""A wide table as the model meets it: shown by the library's own presentations, on labelled rows and new ones.

What the network is trained on is then what it is given in use: the scores of a labelled row are those of the other
labelled rows, the scores of a new row those of all of them; the strongest columns are found on labelled rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.base import Backbone, IntArray, Views
from scff.backbones.spec import BackboneSpec
from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.narrow import Company, Digest
from scff.trials.settings import Settings

__all__ = ["Kind", "Leaf", "answer", "show"]

Kind = Literal["digest", "company", "core", "whole"]

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Leaf:
    """One leaf, labelled rows first.

    Attributes
    ----------
    x_TW : ndarray
        Its values, holes filled with the mean of the labelled rows, without columns that are constant on them.
    n_support : int
        Labelled rows.
    """

    x_TW: Floats
    n_support: int


@dataclass(frozen=True)
class _Seen:
    """What a view is asked for here."""

    columns: IntArray
    table: Table


def _no_weights(path: Path, device: torch.device) -> Any:
    raise NotImplementedError("there is nothing to load")


class _Onlooker:
    """A backbone that keeps what it is shown."""

    spec = BackboneSpec("onlooker", "row", "keeps what it is shown", _no_weights, None, "", "")

    def views(self, support: Table, y: Any, **_: Any) -> Views[Any]:
        """One view: the table itself."""
        return Views(1, lambda _: _Seen(np.flatnonzero(_varying(np.asarray(support.values))), support))


def show(x_TD: Floats, y_S: IntArray, width: int, kind: Kind, case: Case | None = None) -> tuple[Leaf, Case]:
    """Show a wide table in one leaf.

    Parameters
    ----------
    x_TD : ndarray
        All rows, labelled ones first.
    y_S : ndarray
        Class codes ``0 .. k-1`` of the labelled rows.
    width : int
        Most columns of the leaf.
    kind : {"digest", "company", "core", "whole"}
        The presentation: one of those that are mixed by default (of a Core that takes several leaves the first), or the
        table as it is.
    case : Case, optional
        What an earlier call made of the same rows: what the presentations share is not made again.

    Returns
    -------
    Leaf
    Case
    """
    n = len(y_S)
    if case is None:
        case = Case(cast(Any, _Onlooker()), Table(x_TD[:n]), y_S, Settings(leaf_width=width))
    else:
        case = replace(case, settings=Settings(leaf_width=width))
    if kind == "whole":
        return _leaf(x_TD, n), case
    if kind == "core":
        leaf = case.plan.core_leaves[0]
        return _leaf(x_TD[:, leaf], n), case
    shown = (Digest() if kind == "digest" else Company()).show(case)
    assert shown is not None
    parts = shown.views.view(0).table, shown.table(Table(x_TD[n:]))
    return _leaf(np.vstack([np.asarray(part.values) for part in parts]), n), case


def answer(teacher: Backbone, leaf: Leaf, y_S: IntArray) -> Floats:
    """What another backbone says of the new rows of a leaf.

    Parameters
    ----------
    teacher : Backbone
        A row backbone.
    leaf : Leaf
        What it reads.
    y_S : ndarray
        Class codes of the labelled rows.

    Returns
    -------
    ndarray
        Probabilities_QK.
    """
    n = leaf.n_support
    views = teacher.views(Table(leaf.x_TW[:n]), y_S, n_estimators=1, cache=True, random_state=0)
    view = views.view(0)
    logits = view.native(view.compile_native(view.columns), Table(leaf.x_TW[n:]))
    return teacher.combine([logits.numpy()])


def _leaf(x_TW: Floats, n_support: int) -> Leaf:
    x_TW = np.asarray(x_TW, dtype=np.float32)
    x_TW = x_TW[:, _varying(x_TW[:n_support])]
    holes = np.isnan(x_TW)
    if holes.any():
        x_TW = np.where(holes, np.nanmean(x_TW[:n_support], axis=0), x_TW)
    return Leaf(x_TW, n_support)


def _varying(x_SW: Floats) -> npt.NDArray[np.bool_]:
    """Columns with several values among those that are known."""
    low, high = np.fmin.reduce(x_SW, axis=0), np.fmax.reduce(x_SW, axis=0)
    found: npt.NDArray[np.bool_] = high > low  # a column of holes compares as False
    return found
