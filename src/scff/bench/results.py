"""From records to pairs: what may be compared, and what is left out and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scff.backbones.registry import specs
from scff.bench import stats
from scff.bench.folds import Protocol
from scff.bench.paper import printed
from scff.bench.records import CellKey, Record, RecordStore
from scff.errors import DataError

__all__ = ["PAPER_LEAF", "Exclusion", "Pair", "Pairs", "Results", "peak_of", "seconds_of"]

PAPER_LEAF = 128
PAPER_PROTOCOL = "paper"


def peak_of(record: Record) -> float:
    """Peak memory of a cell in bytes.

    On CUDA the allocator's peak, as in the paper. On a CPU what the arm added to its process: the rest is the
    interpreter and the weights, which would hide the difference.
    """
    memory = record.memory
    return float(memory["peak"] if memory["meter"] == "cuda" else memory["added"])


def seconds_of(record: Record, part: str = "total") -> float:
    """Time of a cell.

    The whole of it is the processor's own time where there is no accelerator: what else the machine does is not in it.
    """
    if part == "total" and record.memory["meter"] != "cuda":
        return record.seconds.get("cpu", record.seconds["total"])
    return record.seconds[part]


@dataclass(frozen=True)
class Pair:
    """Two arms on the same rows."""

    dataset: str
    fold: int
    a: Record
    b: Record


@dataclass(frozen=True)
class Exclusion:
    """A pair that could not be compared."""

    dataset: str
    fold: int
    reason: str


@dataclass(frozen=True)
class Pairs:
    """Complete pairs of two arms, ``a`` minus ``b``, and the incomplete ones."""

    complete: tuple[Pair, ...]
    excluded: tuple[Exclusion, ...] = ()

    @property
    def datasets(self) -> tuple[str, ...]:
        """Tables with at least one complete pair."""
        return tuple(dict.fromkeys(pair.dataset for pair in self.complete))

    @property
    def sources(self) -> tuple[str, ...]:
        """Paths of the records behind the pairs."""
        return tuple(str(record.key.path) for pair in self.complete for record in (pair.a, pair.b))

    def where(self, keep: Callable[[Pair], bool]) -> Pairs:
        """Only the pairs that a rule keeps."""
        return Pairs(tuple(pair for pair in self.complete if keep(pair)))

    def effects(self, metric: str) -> dict[str, float]:
        """Paired difference of a metric, folds averaged within each table."""
        return self._by_dataset(lambda pair: _metric(pair.a, metric) - _metric(pair.b, metric))

    def levels(self, metric: str, side: str) -> dict[str, float]:
        """The metric of side "a" or "b" itself, folds averaged within each table."""
        return self._by_dataset(lambda pair: _metric(getattr(pair, side), metric))

    def peaks(self, side: str) -> list[float]:
        """Peak memory of one side, pair by pair."""
        return [peak_of(getattr(pair, side)) for pair in self.complete]

    def seconds(self, side: str, part: str = "total") -> list[float]:
        """Time of one side, pair by pair."""
        return [seconds_of(getattr(pair, side), part) for pair in self.complete]

    def _by_dataset(self, value: Callable[[Pair], float]) -> dict[str, float]:
        folds: dict[str, list[float]] = {}
        for pair in self.complete:
            folds.setdefault(pair.dataset, []).append(value(pair))
        return stats.dataset_means(folds)


class Results:
    """The records of one backbone under one protocol.

    Parameters
    ----------
    records : iterable of Record
    protocol : Protocol
    backbone : str
    """

    def __init__(self, records: Iterable[Record], protocol: Protocol, backbone: str) -> None:
        self.protocol = protocol
        self.backbone = backbone
        self._cells: dict[tuple[str, str, int, str], Record] = {}
        for record in records:
            key = record.key
            self._cells[key.dataset, key.variant, key.fold, key.arm] = record

    @classmethod
    def load(cls, root: Path, protocol: Protocol, backbone: str, checkpoint: str | None = None) -> Results:
        """Read the records of a backbone, and of the baselines, from a results folder.

        Parameters
        ----------
        root : Path
            A results folder, or a file with a record to a line.
        protocol : Protocol
        backbone : str
        checkpoint : str, optional
            Beginning of the weights' sha256; without it, the one whose records are newest.
        """
        store = RecordStore(root)
        found = [weights for *known, weights in store.models() if known == [protocol.name, backbone]]
        if checkpoint is not None:
            found = [weights for weights in found if weights.startswith(checkpoint[:12])]
        if not found:
            raise DataError(
                f"{root} has no records of {backbone!r} under the protocol {protocol.name!r}; run a study first."
            )
        wanted = {(backbone, found[-1]), ("baseline", "none")}
        records = (r for r in store.all(protocol.name) if (r.key.backbone, r.key.checkpoint) in wanted)
        return cls(records, protocol, backbone)

    @staticmethod
    def find(root: Path, protocol: str | None = None) -> tuple[str, list[str]]:
        """What is there: a protocol, and its backbones.

        The protocol is the given one. Without it, that of the newest records of a folder; the lines of a file have no
        age, and of several protocols in one it is the paper's.
        """
        models = [model for model in RecordStore(root).models() if protocol in (None, model[0])]
        if not models:
            what = "" if protocol is None else f" under the protocol {protocol!r}"
            raise DataError(f"{root} has no records{what}; `scff bench run` writes them, --results names the folder.")
        newest = models[-1][0]
        if root.is_file() and len(names := sorted({model[0] for model in models})) > 1:
            if PAPER_PROTOCOL not in names:
                raise DataError(f"{root} has records of several protocols; name one: --protocol {' or '.join(names)}.")
            newest = PAPER_PROTOCOL
        return newest, sorted({backbone for name, backbone, _ in models if name == newest} - {"baseline"})

    @property
    def checkpoint(self) -> str:
        """Beginning of the weights' sha256."""
        return next((r.key.checkpoint for r in self.records if r.key.backbone == self.backbone), "none")

    def printed(self, *keys: str) -> Any:
        """What the paper prints; None under any protocol but its own, where it would stand beside another question."""
        return printed(*keys) if self.protocol.name == PAPER_PROTOCOL else None

    @property
    def leaf_width(self) -> int:
        """Columns of its widest leaf: the paper's 128, or fewer where the backbone takes fewer."""
        spec = specs().get(self.backbone)
        limit = None if spec is None else spec.limits.leaf_width
        return PAPER_LEAF if limit is None else min(PAPER_LEAF, limit)

    @property
    def records(self) -> tuple[Record, ...]:
        """Every record."""
        return tuple(self._cells.values())

    @property
    def datasets(self) -> tuple[str, ...]:
        """Every table with a record."""
        return tuple(dict.fromkeys(key[0] for key in self._cells))

    def get(self, dataset: str, fold: int, arm: str, variant: str = "plain") -> Record | None:
        """The record of a cell, complete or not."""
        return self._cells.get((dataset, variant, fold, arm))

    def arms(self, dataset: str, fold: int, variant: str = "plain") -> dict[str, Record]:
        """Complete records of a fold by arm."""
        return {
            key[3]: record for key, record in self._cells.items() if key[:3] == (dataset, variant, fold) and record.ok
        }

    def folds(self, which: str) -> Sequence[int]:
        """Fold numbers called "all", "locked" or "development"."""
        return self.protocol.choose(which)

    def pairs(self, a: str, b: str, folds: str = "all", variant: str = "plain", variant_b: str | None = None) -> Pairs:
        """Pairs of two arms; incomplete ones are excluded with the reason.

        ``variant_b`` compares across variants of a table, which then share query rows only.
        """
        complete: list[Pair] = []
        excluded: list[Exclusion] = []
        for dataset in self.datasets:
            for fold in self.folds(folds):
                left, right = self.get(dataset, fold, a, variant), self.get(dataset, fold, b, variant_b or variant)
                if left is None or right is None:
                    continue
                reason = _why_not(left, right, same_support=variant_b is None)
                if reason:
                    excluded.append(Exclusion(dataset, fold, reason))
                else:
                    complete.append(Pair(dataset, fold, left, right))
        return Pairs(tuple(complete), tuple(excluded))


def _why_not(a: Record, b: Record, *, same_support: bool) -> str:
    for record in (a, b):
        if not record.ok:
            # An exclusion concerns the table, a failure the arm.
            return record.reason if record.status == "excluded" else f"{_label(record.key)}: {record.reason}"
    if a.data_digest != b.data_digest:
        return "the two arms read different versions of the table"
    if a.query_hash != b.query_hash or (same_support and a.support_hash != b.support_hash):
        return "the two arms saw different rows"
    if a.query_chunk != b.query_chunk and "baseline" not in (a.key.backbone, b.key.backbone):
        return "the two arms used different query chunks"
    return ""


def _label(key: CellKey) -> str:
    return key.arm if key.variant == "plain" else f"{key.arm} on {key.variant}"


def _metric(record: Record, name: str) -> float:
    value = record.metrics.get(name)
    if value is None:
        raise DataError(f"{record.key.path} has no {name}; the metric is not defined for its query rows.")
    return value
