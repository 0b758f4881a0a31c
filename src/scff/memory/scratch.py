"""Folders and files that live as long as their run, told from leftovers by a lock that a dead process cannot hold.

The lock is the kernel's (``flock``): it goes with the process, however that ends, and a forked child shares it. Whoever
makes the next one removes what nobody holds. Where there are no such locks, a day of age decides.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

try:
    fcntl: Any = import_module("fcntl")
except ImportError:  # not a Unix
    fcntl = None

__all__ = ["PartialFile", "Scratch", "remove_leftovers", "temporary_files_in"]

_PREFIX, _LOCK = "scff-", "in-use"
_FOLDER = re.compile(r"scff-[a-z0-9_]{8}")
_FILE = re.compile(r"\..+\.scff-[0-9a-f]{32}\.tmp")
_OLD = 24 * 3600.0

#: Directories that this process has looked through; once is enough, and some hold very many files.
_seen: set[tuple[int, str]] = set()


class Scratch:
    """A private folder for what does not fit into memory; it goes with the object, or with the process that made it.

    A forked child may read what is in it and cannot remove it.

    Attributes
    ----------
    path : Path
    owner : int
        The process that made it.
    """

    def __init__(self) -> None:
        remove_leftovers(Path(tempfile.gettempdir()))
        self.owner = os.getpid()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            lock = _claim(self.path / _LOCK)
            if lock is not None:
                break
        self._finalizer = weakref.finalize(self, _remove, self.path, self.owner, lock)

    @property
    def is_mine(self) -> bool:
        """Whether this process made it."""
        return os.getpid() == self.owner

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self._finalizer()


class PartialFile:
    """A hidden file beside a target, to be filled and then moved there.

    Parameters
    ----------
    target : Path
    mode : int
        Of the new file.
    """

    def __init__(self, target: Path, mode: int) -> None:
        remove_leftovers(target.parent)
        while True:
            self.path = target.with_name(f".{target.name}.scff-{uuid4().hex}.tmp")
            self._lock = _claim(self.path, mode)
            if self._lock is not None:
                return

    def remove(self) -> None:
        """Remove what is left of it."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextlib.contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Let temporary files of whatever is called meanwhile lie in a folder, such as one that goes with its run."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def remove_leftovers(folder: Path) -> None:
    """Remove what killed runs left in a folder; what a living one uses stays."""
    key = os.getpid(), str(folder)
    if key in _seen:
        return
    _seen.add(key)
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            path = folder / name
            if _FILE.fullmatch(name) and not path.is_symlink():
                _remove_dead(path, path)
            elif _FOLDER.fullmatch(name) and _is_ours(path):
                _remove_dead(path, path / _LOCK)


def _is_ours(folder: Path) -> bool:
    """Whether a folder belongs to this user and has a lock, or, as without locks, nothing but caches."""
    try:
        mine = not hasattr(os, "getuid") or folder.lstat().st_uid == os.getuid()
        inside = os.listdir(folder)
        return mine and not folder.is_symlink() and (_LOCK in inside or all(name.isdigit() for name in inside))
    except OSError:
        return False


def _remove_dead(path: Path, lock: Path) -> None:
    """Remove a file or folder unless someone holds its lock."""
    held = None
    try:
        if fcntl is not None and lock.exists():
            held = os.open(lock, os.O_RDWR)
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # whoever is killed lets go of it
        elif time.time() - path.stat().st_mtime < _OLD:
            return  # nothing says whether its run is alive
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    except OSError:  # in use, or gone, or not ours to remove
        return
    finally:
        if held is not None:
            os.close(held)


def _claim(path: Path, mode: int = 0o600) -> int | None:
    """Make a file and lock it; None where somebody took it for a leftover in between."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
    if fcntl is None:
        return descriptor
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    except FileNotFoundError:
        pass
    except OSError:  # somebody is about to remove it, or this file system knows no locks
        if path.exists():
            return descriptor
    os.close(descriptor)
    return None


def _remove(path: Path, owner: int, lock: int) -> None:
    if os.getpid() != owner:  # a forked child has its parent's objects, and their ends
        return
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.close(lock)
