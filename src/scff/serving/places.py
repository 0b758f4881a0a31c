"""Where tables lie and where scores go: folders and files on this machine, or wherever fsspec reaches."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from scff.errors import DataError, MissingDependency
from scff.memory.scratch import Scratch
from scff.tables.atomic import write_atomically

__all__ = ["Place", "digest_of", "place_of"]


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


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
