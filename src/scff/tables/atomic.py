"""Write the whole of a file or nothing of it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from scff.errors import DataError

__all__ = ["write_atomically"]

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG}


def write_atomically(path: Path, write: Callable[[Path], object], *, private: bool = False) -> None:
    """Let ``write`` fill a temporary file beside ``path``, and move it there only when it is whole and on disk.

    A kill at any moment leaves the old file or the new one. The temporary name is hidden and ends in ``.tmp``, so that
    nobody who lists the folder takes it for a finished file; two processes never share one. A link is written through,
    and a file that was there keeps its mode.

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
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if not target.parent.is_dir():
        raise DataError(f"There is no directory {target.parent}; create it first.")
    if target.exists() and not target.is_file():
        raise DataError(f"{path} is not a regular file; name a file to write.")
    temporary = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        # Made before it is filled, so that nobody else can read what is private even while it grows.
        temporary.touch(0o600 if private else 0o666, exist_ok=False)
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        if error.errno not in _NO_ROOM:  # whatever else goes wrong in `write` is its own affair
            raise
        raise DataError(f"{path} cannot be written ({error.strerror}); check the folder and its room.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
