"""A written plan, read field by field: nothing in it is believed that `scff.plan.compile` could not have written."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

__all__ = ["FORMAT", "ROUTINGS", "check_columns", "plan_fields"]

FORMAT = "scff-plan-1"
ROUTINGS = ("anova", "linked", "linear", "random")

IntArray = npt.NDArray[np.int64]

_FIELDS = {"format", "n_rows", "n_columns", "leaf_width", "fdr", "routing", "discoveries"}
_FIELDS |= {"f", "p", "core", "tail", "core_leaves", "tail_leaves", "names"}

# Counts that a machine can hold; also keeps absurd integers away from NumPy.
_MOST = 2**40


def plan_fields(text: str | bytes) -> dict[str, Any]:
    """The fields of a plan written by `FoldPlan.to_json`.

    Raises
    ------
    ValueError
        Saying in a few words what is wrong with it.
    """
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    except TypeError as error:
        raise ValueError("it is no text") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    if set(data) != _FIELDS:
        odd = sorted(map(repr, set(data) ^ _FIELDS))[0][:60]
        raise ValueError(f"the field {odd} is {'missing' if odd[1:-1] in _FIELDS else 'unknown'}")
    del data["format"]
    n_columns = _count(data, "n_columns", 1)
    _count(data, "n_rows", 1)
    width = _count(data, "leaf_width", 1)
    _count(data, "discoveries", 0, n_columns)
    if not _is_number(data["fdr"]) or not 0 < data["fdr"] < 1:
        raise ValueError("fdr does not lie between 0 and 1")
    if data["routing"] not in ROUTINGS:
        raise ValueError(f"routing is none of {', '.join(ROUTINGS)}")
    # JSON has no infinity; null stands for the F of a perfect separation.
    f = [math.inf if v is None else v for v in _list(data, "f", n_columns)]
    data["f"] = _numbers("f", f, math.inf)
    data["p"] = _numbers("p", _list(data, "p", n_columns), 1.0)
    core, tail = (_columns(key, data[key], n_columns) for key in ("core", "tail"))
    check_columns(np.concatenate([core, tail]), n_columns)
    if not len(core):
        raise ValueError("the Core holds no column")
    for key, stratum in (("core", core), ("tail", tail)):
        data[key], data[f"{key}_leaves"] = stratum, _leaves(f"{key}_leaves", data, stratum, n_columns, width)
    if data["names"] is not None:
        names = _list(data, "names", n_columns)
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ValueError("names are not one text for each column, all different")
        data["names"] = tuple(names)
    return data


def check_columns(columns: IntArray, n_columns: int) -> None:
    """Refuse columns that a table of so many does not have, or that occur twice.

    Raises
    ------
    ValueError
    """
    outside = columns[(columns < 0) | (columns >= n_columns)]
    if len(outside):
        raise ValueError(f"there is no column {outside[0]} in a table of {n_columns}")
    values, counts = np.unique(columns, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"column {values[counts > 1][0]} occurs more than once")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(data: dict[str, Any], key: str, least: int, most: int = _MOST) -> int:
    value = data[key]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{key} is not a whole number from {least} to {most}")
    return value


def _list(data: dict[str, Any], key: str, length: int) -> list[Any]:
    value = data[key]
    if not isinstance(value, list) or len(value) != length:
        raise ValueError(f"{key} is not a list with an entry for each of {length} columns")
    return value


def _numbers(key: str, values: list[Any], most: float) -> npt.NDArray[np.float64]:
    if not all(_is_number(v) and 0 <= v <= most for v in values):
        raise ValueError(f"{key} holds what is not a number from 0 to {most:g}")
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(f"{key} holds a number too large") from error


def _columns(key: str, values: Any, n_columns: int) -> IntArray:
    whole = isinstance(values, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    if not whole or len(values) > n_columns or any(abs(v) > _MOST for v in values):
        raise ValueError(f"{key} is not a list of columns")
    return np.array(values, dtype=np.int64)


def _leaves(key: str, data: dict[str, Any], stratum: IntArray, n_columns: int, leaf_width: int) -> tuple[IntArray, ...]:
    given = data[key]
    if not isinstance(given, list) or len(given) > n_columns:
        raise ValueError(f"{key} is not a list of leaves")
    leaves = tuple(_columns(key, leaf, n_columns) for leaf in given)
    if any(not 1 <= len(leaf) <= leaf_width or (np.diff(leaf) <= 0).any() for leaf in leaves):
        raise ValueError(f"a leaf of {key} is empty, wider than leaf_width or not in the order of the columns")
    dealt = np.sort(np.concatenate([*leaves, stratum[:0]]))
    if not np.array_equal(dealt, np.sort(stratum)):
        raise ValueError(f"{key} do not hold the columns of their stratum, each once")
    return leaves
