"""Single values and columns of them, with their types: class labels, column names, categories, odd cells.

Text, truth values, whole and other numbers and nothing are JSON's own. Whatever else a label may be is an object of one
entry that names its type: one of those below, never one that a file brings.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.models.limits import TEXT
from scff.models.tensors import Misfit

__all__ = ["decode_array", "decode_value", "encode_array", "encode_value"]

_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
_UNITS = ("s", "ms", "us", "ns")
_LEAST, _MOST = -(2**63), 2**64 - 1

#: Characters that an array of text may have room for beyond what its labels need.
_ROOM = 1 << 22


def encode_value(value: Any) -> Any:
    """One value as JSON.

    Raises
    ------
    TypeError
        If it is of a type that a model file does not hold.

    Examples
    --------
    >>> encode_value("a"), encode_value(1), encode_value(np.int8(1)), encode_value(float("nan"))
    ('a', 1, {'int8': 1}, {'float': 'nan'})
    """
    kind = type(value)
    if value is None or kind in (str, bool):
        return value
    if kind is int and _LEAST <= value <= _MOST:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.generic):
        name = value.dtype.name
        if name in _NUMBERS:
            return {name: _number(value.item())}
        if isinstance(value, np.str_ | np.bool_):
            return {"numpy": value.item()}
        if isinstance(value, np.datetime64 | np.timedelta64) and np.datetime_data(value.dtype)[0] in _UNITS:
            return {f"{value.dtype.kind}8": [np.datetime_data(value.dtype)[0], int(value.view(np.int64))]}
    if value is pd.NaT or value is pd.NA:
        return {"missing": str(value)}
    if kind is pd.Timestamp and value.tz is None:
        return {"timestamp": [value.unit, int(value.to_datetime64().view(np.int64))]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is datetime.datetime and value.tzinfo is None:
        return {"datetime": value.isoformat()}
    if kind is datetime.date:
        return {"date": value.isoformat()}
    if kind is tuple:
        return {"tuple": [encode_value(one) for one in value]}
    raise TypeError(f"{kind.__name__} is not a type that a model file holds")


def decode_value(data: Any) -> Any:
    """The value that `encode_value` wrote.

    Raises
    ------
    Misfit
        If it wrote no such thing.
    """
    if isinstance(data, str) and len(data) > TEXT:
        raise Misfit("a label longer than text may be")
    if data is None or type(data) in (str, bool, float):
        return data
    if type(data) is int and _LEAST <= data <= _MOST:
        return data
    if isinstance(data, dict) and len(data) == 1:
        ((kind, inside),) = data.items()
        try:
            return _decode_typed(kind, inside)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise Misfit(f"a label that is no {kind[:40]!r}") from error
    raise Misfit("a label of a type that labels do not have")


def encode_array(array: npt.NDArray[Any]) -> dict[str, Any]:
    """A one-dimensional array with its type.

    Raises
    ------
    TypeError
        If it is of a type that a model file does not hold.

    Examples
    --------
    >>> encode_array(np.array(["no", "yes"]))
    {'dtype': 'str', 'width': 3, 'values': ['no', 'yes']}
    """
    kind, name = array.dtype.kind, array.dtype.name
    if name in _NUMBERS or kind == "b":
        return {"dtype": name, "values": [_number(one) for one in array.tolist()]}
    if kind == "U":
        texts = array.tolist()
        return {"dtype": "str", "width": _width(array.dtype.itemsize // 4, texts), "values": texts}
    if kind == "S":
        texts = array.tolist()
        return {"dtype": "bytes", "width": _width(array.dtype.itemsize, texts), "values": [one.hex() for one in texts]}
    if kind in "Mm" and np.datetime_data(array.dtype)[0] in _UNITS:
        return {"dtype": f"{kind}8", "unit": np.datetime_data(array.dtype)[0], "values": array.view(np.int64).tolist()}
    if kind == "O":
        return {"dtype": "object", "values": [encode_value(one) for one in array.tolist()]}
    raise TypeError(f"{array.dtype} is not a type that a model file holds")


def decode_array(data: Any) -> npt.NDArray[Any]:
    """The array that `encode_array` wrote.

    Raises
    ------
    Misfit
        If it wrote no such thing.
    """
    if not isinstance(data, dict) or not isinstance(data.get("values"), list) or not isinstance(data.get("dtype"), str):
        raise Misfit("labels without a type")
    kind, values = data["dtype"], data["values"]
    wanted = {"str": {"width"}, "bytes": {"width"}, "M8": {"unit"}, "m8": {"unit"}}.get(kind, set())
    if set(data) != {"dtype", "values"} | wanted:
        raise Misfit("labels that are not written as labels are")
    try:
        if kind == "object":
            out = np.empty(len(values), dtype=object)
            out[:] = [decode_value(one) for one in values]
            return out
        if kind in ("str", "bytes"):
            return _texts(values, data["width"], kind == "bytes")
        if kind in ("M8", "m8"):
            ticks = np.array([_whole(one) for one in values], dtype=np.int64)
            return ticks.view(f"{kind}[{_unit(data['unit'])}]")
        if kind == "bool":
            if not all(type(one) is bool for one in values):
                raise TypeError("not truth values")
            return np.array(values, dtype=bool)
        if kind in _NUMBERS:
            return np.array([_plain(one, kind) for one in values], dtype=kind)
    except (ValueError, TypeError, OverflowError) as error:
        raise Misfit(f"labels that are no {kind}") from error
    raise Misfit("labels of an unknown type")


def _decode_typed(kind: str, inside: Any) -> Any:
    if kind == "float":
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[inside]
    if kind in _NUMBERS:
        return np.dtype(kind).type(_plain(inside, kind))
    if kind == "numpy" and type(inside) in (str, bool):
        return np.str_(inside) if isinstance(inside, str) else np.bool_(inside)
    if kind in ("M8", "m8"):
        unit, ticks = inside
        return np.array([_whole(ticks)], dtype=np.int64).view(f"{kind}[{_unit(unit)}]")[0]
    if kind == "missing":
        return {"NaT": pd.NaT, "<NA>": pd.NA}[inside]
    if kind == "timestamp":
        unit, ticks = inside
        return pd.Timestamp(np.array([_whole(ticks)], dtype=np.int64).view(f"M8[{_unit(unit)}]")[0])
    if kind == "bytes":
        return bytes.fromhex(inside)
    if kind == "datetime":
        return datetime.datetime.fromisoformat(inside)
    if kind == "date":
        return datetime.date.fromisoformat(inside)
    if kind == "tuple" and isinstance(inside, list):
        return tuple(decode_value(one) for one in inside)
    raise KeyError(kind)


def _number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any, kind: str) -> Any:
    """A number of the type that is announced: whole ones within its range, others exactly."""
    if kind.startswith("float"):
        if value in ("nan", "inf", "-inf") or type(value) in (float, int):
            return float(value)
        raise TypeError("not a number")
    whole = _whole(value)
    if not np.iinfo(kind).min <= whole <= np.iinfo(kind).max:
        raise OverflowError("too large")
    return whole


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value


def _unit(value: Any) -> str:
    if value not in _UNITS:
        raise TypeError("not a unit of time")
    return str(value)


def _texts(values: list[Any], width: Any, as_bytes: bool) -> npt.NDArray[Any]:
    if not all(type(one) is str for one in values):
        raise TypeError("not text")
    labels: list[Any] = [bytes.fromhex(one) for one in values] if as_bytes else values
    if (
        type(width) is not int
        or width < 1
        or width < max(map(len, labels), default=0)
        or width != _width(width, labels)
    ):
        raise ValueError("not their width")
    return np.array(labels, dtype=f"{'S' if as_bytes else 'U'}{width}")


def _width(width: int, labels: list[Any]) -> int:
    """Room for each label: what the array has, unless that is nearly all empty."""
    return width if width * len(labels) <= _ROOM else max(1, max(map(len, labels), default=1))
