"""Records: one JSON file per cell, written at once or not at all, with a checksum inside."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from scff.errors import SCFFError
from scff.tables.atomic import write_atomically

__all__ = ["CellKey", "CorruptRecord", "Record", "RecordStore", "Reuse"]

logger = logging.getLogger(__name__)

_FORMAT = "scff-record-1"

Reuse = Literal["yes", "present", "no", "only"]
"""Which records are reused: all, those of the present code, none ("no" runs all again), or all, and nothing is run."""


class CorruptRecord(SCFFError):
    """A record file is cut short, edited or otherwise not what was written."""


@dataclass(frozen=True, order=True)
class CellKey:
    """What one record is about.

    Attributes
    ----------
    protocol, backbone : str
    checkpoint : str
        Beginning of the weights' sha256, or "none" for a baseline: a new checkpoint is a new cell.
    dataset : str
    variant : str
    fold : int
    arm : str
    """

    protocol: str
    backbone: str
    checkpoint: str
    dataset: str
    variant: str
    fold: int
    arm: str

    @property
    def path(self) -> Path:
        """Place of the record below the results folder."""
        model = f"{self.backbone}@{self.checkpoint}"
        return Path("records", self.protocol, model, self.dataset, self.variant, f"f{self.fold}", f"{self.arm}.json")


@dataclass(frozen=True)
class Record:
    """The receipt of one cell.

    Attributes
    ----------
    key : CellKey
    status : {"ok", "failed", "excluded"}
    reason : str
        Why not, where it is not "ok".
    settings_hash : str
        What the arm did.
    data_digest, support_hash, query_hash : str
    n_support, n_query, n_columns, n_classes : int
    n_groups : int
        Groups of the whole table that no fold divides; 0 where rows stand alone.
    query_chunk : int
        Query rows predicted together.
    metrics : dict
        See `scff.bench.metrics.METRICS`.
    seconds : dict
        "load", "plan", "compile", "predict", "total" (all but loading the weights), and "cpu", the processor's time of
        fitting and predicting once, all threads together: what else the machine does is not in it.
    repeats : int
        Timed predictions; "predict" is their median.
    memory : dict
        "meter", "start", "peak", "added" in bytes; the meter "shared" says that the arm ran beside others and that
        neither these nor its seconds are its own.
    plan : dict
        "hash", "core" (columns), "core_leaves", "tail_leaves"; empty where nothing is planned.
    gate : dict
        "accepted", "alpha", "reason"; empty where there is none.
    verdict : dict
        What held-back rows let the arm "read", with which "weight"; what was "tried", "gain", "error", "reason". Empty
        for everything but `auto`.
    probability_hash : str
        Digest of the predicted probabilities.
    checkpoint_sha256 : str
    host : dict
        Machine, versions, threads.
    """

    key: CellKey
    status: str
    reason: str = ""
    settings_hash: str = ""
    data_digest: str = ""
    support_hash: str = ""
    query_hash: str = ""
    n_support: int = 0
    n_query: int = 0
    n_columns: int = 0
    n_classes: int = 0
    n_groups: int = 0
    query_chunk: int = 0
    metrics: dict[str, float | None] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    repeats: int = 1
    memory: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    gate: dict[str, Any] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    probability_hash: str = ""
    checkpoint_sha256: str = ""
    host: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the cell was completed."""
        return self.status == "ok"

    def to_json(self) -> str:
        """Serialise with a checksum over everything else."""
        body = {"format": _FORMAT, **asdict(self)}
        return json.dumps({**body, "checksum": _checksum(body)}, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Read what `to_json` wrote.

        Raises
        ------
        CorruptRecord
            If it is anything else.
        """
        try:
            body: dict[str, Any] = json.loads(text)
            checksum = body.pop("checksum")
            if checksum != _checksum(body) or body.pop("format") != _FORMAT:
                raise CorruptRecord("the checksum does not match")
            return cls(**{**body, "key": CellKey(**body["key"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptRecord(f"not a record ({error})") from error


class RecordStore:
    """The records of a results folder, or of a file that has one to a line, which is only read.

    Parameters
    ----------
    root : path
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def path(self, key: CellKey) -> Path:
        """File of a cell."""
        return self.root / key.path

    def read(self, key: CellKey) -> Record | None:
        """The record of a cell; None if there is none or it is corrupt (which is logged)."""
        return self._read(self.path(key))

    def write(self, record: Record) -> None:
        """Write a record so that no reader ever sees half of it, whatever happens to this process."""
        path = self.path(record.key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda temporary: temporary.write_text(record.to_json(), encoding="utf-8"))

    def models(self) -> list[tuple[str, str, str]]:
        """Protocol, backbone and checkpoint of what is there, the newest last; of a file the last of its lines."""
        if self.root.is_file():
            keys = [record.key for record in self.all()]
            return list(dict.fromkeys((key.protocol, key.backbone, key.checkpoint) for key in reversed(keys)))[::-1]
        folders = sorted((self.root / "records").glob("*/*@*"), key=_newest)
        return [(path.parent.name, *path.name.split("@", 1)) for path in folders]  # type: ignore[misc]

    def all(self, protocol: str = "") -> Iterator[Record]:
        """Every sound record, or those of one protocol, in the order of paths."""
        if self.root.is_file():
            lines = self.root.read_text(encoding="utf-8").splitlines()
            yield from (r for r in map(Record.from_json, lines) if protocol in ("", r.key.protocol))
            return
        for path in sorted((self.root / "records" / protocol).rglob("*.json")):
            record = self._read(path)
            if record is not None:
                yield record

    def _read(self, path: Path) -> Record | None:
        try:
            return Record.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (CorruptRecord, UnicodeDecodeError) as error:
            logger.warning("%s is corrupt (%s) and will be run again", path, error)
            return None


def _newest(folder: Path) -> float:
    return max((file.stat().st_mtime for file in folder.rglob("*.json")), default=0.0)


def _checksum(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
