"""One column of a table that is not all numbers: what it is, as Arrow, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from scff.models.tensors import Misfit
from scff.models.values import decode_array, decode_value, encode_array, encode_value

__all__ = ["Column", "decode_column", "describe", "encode_column"]

_WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_NUMBERS = (*_WHOLE, "float16", "float32", "float64", "bool")
_NULLABLE = {name.replace("int", "Int").replace("uI", "UI"): name for name in _WHOLE}
_NULLABLE |= {"Float32": "float32", "Float64": "float64", "boolean": "bool"}
#: pandas types of text: where they are stored, and whether NaN or NA is what is missing.
_TEXTS = {
    "str[python]": ("python", True),
    "str[pyarrow]": ("pyarrow", True),
    "string[python]": ("python", False),
    "string[pyarrow]": ("pyarrow", False),
}
_CLOSED = ("right", "left", "both", "neither")
_ARROW = {name: pa.from_numpy_dtype(name) for name in _NUMBERS}
#: pandas columns on Arrow's own types.
_ON_ARROW = {str(kind): kind for kind in (*_ARROW.values(), pa.string(), pa.large_string(), pa.date32())}
_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class Column:
    """What a column is.

    Attributes
    ----------
    facts : dict
        As in ``model.json``.
    arrow : DataType
        How its cells are stored.
    """

    facts: dict[str, Any]
    arrow: pa.DataType

    @classmethod
    def read(cls, facts: Any) -> Column:
        """From ``model.json``.

        Raises
        ------
        Misfit
            If there is no such column.
        """
        if not isinstance(facts, dict) or not isinstance(facts.get("kind"), str):
            raise Misfit("a column without a kind")
        wanted = {
            "number": {"dtype"},
            "nullable": {"dtype"},
            "arrow": {"dtype"},
            "text": {"dtype"},
            "time": {"unit", "zone"},
            "duration": {"unit"},
            "category": {"ordered", "categories", "index"},
            "mixed": {"values"},
        }.get(facts["kind"])
        if wanted is None or set(facts) != wanted | {"kind"}:
            raise Misfit("a column of an unknown kind")
        known: Any = {"number": _NUMBERS, "nullable": _NULLABLE, "arrow": _ON_ARROW, "text": _TEXTS}
        if "dtype" in facts and (not isinstance(facts["dtype"], str) or facts["dtype"] not in known[facts["kind"]]):
            raise Misfit("a column of an unknown type")
        if "unit" in facts and facts["unit"] not in _UNITS:
            raise Misfit("a column of points in time without a unit")
        return cls(facts, _arrow(facts))


def describe(name: str, column: Any) -> Column:
    """What a column is.

    Raises
    ------
    TypeError
        If a model file cannot hold it; the message names it.
    """
    dtype = column.dtype
    facts: dict[str, Any] | None = None
    if isinstance(dtype, np.dtype) and dtype.name in _NUMBERS:
        facts = {"kind": "number", "dtype": dtype.name}
    elif isinstance(dtype, pd.CategoricalDtype):
        facts = _describe_categories(name, dtype)
    elif isinstance(dtype, pd.StringDtype):
        facts = {"kind": "text", "dtype": _text_name(dtype)}
    elif isinstance(dtype, pd.ArrowDtype):
        known = str(dtype.pyarrow_dtype)
        facts = {"kind": "arrow", "dtype": known} if known in _ON_ARROW else None
    elif str(dtype) in _NULLABLE:
        facts = {"kind": "nullable", "dtype": str(dtype)}
    elif isinstance(dtype, pd.DatetimeTZDtype):
        facts = {"kind": "time", "unit": dtype.unit, "zone": str(dtype.tz)}
    elif isinstance(dtype, np.dtype) and dtype.kind in "Mm":
        facts = {"kind": "time" if dtype.kind == "M" else "duration", "unit": np.datetime_data(dtype)[0]}
        facts |= {"zone": None} if dtype.kind == "M" else {}
    elif dtype == np.dtype(object):
        facts = _describe_mixed(name, column)
    if facts is not None and facts.get("unit", "ns") not in _UNITS:
        facts = None
    if facts is not None and facts.get("zone") is not None:
        try:
            pd.DatetimeTZDtype("ns", facts["zone"])
        except Exception:  # a zone that is not one of the named ones
            facts = None
    if facts is None:
        raise TypeError(f"column {name!r} is {dtype}")
    return Column(facts, _arrow(facts))


def encode_column(column: Any, about: Column) -> pa.Array:
    """The cells of a column as Arrow."""
    kind = about.facts["kind"]
    if kind == "number":
        return pa.array(column.to_numpy(), type=about.arrow)
    if kind == "category":
        return pa.array(np.asarray(column.cat.codes, dtype=np.int32))
    if kind == "mixed":
        return pa.array(_codes(column)[0])
    if kind in ("time", "duration"):
        plain = column.dt.tz_convert(None) if about.facts.get("zone") is not None else column
        return pa.array(plain.to_numpy().view(np.int64))
    missing = column.isna().to_numpy(dtype=bool)
    if kind == "nullable":
        raw = column.array._data  # the values as they are, also those behind a missing one  # type: ignore[attr-defined]
        return pa.array(raw, mask=missing, type=about.arrow)
    return pa.array(column.to_numpy(dtype=object, na_value=None), type=about.arrow, mask=missing)


def decode_column(cells: pa.Array, about: Column) -> Any:
    """The column as pandas had it.

    Raises
    ------
    Misfit
        If the cells are not what the column says they are.
    """
    kind, facts = about.facts["kind"], about.facts
    if kind in ("text", "arrow"):
        dtype = _text(facts["dtype"]) if kind == "text" else pd.ArrowDtype(_ON_ARROW[facts["dtype"]])
        return pd.array(cells.to_pylist(), dtype=dtype)
    if kind == "nullable":
        known = np.asarray(cells.is_valid())
        values = cells.fill_null(False if facts["dtype"] == "boolean" else 0).to_numpy(zero_copy_only=False)
        return pd.array(values, dtype=facts["dtype"]) if known.all() else _masked(values, known, facts["dtype"])
    if cells.null_count:
        raise Misfit("a column with holes that it cannot have")
    values = cells.to_numpy(zero_copy_only=False)
    if kind == "number":
        return values.copy()
    if kind == "category":
        return _category(values, facts)
    if kind == "mixed":
        known_values = np.empty(len(facts["values"]), dtype=object)
        known_values[:] = [decode_value(one) for one in facts["values"]]
        if len(values) and not 0 <= values.min() <= values.max() < len(known_values):
            raise Misfit("cells that are none of their column's values")
        return pd.Series(known_values[values], dtype=object)  # an array alone pandas would take for text
    times = values.copy().view(f"{'M8' if kind == 'time' else 'm8'}[{facts['unit']}]")
    if facts.get("zone") is None:
        return times
    try:
        return pd.DatetimeIndex(times).tz_localize("UTC").tz_convert(facts["zone"])
    except Exception as error:  # pandas and its time zones raise several unrelated types
        raise Misfit("points in time in a zone that is not known") from error


def _arrow(facts: dict[str, Any]) -> pa.DataType:
    kind = facts["kind"]
    if kind == "number":
        return _ARROW[facts["dtype"]]
    if kind == "nullable":
        return _ARROW[_NULLABLE[facts["dtype"]]]
    if kind == "arrow":
        return _ON_ARROW[facts["dtype"]]
    if kind == "text":
        return pa.large_string()
    return pa.int32() if kind in ("category", "mixed") else pa.int64()


def _describe_categories(name: str, dtype: pd.CategoricalDtype) -> dict[str, Any] | None:
    index: Any = dtype.categories
    # Text has a type of its own among pandas' indexes, and so have the intervals of `pandas.cut`.
    if isinstance(index.dtype, pd.StringDtype):
        known, values = _text_name(index.dtype), index.to_numpy(dtype=object)
    elif isinstance(index, pd.IntervalIndex):
        known, values = index.closed, np.concatenate([index.left.to_numpy(), index.right.to_numpy()])
    elif isinstance(index.dtype, np.dtype):
        known, values = None, index.to_numpy()
    else:
        return None
    try:
        categories = encode_array(values)
    except TypeError as error:
        raise TypeError(f"column {name!r} has categories of which {error}") from error
    return {"kind": "category", "ordered": bool(dtype.ordered), "categories": categories, "index": known}


def _category(codes: Any, facts: dict[str, Any]) -> Any:
    values, known = decode_array(facts["categories"]), facts["index"]
    try:
        index: Any
        if known in _CLOSED:
            left, right = np.split(values, 2)
            index = pd.IntervalIndex.from_arrays(left, right, closed=known)
        else:
            index = pd.Index(values, dtype=values.dtype if known is None else _text(known))
        if not isinstance(facts["ordered"], bool) or (len(codes) and not -1 <= codes.min() <= codes.max() < len(index)):
            raise ValueError("not codes of categories")
        return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(index, ordered=facts["ordered"]))
    except (TypeError, ValueError, KeyError) as error:
        raise Misfit("categories that are not written as categories are") from error


def _text_name(dtype: pd.StringDtype) -> str:
    nan = dtype.na_value is not pd.NA
    return next(name for name, known in _TEXTS.items() if known == (dtype.storage, nan))


def _text(name: str) -> pd.StringDtype:
    storage, nan = _TEXTS[name]
    made: Any = pd.StringDtype
    out: pd.StringDtype = made(storage, na_value=np.nan) if nan else made(storage)
    return out


def _describe_mixed(name: str, column: Any) -> dict[str, Any]:
    try:
        return {"kind": "mixed", "values": [encode_value(one) for one in _codes(column)[1]]}
    except TypeError as error:
        raise TypeError(f"column {name!r} has cells of which {error}") from error


def _codes(column: Any) -> tuple[Any, list[Any]]:
    """The different cells of a column of objects, and which of them each is; 1, 1.0 and True are different."""
    seen: dict[Any, int] = {}
    cells = column.to_numpy(dtype=object)
    codes = np.empty(len(cells), dtype=np.int32)
    values: list[Any] = []
    for i, cell in enumerate(cells):
        try:
            key = (type(cell), repr(cell) if isinstance(cell, float | tuple | np.generic) else cell)
            code = seen.setdefault(key, len(values))
        except TypeError as error:
            raise TypeError(f"{type(cell).__name__} is not a type that a model file holds") from error
        if code == len(values):
            values.append(cell)
        codes[i] = code
    return codes, values


def _masked(values: Any, known: Any, dtype: str) -> Any:
    kinds: dict[str, Any] = {"boolean": pd.arrays.BooleanArray, "Float32": pd.arrays.FloatingArray}
    kinds["Float64"] = kinds["Float32"]
    return kinds.get(dtype, pd.arrays.IntegerArray)(values.copy(), ~known)
