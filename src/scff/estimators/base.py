"""What the estimators share: reading tables, the settings of a fit, and the record it leaves."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from scff.backbones.loaded import CheckpointRef
from scff.errors import DataError, DataWarning, SCFFError, one_line
from scff.estimators.fitted import Fitted
from scff.estimators.input import Given, given_queries, given_support, is_plain
from scff.fold.caches import CacheMode
from scff.fold.threads import refuse_after_fork
from scff.memory.budget import parse_bytes
from scff.plan.plan import FoldPlan
from scff.tables.keeping import keep_rows
from scff.tables.limits import refuse_huge
from scff.tables.table import Table
from scff.trials.settings import Settings

__all__ = ["FoldedEstimator", "NotFitted"]

logger = logging.getLogger(__name__)


class NotFitted(SCFFError, NotFittedError):  # type: ignore[misc]
    """Something was asked of an estimator before `fit`; to Python also an attribute that is not there yet."""


class FoldedEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of `FoldedClassifier` and `FoldedRegressor`."""

    leaf_width: int
    fdr: float
    memory_limit: int | str | None
    n_estimators: int | Literal["auto"]
    device: str
    cache: CacheMode
    random_state: int
    verbose: int
    leaf_batch: int | Literal["auto"]
    query_chunk: int | Literal["auto"]
    id_column: str | None
    keep_id: bool
    categorical: Sequence[str | int] | None
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

    def _read_support(self, X: Any, y: Any, groups: Any = None) -> tuple[Given, Self]:
        """Labelled rows, and a copy of this estimator that has their heads: one that may fail to be fitted."""
        refuse_after_fork()
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        given = given_support(
            copy._plain(X, reset=True),
            y,
            groups,
            id_column=self.id_column,
            keep_id=self.keep_id,
            categorical=self.categorical,
        )
        copy._check(X, given.table, given.heads, reset=True)
        # Under a limit not even a copy of the rows is made.
        kept = keep_rows(given.table, X, copy=self.memory_limit is None)
        return replace(given, table=kept), copy

    def _read_queries(self, X: Any) -> tuple[Table, Fitted]:
        """Query rows, and the record they are to be predicted with."""
        self._record()
        refuse_after_fork()
        now = object.__new__(type(self))  # as it is now: another thread may be fitting it anew
        now.__dict__.update(self.__dict__)
        support = now.fitted_.support
        table, heads = given_queries(now._plain(X, reset=False), support)
        now._check(X, table, heads, reset=False)
        return table.like(support), now.fitted_

    def _plain(self, X: Any, *, reset: bool) -> Any:
        """An array as scikit-learn checks it; whatever knows more about its columns passes through."""
        if not is_plain(X):
            return X
        if isinstance(X, np.ma.MaskedArray):
            # What is masked is missing; NumPy would forget it.
            X = np.ma.filled(X.astype(np.float64), np.nan)
        kind = getattr(getattr(X, "dtype", None), "kind", "")
        if kind in ("M", "m"):
            raise DataError("A plain array must hold numbers, not points or spans of time; pass them in a DataFrame.")
        if kind == "V":
            raise DataError("An array of records has names for its columns; pass it as one table, pandas.DataFrame(X).")
        if kind == "c":
            raise DataError("Complex data not supported: give real and imaginary parts as columns of their own.")
        try:
            # Infinity is looked for when the table is made: no need to go over it twice. Nor to be told of it twice.
            with np.errstate(over="ignore"):
                return validate_data(
                    self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False
                )
        except ArithmeticError as error:  # whole numbers and decimals beyond any float
            raise DataError("X holds a number that no float can; make it smaller.") from error
        except (TypeError, ValueError) as error:
            raise DataError(one_line(error)) from error

    def _check(self, X: Any, table: Table, heads: pd.DataFrame | None, *, reset: bool) -> None:
        """Let scikit-learn check and remember names and width; it need not see the rows."""
        if table.n_rows == 0:
            raise DataError("The table has no rows; 0 sample(s) cannot be used.")
        if table.n_columns == 0 and not is_plain(X):
            raise DataError("The table has no column besides the labels, groups and row names; give features.")
        refuse_huge(table)
        if is_plain(X):
            return
        width = np.empty((0, table.n_columns), dtype=np.float32)
        try:
            named = width if table.names is None else pd.DataFrame(width, columns=list(table.names))
            validate_data(self, named if heads is None else heads, reset=reset, skip_check_array=True)
        except UnicodeEncodeError as error:
            raise DataError("A column name is no text that can be written (half of a character); rename it.") from error
        except (TypeError, ValueError) as error:
            raise DataError(str(error)) from error

    def _settings(self) -> Settings:
        """What both estimators are told, in one place."""
        return Settings(
            leaf_width=self.leaf_width,
            fdr=self.fdr,
            n_views=1 if self.n_estimators == "auto" else self.n_estimators,  # counted when the table is known
            random_state=int(self.random_state),
            cache=self.cache,
            limit=None if self.memory_limit is None else parse_bytes(self.memory_limit),
            device=self.device,
            leaf_batch=self.leaf_batch,
            query_chunk=self.query_chunk,
            progress=self.verbose > 0,
        )

    def save(self, path: str | os.PathLike[str], *, caches: bool = False) -> None:
        """Write the fitted model to a file that `scff.load` reads back and that runs no code.

        The file holds the labelled rows, what was decided, and the digest of the weights, but no weights; a new file
        is its owner's alone. A pickle of the estimator does the same within a program, for joblib's workers say, but
        reading one runs whatever is in it: never read one that others made.

        Parameters
        ----------
        path : path
            The file to write; by custom it ends in ``.scff``.
        caches : bool, default=False
            Also write what the support taught the backbone, so that a model that is read predicts at once instead of
            compiling itself first. That can be many times the size of the rows; it is mapped from the file, which must
            not be changed in place, and left aside where packages have other versions.
        """
        from scff.models.file import save

        save(self, path, caches=caches)

    def _keep(self, heads: Self, fitted: Fitted) -> Self:
        """Take over the heads and the record of a fit that went well, in one step; say what looks too good in it."""
        logger.info("fitted by %s: %s", fitted.checkpoint.backbone, fitted.plan)
        if fitted.flags:
            shown = "; ".join(flag.sentence for flag in fitted.flags[:3])
            more = f"; and {len(fitted.flags) - 3} more in fitted_.flags" if len(fitted.flags) > 3 else ""
            warnings.warn(f"Look at this before you believe the model: {shown}{more}.", DataWarning, stacklevel=3)
        self.__dict__.update(heads.__dict__ | {"fitted_": fitted})
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
