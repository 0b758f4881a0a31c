"""What a fitted model is, apart from its rows: the document ``model.json`` and the arrays it names."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from scff.backbones.loaded import CheckpointRef
from scff.estimators.fitted import Fitted
from scff.gate.decide import TailMap
from scff.gate.record import TailGate, TailRule
from scff.models.coders import Coder, Place
from scff.models.schema import Coders, Tagged
from scff.models.tensors import Misfit, Stored
from scff.plan.plan import FoldPlan
from scff.tables.table import Table
from scff.trials.beside import Beside
from scff.trials.boosted import Boosted
from scff.trials.coded import Coded
from scff.trials.forest import Forest
from scff.trials.narrow import Company, Digest, Direct, Frequencies, Summarised
from scff.trials.presentations import Core, LinkedCore, Paper, WithTail
from scff.trials.reading import Choice
from scff.trials.settings import Settings
from scff.trials.sources import NearSources, Sources
from scff.trials.tallies import Tallies

__all__ = ["decode_fitted", "decode_parameter", "encode_fitted", "encode_parameter"]

#: What may be read, by the names that stand for them in a file.
_SHOWN: dict[str, type] = {
    "paper": Paper,
    "core": Core,
    "linked core": LinkedCore,
    "tail": WithTail,
    "company": Company,
    "summarised": Summarised,
    "digest": Digest,
    "sources": Sources,
}
_BESIDE: dict[str, type] = {"beside": Beside}
_ANSWERING: dict[str, type] = {
    "direct": Direct,
    "near sources": NearSources,
    "tallies": Tallies,
    "forest": Forest,
    "boosted": Boosted,
    "frequencies": Frequencies,
    "coded": Coded,
}


def encode_fitted(fitted: Fitted) -> tuple[Any, dict[str, Stored]]:
    """The record of a fit as JSON, and its arrays; the labelled rows and the classes are written elsewhere.

    Raises
    ------
    TypeError
        If it holds something that a model file does not.
    """
    arrays: dict[str, Stored] = {}
    return _coders().of(Fitted).encode(fitted, Place("fitted", arrays, fitted.support.names)), arrays


def decode_fitted(data: Any, arrays: dict[str, Stored], support: Table, classes: Any) -> Fitted:
    """The record of a fit.

    Raises
    ------
    Misfit
        If it is not one, or its parts do not go together.
    """
    left = dict(arrays)
    values = _coders().record(Fitted).values(data, Place("fitted", left, support.names))
    if left:
        raise Misfit(f"an array {next(iter(left))[:60]!r} that belongs to nothing")
    fitted = Fitted(support=support, classes=classes, **values)
    _check_target(fitted)
    _check_readers(fitted)
    _check_gates(fitted)
    if fitted.plan is not None:
        _check_plan(fitted.plan, support)
        fitted.plan = replace(fitted.plan, aside=support.aside)
    return fitted


def encode_parameter(name: str, value: Any) -> Any:
    """A constructor argument: plain, a Tail rule, names of columns, or a path, of which the file's name is kept."""
    if name in _COLUMNS:
        return list(value) if isinstance(value, list | tuple) else value
    if isinstance(value, PurePath):
        return value.name
    if isinstance(value, dict):  # class weights
        return [[_label().encode(key, Place("parameters")), float(weight)] for key, weight in value.items()]
    if isinstance(value, str):
        return _file_name(value) if "/" in value or "\\" in value else value
    return _parameter().encode(value, Place("parameters"))


def decode_parameter(name: str, data: Any) -> Any:
    """A constructor argument."""
    place = Place(f"parameters.{name}")
    if name in _COLUMNS:
        entries = data if isinstance(data, list) else [data]
        if data is not None and not all(type(one) in (str, int) for one in entries):
            raise Misfit(f"{place.path} are not names of columns")
        return data
    if name == "class_weight" and isinstance(data, list):
        if not all(isinstance(one, list) and len(one) == 2 and isinstance(one[1], float) for one in data):
            raise Misfit(f"{place.path} are no weights of classes")
        return {_label().decode(key, place): weight for key, weight in data}
    value = _parameter().decode(data, place)
    if isinstance(value, str) and ("/" in value or "\\" in value):
        raise Misfit(f"{place.path} is a path")
    return value


#: Arguments that name columns, in which a slash is no path.
_COLUMNS = ("id_column", "categorical")


@cache
def _label() -> Coder:
    return _coders().of(bool | int | float | str)


@cache
def _parameter() -> Coder:
    return _coders().of(None | bool | int | float | str | TailRule)


@cache
def _coders() -> Coders:
    coders = Coders()
    coders.names |= {"TailMap": TailMap}
    coders.left_out[Fitted] = ("support", "classes", "_kept", "_recalled", "_compiled", "_compiling")
    coders.left_out[FoldPlan] = ("aside",)
    coders.fields[FoldPlan] = {"names": _TableNames()}
    coders.fields[CheckpointRef] = {"path": _FileName()}
    share, weight = (lambda x: 0 <= x <= 1, "between 0 and 1"), (lambda x: 0 <= x < math.inf, "a weight")
    count, finite = (lambda x: 0 <= x < 2**31, "a count"), (math.isfinite, "a finite number")
    some = (lambda x: 1 <= x < 2**31, "a positive count")
    for kind in (*_SHOWN.values(), Direct, NearSources, Tallies, Forest, Boosted, Frequencies):
        coders.checks[kind] = {"prior": weight}
    for kind in _SHOWN.values():
        coders.checks[kind]["shares"] = (lambda x: 1 <= len(x) <= 8 and all(0 < one <= 1 for one in x), "shares")
    coders.checks[WithTail]["sample"] = coders.checks[Summarised]["components"] = some
    coders.checks[Company]["share"] = share
    coders.checks[Forest]["trees"] = (lambda x: 1 <= x <= 10_000, "a number of trees")
    coders.checks[Boosted] |= {"steps": (lambda x: 1 <= x <= 10_000, "a number of steps"), "most": some}
    coders.checks[Direct]["scale"] = (lambda x: x in ("equal", "shares"), "a scale")
    coders.checks[Coded] = {"n_symbols": (lambda x: 2 <= x < 2**31, "a number of symbols")}
    coders.checks[Choice] = {"weight": share, "share": share}
    coders.checks[CheckpointRef] = {"sha256": (_is_digest, "a digest")}
    coders.checks[Settings] = {
        "leaf_width": some,
        "n_views": (lambda x: 1 <= x <= 1024, "a number of views"),  # as many as an estimator may be asked for
        "fdr": (lambda x: 0 < x < 1, "between 0 and 1"),
        "random_state": (lambda x: 0 <= x < 2**32, "a seed"),
        "limit": (lambda x: x is None or 0 < x < 2**63, "a number of bytes"),
        "leaf_batch": (lambda x: x == "auto" or 1 <= x < 2**31, "a count"),
        "query_chunk": (lambda x: x == "auto" or 1 <= x < 2**31, "a count"),
        "class_weights": (lambda x: x is None or all(0 < one < math.inf for one in x), "weights of classes"),
    }
    coders.checks[Fitted] = {
        "temperature": (lambda x: 0 < x < math.inf, "a temperature"),
        "choices": (lambda x: 1 <= len(x) <= 64, "a choice of what is read"),
    }
    coders.checks[TailGate] = {"alpha": finite, "rho": finite, "n_tail_leaves": count}
    coders.checks[TailMap] = {"rho": finite, "norm": finite, "scale": finite}
    coders.checks[FoldPlan] = {"leaf_width": some, "discoveries": count}
    coders.fields[Coded] = coders.fields[Beside] = {"presentation": Tagged(_SHOWN, coders)}
    coders.fields[Choice] = {"presentation": Tagged(_SHOWN | _BESIDE | _ANSWERING, coders)}
    return coders


class _TableNames:
    """The column names of a plan: those of the table, which has them already."""

    def fits(self, value: Any) -> bool:
        return value is None or isinstance(value, tuple)

    def encode(self, value: Any, place: Place) -> Any:
        if value not in (None, place.names):
            raise TypeError("the plan names other columns than the table")
        return value is not None

    def looks(self, data: Any) -> bool:
        return type(data) is bool

    def decode(self, data: Any, place: Place) -> Any:
        if type(data) is not bool or (data and place.names is None):
            raise Misfit(f"{place.path} does not say whether columns have names")
        return place.names if data else None


class _FileName:
    """A file by its name alone: where it was on another machine is nobody's business."""

    def fits(self, value: Any) -> bool:
        return isinstance(value, str)

    def encode(self, value: Any, place: Place) -> Any:
        return _file_name(value)

    looks = fits

    def decode(self, data: Any, place: Place) -> Any:
        if not isinstance(data, str) or not 0 < len(data) < 256 or data != _file_name(data) or "\0" in data:
            raise Misfit(f"{place.path} is not the name of a file")
        return data


def _file_name(path: str) -> str:
    return PureWindowsPath(PurePosixPath(path).name).name or path.strip("/\\")


def _is_digest(text: str) -> bool:
    return len(text) == 64 and all(c in "0123456789abcdef" for c in text)


def _check_target(fitted: Fitted) -> None:
    y, n_rows = fitted.y, fitted.support.n_rows
    if y.shape != (n_rows,):
        raise Misfit("fitted.y has not one entry for every row")
    if fitted.classes is None:
        if y.dtype != np.float64 or not np.isfinite(y).all():
            raise Misfit("fitted.y is not a column of numbers")
    elif y.dtype != np.int64 or not np.array_equal(np.unique(y), np.arange(len(fitted.classes))) or y.max() < 1:
        raise Misfit("fitted.y are not the codes of the classes")
    weights = fitted.settings.class_weights
    if weights is not None and (fitted.classes is None or len(weights) != len(fitted.classes)):
        raise Misfit("fitted.settings.class_weights are not those of the classes")


def _check_readers(fitted: Fitted) -> None:
    readers = {one.presentation.reader for one in fitted.choices if isinstance(one.presentation, Beside)}
    if len(readers) > 1 or (readers and fitted.classes is None):
        raise Misfit("fitted.choices are read by more models than there are")


def _check_gates(fitted: Fitted) -> None:
    if len(fitted.gates) != len(fitted.choices) or any(len(part) > fitted.settings.n_views for part in fitted.gates):
        raise Misfit("fitted.gates are not those of what is read")
    if sum(choice.weight for choice in fitted.choices) < 1e-6:
        raise Misfit("fitted.choices have no weight")
    n_classes = 0 if fitted.classes is None else len(fitted.classes)
    for gate in (gate for part in fitted.gates for gate in part if gate is not None):
        update, learned = gate.support_update, gate._map
        if gate.accepted is None:
            if update is not None or learned is not None:
                raise Misfit("a gate that let nothing in and has an update")
            continue
        if update is None or learned is None or update.ndim != 2 or len(update) != fitted.support.n_rows:
            raise Misfit("a gate without the update that it let in")
        size = update.shape[1]
        shapes: list[tuple[Any, Any]] = [(learned.core_mean_E, (size,)), (learned.tail_mean_E, (size,))]
        if gate.accepted == "prototype":
            shapes += [(learned.centroids_KE, (n_classes, size)), (learned.frequencies_K, (n_classes,))]
            if learned.scale <= 0:
                raise Misfit("a gate without a scale")
        if any(array is None or array.shape != shape for array, shape in shapes):
            raise Misfit("a gate whose parts do not go together")


def _check_plan(plan: FoldPlan, support: Table) -> None:
    n_columns = support.n_columns
    if (plan.n_rows, plan.n_columns) != support.shape or plan.f.shape != (n_columns,) or plan.p.shape != (n_columns,):
        raise Misfit("fitted.plan is that of another table")
    if np.isnan(plan.f).any() or not ((plan.p >= 0) & (plan.p <= 1)).all():
        raise Misfit("fitted.plan has scores that are none")
    dealt = np.zeros(n_columns, dtype=bool)
    for columns, leaves in ((plan.core, plan.core_leaves), (plan.tail, plan.tail_leaves)):
        if any(part.ndim != 1 for part in (columns, *leaves)):
            raise Misfit("fitted.plan has leaves that are none")
        if len(columns) and not 0 <= columns.min() <= columns.max() < n_columns:
            raise Misfit("fitted.plan has columns that the table has not")
        inside = np.concatenate([np.empty(0, np.int64), *leaves])
        if not np.array_equal(np.sort(inside), np.unique(columns)) or dealt[columns].any():
            raise Misfit("fitted.plan has columns in two leaves, or in none")
        dealt[columns] = True
    if len(plan.core) == 0:
        raise Misfit("fitted.plan has no Core")
