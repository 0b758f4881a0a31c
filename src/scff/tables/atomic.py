"""Write the whole of a file or nothing of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from scff.errors import DataError

__all__ = ["write_atomically"]


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, and move it there only when it is whole and on disk.

    A kill at any moment leaves the old file or the new one. The temporary name is hidden and ends in ``.tmp``, so that
    nobody who lists the folder takes it for a finished file; two processes never share one.

    Parameters
    ----------
    path : Path
        The file to write.
    write : callable
        Takes the path of the temporary file.

    Raises
    ------
    DataError
        If the directory of ``path`` is missing.
    """
    if not path.parent.is_dir():
        raise DataError(f"There is no directory {path.parent}; create it first.")
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
