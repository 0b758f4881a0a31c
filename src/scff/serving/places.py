"""Where tables to score lie and where scores go: folders and files on this machine, or wherever fsspec reaches."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import fsspec
from fsspec.implementations.local import LocalFileSystem

from scff.errors import DataError, MissingDependency
from scff.memory.scratch import Scratch
from scff.tables.atomic import write_atomically

__all__ = ["Part", "Place", "digest_of", "parts_of", "place_of", "side_by_side"]

_PARQUET = (".parquet", ".pq")
_MISSING = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Place:
    """A path on a filesystem.

    Attributes
    ----------
    fs : AbstractFileSystem
        Of fsspec; it can be sent to another process.
    path : str
        Without the protocol.
    """

    fs: Any
    path: str

    def __truediv__(self, name: str) -> Place:
        return Place(self.fs, f"{self.path.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.path if self.is_local else str(self.fs.unstrip_protocol(self.path))

    @property
    def is_local(self) -> bool:
        """Whether this is on this machine's own disks."""
        return isinstance(self.fs, LocalFileSystem)

    @property
    def is_shared(self) -> bool:
        """Whether another process sees the same files."""
        return "memory" not in (self.fs.protocol if isinstance(self.fs.protocol, tuple) else (self.fs.protocol,))

    def opened(self) -> Any:
        """What Arrow reads from: the path itself, or a file object that fetches what is asked for."""
        return self.path if self.is_local else self.fs.open(self.path, "rb")

    def is_folder(self) -> bool:
        """Whether there is a folder here."""
        return bool(self.fs.isdir(self.path))

    def exists(self) -> bool:
        """Whether there is anything here."""
        return bool(self.fs.exists(self.path))

    def read(self) -> bytes:
        """All of a file."""
        return bytes(self.fs.cat_file(self.path))

    def files(self) -> dict[str, dict[str, Any]]:
        """What is known of every file below, by its path from here: one listing, however many there are."""
        root = self.path.rstrip("/")
        return {path[len(root) + 1 :]: facts for path, facts in self.fs.find(root, detail=True).items()}

    def write(self, write: Callable[[Path], object]) -> tuple[int, str]:
        """Let ``write`` fill a file, and put it here when it is whole; gives its size and SHA-256.

        On this machine it is moved into place. Elsewhere it is sent in one piece, which an object store shows whole or
        not at all.
        """
        facts: list[tuple[int, str]] = []

        def fill(path: Path) -> None:
            write(path)
            facts.append((path.stat().st_size, digest_of(path)))

        if self.is_local:
            target = Path(self.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, fill)
        else:
            with Scratch() as folder:
                whole = _inside(folder, self.path)
                fill(whole)
                self.fs.makedirs(self.fs._parent(self.path), exist_ok=True)
                self.fs.put_file(str(whole), self.path)
        return facts[0]

    def remove(self) -> None:
        """Remove a file, if there is one."""
        with contextlib.suppress(FileNotFoundError):
            self.fs.rm_file(self.path)

    @contextlib.contextmanager
    def on_disk(self) -> Iterator[Path]:
        """A path that any library can open: the file itself, or a copy that goes away again."""
        if self.is_local:
            yield Path(self.path)
            return
        with Scratch() as folder:
            copy = _inside(folder, self.path)
            self.fs.get_file(self.path, str(copy))
            yield copy


def _inside(folder: Path, path: str) -> Path:
    """A place of the same name in a folder of ours, apart from what is in it already."""
    (folder / "0").mkdir()
    return folder / "0" / PurePosixPath(path).name


@dataclass(frozen=True)
class Part:
    """One file of a table that is scored.

    Attributes
    ----------
    name : str
        Its path from the folder, hive partitions and all.
    place : Place
    size : int
        In bytes.
    stamp : str
        What changes when the file does: an etag, a version or a time.
    blocks : tuple of (str, Place)
        Where several tables hold the columns of the same rows: all of them, with their names.
    """

    name: str
    place: Place
    size: int
    stamp: str = ""
    blocks: tuple[tuple[str, Place], ...] = ()

    @property
    def tables(self) -> tuple[tuple[str, Place], ...]:
        """The tables it is made of, each with a name."""
        return self.blocks or ((self.name.rpartition("/")[2].split(".")[0], self.place),)

    @property
    def is_parquet(self) -> bool:
        """Whether its rows can be streamed."""
        return self.name.endswith(_PARQUET)

    @property
    def output(self) -> str:
        """Name of the part its scores go to."""
        return self.name if self.is_parquet else f"{self.name}.parquet"

    @property
    def partition(self) -> dict[str, str | None]:
        """Columns that the folders on the way spell out, as ``day=3`` does; None where one says that it is missing."""
        folders = (folder.partition("=") for folder in self.name.split("/")[:-1])
        spelt = {unquote(name): value for name, equals, value in folders if equals and name}
        return {name: None if value == _MISSING else unquote(value) for name, value in spelt.items()}


def place_of(where: Any, options: Mapping[str, Any] | None = None) -> Place:
    """The place behind a path or URL, such as ``s3://bucket/folder``.

    Raises
    ------
    MissingDependency
        If the package that reaches it is not installed.
    DataError
        If nothing is known that would reach it.
    """
    if isinstance(where, Place):
        return where
    try:
        fs, path = fsspec.core.url_to_fs(os.fspath(where), **(options or {}))
    except ImportError as error:
        raise MissingDependency(f"{where} cannot be reached: {error}.") from error
    except ValueError as error:  # an unknown protocol
        raise DataError(f"{where} cannot be reached: {error}.") from error
    return Place(fs, path)


def parts_of(source: Any, options: Mapping[str, Any] | None = None) -> list[Part]:
    """The files of a table, in the order of their names.

    Parameters
    ----------
    source : path, URL, pyarrow Dataset, or a list of paths or URLs
        A file; a folder, of which every Parquet file below counts; a dataset of files.
    options : mapping, optional
        For fsspec, such as credentials.

    Raises
    ------
    DataError
        If there is nothing to score.
    """
    if hasattr(source, "files") and hasattr(source, "filesystem"):  # a dataset of pyarrow
        return _dataset_parts(source)
    if isinstance(source, Sequence) and not isinstance(source, str):
        return _listed_parts([place_of(one, options) for one in source])
    place = place_of(source, options)
    if not place.exists():
        raise DataError(f"There is no file {source}; check the path.")
    if not place.is_folder():
        return [_part(PurePosixPath(place.path).name, place, place.fs.info(place.path))]
    found = sorted((name, facts) for name, facts in place.files().items() if _is_data(name))
    if not found:
        raise DataError(f"There is no .parquet file in {source}; check the path.")
    return [_part(name, place / name, facts) for name, facts in found]


def side_by_side(sources: Sequence[Any], options: Mapping[str, Any] | None = None) -> Part:
    """Several tables that hold the columns of the same rows, as one part; ``name=path`` names a block."""
    named: list[tuple[str, Place]] = []
    for source in sources:
        name, equals, path = os.fspath(source).partition("=")
        plain = not equals or "/" in name or place_of(source, options).exists()
        place = place_of(source if plain else path, options)
        named.append((PurePosixPath(place.path).name.split(".")[0] if plain else name, place))
    parts = [_listed_parts([place])[0] for _, place in named]
    stamp = " ".join(part.stamp for part in parts)
    return Part(parts[0].name, parts[0].place, sum(part.size for part in parts), stamp, tuple(named))


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_data(name: str) -> bool:
    # Names that start with a dot or an underscore are notes of whoever wrote the folder.
    return name.endswith(_PARQUET) and not any(step.startswith((".", "_")) for step in name.split("/"))


def _part(name: str, place: Place, facts: Mapping[str, Any]) -> Part:
    known = (
        facts.get(key) for key in ("ETag", "etag", "generation", "mtime", "LastModified", "last_modified", "created")
    )
    stamp = next((str(value) for value in known if value is not None), "")
    return Part(name, place, int(facts["size"]), stamp)


def _listed_parts(places: Sequence[Place]) -> list[Part]:
    """Files that were named one by one; below the folder they have in common."""
    if not places:
        raise DataError("There is no file to score; name at least one.")
    missing = next((place for place in places if not place.exists()), None)
    if missing is not None:
        raise DataError(f"There is no file {missing}; check the path.")
    steps = [place.path.split("/") for place in places]
    common = 0
    while all(len(path) > common + 1 and path[common] == steps[0][common] for path in steps):
        common += 1
    names = ["/".join(path[common:]) for path in steps]
    parts = [
        _part(name, place, place.fs.info(place.path))
        for name, place in sorted(zip(names, places, strict=True), key=lambda pair: pair[0])
    ]
    taken: dict[str, Part] = {}
    for part in parts:
        if (other := taken.setdefault(part.output, part)) is not part:
            why = "is named twice" if other.name == part.name else f"and {part.name} would have one name in the output"
            raise DataError(f"{other.name} {why}; name every table once, or score them apart.")
    return parts


def _dataset_parts(dataset: Any) -> list[Part]:
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow.fs import FSSpecHandler
    from pyarrow.fs import LocalFileSystem as ArrowLocal

    inner = dataset.filesystem
    if isinstance(inner, ArrowLocal):
        fs = LocalFileSystem()
    else:
        handler = getattr(inner, "handler", None)
        fs = handler.fs if isinstance(handler, FSSpecHandler) else ArrowFSWrapper(inner)
    return _listed_parts([Place(fs, path) for path in dataset.files])
