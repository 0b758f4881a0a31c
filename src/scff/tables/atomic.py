"""Write the whole of a file or nothing of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from scff.errors import DataError, SCFFError
from scff.memory.scratch import PartialFile

__all__ = ["file_to_write", "is_one_of", "named_file", "write_atomically"]


def named_file(path: Any) -> Path:
    """A path that somebody gave, as one.

    Raises
    ------
    DataError
        If it is none.
    """
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise DataError(f"A file has a name, and {type(path).__name__} is not the path of one; give its name.")
    return Path(path)


def is_one_of(path: str | Path, files: Iterable[str | os.PathLike[str]]) -> bool:
    """Whether a path leads to one of some files, by whatever name."""
    return os.path.exists(path) and any(os.path.exists(one) and os.path.samefile(one, path) for one in files)


def file_to_write(path: Path, read: Iterable[str | Path] = ()) -> Path:
    """The file behind a path, links followed; for asking before hours of work go into it.

    Parameters
    ----------
    path : Path
    read : iterable of path
        Files that the same work reads: it must not take the place of one of them.

    Raises
    ------
    DataError
        If no file can be written there, as far as can be told without trying.
    """
    if "\0" in str(path):
        raise DataError(f"{str(path)!r} names no file: there is a zero byte in it.")
    try:
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        if target.is_symlink():
            raise DataError(f"{path} is a link that leads to itself; name a file to write.")
        if not target.parent.is_dir():
            raise DataError(f"There is no directory {target.absolute().parent}; create it first.")
        if target.exists() and not target.is_file():
            raise DataError(f"{path} is not a regular file; name a file to write.")
        if is_one_of(target, read):
            raise DataError(f"{path} is one of the files that are read, and would be lost; name another to write.")
    except UnicodeEncodeError as error:
        raise DataError(f"{str(path)!r} names no file: there is half a character in it.") from error
    except SCFFError:
        raise
    except OSError as error:
        raise _not_written(path, error) from error
    return target


def _not_written(path: Path, error: OSError) -> DataError:
    why = error.strerror or (str(error).splitlines() or ["it failed"])[0][:160]
    return DataError(f"{path} cannot be written ({why}); check the folder, its permissions and its room.")


def write_atomically(path: Path, write: Callable[[Path], object], *, private: bool = False) -> None:
    """Let ``write`` fill a temporary file beside ``path``, and move it there only when it is whole and on disk.

    A kill at any moment leaves the old file or the new one. The temporary name is hidden and ends in ``.tmp``, so that
    nobody who lists the folder takes it for a finished file; two processes never share one, and what a killed one left
    is removed by the next that writes there. A link is written through, and a file that was there keeps its mode.

    Parameters
    ----------
    path : Path
        The file to write.
    write : callable
        Takes the path of the temporary file.
    private : bool, default=False
        Whether a new file is for its owner's eyes only.

    Raises
    ------
    DataError
        If the directory is missing or cannot be written, if ``path`` is a device, a pipe or a directory, or if there is
        no room.
    """
    target = file_to_write(path)
    partial: PartialFile | None = None
    try:
        # Made before it is filled, so that nobody else can read what is private even while it grows.
        partial = PartialFile(target, 0o600 if private else 0o666)
        temporary = partial.path
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except SCFFError:  # some of them are also an OSError
        raise
    except UnicodeEncodeError as error:
        raise DataError(f"{str(path)!a} holds half a character, which no file name may; name it otherwise.") from error
    except OSError as error:
        raise _not_written(path, error) from error
    finally:
        if partial is not None:
            partial.remove()
