"""The scikit-learn face for numbers: `FoldedRegressor`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from scff.backbones.loaded import CheckpointRef, load_backbone
from scff.backbones.registry import choose_auto
from scff.estimators.base import FoldedEstimator
from scff.estimators.explained import Explained
from scff.estimators.fitted import Fitted
from scff.estimators.parameters import REGRESSOR, check_parameters
from scff.fold.caches import CacheMode
from scff.fold.methods import refuse_row_folding
from scff.memory.device import resolve_device
from scff.memory.meter import PeakMemory
from scff.names import Trials
from scff.plan.leaks import find_leaks
from scff.progress import Steps
from scff.tables.targets import group_codes, number_target, refuse_untold
from scff.trials.case import Case
from scff.trials.contest import contest
from scff.trials.presentations import Paper
from scff.trials.reading import Choice, read_all
from scff.trials.trial import Verdict
from scff.trials.views import views_within

__all__ = ["FoldedRegressor"]


class FoldedRegressor(Explained, RegressorMixin, FoldedEstimator):  # type: ignore[misc]
    """A frozen tabular foundation model that predicts numbers from tables of any width.

    Columns are ranked by the F test of a linear regression on the target, and the Core is folded as for
    classification. The Tail gate is a matter of two classes, so ``method="scff"`` is the bounded Core here; a token
    backbone keeps its Tail in shared slots. ``method="auto"`` asks held-back labelled rows which ways to read the table
    predict them best, and averages those (:doc:`/beyond`).

    Parameters
    ----------
    backbone : str or path, default="auto"
        Name of a backbone or path of a checkpoint; the name of a classifier stands for the regressor of its family.
        ``"auto"`` takes the best one whose weights are already on this machine and never uses the network.
    method : {"auto", "scff", "native", "raw-core", "bounded-core"}, default="auto"
        The best this library knows, or the paper's method as far as numbers have one, or a comparison: the backbone's
        own inference on all columns; the Core in one leaf; the folded Core.
    leaf_width : int, default=128
        Most columns in a leaf, further bounded by the backbone.
    fdr : float, default=0.05
        Level of the Benjamini-Hochberg count that sizes the Core.
    memory_limit : int or str, optional
        Budget for the memory that fit and predict add, such as ``"2GiB"``. It changes block sizes, never the result.
    n_estimators : int or "auto", default=1
        Number of the backbone's own ensemble views to fold and average; ``"auto"`` as for `FoldedClassifier`.
    device : str, default="auto"
        ``"auto"`` is CUDA where there is one, otherwise the CPU.
    cache : bool or "disk", default=True
        Keep what the support taught each leaf; as for `FoldedClassifier`.
    random_state : int, default=0
        Seed of ensemble views.
    verbose : int, default=0
        1 shows progress bars.
    leaf_batch : int or "auto", default="auto"
        Leaves encoded together; "auto" is 1 on a CPU and 8 on an accelerator.
    query_chunk : int or "auto", default="auto"
        Query rows encoded together.
    trials : {"auto", "thorough", 0}, default="auto"
        What ``method="auto"`` may ask, as for `FoldedClassifier`; 0 reads the paper's Core.
    id_column, keep_id, categorical
        As for `FoldedClassifier`.

    Attributes
    ----------
    plan_ : FoldPlan or None
        How the columns were folded; None for ``method="native"``.
    verdicts_ : tuple of Verdict
        What held-back rows were asked, and what they answered; losses are squared errors in units of the variance of
        these rows' targets.
    backbone_ : str
    checkpoint_ : CheckpointRef
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where the table had column names.
    """

    _parameter_constraints = REGRESSOR

    def __init__(
        self,
        backbone: str | Path = "auto",
        method: Literal["auto", "scff", "native", "raw-core", "bounded-core"] = "auto",
        leaf_width: int = 128,
        fdr: float = 0.05,
        memory_limit: int | str | None = None,
        n_estimators: int | Literal["auto"] = 1,
        device: str = "auto",
        cache: CacheMode = True,
        random_state: int = 0,
        verbose: int = 0,
        *,
        trials: Trials = "auto",
        leaf_batch: int | Literal["auto"] = "auto",
        query_chunk: int | Literal["auto"] = "auto",
        id_column: str | None = None,
        keep_id: bool = False,
        categorical: Sequence[str | int] | None = None,
    ) -> None:
        self.backbone = backbone
        self.method = method
        self.leaf_width = leaf_width
        self.fdr = fdr
        self.memory_limit = memory_limit
        self.n_estimators = n_estimators
        self.device = device
        self.cache = cache
        self.random_state = random_state
        self.verbose = verbose
        self.trials = trials
        self.leaf_batch = leaf_batch
        self.query_chunk = query_chunk
        self.id_column = id_column
        self.keep_id = keep_id
        self.categorical = categorical

    def fit(self, X: Any, y: Any, groups: Any = None) -> FoldedRegressor:
        """Compile a labelled support table.

        The rows are kept, for predictions and for the file: an array is copied, a DataFrame when it is changed later.
        With ``memory_limit`` an array is not copied but marked read-only. Files are left where they are.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame, AnnData, path or dict of shape (n_rows, n_columns)
            As for `FoldedClassifier`.
        y : array-like of shape (n_rows,), or str
            Numbers, or the name of the column that holds them.
        groups : array-like of shape (n_rows,), or str, optional
            As for `FoldedClassifier`.

        Returns
        -------
        FoldedRegressor
        """
        check_parameters(self)
        # The Tail gate is a matter of classes: the method is the folded Core.
        settings = replace(self._settings(), rule=None, routing="linear")
        given, heads = self._read_support(X, y, groups)
        support = given.table
        target = number_target(given.y, support.n_rows)
        refuse_untold(target)
        groups = None if given.groups is None else group_codes(given.groups, support.n_rows)
        device = resolve_device(self.device)
        started = time.perf_counter()
        with PeakMemory(device) as loading:
            backbone = load_backbone(
                choose_auto("regression") if self.backbone == "auto" else self.backbone, device, "regression"
            )
        loaded = time.perf_counter()
        refuse_row_folding(backbone.spec, self.method)
        case = Case(backbone, support, target, settings)
        varies = bool(target.min() < target.max())  # a constant target needs no model
        verdicts: tuple[Verdict, ...] = ()
        choices: tuple[Choice, ...] = (Choice(Paper("scff" if self.method == "auto" else self.method)),)
        with PeakMemory(device) as compiling:
            if self.method == "auto" and varies:
                answered = contest([case], self.trials, groups)
                choices, verdicts = answered.choices, answered.verdicts
            if self.n_estimators == "auto" and varies:
                case = case.seen_through(views_within(case, choices))
            plan = case.plan if varies and self.method != "native" else None
            planned = time.perf_counter()
            with Steps("reading the table", len(choices), shown=settings.progress) as steps:
                readings = read_all(case, choices, steps=steps) if varies else ()
        done = time.perf_counter()
        plans = [reading.plan for reading in readings if reading.plan is not None]
        fitted = Fitted(
            support=support,
            y=target,
            classes=None,
            checkpoint=CheckpointRef.of(backbone),
            settings=case.settings,
            plan=plans[0] if plans else plan,
            choices=choices,
            gates=tuple(reading.gates for reading in readings) or ((),),
            verdicts=verdicts,
            flags=find_leaks(support, target, plan, classes=False),
            seconds={"load": loaded - started, "plan": planned - loaded, "compile": done - planned},
            peak_bytes={"load": loading.added, "compile": compiling.added},
            _compiled=(case, readings) if varies else None,
        )
        return self._keep(heads, fitted)

    @property
    def verdicts_(self) -> tuple[Verdict, ...]:
        """What held-back rows were asked, and what they answered."""
        return self._record().verdicts

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Mean of the predicted distribution of query rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            The same columns as at fit.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows, fitted = self._read_queries(X)
        if fitted.y.min() == fitted.y.max():
            return np.full(rows.n_rows, fitted.y[0])
        return fitted.predict(rows)[:, 0]
