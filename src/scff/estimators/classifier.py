"""The scikit-learn face: `FoldedClassifier`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin

from scff.backbones.loaded import CheckpointRef, load_backbone
from scff.backbones.registry import on_this_machine
from scff.errors import BackboneError
from scff.estimators.base import FoldedEstimator
from scff.estimators.explained import Explained
from scff.estimators.fitted import Fitted
from scff.estimators.parameters import CLASSIFIER, check_parameters, class_weights
from scff.fold.caches import CacheMode
from scff.fold.methods import refuse_row_folding
from scff.gate.record import TailGate, TailRule, tail_rule
from scff.memory.device import resolve_device
from scff.memory.meter import PeakMemory
from scff.names import EngineName, MethodOrAuto, RankRouting, Trials
from scff.plan.leaks import find_leaks
from scff.progress import Steps
from scff.tables.targets import class_labels, group_codes
from scff.trials.beside import cases_of, second_reader
from scff.trials.case import Case
from scff.trials.contest import contest
from scff.trials.presentations import Answering, Paper
from scff.trials.reading import Choice, prepare, read, read_all
from scff.trials.trial import Verdict
from scff.trials.views import views_within

__all__ = ["FoldedClassifier"]


class FoldedClassifier(Explained, ClassifierMixin, FoldedEstimator):  # type: ignore[misc]
    """A frozen tabular foundation model that reads tables of any width.

    `fit` ranks the columns on the labelled rows, lets held-back rows choose how the table is read (``method="auto"``),
    encodes that leaf by leaf, and builds the model's context. `predict` then touches query rows only.

    Parameters
    ----------
    backbone : str or path, default="auto"
        Name of a backbone (``scff backbones`` lists them) or path of a checkpoint. ``"auto"`` lets held-back rows
        choose between those whose weights are already on this machine and never uses the network.
    method : {"auto", "scff", "native", "raw-core", "bounded-core", "mass-huber"}, default="auto"
        ``"auto"`` is the best this library knows: it starts from the paper's Core, and held-back labelled rows may let
        it read columns that go with others, a digest of the whole table and direct scores of it, and let the embedded
        ``nano`` read beside the backbone (`verdicts_`). ``"scff"`` is the paper's method to the letter, the others are
        its comparisons: the backbone's own inference on all columns; the Core in one leaf; the folded Core without
        Tail; the earlier all-feature merge.
    leaf_width : int, default=128
        Most columns in a leaf, further bounded by the backbone.
    fdr : float, default=0.05
        Level of the Benjamini-Hochberg count that sizes the Core.
    tail : str or TailRule, default="paper"
        What lets the Tail in, with ``method="scff"`` and in a thorough trial: ``"paper"`` the paper's gate, ``"off"``
        nothing. ``"centred"``, ``"raw-residual"``, ``"fixed-prototype"``, ``"fisher"``,
        ``"no-single-leaf-fallback"`` and ``"no-binary-restriction"`` are the paper's controls.
    memory_limit : int or str, optional
        Budget for the memory that fit and predict add, such as ``"2GiB"``. It changes block sizes, never the result.
    n_estimators : int or "auto", default=1
        Number of the backbone's own ensemble views to fold and average; ``"auto"`` takes up to eight, as many as a
        budget of the backbone's own arithmetic pays for, so that a large table stays at one.
    device : str, default="auto"
        ``"auto"`` is CUDA where there is one, otherwise the CPU.
    cache : bool or "disk", default=True
        Keep what the support taught each leaf, so that `predict` does not encode it again: True up to 16 MiB in memory
        and the rest in a temporary file, "disk" all in the file, False not at all.
    random_state : int, default=0
        Seed of random routing and of ensemble views.
    verbose : int, default=0
        1 shows progress bars.
    routing : {"anova", "random"}, default="anova"
        ``"random"`` is the paper's control: a Core of the same size, drawn at random.
    trials : {"auto", "thorough", 0}, default="auto"
        How much ``method="auto"`` may ask of held-back rows: ``"auto"`` within a budget of the backbone's arithmetic,
        ``"thorough"`` at any price, linked columns, more summaries and the Tail too, 0 nothing (the paper's Core).
    leaf_batch : int or "auto", default="auto"
        Leaves encoded together; "auto" is 1 on a CPU and as many as fit into half of an accelerator's free memory.
    query_chunk : int or "auto", default="auto"
        Query rows encoded together; "auto" is 256 on a CPU and 1024 on an accelerator, fewer when its memory runs out.
    engine : {"local", "ray"}, default="local"
        ``"ray"`` encodes leaves on a Ray cluster: the one that is running or that ``RAY_ADDRESS`` names, otherwise one
        on this machine. It needs the extra ``ray``. Splits of trials are tasks too; a task has a CUDA device to itself.
    id_column : str, optional
        Column that names the rows. One that looks like it (text that differs in every row, numbers that count the rows)
        is found, said and set aside.
    keep_id : bool, default=False
        True makes a feature of a column that only looks like row names.
    categorical : sequence of str or int, optional
        Columns whose numbers are codes of categories: names, or for an array places.
    class_weight : dict or "balanced", optional
        What each class is worth: probabilities are multiplied by it and brought back to a sum of one. ``"balanced"``
        answers as if all classes were equally frequent, which finds more of a rare class and calls more false alarms.

    Attributes
    ----------
    plan_ : FoldPlan or None
        How the columns were folded; None for ``method="native"``.
    gate_, gates_ : TailGate or None, list of the same
        What was decided about the Tail, for the first view and for all; None where nothing was folded.
    verdicts_ : tuple of Verdict
        What held-back rows were asked by ``method="auto"``, and what they answered.
    fitted_ : Fitted
        All of this in one record.
    backbone_, checkpoint_ : str, CheckpointRef
        Name of the backbone in use, and its file and digest.
    classes_, n_features_in_, feature_names_in_ : ndarray, int, ndarray of str
        As in scikit-learn; the last only where the table had column names.
    seconds_, peak_bytes_ : dict of str to float, dict of str to int
        Wall time of loading, planning and compiling; memory added at the peak, on the device that was used.

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

    _parameter_constraints = CLASSIFIER

    def __init__(
        self,
        backbone: str | Path = "auto",
        method: MethodOrAuto = "auto",
        leaf_width: int = 128,
        fdr: float = 0.05,
        tail: str | TailRule = "paper",
        memory_limit: int | str | None = None,
        n_estimators: int | Literal["auto"] = 1,
        device: str = "auto",
        cache: CacheMode = True,
        random_state: int = 0,
        verbose: int = 0,
        *,
        routing: RankRouting = "anova",
        trials: Trials = "auto",
        leaf_batch: int | Literal["auto"] = "auto",
        query_chunk: int | Literal["auto"] = "auto",
        engine: EngineName = "local",
        id_column: str | None = None,
        keep_id: bool = False,
        categorical: Sequence[str | int] | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
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
        self.trials = trials
        self.leaf_batch = leaf_batch
        self.query_chunk = query_chunk
        self.engine = engine
        self.id_column = id_column
        self.keep_id = keep_id
        self.categorical = categorical
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, groups: Any = None) -> FoldedClassifier:
        """Compile a labelled support table, and keep it: `scff.tables.keeping` says what is copied.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame, AnnData, path or dict of shape (n_rows, n_columns)
            Frames of pandas, polars, pyarrow and others may hold text, categories, dates and truth values; what is
            missing is NaN or the like. A sparse matrix is never made dense as a whole. A path is read as by the command
            line; very wide Parquet and ``.npy`` files stay on disk. A dict of tables gives blocks of one table.
        y : array-like of shape (n_rows,), or str
            Labels, or the name of the column that holds them.
        groups : array-like of shape (n_rows,), or str, optional
            Patients, batches: rows of one group are never parted when ``method="auto"`` asks held-back rows.

        Returns
        -------
        FoldedClassifier
        """
        check_parameters(self)
        settings = replace(self._settings(), rule=tail_rule(self.tail), routing=self.routing, engine=self.engine)
        given, heads = self._read_support(X, y, groups)
        support = given.table
        codes, classes = class_labels(given.y, support.n_rows)
        settings = replace(settings, class_weights=class_weights(self.class_weight, codes, classes))
        groups = None if given.groups is None else group_codes(given.groups, support.n_rows)
        started = time.perf_counter()
        device = resolve_device(self.device)
        several = self.method == "auto" and self.trials != 0  # held-back rows may choose between those that are here
        here = on_this_machine(n_classes=len(classes)) if self.backbone == "auto" else [self.backbone]
        with PeakMemory(device) as loading:
            backbones = [load_backbone(one, device) for one in (here if several else here[:1])]
            second = second_reader(device) if several else None
        backbone, most = backbones[0], backbones[0].spec.limits.classes
        if self.method != "auto" and most is not None and len(classes) > most:
            raise BackboneError(
                f"{backbone.spec.name} knows at most {most} classes and the target has {len(classes)}; use "
                'method="auto", which puts several tasks of fewer classes together, or a TabICL backbone.'
            )
        refuse_row_folding(backbone.spec, self.method)
        loaded = time.perf_counter()
        case = Case(backbone, support, codes, settings)
        verdicts: tuple[Verdict, ...] = ()
        choices: tuple[Choice, ...] = (Choice(Paper("scff" if self.method == "auto" else self.method)),)
        with PeakMemory(device) as compiling:
            if self.method == "auto":
                answered = contest(cases_of(case, backbones, second), self.trials, groups)
                case, choices, verdicts = answered.case, answered.choices, answered.verdicts
            if self.n_estimators == "auto":
                case = case.seen_through(views_within(case, choices))
            plan = None if self.method == "native" else case.plan
            planned = time.perf_counter()
            with Steps("reading the table", len(choices), shown=settings.progress) as steps:
                # Decisions on the Tail are taken here.
                alone = len(choices) == 1 and not isinstance(choices[0].presentation, Answering)
                readings = (read(prepare(case, choices[0])),) if alone else read_all(case, choices, steps=steps)
        done = time.perf_counter()
        plans = [reading.plan for reading in readings if reading.plan is not None]
        fitted = Fitted(
            support=support,
            y=codes,
            classes=classes,
            checkpoint=CheckpointRef.of(case.backbone),
            settings=case.settings,
            plan=plans[0] if plans else plan,
            choices=choices,
            gates=tuple(reading.gates for reading in readings),
            temperature=verdicts[0].temperature if verdicts else 1.0,
            verdicts=verdicts,
            flags=find_leaks(support, codes, case.plan if self.method != "native" else None, classes=True),
            seconds={"load": loaded - started, "plan": planned - loaded, "compile": done - planned},
            peak_bytes={"load": loading.added, "compile": compiling.added},
            _compiled=(case, readings),
        )
        return self._keep(heads, fitted)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes, in the order of the probabilities."""
        return np.asarray(self._record().classes)

    @property
    def gates_(self) -> list[TailGate | None]:
        """What each view of the heaviest reading that folds columns decided about the Tail."""
        gates = self._record().gates
        return list(next((part for part in gates if any(part)), gates[0]))

    @property
    def gate_(self) -> TailGate | None:
        """What was decided about the Tail, for the first view."""
        return next(iter(self.gates_), None)

    @property
    def verdicts_(self) -> tuple[Verdict, ...]:
        """What held-back rows were asked, and what they answered."""
        return self._record().verdicts

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Class probabilities of query rows.

        Parameters
        ----------
        X : as for `fit`
            The same columns.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        rows, fitted = self._read_queries(X)
        return fitted.predict(rows)

    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Logarithms of the class probabilities of query rows; parameters as for `predict_proba`."""
        with np.errstate(divide="ignore"):  # a probability may be 0
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Most probable class of query rows; parameters as for `predict_proba`."""
        rows, fitted = self._read_queries(X)
        labels: npt.NDArray[Any] = np.asarray(fitted.classes)[fitted.predict(rows).argmax(axis=1)]
        return labels
