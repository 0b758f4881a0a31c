"""A case: labelled rows as one support. What every presentation of them shares is made once, when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from scff.backbones.base import Backbone, IntArray, RowView, TokenView, Views
from scff.fold.caches import CacheMode
from scff.fold.encode import FoldOptions
from scff.fold.methods import EngineName, Method, Runtime
from scff.gate.record import TailRule
from scff.plan.compile import compile_plan
from scff.plan.plan import FoldPlan, Routing
from scff.tables.table import Table

__all__ = ["Case", "Settings"]


@dataclass(frozen=True)
class Settings:
    """How a support is folded; decided once, by the user.

    Attributes
    ----------
    leaf_width : int
    fdr : float
    routing : {"anova", "linear", "random"}
    rule : TailRule or None
        What lets the Tail in; None leaves it out.
    n_views : int
        The backbone's own views to fold and average.
    random_state : int
    cache : bool or "disk"
    limit : int, optional
        Budget of added bytes.
    engine : {"local", "ray"}
    options : FoldOptions
    """

    leaf_width: int = 128
    fdr: float = 0.05
    routing: Routing = "anova"
    rule: TailRule | None = field(default_factory=TailRule)
    n_views: int = 1
    random_state: int = 0
    cache: CacheMode = True
    limit: int | None = None
    engine: EngineName = "local"
    options: FoldOptions = field(default_factory=FoldOptions)


@dataclass(frozen=True, eq=False)
class Case:
    """Labelled rows, the backbone that reads them, and how.

    Attributes
    ----------
    backbone : Backbone
    support : Table
    y : ndarray
        Class codes ``0 .. k-1``, all of them present; numbers for a regressor.
    settings : Settings
    """

    backbone: Backbone
    support: Table
    y: Any
    settings: Settings

    @cached_property
    def views(self) -> Views:
        """The backbone's views of all columns."""
        return self.views_of(self.support)

    @cached_property
    def plan(self) -> FoldPlan:
        """The paper's plan of the columns that the backbone's first view keeps."""
        return compile_plan(
            self.support,
            self.y,
            self.leaf_width,
            self.settings.fdr,
            self.settings.routing,
            columns=self.views.view(0).columns,
            random_state=self.settings.random_state,
        )

    @property
    def leaf_width(self) -> int:
        """Most columns in a leaf: the user's wish within the backbone's limit."""
        return min(self.settings.leaf_width, self.backbone.spec.limits.leaf_width or self.settings.leaf_width)

    def views_of(self, table: Table) -> Views:
        """The backbone's views of these rows of a table."""
        settings = self.settings
        return self.backbone.views(
            table,
            self.y,
            n_estimators=settings.n_views,
            cache=bool(settings.cache),
            random_state=settings.random_state,
        )

    def runtime(self, view: RowView | TokenView, plan: FoldPlan | None, method: Method) -> Runtime:
        """What a method runs in."""
        settings = self.settings
        return Runtime.of(
            view,
            plan,
            self.support.n_rows,
            method,
            settings.options,
            cache=settings.cache,
            limit=settings.limit,
            engine=settings.engine,
        )

    def with_plan(self, plan: FoldPlan) -> Case:
        """The same with a plan that was compiled earlier."""
        case = replace(self)
        case.__dict__["plan"] = plan
        return case

    def part(self, rows: IntArray, y: IntArray) -> Case:
        """Some of the labelled rows as a case of their own, in this process and without lasting caches."""
        settings = replace(self.settings, n_views=1, engine="local", options=replace(self.settings.options, progress=False))
        return Case(self.backbone, self.support.take(rows), np.asarray(y), settings)
