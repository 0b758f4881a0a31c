"""From a type to how it is written in JSON, and to what is accepted when it is read.

The types are those that this library's own records declare: reading builds what the code says, never what a file
says. Numbers, text and truth values are themselves; a record is an object with exactly its fields; one of several
records is told by a name from a list that is written here; arrays go to the file's safetensors under the name of
their place.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from scff.models.coders import Array, Coder, Named, OneOf, Place, Plain, Several, Union
from scff.models.tensors import Misfit

__all__ = ["Coders", "Record", "Tagged"]


class Record:
    """A dataclass of this library, field by field."""

    def __init__(self, kind: type, coders: Coders) -> None:
        self._kind = kind
        hints = typing.get_type_hints(kind, localns=dict(coders.names))
        known = coders.fields.get(kind, {})
        self._fields: dict[str, Coder] = {
            field.name: known.get(field.name) or coders.of(hints[field.name])
            for field in dataclasses.fields(kind)
            if field.name not in coders.left_out.get(kind, ())
        }
        self._checks = coders.checks.get(kind, {})

    def fits(self, value: Any) -> bool:
        """Whether a value is of this type."""
        return type(value) is self._kind

    def encode(self, value: Any, place: Place) -> Any:
        """As JSON."""
        return {name: coder.encode(getattr(value, name), place.at(name)) for name, coder in self._fields.items()}

    def looks(self, data: Any) -> bool:
        """Whether JSON has the shape of this type."""
        return isinstance(data, dict)

    def decode(self, data: Any, place: Place) -> Any:
        """From JSON."""
        return self._kind(**self.values(data, place))

    def values(self, data: Any, place: Place) -> dict[str, Any]:
        """What the fields hold, checked, before anything is built of it."""
        if not isinstance(data, dict) or set(data) != set(self._fields):
            raise Misfit(f"{place.path} has not the fields of a {self._kind.__name__}")
        found = {name: coder.decode(data[name], place.at(name)) for name, coder in self._fields.items()}
        for name, (check, phrase) in self._checks.items():
            if not check(found[name]):
                raise Misfit(f"{place.at(name).path} is not {phrase}")
        return found


class Tagged:
    """One of several records, by a name that the code gives it."""

    def __init__(self, kinds: Mapping[str, type], coders: Coders) -> None:
        self._records = {tag: coders.of(kind) for tag, kind in kinds.items()}

    def fits(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return any(record.fits(value) for record in self._records.values())

    def encode(self, value: Any, place: Place) -> Any:
        """An object of one entry: its name, and the fields."""
        for tag, record in self._records.items():
            if record.fits(value):
                return {tag: record.encode(value, place.at(tag))}
        raise TypeError(f"{place.path} is a {type(value).__name__}, which a model file does not know")

    def looks(self, data: Any) -> bool:
        """Whether it is an object of one known entry."""
        return isinstance(data, dict) and len(data) == 1 and next(iter(data)) in self._records

    def decode(self, data: Any, place: Place) -> Any:
        """The record."""
        if not self.looks(data):
            raise Misfit(f"{place.path} is none of {', '.join(self._records)}")
        ((tag, fields),) = data.items()
        return self._records[tag].decode(fields, place.at(tag))


class Coders:
    """Coders by type; what a type alone does not say is added here.

    Attributes
    ----------
    fields : dict of type to dict of str to Coder
        Coders of fields whose type says too little.
    left_out : dict of type to tuple of str
        Fields that are not written.
    checks : dict of type to dict of str to (callable, str)
        What else must hold of a field, and how to say so: "is not ...".
    names : dict of str to type
        Types that a module imports for its annotations alone.
    """

    def __init__(self) -> None:
        self.fields: dict[type, dict[str, Coder]] = {}
        self.left_out: dict[type, tuple[str, ...]] = {}
        self.checks: dict[type, dict[str, tuple[Callable[[Any], bool], str]]] = {}
        self.names: dict[str, type] = {}
        self._made: dict[Any, Coder] = {}

    def of(self, hint: Any) -> Coder:
        """The coder of a type.

        Raises
        ------
        TypeError
            If a model file cannot hold such values.
        """
        if hint not in self._made:
            self._made[hint] = self._make(hint)
        return self._made[hint]

    def record(self, kind: type) -> Record:
        """The coder of a dataclass."""
        found = self.of(kind)
        assert isinstance(found, Record)
        return found

    def _make(self, hint: Any) -> Coder:
        origin, inside = typing.get_origin(hint), typing.get_args(hint)
        if hint in (int, float, str, bool, type(None)):
            return Plain(hint)
        if origin is Literal:
            return OneOf(inside)
        if origin in (typing.Union, types.UnionType):
            return Union(tuple(self.of(one) for one in inside))
        if origin is tuple:
            open_ended = len(inside) == 2 and inside[1] is Ellipsis
            return Several(tuple(self.of(one) for one in (inside[:1] if open_ended else inside)), open_ended)
        if origin is dict and inside[0] is str:
            return Named(self.of(inside[1]))
        if origin is np.ndarray:
            (kind,) = typing.get_args(inside[1])
            return Array(None if kind is Any else np.dtype(kind))
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            return Record(hint, self)
        raise TypeError(f"a model file has no way to write {hint}")
