"""What is scored: the parts of a table, wherever they come from, and what lies beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from fsspec.implementations.local import LocalFileSystem

from scff.errors import DataError
from scff.serving.places import Place, place_of
from scff.tables.single_cell import is_matrix_folder

__all__ = ["Part", "Source", "side_by_side", "source_of"]

_PARQUET = (".parquet", ".pq")
_MISSING = "__HIVE_DEFAULT_PARTITION__"


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


@dataclass(frozen=True)
class Source:
    """What is scored.

    Attributes
    ----------
    parts : list of Part
        In the order of their names.
    folders : list of Place
        Folders that were gone through: what lies below is read again by the next run.
    passed_over : list of str
        Files in them that are no Parquet.
    """

    parts: list[Part]
    folders: list[Place] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)

    @property
    def note(self) -> str:
        """What was passed over, in a sentence; empty where nothing was."""
        if not self.passed_over:
            return ""
        count, first = len(self.passed_over), self.passed_over[0]
        what = (
            f"{first} is no Parquet file and was"
            if count == 1
            else f"{count} files are no Parquet ({first}, ...) and were"
        )
        return f"{what} passed over"


def source_of(source: Any, options: Mapping[str, Any] | None = None, *, blocks: bool = False) -> Source:
    """What there is to score.

    Parameters
    ----------
    source : path, URL, pyarrow Dataset, or a list of paths or URLs
        A file; a folder, of which every Parquet file below counts; a dataset of files; several of the first two, below
        the folder they have in common.
    options : mapping, optional
        For fsspec, such as credentials.
    blocks : bool, default=False
        Several tables hold the columns of the same rows.

    Raises
    ------
    DataError
        If there is nothing to score.
    """
    is_dataset = hasattr(source, "files") and hasattr(source, "filesystem")  # of pyarrow
    if is_dataset:
        source = _places_of(source)
    several = isinstance(source, Sequence) and not isinstance(source, str)
    if several and blocks:
        return Source([side_by_side(source, options)])
    places = [place_of(one, options) for one in (source if several else [source])]
    _refuse_missing(places)
    walked = [place.is_folder() and not _is_table(place) for place in places]
    folders = [place for place, is_walked in zip(places, walked, strict=True) if is_walked]
    # Of a folder the name itself may go, of a file it stays.
    steps = [
        [*place.path.rstrip("/").split("/"), *([""] if is_walked else [])]
        for place, is_walked in zip(places, walked, strict=True)
    ]
    common = 0
    while all(len(path) > common + 1 and path[common] == steps[0][common] for path in steps):
        common += 1
    if is_dataset and len(places) > 1:  # it does not say where it was found, and is found there again
        folders = [Place(places[0].fs, "/".join(steps[0][:common]))]
    passed_over: list[str] = []
    found: list[Part] = []
    for place, is_walked in zip(places, walked, strict=True):
        files = _in_folder(place, passed_over) if is_walked else [(place, _facts(place))]
        found += [_part("/".join(one.path.split("/")[common:]), one, facts) for one, facts in files]
    found.sort(key=lambda part: part.name)
    _refuse_twice(found)
    return Source(found, folders, passed_over)


def side_by_side(sources: Sequence[Any], options: Mapping[str, Any] | None = None) -> Part:
    """Several tables that hold the columns of the same rows, as one part; ``name=path`` names a block."""
    named: list[tuple[str, Place]] = []
    for source in sources:
        name, equals, path = os.fspath(source).partition("=")
        plain = not equals or "/" in name or place_of(source, options).exists()
        place = place_of(source if plain else path, options)
        named.append((PurePosixPath(place.path).name.split(".")[0] if plain else name, place))
    _refuse_missing([place for _, place in named])
    parts = [_part(place.path.rpartition("/")[2], place, _facts(place)) for _, place in named]
    stamp = " ".join(part.stamp for part in parts)
    return Part(parts[0].name, parts[0].place, sum(part.size for part in parts), stamp, tuple(named))


def _refuse_missing(places: Sequence[Place]) -> None:
    if not places:
        raise DataError("There is no file to score; name at least one.")
    missing = next((place for place in places if not place.exists()), None)
    if missing is not None:
        raise DataError(f"There is no file {missing}; check the path.")


def _refuse_twice(parts: Sequence[Part]) -> None:
    """Refuse parts that would write over each other."""
    taken: dict[str, Part] = {}
    for part in parts:
        if (other := taken.setdefault(part.output, part)) is not part:
            why = "is named twice" if other.name == part.name else f"and {part.name} would have one name in the output"
            raise DataError(f"{other.name} {why}; name every table once, or score them apart.")


def _is_table(place: Place) -> bool:
    """Whether a folder is one table, as 10x writes them."""
    return place.is_local and is_matrix_folder(Path(place.path))


def _in_folder(folder: Place, passed_over: list[str]) -> list[tuple[Place, Mapping[str, Any]]]:
    """The Parquet files below a folder; the others are added to those that are passed over."""
    found: list[tuple[Place, Mapping[str, Any]]] = []
    for name, facts in sorted(folder.files().items()):
        # Names that start with a dot or an underscore are notes of whoever wrote the folder.
        if any(step.startswith((".", "_")) for step in name.split("/")):
            continue
        if name.endswith(_PARQUET):
            found.append((folder / name, facts))
        else:
            passed_over.append(name)
    if not found:
        raise DataError(f"There is no .parquet file in {folder}; check the path.")
    return found


def _facts(place: Place) -> Mapping[str, Any]:
    """What is known of a file; of a folder that is one table what is known of the files in it."""
    if not place.is_folder():
        return dict(place.fs.info(place.path))
    files = [_part(name, place / name, facts) for name, facts in sorted(place.files().items())]
    return {"size": sum(part.size for part in files), "mtime": " ".join(f"{part.name} {part.stamp}" for part in files)}


def _part(name: str, place: Place, facts: Mapping[str, Any]) -> Part:
    known = (
        facts.get(key) for key in ("ETag", "etag", "generation", "mtime", "LastModified", "last_modified", "created")
    )
    stamp = next((str(value) for value in known if value is not None), "")
    return Part(name, place, int(facts["size"]), stamp)


def _places_of(dataset: Any) -> list[Place]:
    """The files of a dataset of pyarrow."""
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow.fs import FSSpecHandler
    from pyarrow.fs import LocalFileSystem as ArrowLocal

    inner = dataset.filesystem
    if isinstance(inner, ArrowLocal):
        fs = LocalFileSystem()
    else:
        handler = getattr(inner, "handler", None)
        fs = handler.fs if isinstance(handler, FSSpecHandler) else ArrowFSWrapper(inner)
    return [Place(fs, path) for path in dataset.files]
