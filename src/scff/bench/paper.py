"""The paper's printed numbers, to be shown beside ours and to test the statistics with."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["printed"]


@cache
def _numbers() -> dict[str, Any]:
    text = files("scff.bench").joinpath("paper.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def printed(*keys: str) -> Any:
    """A number the paper prints, or None where it prints none.

    Examples
    --------
    >>> printed("locked", "tabicl-v2", "accuracy")
    1.615
    >>> printed("locked", "nano", "accuracy") is None
    True
    """
    value: Any = _numbers()
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value
