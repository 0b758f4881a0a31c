"""Where scores go: one file or a folder of parts, and never in the place of something that is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from scff.errors import DataError
from scff.serving.places import Place
from scff.serving.source import Source
from scff.tables.atomic import is_one_of

__all__ = ["beside", "is_file", "keep_apart", "keep_whole"]

_FILES = (".parquet", ".pq", ".csv", ".tsv")


def is_file(output: Any, target: Place) -> bool:
    """Whether one file is asked for: by the ending of the name, unless it is a folder or ends in a slash.

    Raises
    ------
    DataError
        If a file of that name cannot be written.
    """
    suffix = PurePosixPath(target.path).suffix
    if not suffix or str(output).endswith("/") or target.is_folder():
        return False
    if suffix not in _FILES:
        raise DataError(f"The output {output} must end in .csv, .tsv or .parquet, or in a slash for a folder of parts.")
    if target.is_local and not (folder := Path(target.path).parent).is_dir():
        raise DataError(f"There is no directory {folder}; create it first.")
    return True


def beside(target: Place) -> Place:
    """The folder where the parts of a file wait until it can be written."""
    folder, _, name = target.path.rpartition("/")
    return Place(target.fs, f"{folder}/.{name}.parts")


def keep_apart(source: Source, target: Place, outputs: Iterable[Place]) -> None:
    """Refuse an output in a folder that is read, where the next run would read it, or in the place of a file that is.

    Raises
    ------
    DataError
        Naming it.
    """
    for folder in source.folders:
        same = type(folder.fs) is type(target.fs)
        if same and f"{target.path.rstrip('/')}/".startswith(f"{folder.path.rstrip('/')}/"):
            raise DataError(f"The output {target} lies in the folder that is read; choose a place outside.")
    read = {_known(place) for part in source.parts for _, place in part.tables}
    taken = next((place for place in (target, *outputs) if _known(place) in read), None)
    if taken is not None:
        raise DataError(f"The output {taken} is one of the files that are read; name another to write.")


def keep_whole(read: Sequence[Any], target: Place) -> None:
    """Refuse an output that would take the place of the model, or of a sample sheet.

    Raises
    ------
    DataError
        If it would.
    """
    files = [path for path in read if isinstance(path, str | os.PathLike)]
    if target.is_local and is_one_of(target.path, files):
        raise DataError(f"The output {target} is one of the files that are read; name another to write.")


def _known(place: Place) -> tuple[type, str]:
    """What tells places apart, links followed."""
    return type(place.fs), os.path.realpath(place.path) if place.is_local else place.path
