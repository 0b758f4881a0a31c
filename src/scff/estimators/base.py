"""What the estimators share: reading tables, views and plans, and what a saved model leaves behind."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from scff.backbones.base import Backbone, RowView, TokenView, Views
from scff.errors import DataError
from scff.fold.budget import Method
from scff.fold.caches import CacheMode
from scff.fold.encode import FoldOptions
from scff.memory.budget import parse_bytes
from scff.memory.device import resolve_device
from scff.plan.compile import compile_plan
from scff.plan.plan import FoldPlan, Routing
from scff.tables.on_disk import open_wide
from scff.tables.table import Table, as_table, encode_target

__all__ = ["FoldedEstimator", "encode_labels"]


class FoldedEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of `FoldedClassifier` and `FoldedRegressor`."""

    method: Method
    leaf_width: int
    fdr: float
    memory_limit: int | str | None
    n_estimators: int
    device: str
    cache: CacheMode
    random_state: int
    verbose: int
    leaf_batch: int | Literal["auto"]
    query_chunk: int | Literal["auto"]
    _support: Table

    def _validate(self, X: Any, *, reset: bool) -> Table:
        if reset:
            self.__dict__.pop("_runtime", None)
        try:
            if isinstance(X, os.PathLike):
                X = open_wide(X)
            if isinstance(X, Table):
                table = X
                # scikit-learn checks and remembers names and width; it need not see the rows.
                width = np.empty((0, X.n_columns), dtype=np.float32)
                heads = width if X.names is None else pd.DataFrame(width, columns=list(X.names))
                validate_data(self, heads, reset=reset, skip_check_array=True)
            elif hasattr(X, "columns") and hasattr(X, "dtypes"):
                table = as_table(X)
                validate_data(self, X, reset=reset, skip_check_array=True)
            else:
                # `as_table` looks for infinity itself: no need to go over the table twice.
                values = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False)
                table = as_table(values)
        except DataError:
            raise
        except ValueError as error:
            raise DataError(str(error)) from error
        if table.n_rows == 0:
            raise DataError("The table has no rows; 0 sample(s) cannot be used.")
        if not reset:
            table = table.like(self._support)
        if not reset and table.is_numeric != self._support.is_numeric:
            raise DataError(
                "This model was fitted on a DataFrame with text or categories; pass the same columns again."
            )
        return table

    def _views(self, backbone: Backbone, target: npt.NDArray[Any]) -> Views[RowView | TokenView]:
        """The backbone's views of the support."""
        return backbone.views(
            self._support,
            target,
            n_estimators=self.n_estimators,
            cache=bool(self.cache),
            random_state=self.random_state,
        )

    def _fold_plan(
        self, backbone: Backbone, view: RowView | TokenView, target: npt.NDArray[Any], routing: Routing
    ) -> FoldPlan | None:
        """How the columns that a view keeps are folded; None for native inference."""
        if self.method == "native":
            return None
        return compile_plan(
            self._support,
            target,
            min(self.leaf_width, backbone.spec.limits.leaf_width or self.leaf_width),
            self.fdr,
            routing,
            columns=view.columns,
            random_state=self.random_state,
        )

    def _fold_options(self, device: torch.device, *, encode_unused_tail: bool = False) -> FoldOptions:
        return FoldOptions.on(
            device,
            leaf_batch=self.leaf_batch,
            query_chunk=self.query_chunk,
            encode_unused_tail=encode_unused_tail,
            progress=self.verbose > 0,
        )

    def _byte_limit(self) -> int | None:
        return None if self.memory_limit is None else parse_bytes(self.memory_limit)

    def _device(self) -> torch.device:
        return resolve_device(self.device)

    def __getstate__(self) -> dict[str, Any]:
        # Neither weights nor caches: the first are referenced by digest, the second are rebuilt on first use.
        state = dict(super().__getstate__())
        state.pop("_runtime", None)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def encode_labels(y: Any, support: Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Class codes of the support rows, and the classes; refuses what is no target of a classifier."""
    if y is None:
        raise DataError("A classifier requires y to be passed, but the target y is None.")
    try:
        y = column_or_1d(y, warn=True)
    except ValueError as error:
        raise DataError(str(error)) from error
    if len(y) != support.n_rows:
        raise DataError(f"X has {support.n_rows} rows but y has {len(y)}; give one label per row.")
    codes, classes = encode_target(y)
    check_classification_targets(y)
    if len(classes) < 2:
        raise DataError(f"The target has one class ({classes[0]!r}); a classifier needs rows of at least two.")
    return codes, classes
