"""Inputs that people and programs do hand in: values, types, shapes, names, targets, parameters, queries."""

from __future__ import annotations

import datetime
import decimal
import fractions
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

N = 24
"""Rows of every table here."""


def numbers(d: int = 6, seed: int = 0) -> np.ndarray:
    """A plain table whose first columns tell the classes apart."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, d)) + np.where(np.arange(d) < 2, 1.0, 0.0) * labels()[:, None]


def labels() -> np.ndarray:
    """Two classes, as many rows of each."""
    return np.arange(N) % 2


def frame() -> pd.DataFrame:
    """A table of numbers, text, categories and truth values."""
    table = pd.DataFrame(numbers(3), columns=["a", "b", "c"])
    table["word"] = np.array(["x", "y", "z"])[np.arange(N) % 3]
    table["kind"] = pd.Categorical(np.array(["u", "v"])[np.arange(N) // 2 % 2])
    table["flag"] = np.arange(N) % 4 == 0
    return table


class Odd:
    """An object that is nothing else, and shows itself at length."""

    def __repr__(self) -> str:
        return "Odd\n" * 50


class Liar:
    """Says it is an array and is none."""

    shape = (N, 3)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("no array today")


SCALARS: list[Any] = [
    None,
    True,
    False,
    np.bool_(True),
    -1,
    0,
    -(2**63),
    2**64,
    10**40,
    -0.5,
    0.0,
    1.0,
    1.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    np.float32("nan"),
    1j,
    "",
    " ",
    "nope",
    "1",
    "\x00",
    "[bold]",
    "\x1b[31m",
    "é" * 200,
    b"auto",
    b"",
    [],
    ["auto"],
    (),
    (1, 2),
    {},
    {"a": 1},
    set(),
    np.array([]),
    np.array([1, 2]),
    np.array("auto"),
    pd.Series([1, 2]),
    pd.NA,
    pd.NaT,
    object(),
    Odd(),
    int,
    len,
    Ellipsis,
    range(3),
    decimal.Decimal("0.5"),
    fractions.Fraction(1, 2),
    datetime.date(2020, 1, 1),
    Path("/nonexistent/weights.ckpt"),
    Exception("x"),
]
"""What stands where a parameter should."""


def good(name: str, value: Any) -> bool:
    """Whether one of `SCALARS` is a meaningful value of a constructor argument after all."""
    if isinstance(value, bool | np.bool_) and name == "keep_id":
        return True
    if isinstance(value, bool):
        return name in ("cache", "verbose")
    if name == "id_column":
        return value is None
    if name == "class_weight":  # no class has a weight of its own
        return value is None or (isinstance(value, dict) and not value)
    if name == "categorical":  # columns of an array are named by their numbers
        return value is None or (isinstance(value, list | tuple) and all(isinstance(v, int) for v in value))
    if name == "memory_limit":
        number = isinstance(value, int | float) and 1 <= value <= 10**18
        return value is None or number or (isinstance(value, str) and value == "1")
    if name == "verbose":
        return isinstance(value, int) and value >= 0
    if name == "trials":
        return isinstance(value, int) and value == 0
    if name == "random_state":
        return isinstance(value, int) and 0 <= value < 2**32
    if name in ("leaf_width", "leaf_batch", "query_chunk"):
        return isinstance(value, int) and 1 <= value < 2**31
    return False


def bad_targets() -> dict[str, Any]:
    """Targets of no classifier, by what is wrong with them."""
    y = labels()
    words = np.where(y, "yes", "no")
    mixed = [1 if v else "no" for v in y]
    return {
        "none": None,
        "a number": 3,
        "a word": "label",
        "bytes": b"label",
        "a function": len,
        "an object": object(),
        "nothing": [],
        "too short": y[:-1],
        "too long": np.append(y, 1),
        "one class": np.zeros(N, dtype=int),
        "one word": ["yes"] * N,
        "two columns": np.stack([y, y], axis=1),
        "one-hot": np.eye(2)[y],
        "a row": y[None, :],
        "three dimensions": y[:, None, None],
        "fractions": np.linspace(0, 1, N),
        "one fraction": np.where(np.arange(N) == 3, 0.5, y),
        "single precision": np.linspace(0, 1, N, dtype=np.float32),
        "nan": np.where(np.arange(N) == 3, np.nan, y),
        "all nan": np.full(N, np.nan),
        "infinity": np.where(np.arange(N) == 3, np.inf, y),
        "minus infinity": np.where(np.arange(N) == 3, -np.inf, y),
        "complex": y.astype(complex),
        "bytes of numpy": words.astype("S3"),
        "objects that are bytes": np.array([w.encode() for w in words], dtype=object),
        "a missing word": pd.Series(words, dtype=object).where(y > 0, None),
        "a missing string": pd.Series(words, dtype="string").where(y > 0),
        "a missing number": pd.Series(y, dtype="Int64").where(y > 0),
        "a missing truth": pd.Series(y > 0, dtype="boolean").where(y > 0),
        "a missing category": pd.Series(words).where(y > 0).astype("category"),
        "words and numbers": np.array(mixed, dtype=object),
        "truth and words": np.array([bool(v) if v else "no" for v in y], dtype=object),
        "lists": np.array([[int(v)] for v in y] + [None], dtype=object)[:-1],
        "dicts": [{"label": int(v)} for v in y],
        "sets": [{int(v)} for v in y],
        "tuples of lengths": [(0,) * (1 + int(v)) for v in y],
        "objects": [object() for _ in y],
        "functions": [len if v else print for v in y],
        "dates": pd.to_datetime(pd.Series(y), unit="D"),
        "dates of numpy": y.astype("datetime64[D]"),
        "python dates": [datetime.date(2020, 1, 1 + int(v)) for v in y],
        "spans of time": pd.to_timedelta(pd.Series(y), unit="s"),
        "periods": pd.Series(pd.period_range("2020", periods=N, freq="D")),
        "intervals": pd.Series(pd.interval_range(0, N)),
        "decimals": [decimal.Decimal(int(v)) for v in y],
        "sparse": sparse.csr_matrix(y[:, None]),
        "sparse row": sparse.coo_matrix(y),
        "a dict": {i: int(v) for i, v in enumerate(y)},
        "a set": set(map(int, y)),
        "a generator": (int(v) for v in y),
        "a frame of two": pd.DataFrame({"a": y, "b": y}),
        "an empty frame": pd.DataFrame(),
        "records": np.array([(int(v), 1.0) for v in y], dtype=[("a", int), ("b", float)]),
        "void": np.zeros(N, dtype="V4"),
        "ragged": [[1], [1, 2]] * (N // 2),
        "huge integers": [10**40 + int(v) for v in y],
        "a scalar array": np.array(3),
        "a masked array": np.ma.masked_array(y.astype(float), mask=y > 0),
        "a liar": Liar(),
    }


def good_targets() -> dict[str, Any]:
    """Targets of unusual form that mean what they say."""
    y = labels()
    words = np.where(y, "yes", "no")
    return {
        "list": y.tolist(),
        "tuple": tuple(y.tolist()),
        "range": [int(v) for v in y],
        "floats": y.astype(float),
        "truth": y > 0,
        "unsigned": y.astype(np.uint8),
        "words": words,
        "word objects": words.astype(object),
        "empty word": np.where(y, "", "no"),
        "emoji": np.where(y, "🙂", "🙁"),
        "markup": np.where(y, "[bold]", "[/]"),
        "escapes": np.where(y, "\x1b[31m", "\x00a"),
        "categories": pd.Series(words).astype("category"),
        "ordered": pd.Categorical(words, ["yes", "no"], ordered=True),
        "unused category": pd.Categorical(words, ["yes", "no", "never"]),
        "strings": pd.Series(words, dtype="string"),
        "Int64": pd.Series(y, dtype="Int64"),
        "boolean": pd.Series(y > 0, dtype="boolean"),
        "other index": pd.Series(y, index=np.arange(N)[::-1]),
        "sparse series": pd.Series(pd.arrays.SparseArray(y)),
        "object integers": np.array(y.tolist(), dtype=object),
        "object truth": np.array((y > 0).tolist(), dtype=object),
        "big integers": y + 2**62,
        "negative": -y,
    }
