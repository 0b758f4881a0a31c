"""What a case knows of its rows without a label, as arrays by name: finding it takes passes over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.trials.scales import EqualScale, ShareScale
from scff.trials.whole import Products, Whole

__all__ = ["COMPANY", "SCALES", "Arrays", "arrays_of", "of_scale", "shapes", "whole_from"]

Arrays = Mapping[str, npt.NDArray[Any]]

COMPANY = "company"
"""Which columns go with another one."""

SCALES: dict[str, type[EqualScale] | type[ShareScale]] = {"equal": EqualScale, "shares": ShareScale}

_PRODUCTS = "products"
#: Fields of a scale that are one number for all columns.
_SINGLE = {(ShareScale, "peak"), (ShareScale, "shares"), (ShareScale, "width")}


def shapes(n_rows: int, n_columns: int) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Type and shape of everything that may be remembered of so many landmarks.

    Examples
    --------
    >>> shapes(20, 300)["company"], shapes(20, 300)["equal/products"]
    ((dtype('bool'), (300,)), (dtype('float64'), (20, 20)))
    """
    known: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {COMPANY: (np.dtype(bool), (n_columns,))}
    for name, scale in SCALES.items():
        for field in fields(scale):
            kind = np.dtype(bool if field.name == "shares" else np.float64)
            known[f"{name}/{field.name}"] = kind, () if (scale, field.name) in _SINGLE else (n_columns,)
        known[f"{name}/{_PRODUCTS}"] = np.dtype(np.float64), (n_rows, n_rows)
    return known


def arrays_of(name: str, whole: Whole) -> dict[str, npt.NDArray[Any]]:
    """All columns at one scale, as arrays."""
    scale: Any = whole.scale
    found = {f"{name}/{field.name}": np.asarray(getattr(scale, field.name)) for field in fields(scale)}
    return found | {f"{name}/{_PRODUCTS}": whole.products.with_TS}


def of_scale(name: str, arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """Those that `arrays_of` gave one scale, by the names of its fields; none where one of them is missing."""
    found = {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}
    whole = {field.name for field in fields(SCALES[name])} | {_PRODUCTS}
    return found if set(found) == whole else {}


def whole_from(X: Any, scale: type[EqualScale] | type[ShareScale], arrays: Arrays) -> Whole:
    """All columns at one scale, from the arrays of `of_scale` and the rows they were made of."""
    known: dict[str, Any] = {name: array if array.ndim else array.item() for name, array in arrays.items()}
    products = known.pop(_PRODUCTS)
    return Whole(scale(**known), X, Products(products, np.diag(products).copy()))
