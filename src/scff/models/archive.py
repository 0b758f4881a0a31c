"""The outer file: a zip of a few members, each stored as it is.

Nothing is compressed, so nothing can be blown up; members lie one after the other and fill the file, so nothing can
hide in it; only known names are read, so no name leads anywhere. The checksum of each member is compared before anyone
looks inside.
"""

from __future__ import annotations

import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from scff.errors import ModelFileError

__all__ = ["CACHES", "DOCUMENT", "MEMBERS", "SUPPORT", "TENSORS", "Archive", "write_archive"]

DOCUMENT, SUPPORT, TENSORS, CACHES = "model.json", "support.arrow", "arrays.safetensors", "caches.safetensors"
MEMBERS = (DOCUMENT, SUPPORT, TENSORS, CACHES)

_LOCAL, _END = struct.Struct("<4s5H3L2H"), struct.Struct("<4s16xH")
#: Where the bytes of a member begin, so that arrays in it may be used in place.
_ALIGN = 64
_PADDING = 0xD935  # the extra field that other tools use for the same purpose
_ZIP64 = 20
_STEP = 1 << 20

#: How files begin that can run code when they are read: pickles, and what joblib compresses them with.
_PICKLES = (b"\x80", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x04\x22M")


def write_archive(path: Path, members: Mapping[str, Callable[[IO[bytes]], object]]) -> None:
    """Write members one after the other.

    Parameters
    ----------
    path : Path
        The file to write; it may exist and be empty.
    members : mapping of str to callable
        What writes the bytes of each member.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, write in members.items():
            entry = zipfile.ZipInfo(name)  # of 1980: the same model is the same bytes, whenever it is written
            entry.external_attr = 0o600 << 16
            assert archive.fp is not None
            start = archive.fp.tell() + _LOCAL.size + len(name) + _ZIP64 + 4
            padding = -start % _ALIGN
            entry.extra = struct.pack("<HH", _PADDING, padding) + bytes(padding)
            with archive.open(entry, "w", force_zip64=True) as out:
                write(out)


@dataclass(frozen=True)
class Archive:
    """The members of a model file.

    Attributes
    ----------
    path : Path
    content : dict of str to memoryview
        The bytes of each member. Those of the caches stay in the file and are mapped; a copy on write, so whatever is
        done to them changes no file.
    """

    path: Path
    content: dict[str, memoryview]

    @classmethod
    def open(cls, path: Path) -> Archive:
        """Read a file.

        Raises
        ------
        ModelFileError
            If it is missing, of another kind, cut off or damaged.
        """
        if not os.path.isfile(path):  # which answers for names that no file system takes
            raise ModelFileError(f"There is no model {str(path)[:200]}; make one with `scff fit`.")
        try:
            with path.open("rb") as file:
                _recognise(path, file.read(8))
                spans = _spans(file)
                content = {name: _bytes(file, name, *span) for name, span in spans.items()}
        except ModelFileError:
            raise
        except Exception as error:  # zipfile raises half a dozen unrelated types for a damaged file
            said = (str(error).splitlines() or [""])[0][:120] or type(error).__name__
            raise ModelFileError(
                f"{path} is cut off or damaged ({said}); copy it again, or fit the model again."
            ) from error
        return cls(path, content)


def _recognise(path: Path, start: bytes) -> None:
    if start.startswith(b"PK"):
        return
    if start.startswith(_PICKLES):
        raise ModelFileError(
            f"{path} is a pickle, as joblib and early versions of scff wrote them; reading one can run any code, so it "
            "is not opened. Fit the model again and save it with `clf.save` or `scff fit`."
        )
    raise ModelFileError(f"{path} is not a model written by `scff fit`, or it is damaged; fit it again.")


def _spans(file: IO[bytes]) -> dict[str, tuple[int, int, int]]:
    """Where the bytes of each member begin and end, and their checksum."""
    spans: dict[str, tuple[int, int, int]] = {}
    file.seek(-_END.size, os.SEEK_END)
    signature, comment = _END.unpack(file.read(_END.size))
    if signature != b"PK\x05\x06" or comment != 0:  # zipfile looks further up for it
        raise ValueError("its end is missing, or something follows it")
    with zipfile.ZipFile(file) as archive:
        here = 0
        for entry in archive.infolist():
            name = entry.filename
            if name not in MEMBERS or name in spans:
                raise ValueError(f"a member {name[:60]!r} that no model has" if name not in spans else f"two {name}")
            if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & ~0x800:
                raise ValueError(f"{name} is compressed or encrypted")
            if entry.header_offset != here:
                raise ValueError(f"{name} is not where it should be")
            file.seek(here)
            head = _LOCAL.unpack(file.read(_LOCAL.size))
            if head[0] != b"PK\x03\x04" or head[3] != zipfile.ZIP_STORED or file.read(head[9]) != name.encode():
                raise ValueError(f"{name} is not where it should be")
            start = here + _LOCAL.size + head[9] + head[10]
            here = start + entry.file_size
            if entry.compress_size != entry.file_size or here > archive.start_dir:
                raise ValueError(f"{name} has another size than it says")
            spans[name] = start, here, entry.CRC
        if here != archive.start_dir:
            raise ValueError("something lies between its members")
    missing = [name for name in MEMBERS[:3] if name not in spans]
    if missing:
        raise ValueError(f"it has no {missing[0]}")
    return spans


def _bytes(file: IO[bytes], name: str, start: int, stop: int, checksum: int) -> memoryview:
    if name == CACHES:
        # Copied into memory they would cost what they are to save.
        whole = mmap.mmap(file.fileno(), stop, access=mmap.ACCESS_COPY)
        found = memoryview(whole)[start:stop]
    else:
        file.seek(start)
        found = memoryview(_read(file, stop - start))
    seen = 0
    for at in range(0, len(found), _STEP):
        seen = zlib.crc32(found[at : at + _STEP], seen)
    if seen != checksum:
        raise ValueError(f"{name} is not what was written")
    return found


def _read(file: IO[bytes], size: int) -> bytes:
    # A size is a claim of the file until it is compared with what is there.
    if size > os.fstat(file.fileno()).st_size:
        raise ValueError("it is shorter than it says")
    content = file.read(size)
    if len(content) != size:
        raise ValueError("it is shorter than it says")
    return content
