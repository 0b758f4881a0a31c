"""A case: labelled rows as one support. What every presentation of them shares is made once, when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.backbones.arithmetic import Arithmetic
from scff.backbones.base import Backbone, IntArray, RowView, TokenView, Views
from scff.backbones.shared.categories import OrdinalCodes
from scff.fold.methods import Method, Runtime
from scff.plan.compile import compile_plan
from scff.plan.plan import FoldPlan
from scff.tables.table import Table
from scff.trials.folds import are_codes, parts_wanted, spread
from scff.trials.remembered import COMPANY, SCALES, Arrays, arrays_of, of_scale, whole_from
from scff.trials.scales import EqualScale, ShareScale
from scff.trials.settings import Settings
from scff.trials.structure import structured_columns
from scff.trials.whole import Kernel, Products, Whole

__all__ = ["LANDMARKS", "Case"]

#: Most labelled rows that all others are compared with; what is asked of held-back rows is asked of these.
LANDMARKS = 1024

#: A model that does not say what a pass costs is taken for a large one.
_UNKNOWN = Arithmetic(2e6, 2e7)


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
    held_back : Table or None
        Labelled rows whose labels this case does not see.
    origin : tuple or None
        The case it is a part of, and which rows are fitted and held back.
    beside : Backbone or None
        A second model, which may read narrow tables too.
    """

    backbone: Backbone
    support: Table
    y: Any
    settings: Settings
    held_back: Table | None = None
    origin: tuple[Case, IntArray, IntArray] | None = None
    beside: Backbone | None = None
    _unlabelled: dict[Any, Any] = field(default_factory=dict, repr=False)
    _labelled: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def classified(self) -> bool:
        """Whether the target is classes."""
        return are_codes(self.y)

    @property
    def n_scores(self) -> int:
        """Scores that tell the target: one for numbers and for two classes, else one for each class."""
        n_classes = int(self.y.max()) + 1 if self.classified else 1
        return n_classes if n_classes > 2 else 1

    @property
    def leaf_width(self) -> int:
        """Most columns in a leaf: the user's wish within the backbone's limit."""
        return min(self.settings.leaf_width, self.backbone.spec.limits.leaf_width or self.settings.leaf_width)

    @property
    def arithmetic(self) -> Arithmetic:
        """What a pass of the backbone costs."""
        found: Arithmetic = getattr(self.backbone, "arithmetic", _UNKNOWN)
        return found

    @property
    def cost_of_a_pass(self) -> float:
        """Multiplications of one pass over all rows and a leaf of columns."""
        return self.arithmetic(self.support.n_rows, min(self.leaf_width, self.support.n_columns))

    @property
    def summary_bytes(self) -> int:
        """What summaries of the whole table hold at most while held-back rows are asked: more than at any other time.

        Products at two scales, and the directions of four kernels for each part.
        """
        n = len(self.landmarks)
        parts = parts_wanted(n)
        return int(8 * n * n * (2 + 4 * parts * (1 - 1 / parts) ** 2))

    @property
    def query_bytes(self) -> int:
        """What summing up a query row takes: products and similarities with the landmarks, and what the trees read."""
        return 8 * 6 * len(self.landmarks) + 48 * min(self.support.n_columns, 4096)

    @property
    def room(self) -> int | None:
        """What a pass of the model may take of the user's memory limit, beside the summaries that are there."""
        limit, root = self.settings.limit, self if self.origin is None else self.origin[0]
        if limit is None or not any(scale in root._unlabelled for scale in SCALES.values()):
            return limit
        return max(1, limit - root.summary_bytes)

    @property
    def side_by_side(self) -> int:
        """Passes of the model at a time; one where memory is limited, for each holds what a pass takes."""
        able = self.settings.limit is None and getattr(self.first_view, "thread_safe", False)
        return self.settings.options.workers if able else 1

    @cached_property
    def views(self) -> Views[Any]:
        """The backbone's views of all columns."""
        return self.views_of(self.support)

    @cached_property
    def first_view(self) -> RowView | TokenView:
        """The backbone's plain view of all columns."""
        view: RowView | TokenView = self.views.view(0)
        return view

    @cached_property
    def plan(self) -> FoldPlan:
        """The paper's plan of the columns that the backbone keeps."""
        return compile_plan(
            self.support,
            self.y,
            self.leaf_width,
            self.settings.fdr,
            self.settings.routing,
            columns=self.first_view.columns,
            random_state=self.settings.random_state,
        )

    @cached_property
    def codes(self) -> OrdinalCodes:
        """How text and categories become numbers: by all labelled rows, for no label takes part."""
        return OrdinalCodes.fit(self.support) if self.origin is None else self.origin[0].codes

    @cached_property
    def numbers(self) -> Table:
        """The support as numbers."""
        return self.codes.transform(self.support)

    @property
    def landmarks(self) -> IntArray:
        """Labelled rows that sum up the whole table: all of them, or a spread of a thousand where there are more."""
        if self.origin is not None:
            return np.arange(self.support.n_rows)
        found: IntArray = self.of_rows("landmarks", lambda: spread(self.y, LANDMARKS))
        return found

    @property
    def structured(self) -> npt.NDArray[np.bool_]:
        """Columns that go with another one by more than chance; of all labelled rows, for no label takes part."""
        if self.origin is not None:
            return self.origin[0].structured
        found: npt.NDArray[np.bool_] = self.of_rows("structured", lambda: structured_columns(self._landmark_rows()))
        return found

    def recall(self, arrays: Arrays) -> None:
        """Take over what an earlier case of the same rows `remembered`."""
        if COMPANY in arrays:
            self._unlabelled["structured"] = arrays[COMPANY]
        self._unlabelled["recalled"] = arrays

    def remembered(self) -> dict[str, npt.NDArray[Any]]:
        """What has been found out about the rows without a label, as arrays by name."""
        found = dict(self._unlabelled.get("recalled", {}))
        if "structured" in self._unlabelled:
            found[COMPANY] = self._unlabelled["structured"]
        for name, scale in SCALES.items():
            if scale in self._unlabelled:
                found |= arrays_of(name, self._unlabelled[scale])
        return found

    @cached_property
    def ranked(self) -> IntArray:
        """All columns of the plan, strongest first."""
        return np.concatenate([self.plan.core, self.plan.tail])

    def whole(self, scale: type[EqualScale] | type[ShareScale]) -> Whole:
        """All columns at once, at a scale that knows no label."""
        if self.origin is not None:
            return self.origin[0].whole(scale)
        found: Whole = self.of_rows(scale, lambda: self._whole(scale))
        return found

    def _whole(self, scale: type[EqualScale] | type[ShareScale]) -> Whole:
        name = next(name for name, known in SCALES.items() if known is scale)
        arrays = of_scale(name, self._unlabelled.get("recalled", {}))
        return whole_from(self._landmark_rows(), scale, arrays) if arrays else Whole.of(self._landmark_rows(), scale)

    def products(self, scale: type[EqualScale] | type[ShareScale]) -> tuple[Products, Products | None]:
        """Products of this case's landmarks with each other, and of its held-back rows with them."""
        whole = self.whole(scale)
        if self.origin is None:
            return whole.products, None
        case, fitted, new = self.origin
        fitted, new = (np.searchsorted(case.landmarks, rows) for rows in (fitted, new))
        return whole.products.of(fitted, fitted), whole.products.of(new, fitted)

    def meet(self, rows: Table, scale: type[EqualScale] | type[ShareScale]) -> Products:
        """Products of rows with the landmarks; several summaries ask for those of the same rows."""
        if self.origin is not None:
            case, fitted, _ = self.origin
            return case.meet(rows, scale).of(np.arange(rows.n_rows), np.searchsorted(case.landmarks, fitted))
        last: tuple[Table, Products] | None = self._unlabelled.get(("met", scale))
        if last is None or last[0] is not rows:
            last = rows, self.whole(scale).meet(self.codes.transform(rows).values)
            self._unlabelled["met", scale] = last
        return last[1]

    def kernel(self, scale: type[EqualScale] | type[ShareScale], radial: bool) -> Kernel:
        """A similarity of rows, made once."""
        found: Kernel = self.of_rows((scale, radial), lambda: Kernel(self.products(scale)[0], radial))
        return found

    def forget(self) -> None:
        """Let go of all that was made of the rows; it is made again where it is asked for."""
        self._labelled.clear()
        self._unlabelled.clear()

    def read_by(self, backbone: Backbone, beside: Backbone | None = None) -> Case:
        """The same rows for another backbone; what knows no model is made once for both."""
        return replace(self, backbone=backbone, beside=beside)

    @cached_property
    def lent(self) -> Case:
        """The same rows for the model beside the backbone, which reads them through one view."""
        assert self.beside is not None, "nothing is lent where there is no second model"
        return self.read_by(self.beside).seen_through(1)

    def seen_through(self, n_views: int) -> Case:
        """The same rows, read through that many of the backbone's views."""
        if n_views == self.settings.n_views:
            return self
        return replace(self, settings=replace(self.settings, n_views=n_views))

    def relabelled(self, y: IntArray) -> Case:
        """The same rows with other labels; what knows no label is made once for both."""
        return replace(self, y=y, _labelled={})

    def of_labels(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is made of rows and labels without a model, once for all backbones."""
        if key not in self._labelled:
            self._labelled[key] = make()
        return self._labelled[key]

    def of_rows(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is made of rows without a label, once."""
        if key not in self._unlabelled:
            self._unlabelled[key] = make()
        return self._unlabelled[key]

    def _landmark_rows(self) -> Any:
        everything = len(self.landmarks) == self.support.n_rows
        return self.numbers.values if everything else np.asarray(self.numbers.take(self.landmarks).values)

    def views_of(self, table: Table) -> Views[Any]:
        """The backbone's views of a table of the same rows."""
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
            limit=self.room,
            engine=settings.engine if plan is not None else "local",  # one leaf cannot be spread
        )

    def part(self, fitted: IntArray, new: IntArray) -> Case:
        """Some of the labelled rows as a support, others held back; in this process, with one view."""
        settings = replace(self.settings, n_views=1, engine="local", progress=False)
        y = np.unique(self.y[fitted], return_inverse=True)[1] if self.classified else self.y[fitted]
        origin = (self, fitted, new)
        return Case(self.backbone, self.support.take(fitted), y, settings, self.support.take(new), origin, self.beside)
