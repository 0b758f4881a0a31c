"""Tables and their digests, read once for as long as their files stay as they are."""

from __future__ import annotations

from functools import lru_cache

from scff.bench.panels import Dataset, TableData

__all__ = ["digest_of", "load"]

Stamp = tuple[int, int] | None


def load(dataset: Dataset) -> TableData:
    """The table; a fold after another of one table reads it once."""
    return _load(dataset, _stamp(dataset))


def digest_of(dataset: Dataset) -> str:
    """Digest of the file and of the question put to it; of an OpenML version, which never changes, none."""
    return "" if dataset.path is None else _digest(dataset, _stamp(dataset))


def _stamp(dataset: Dataset) -> Stamp:
    if dataset.path is None or not dataset.path.exists():
        return None
    said = dataset.path.stat()
    return said.st_mtime_ns, said.st_size


@lru_cache(maxsize=2)
def _load(dataset: Dataset, stamp: Stamp) -> TableData:
    return dataset.load()


@lru_cache(maxsize=256)
def _digest(dataset: Dataset, stamp: Stamp) -> str:
    return dataset.digest()
