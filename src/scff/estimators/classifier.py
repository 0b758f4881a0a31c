"""The scikit-learn face: `FoldedClassifier`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from scff.backbones.base import Backbone
from scff.backbones.registry import CheckpointRef, choose_auto, load_backbone, reload_backbone
from scff.errors import BackboneError, DataError
from scff.estimators.base import FoldedEstimator, encode_labels
from scff.fold.algorithm import Compiled
from scff.fold.budget import ENGINES, METHODS, EngineName, Method, choose_core, compile_members
from scff.fold.caches import CacheMode
from scff.fold.tokens import refuse_row_folding
from scff.gate.decide import TAIL_RULES, TailGate, TailRule
from scff.gate.record import Rehearsed
from scff.memory.meter import PeakMemory
from scff.plan.plan import FoldPlan, Routing
from scff.trials.trial import Rehearsal

if TYPE_CHECKING:
    import pandas as pd

    from scff.report import Report

__all__ = ["FoldedClassifier"]


class FoldedClassifier(ClassifierMixin, FoldedEstimator):  # type: ignore[misc]
    """A frozen tabular foundation model that reads tables of any width.

    `fit` ranks the columns on the labelled rows, folds them into leaves, encodes the leaves, decides whether the weaker
    columns add anything, and builds the model's context. `predict` then touches query rows only.

    Parameters
    ----------
    backbone : str or path, default="auto"
        Name of a backbone (``scff backbones`` lists them) or path of a checkpoint. ``"auto"`` takes the best one whose
        weights are already on this machine and never uses the network.
    method : {"scff", "native", "raw-core", "bounded-core", "mass-huber"}, default="scff"
        The full method, or one of the paper's comparisons: the backbone's own inference on all columns; the Core in
        one leaf; the folded Core without Tail; the earlier all-feature merge.
    leaf_width : int, default=128
        Most columns in a leaf, further bounded by the backbone.
    fdr : float, default=0.05
        Level of the Benjamini-Hochberg count that sizes the Core.
    tail : str or TailRule, default="gated"
        ``"gated"`` is the paper's gate; where the feature encoder reads labels, the Tail must also help the model on
        held-back support rows. ``"paper"`` is the paper's gate alone, ``"off"`` leaves the Tail out. The paper's
        controls are ``"centred"``, ``"raw-residual"``, ``"fixed-prototype"``, ``"fisher"``,
        ``"no-single-leaf-fallback"`` and ``"no-binary-restriction"``.
    memory_limit : int or str, optional
        Budget for the memory that fit and predict add, such as ``"2GiB"``. It changes block sizes, never the result.
    n_estimators : int, default=1
        Number of the backbone's own ensemble views to fold and average.
    device : str, default="auto"
        ``"auto"`` is CUDA where there is one, otherwise the CPU.
    cache : bool or "disk", default=True
        Keep what the support taught each leaf, so that `predict` does not encode it again: True up to 16 MiB in memory
        and the rest in a temporary file, "disk" all in the file, False not at all.
    random_state : int, default=0
        Seed of random routing and of ensemble views.
    verbose : int, default=0
        1 shows progress bars.
    routing : {"auto", "anova", "linked", "random"}, default="auto"
        ``"anova"`` is the paper's Core. ``"linked"`` fills a Core of less than a leaf with columns that correlate with
        it: few labelled rows may reveal only a part of a group. ``"auto"`` takes the linked Core where it predicts
        held-back support rows better; the paper's comparisons (``method``) always have the paper's. ``"random"`` is the
        paper's control: a Core of the same size, drawn at random.
    leaf_batch : int or "auto", default="auto"
        Leaves encoded together; "auto" is 1 on a CPU and as many as fit into half of an accelerator's free memory.
    query_chunk : int or "auto", default="auto"
        Query rows encoded together; "auto" is 256 on a CPU and 1024 on an accelerator, fewer when its memory runs out.
    encode_unused_tail : bool, default=False
        Encode the Tail even where it cannot be let in, as the paper literally does; for audits.
    engine : {"local", "ray"}, default="local"
        ``"ray"`` encodes leaves on a Ray cluster: the one that is running or that ``RAY_ADDRESS`` names, otherwise one
        on this machine. It needs ``pip install 'scff[ray]'`` and runs on CPUs.

    Attributes
    ----------
    plan_ : FoldPlan or None
        How the columns were folded; None for ``method="native"``.
    gate_ : TailGate or None
        What was decided about the Tail, for the first view; None where nothing was folded.
    gates_ : list of TailGate or None
        The same for every view.
    links_ : Rehearsed or None
        How held-back support rows were predicted from the paper's Core and from the linked one, with
        ``routing="auto"``; None where nothing is linked to the Core.
    backbone_ : str
        Name of the backbone in use.
    checkpoint_ : CheckpointRef
        Its file and digest.
    classes_ : ndarray
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where the table had column names.
    seconds_ : dict of str to float
        Wall time of loading, planning and compiling.
    peak_bytes_ : dict of str to int
        Memory that loading added at its peak, and planning and compiling together; on the device that was used.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from scff import FoldedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = FoldedClassifier(backbone="nano").fit(X[:300], y[:300])
    >>> clf.score(X[300:], y[300:]) > 0.9
    True
    >>> clf.plan_
    FoldPlan(30 columns: Core 25 in 1 leaf, Tail 5 in 1 leaf)
    """

    def __init__(
        self,
        backbone: str | Path = "auto",
        method: Method = "scff",
        leaf_width: int = 128,
        fdr: float = 0.05,
        tail: str | TailRule = "gated",
        memory_limit: int | str | None = None,
        n_estimators: int = 1,
        device: str = "auto",
        cache: CacheMode = True,
        random_state: int = 0,
        verbose: int = 0,
        *,
        routing: Routing | Literal["auto"] = "auto",
        leaf_batch: int | Literal["auto"] = "auto",
        query_chunk: int | Literal["auto"] = "auto",
        encode_unused_tail: bool = False,
        engine: EngineName = "local",
    ) -> None:
        self.backbone = backbone
        self.method = method
        self.leaf_width = leaf_width
        self.fdr = fdr
        self.tail = tail
        self.memory_limit = memory_limit
        self.n_estimators = n_estimators
        self.device = device
        self.cache = cache
        self.random_state = random_state
        self.verbose = verbose
        self.routing = routing
        self.leaf_batch = leaf_batch
        self.query_chunk = query_chunk
        self.encode_unused_tail = encode_unused_tail
        self.engine = engine

    def fit(self, X: Any, y: Any) -> FoldedClassifier:
        """Compile a labelled support table.

        Parameters
        ----------
        X : array-like, DataFrame, Table or path of shape (n_rows, n_columns)
            Missing values may be NaN; text, categories and booleans come in a pandas or polars DataFrame. The path of
            a ``.npy`` or numeric Parquet file, or what `scff.tables.on_disk.open_wide` makes of it, is read a leaf at
            a time.
        y : array-like of shape (n_rows,)

        Returns
        -------
        FoldedClassifier
        """
        rule = self._check_parameters()
        support = self._validate(X, reset=True)
        codes, self.classes_ = encode_labels(y, support)
        started = time.perf_counter()
        with PeakMemory(self._device()) as loading:
            backbone = load_backbone(choose_auto() if self.backbone == "auto" else self.backbone, self._device())
        limits = backbone.spec.limits
        if limits.classes is not None and len(self.classes_) > limits.classes:
            raise BackboneError(
                f"{backbone.spec.name} knows at most {limits.classes} classes and the target has "
                f"{len(self.classes_)}; choose a TabICL backbone, which has a hierarchy for more."
            )
        refuse_row_folding(backbone.spec, self.method)
        self.backbone_ = backbone.spec.name
        self.checkpoint_ = CheckpointRef.of(backbone)
        loaded = time.perf_counter()
        self.plan_: FoldPlan | None = None
        self.links_: Rehearsed | None = None
        self._support, self._codes, self._rule = support, codes, rule
        self.gates_: list[TailGate | None] = []
        with PeakMemory(backbone.device) as compiling:
            planned = self._compile(backbone, None)
        self.gates_ = [member.gate for member in self._runtime[1]]
        self.gate_ = self.gates_[0]
        done = time.perf_counter()
        self.peak_bytes_ = {"load": loading.added, "compile": compiling.added}
        self.seconds_ = {"load": loaded - started, "plan": planned - loaded, "compile": done - planned}
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Class probabilities of query rows.

        Parameters
        ----------
        X : array-like, DataFrame, Table or path of shape (n_rows, n_columns)
            The same columns as at fit.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        check_is_fitted(self)
        rows = self._validate(X, reset=False)
        logits = [member.predict(rows).float().cpu().numpy() for member in self._members()]
        return self._runtime[0].combine(logits)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Most probable class of query rows; parameters as for `predict_proba`."""
        proba = self.predict_proba(X)
        out: npt.NDArray[Any] = self.classes_[proba.argmax(axis=1)]
        return out

    def column_evidence(self) -> pd.DataFrame:
        """What each column brought: its own evidence, its leaf, and what the leaf is worth on the support.

        Returns
        -------
        DataFrame
            One row per column, strongest first; `scff.report.column_evidence` says what each field means.
        """
        from scff.report import column_evidence

        return column_evidence(self)

    def report(self, X_test: Any = None, y_test: Any = None, *, title: str | None = None) -> Report:
        """What this model did and why, as one HTML page.

        Parameters
        ----------
        X_test : array-like or DataFrame, optional
            Rows held back from `fit`; without them the report says nothing about quality.
        y_test : array-like or str, optional
            Their labels, or the name of the label column of ``X_test``.
        title : str, optional
            Heading of the page.

        Returns
        -------
        Report
            Shows itself in a notebook; ``report.save("report.html")`` writes one self-contained file.
        """
        from scff.report import make_report

        return make_report(self, test=X_test, target=y_test, title=title)

    def _members(self) -> list[Compiled]:
        """The compiled views, compiled again if this model was read from a file."""
        check_is_fitted(self)
        if getattr(self, "_runtime", None) is None:
            self._compile(reload_backbone(self.checkpoint_, self._device()), self.gates_)
        return self._runtime[1]

    def _compile(self, backbone: Backbone, gates: list[TailGate | None] | None) -> float:
        """Compile every view into `_runtime`; returns when the plan was ready."""
        views = self._views(backbone, self._codes)
        options = self._fold_options(backbone.device, encode_unused_tail=self.encode_unused_tail)
        limit = self._byte_limit()
        rule = self._rule if self.method == "scff" else None
        rehearsal = Rehearsal(backbone, self._support, self._codes, self.n_estimators, self.random_state, limit=limit)
        if self.plan_ is None:
            routing = "anova" if self.routing == "auto" else self.routing
            self.plan_ = self._fold_plan(backbone, views.view(0), self._codes, routing)
            if self.plan_ is not None and self.routing == "auto" and self.method == "scff":
                self.plan_, self.links_ = choose_core(self.plan_, rehearsal, options)
        planned = time.perf_counter()
        members = compile_members(
            views, self.plan_, self._codes, self.method, rule, gates, self.cache, options, limit, self.engine, rehearsal
        )
        self._runtime: tuple[Backbone, list[Compiled]] = (backbone, members)
        return planned

    def _check_parameters(self) -> TailRule | None:
        if self.method not in METHODS:
            raise DataError(f"method must be one of {', '.join(METHODS)}, not {self.method!r}.")
        if self.cache not in (True, False, "disk"):
            raise DataError(f'cache must be True, False or "disk", not {self.cache!r}.')
        if self.engine not in ENGINES:
            raise DataError(f"engine must be one of {', '.join(ENGINES)}, not {self.engine!r}.")
        if self.n_estimators < 1:
            raise DataError(f"n_estimators must be at least 1, not {self.n_estimators}.")
        if isinstance(self.tail, TailRule):
            return self.tail
        if self.tail == "off":
            return None
        if self.tail not in TAIL_RULES:
            known = ", ".join(["off", *TAIL_RULES])
            raise DataError(f"tail must be a TailRule or one of {known}, not {self.tail!r}.")
        return TAIL_RULES[self.tail]
