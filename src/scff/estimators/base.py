"""What the estimators share: reading tables, the settings of a fit, and the record it leaves."""

from __future__ import annotations

import os
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from scff.backbones.registry import CheckpointRef
from scff.errors import DataError, SCFFError
from scff.estimators.fitted import Fitted
from scff.fold.caches import CacheMode
from scff.fold.threads import refuse_after_fork
from scff.memory.budget import parse_bytes
from scff.plan.plan import FoldPlan
from scff.tables.keeping import keep_rows
from scff.tables.on_disk import open_wide
from scff.tables.table import Table, as_table
from scff.trials.case import Settings

__all__ = ["FoldedEstimator", "NotFitted"]


class NotFitted(SCFFError, NotFittedError):  # type: ignore[misc]
    """Something was asked of an estimator before `fit`; to Python also an attribute that is not there yet."""


class FoldedEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of `FoldedClassifier` and `FoldedRegressor`."""

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
    fitted_: Fitted

    @property
    def plan_(self) -> FoldPlan | None:
        """How the columns were folded; None where nothing was."""
        return self._record().plan

    @property
    def checkpoint_(self) -> CheckpointRef:
        """File and digest of the weights in use."""
        return self._record().checkpoint

    @property
    def backbone_(self) -> str:
        """Name of the backbone in use."""
        return self._record().checkpoint.backbone

    @property
    def seconds_(self) -> dict[str, float]:
        """Wall time of loading, planning and compiling."""
        return self._record().seconds

    @property
    def peak_bytes_(self) -> dict[str, int]:
        """Memory that loading added at its peak, and planning and compiling together."""
        return self._record().peak_bytes

    def _record(self) -> Fitted:
        return self.fitted_

    def __getattr__(self, name: str) -> Any:
        # Whoever reads the record of a fit that has not been, wherever that is, gets the same sentence.
        if name == "fitted_":
            raise NotFitted(f"This {type(self).__name__} is not fitted yet; call `fit` first.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _read_support(self, X: Any) -> tuple[Table, Self]:
        """A support table, and a copy of this estimator that has its heads: one that may fail to be fitted."""
        refuse_after_fork()
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        # Under a limit not even a copy of the rows is made.
        return keep_rows(copy._read(X, reset=True), X, copy=self.memory_limit is None), copy

    def _read_queries(self, X: Any) -> tuple[Table, Fitted]:
        """Query rows, and the record they are to be predicted with."""
        self._record()
        refuse_after_fork()
        now = object.__new__(type(self))  # as it is now: another thread may be fitting it anew
        now.__dict__.update(self.__dict__)
        support = now.fitted_.support
        table = now._read(X, reset=False).like(support)
        if table.is_numeric != support.is_numeric:
            raise DataError(
                "This model was fitted on a DataFrame with text or categories; pass the same columns again."
            )
        return table, now.fitted_

    def _read(self, X: Any, *, reset: bool) -> Table:
        try:
            if isinstance(X, os.PathLike):
                X = open_wide(X)
            elif isinstance(X, np.ma.MaskedArray):
                # What is masked is missing; NumPy would forget it.
                X = np.ma.filled(X.astype(np.float64), np.nan)
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
        return table

    def _settings(self) -> Settings:
        """What both estimators are told, in one place."""
        return Settings(
            leaf_width=self.leaf_width,
            fdr=self.fdr,
            n_views=self.n_estimators,
            random_state=self.random_state,
            cache=self.cache,
            limit=None if self.memory_limit is None else parse_bytes(self.memory_limit),
            device=self.device,
            leaf_batch=self.leaf_batch,
            query_chunk=self.query_chunk,
            progress=self.verbose > 0,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that `scff.load` reads back and that runs no code.

        The file holds the labelled rows, what was decided, and the digest of the weights, but no weights; a new file
        is its owner's alone. A pickle of the estimator does the same within a program, for joblib's workers say, but
        reading one runs whatever is in it: never read one that others made.

        Parameters
        ----------
        path : path
            The file to write; by custom it ends in ``.scff``.
        """
        from scff.models.file import save

        save(self, path)

    def _keep(self, heads: Self, fitted: Fitted) -> Self:
        """Take over the heads and the record of a fit that went well, in one step."""
        self.__dict__.update(heads.__dict__ | {"fitted_": fitted})
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
