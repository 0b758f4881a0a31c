"""Arrays as safetensors: a list of names, types, shapes and places in JSON, then the bytes."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from scff.models.limits import CELLS, DIMENSIONS, HEADER_BYTES

__all__ = ["Misfit", "Stored", "parse_json", "read_tensors", "write_tensors"]

#: Types by their name in the format, and the size of a value. NumPy has no bfloat16.
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}
_NUMPY["BOOL"] = "?"
_NAMES = {np.dtype(kind): name for name, kind in _NUMPY.items()}


class Misfit(Exception):
    """Something in a model file is not as it is written; the message says what."""


@dataclass(frozen=True)
class Stored:
    """An array as bytes.

    Attributes
    ----------
    kind : str
        One of the format's names of types.
    shape : tuple of int
    data : buffer
        The values, one after the other, little end first.
    """

    kind: str
    shape: tuple[int, ...]
    data: Any

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Stored:
        """An array of a plain type."""
        flat = np.ascontiguousarray(array)
        return cls(_NAMES[flat.dtype.newbyteorder("=")], array.shape, flat.reshape(-1).view(np.uint8))

    @property
    def nbytes(self) -> int:
        """Size of the values."""
        return SIZES[self.kind] * math.prod(self.shape)

    def array(self) -> npt.NDArray[Any]:
        """The array itself, read-only."""
        if self.kind not in _NUMPY:
            raise Misfit(f"an array of {self.kind}, which NumPy does not have")
        if self.kind == "BOOL" and np.frombuffer(self.data, dtype=np.uint8).max(initial=0) > 1:
            raise Misfit("truth values other than 0 and 1")
        return np.frombuffer(self.data, dtype=np.dtype(_NUMPY[self.kind])).reshape(self.shape)


def write_tensors(out: IO[bytes], arrays: Mapping[str, Stored]) -> None:
    """Write arrays one after the other, largest values first so that each lies at a multiple of its size."""
    ordered = sorted(arrays.items(), key=lambda item: -SIZES[item[1].kind])
    places, here = {}, 0
    for name, stored in ordered:
        places[name] = {
            "dtype": stored.kind,
            "shape": list(stored.shape),
            "data_offsets": [here, here + stored.nbytes],
        }
        here += stored.nbytes
    header = json.dumps(places, separators=(",", ":")).encode()
    header += b" " * (-(len(header) + 8) % 64)  # with the eight bytes of its length, a multiple of 64
    out.write(struct.pack("<Q", len(header)))
    out.write(header)
    for _, stored in ordered:
        out.write(memoryview(stored.data))


def read_tensors(content: memoryview) -> dict[str, Stored]:
    """Arrays by name; their values stay where they are.

    Raises
    ------
    Misfit
        If the list is not one, or does not describe the bytes exactly.
    """
    if len(content) < 8:
        raise Misfit("a list of arrays that is cut off")
    (size,) = struct.unpack("<Q", content[:8])
    if size > min(HEADER_BYTES, len(content) - 8):
        raise Misfit("a list of arrays that is longer than it may be")
    listed = parse_json(bytes(content[8 : 8 + size]), HEADER_BYTES)
    data = content[8 + size :]
    found = {}
    for name, entry in _dictionary(listed, "the list of arrays").items():
        entry = _dictionary(entry, f"array {name[:60]!r}")
        if set(entry) != {"dtype", "shape", "data_offsets"}:
            raise Misfit(f"array {name[:60]!r} is not described as arrays are")
        kind, shape, offsets = entry["dtype"], _whole_numbers(entry["shape"]), _whole_numbers(entry["data_offsets"])
        if not isinstance(kind, str) or kind not in SIZES:
            raise Misfit(f"array {name[:60]!r} is of an unknown type")
        if shape is None or len(shape) > DIMENSIONS or math.prod(max(1, n) for n in shape) > CELLS:
            raise Misfit(f"array {name[:60]!r} has no shape")
        if offsets is None or len(offsets) != 2 or not 0 <= offsets[0] <= offsets[1] <= len(data):
            raise Misfit(f"array {name[:60]!r} lies outside the file")
        if SIZES[kind] * math.prod(shape) != offsets[1] - offsets[0]:
            raise Misfit(f"array {name[:60]!r} is not as large as its shape")
        found[name] = (offsets, Stored(kind, shape, data[offsets[0] : offsets[1]]))
    here = 0
    for start, stop in sorted(offsets for offsets, _ in found.values()):
        if start != here:
            raise Misfit("arrays that overlap, or bytes that belong to none")
        here = stop
    if here != len(data):
        raise Misfit("bytes behind the last array")
    return {name: stored for name, (_, stored) in found.items()}


def parse_json(content: bytes, most: int, brackets: int | None = None) -> Any:
    """Plain JSON within limits: no NaN, no name twice.

    Raises
    ------
    Misfit
        If it is not.
    """
    if len(content) > most:
        raise Misfit(f"{len(content):,} bytes of JSON, more than the {most:,} that are read")
    if brackets is not None and content.count(b"[") + content.count(b"{") > brackets:
        raise Misfit("more lists than are read")
    try:
        return json.loads(content.decode(), object_pairs_hook=_once_each, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Misfit(f"no JSON ({(str(error).splitlines() or [''])[0][:80]})") from error


def _once_each(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:60]!r} occurs twice")
        found[name] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _dictionary(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misfit(f"{what} is not an object")
    return value


def _whole_numbers(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(n) is int and n >= 0 for n in value):
        return None
    return tuple(value)
