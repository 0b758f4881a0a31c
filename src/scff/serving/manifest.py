"""What is finished in a folder of scores: which model wrote it, and a line for every part.

The line of a part is written after the part itself is in place. Killed in between, the part is scored again and takes
its own place: there is no moment at which a row is missing for good or there twice.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from scff.errors import DataError
from scff.serving.places import Place
from scff.serving.source import Part

__all__ = ["FOLDER", "Head", "Manifest", "Record"]

FOLDER = "_scff"
"""Where a folder of scores keeps its notes; the underscore hides it from readers of datasets."""

_FORMAT = "scff-scores-1"
# Where a file cannot grow, finished parts are noted together, this often at most.
_SECONDS = 10.0


@dataclass(frozen=True)
class Head:
    """What all parts of a folder of scores have in common.

    Attributes
    ----------
    model : str
        SHA-256 of the model file.
    columns : tuple of (str, str)
        Names and Arrow types of what is written.
    """

    model: str
    columns: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, model: str, schema: pa.Schema) -> Head:
        """The head of scores with this schema."""
        return cls(model, tuple((name, str(kind)) for name, kind in zip(schema.names, schema.types, strict=True)))

    def to_json(self) -> str:
        """As it is written."""
        return json.dumps({"format": _FORMAT} | asdict(self))


@dataclass(frozen=True)
class Record:
    """A finished part.

    Attributes
    ----------
    part : str
        Name of the part that was read.
    size, stamp : int, str
        What it was like.
    output : str
        Name of the part that was written.
    rows, bytes : int
    sha256 : str
        Of what was written, for whoever wants to be sure: a run that goes on compares sizes, which one listing tells
        it, and reads nothing that is finished.
    notes : tuple of str
        What reading it did that nobody asked for.
    """

    part: str
    size: int
    stamp: str
    output: str
    rows: int
    bytes: int
    sha256: str
    notes: tuple[str, ...] = ()


class Manifest:
    """The notes of a folder of scores; a context.

    Parameters
    ----------
    folder : Place
        Where the scores go.
    head : Head
    overwrite : bool
        Remove what another run has written there, and begin anew.
    file : Place, optional
        The file that the folder's scores are for, if they are for one.

    Raises
    ------
    DataError
        On entry: if another run is at work there, or the folder holds files that are not ours, or scores of another
        model or with other columns.
    """

    def __init__(self, folder: Place, head: Head, *, overwrite: bool = False, file: Place | None = None) -> None:
        self._folder, self._head, self._overwrite, self._file_for = folder, head, overwrite, file
        self._notes = folder / FOLDER
        self._open = contextlib.ExitStack()
        self._waiting: list[Record] = []
        self._last = time.monotonic()
        self.done: dict[str, Record] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opening:
            if self._folder.is_local:
                opening.enter_context(_alone(Path(self._notes.path)))
            there = self._folder.files() if self._folder.exists() else {}
            if self._overwrite:
                there = self._clear(there)
            self._check(there)
            self.done = {record.part: record for record in _records(self._notes, there) if _is_there(record, there)}
            (self._notes / "head.json").write(lambda path: path.write_text(self._head.to_json()))
            self._old = [name for name in there if _is_journal(name)]
            self._journal = self._new_journal()
            if self._folder.is_local:
                self._file = opening.enter_context(Path(self._journal.path).open("w", encoding="utf-8"))
            self._open = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._open:
            self._flush()
            self._compact()

    def has(self, part: Part) -> bool:
        """Whether a part is finished, and is still what it was."""
        record = self.done.get(part.name)
        return record is not None and (record.size, record.stamp) == (part.size, part.stamp)

    def add(self, record: Record) -> None:
        """Note a finished part."""
        self.done[record.part] = record
        self._waiting.append(record)
        if self._folder.is_local or time.monotonic() - self._last > _SECONDS:
            self._flush()

    def drop(self, part: Part) -> None:
        """Remove what was written of a part that is not what it was and cannot be scored any more."""
        record = self.done.pop(part.name, None)
        if record is not None:
            (self._folder / record.output).remove()

    def _flush(self) -> None:
        lines = "".join(json.dumps(asdict(record)) + "\n" for record in self._waiting)
        if not lines:
            return
        if self._folder.is_local:
            self._file.write(lines)
            self._file.flush()
        else:  # a file of an object store does not grow: the next lines get one of their own
            self._journal.write(lambda path: path.write_text(lines))
            self._old.append(f"{FOLDER}/{self._journal.path.rpartition('/')[2]}")
            self._journal = self._new_journal()
        self._waiting, self._last = [], time.monotonic()

    def _compact(self) -> None:
        """All lines in one file; the others go when it is there."""
        lines = "".join(json.dumps(asdict(record)) + "\n" for _, record in sorted(self.done.items()))
        whole = self._new_journal()
        whole.write(lambda path: path.write_text(lines))
        for name in self._old:
            (self._folder / name).remove()
        if self._folder.is_local:
            self._journal.remove()

    def _new_journal(self) -> Place:
        return self._notes / f"done-{uuid.uuid4().hex}.jsonl"

    def _clear(self, there: Mapping[str, Any]) -> dict[str, Any]:
        """Remove what the notes say was written, the notes last; gives what is left."""
        written = {record.output for record in _records(self._notes, there)} & set(there)
        notes = {name for name in there if _is_journal(name) or name == f"{FOLDER}/head.json"}
        for name in (*sorted(written), *sorted(notes)):
            (self._folder / name).remove()
        return {name: facts for name, facts in there.items() if name not in written | notes}

    def _check(self, there: Mapping[str, Any]) -> None:
        if f"{FOLDER}/head.json" not in there:
            # What begins with a dot or an underscore is a note of whoever made the folder, and no reader's table.
            strangers = [name for name in there if not any(step[:1] in "._" for step in name.split("/"))]
            if strangers:
                raise DataError(
                    f"{self._folder} holds {strangers[0]!r}, which no run of `scff predict` has noted; choose an empty "
                    "folder for the predictions."
                )
            return
        before = _head(self._folder)
        if before == self._head:
            return
        what = "another model" if before.model != self._head.model else "other columns"
        if self._file_for is not None:
            raise DataError(
                f"{self._file_for} was begun with {what}, and parts of it wait in {self._folder}; finish it with the "
                "arguments it was begun with, or pass --overwrite to begin anew."
            )
        raise DataError(
            f"{self._folder} holds predictions of {what}; choose another folder, or pass --overwrite to begin anew."
        )


def _head(folder: Place) -> Head:
    try:
        read = json.loads((folder / FOLDER / "head.json").read())
        if read["format"] != _FORMAT:
            raise ValueError(read["format"])
        return Head(read["model"], tuple((name, kind) for name, kind in read["columns"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{folder} was written by another version of scff; choose another folder, or pass --overwrite."
        ) from error


def _records(notes: Place, there: Mapping[str, Any]) -> Iterator[Record]:
    for name in filter(_is_journal, sorted(there)):
        for line in (notes / name.rpartition("/")[2]).read().decode(errors="replace").splitlines():
            # The last line of a run that was killed may be half a line; its part is scored again.
            with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
                found = json.loads(line)
                record = Record(**found | {"notes": tuple(found["notes"])})
                if _is_sound(record):
                    yield record


def _is_sound(record: Record) -> bool:
    """Whether every field is of its type: the notes of a folder may have been written by anyone."""
    texts = (record.part, record.stamp, record.output, record.sha256, *record.notes)
    counts = (record.size, record.rows, record.bytes)
    return all(isinstance(text, str) for text in texts) and all(type(count) is int for count in counts)


def _is_journal(name: str) -> bool:
    return name.startswith(f"{FOLDER}/done-") and name.endswith(".jsonl")


def _is_there(record: Record, there: Mapping[str, Any]) -> bool:
    return record.output in there and int(there[record.output]["size"]) == record.bytes


@contextlib.contextmanager
def _alone(notes: Path) -> Iterator[None]:
    """Keep other runs out; the system lets go of the lock when a run is killed."""
    from filelock import FileLock, Timeout

    notes.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(notes / "lock", timeout=0):
            yield
    except Timeout as error:
        raise DataError(f"Another run is writing to {notes.parent}; wait for it, or choose another folder.") from error
