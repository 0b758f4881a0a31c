"""How plain values, several of them, and arrays are written in JSON, and what is accepted when they are read."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from scff.models.limits import TEXT
from scff.models.tensors import Misfit, Stored

__all__ = ["Array", "Coder", "Named", "OneOf", "Place", "Plain", "Several", "Union"]

_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a value stands in the document.

    Attributes
    ----------
    path : str
        Its names from the outside in, for messages; an array is stored under it.
    arrays : dict of str to Stored
        Where arrays go, or are taken from.
    names : tuple of str or None
        Column names of the table.
    """

    path: str
    arrays: dict[str, Stored] = dataclasses.field(default_factory=dict)
    names: tuple[str, ...] | None = None

    def at(self, step: object) -> Place:
        """A place inside this one."""
        return dataclasses.replace(self, path=f"{self.path}.{step}")


class Coder(Protocol):
    """How values of one type are written and read."""

    def fits(self, value: Any) -> bool:
        """Whether a value is of this type."""
        ...

    def encode(self, value: Any, place: Place) -> Any:
        """As JSON."""
        ...

    def looks(self, data: Any) -> bool:
        """Whether JSON has the shape of this type; `decode` looks closer."""
        ...

    def decode(self, data: Any, place: Place) -> Any:
        """From JSON; raises `Misfit` for anything else."""
        ...


@dataclasses.dataclass(frozen=True)
class Plain:
    """Numbers, text, truth values and None."""

    kind: type

    def fits(self, value: Any) -> bool:
        """Whether a value is of this type."""
        if self.kind is int:
            return isinstance(value, int | np.integer) and not isinstance(value, bool)
        if self.kind is float:
            return isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
        return isinstance(value, self.kind) or (self.kind is bool and isinstance(value, np.bool_))

    def encode(self, value: Any, place: Place) -> Any:
        """As JSON."""
        if not self.fits(value):
            raise TypeError(f"{place.path} is {type(value).__name__}, not {self.kind.__name__}")
        if self.kind is float:
            value = float(value)
            return value if math.isfinite(value) else str(value)
        if self.kind is int:
            return operator.index(value)
        return None if value is None else self.kind(value)

    def looks(self, data: Any) -> bool:
        """Whether JSON has the shape of this type."""
        if self.kind is float:
            return type(data) in (float, int) or (isinstance(data, str) and data in _SPECIAL)
        return type(data) is self.kind

    def decode(self, data: Any, place: Place) -> Any:
        """From JSON."""
        if not self.looks(data):
            raise Misfit(f"{place.path} is not {'nothing' if self.kind is type(None) else self.kind.__name__}")
        if isinstance(data, str) and self.kind is str and len(data) > TEXT:
            raise Misfit(f"{place.path} is longer than text may be")
        if self.kind is float:
            try:
                return _SPECIAL[data] if isinstance(data, str) else float(data)
            except OverflowError:
                raise Misfit(f"{place.path} is larger than a number may be") from None
        return data


@dataclasses.dataclass(frozen=True)
class OneOf:
    """A few known values."""

    values: tuple[Any, ...]

    def fits(self, value: Any) -> bool:
        """Whether a value is of this type."""
        return any(type(value) is type(known) and value == known for known in self.values)

    def encode(self, value: Any, place: Place) -> Any:
        """As JSON."""
        if not self.fits(value):
            raise TypeError(f"{place.path} is {value!r}, not one of {self.values}")
        return value

    looks = fits

    def decode(self, data: Any, place: Place) -> Any:
        """From JSON."""
        if not self.fits(data):
            raise Misfit(f"{place.path} is not one of {', '.join(map(repr, self.values))}")
        return data


@dataclasses.dataclass(frozen=True)
class Union:
    """One of several types, told apart by their JSON."""

    options: tuple[Coder, ...]

    def fits(self, value: Any) -> bool:
        """Whether a value is of this type."""
        return any(option.fits(value) for option in self.options)

    def encode(self, value: Any, place: Place) -> Any:
        """As JSON."""
        for option in self.options:
            if option.fits(value):
                return option.encode(value, place)
        raise TypeError(f"{place.path} is {type(value).__name__}, which a model file does not hold")

    def looks(self, data: Any) -> bool:
        """Whether JSON has the shape of this type."""
        return any(option.looks(data) for option in self.options)

    def decode(self, data: Any, place: Place) -> Any:
        """From JSON."""
        for option in self.options:
            if option.looks(data):
                return option.decode(data, place)
        raise Misfit(f"{place.path} is of a type that it cannot have")


@dataclasses.dataclass(frozen=True)
class Several:
    """Several values: of one type, or of one each."""

    items: tuple[Coder, ...]
    open_ended: bool

    def fits(self, value: Any) -> bool:
        """Whether a value is of this type."""
        return isinstance(value, tuple)

    def encode(self, value: Any, place: Place) -> Any:
        """As JSON."""
        return [coder.encode(one, place.at(i)) for i, (coder, one) in enumerate(self._pairs(value, place))]

    def looks(self, data: Any) -> bool:
        """Whether JSON has the shape of this type."""
        return isinstance(data, list)

    def decode(self, data: Any, place: Place) -> Any:
        """From JSON."""
        if not isinstance(data, list):
            raise Misfit(f"{place.path} is not a list")
        return tuple(coder.decode(one, place.at(i)) for i, (coder, one) in enumerate(self._pairs(data, place)))

    def _pairs(self, values: Sequence[Any], place: Place) -> list[tuple[Coder, Any]]:
        if self.open_ended:
            return [(self.items[0], one) for one in values]
        if len(values) != len(self.items):
            raise Misfit(f"{place.path} has {len(values)} entries, not {len(self.items)}")
        return list(zip(self.items, values, strict=True))


@dataclasses.dataclass(frozen=True)
class Named:
    """Values of one type by name."""

    item: Coder

    def fits(self, value: Any) -> bool:
        """Whether a value is of this type."""
        return isinstance(value, dict) and all(isinstance(name, str) for name in value)

    def encode(self, value: Any, place: Place) -> Any:
        """As JSON."""
        return {name: self.item.encode(one, place.at(name)) for name, one in value.items()}

    def looks(self, data: Any) -> bool:
        """Whether JSON has the shape of this type."""
        return isinstance(data, dict)

    def decode(self, data: Any, place: Place) -> Any:
        """From JSON."""
        if not isinstance(data, dict):
            raise Misfit(f"{place.path} is not an object")
        return {name: self.item.decode(one, place.at(name)) for name, one in data.items()}


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of one type, in the safetensors member."""

    dtype: np.dtype[Any] | None

    def fits(self, value: Any) -> bool:
        """Whether a value is of this type."""
        return isinstance(value, np.ndarray)

    def encode(self, value: npt.NDArray[Any], place: Place) -> Any:
        """As JSON."""
        if self.dtype is not None and value.dtype != self.dtype:
            raise TypeError(f"{place.path} is an array of {value.dtype}, not of {self.dtype}")
        place.arrays[place.path] = Stored.of(value)
        return place.path

    def looks(self, data: Any) -> bool:
        """Whether JSON has the shape of this type."""
        return isinstance(data, str)

    def decode(self, data: Any, place: Place) -> npt.NDArray[Any]:
        """From JSON."""
        if data != place.path or data not in place.arrays:
            raise Misfit(f"{place.path} names no array of its own")
        found = place.arrays.pop(data).array()  # whatever is left over in the end belongs to nobody
        if self.dtype is not None and found.dtype != self.dtype:
            raise Misfit(f"{place.path} is an array of {found.dtype}, not of {self.dtype}")
        return found.copy()
