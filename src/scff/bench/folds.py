"""Folds: which rows are support and which are query, the same on every machine."""

from __future__ import annotations

import hashlib
import threading
import tomllib
import warnings
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import shuffle

from scff.errors import DataError

__all__ = ["Protocol", "Split", "get_protocol", "make_split", "protocols", "stratified_order"]

IntArray = npt.NDArray[np.int64]

_REPEATS, _LONG, _REPEATS_LONG = 10, 2500, 3  # of the scheme "repeated"
_WARNINGS = threading.Lock()  # warning filters belong to the whole process, and jobs run in threads


@dataclass(frozen=True)
class Protocol:
    """The parameters of an evaluation; `protocols.toml` names them.

    Attributes
    ----------
    name, summary : str
    n_folds : int
    folds, development, locked : tuple of int
        Folds that are run, that methods may be chosen on, and that confirm.
    split_seed, query_seed : int
        Seeds of the folds and of the query cap; the support cap's is derived from the first and the dataset.
    support_cap, query_cap : int
    query_chunk : int
        Query rows predicted together, on both arms of a pair; halved on both when memory runs out.
    max_features : int or None
        Wider tables are left out, with that reason.
    scheme : {"stratified", "repeated"}
        "repeated" shuffles the table, then takes three stratified folds again and again; the seed is the split's.
    """

    name: str
    summary: str
    n_folds: int
    folds: tuple[int, ...]
    development: tuple[int, ...]
    locked: tuple[int, ...]
    split_seed: int
    query_seed: int
    support_cap: int
    query_cap: int
    query_chunk: int
    max_features: int | None = None
    scheme: str = "stratified"

    def choose(self, which: str, rows: int | None = None) -> tuple[int, ...]:
        """The folds called "all", "locked" or "development" that this protocol runs, of a table of so many rows."""
        named = {"all": self.folds, "locked": self.locked, "development": self.development}
        if which not in named:
            raise DataError(f"folds must be one of {', '.join(named)}, not {which!r}.")
        there = self.n_folds if self.scheme != "repeated" or rows is None else 3 * _repeats(rows)
        return tuple(fold for fold in named[which] if fold in self.folds and fold < there)


def protocols() -> dict[str, Protocol]:
    """Every named protocol."""
    text = files("scff.bench").joinpath("protocols.toml").read_text(encoding="utf-8")
    out = {}
    for name, values in tomllib.loads(text).items():
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        out[name] = Protocol(name, **fields)
    return out


def get_protocol(name: str) -> Protocol:
    """A protocol by name."""
    known = protocols()
    if name not in known:
        raise DataError(f"There is no protocol {name!r}; known are {', '.join(known)}.")
    return known[name]


@dataclass(frozen=True, eq=False)
class Split:
    """Support and query rows of one fold.

    Attributes
    ----------
    fold : int
    support : ndarray of int
        Capped; in an order whose every prefix is a stratified sample, so that smaller contexts are nested.
    query : ndarray of int
    """

    fold: int
    support: IntArray
    query: IntArray

    @property
    def support_hash(self) -> str:
        """Digest of the support's row numbers, in their order."""
        return _hash_rows(self.support)

    @property
    def query_hash(self) -> str:
        """Digest of the query's row numbers, in their order."""
        return _hash_rows(self.query)

    def prefix(self, context: int | None) -> Split:
        """The same fold with only the first ``context`` support rows."""
        return self if context is None else Split(self.fold, self.support[:context], self.query)


def make_split(
    y: npt.NDArray[Any],
    dataset: str,
    fold: int,
    protocol: Protocol,
    *,
    capped: bool = True,
    groups: npt.NDArray[Any] | None = None,
) -> Split:
    """Support and query rows of a fold under a protocol.

    Parameters
    ----------
    y : ndarray
        Labels of the whole table.
    dataset : str
        Its name; part of the seed of the support cap.
    fold : int
    protocol : Protocol
    capped : bool, default=True
        False leaves the support whole (for studies that choose a context themselves); the query cap stays.
    groups : ndarray, optional
        Rows of a group are all support or all query.

    Returns
    -------
    Split
    """
    if not 0 <= fold < protocol.n_folds:
        raise DataError(f"The protocol {protocol.name!r} has folds 0 to {protocol.n_folds - 1}, not {fold}.")
    if protocol.scheme == "repeated":
        if groups is not None:
            raise DataError(f"The published folds of {protocol.name!r} know no groups; leave them out.")
        return _repeated(y, fold, protocol)
    if np.unique(y, return_counts=True)[1].max() < protocol.n_folds:
        raise DataError(
            f"No class of {dataset} has {protocol.n_folds} rows, one for each fold; name the right label column."
        )
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    splitter = kind(protocol.n_folds, shuffle=True, random_state=protocol.split_seed)
    with _WARNINGS, warnings.catch_warnings():
        # A class rarer than the number of folds is a fact of the table, not a mistake.
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        support, query = list(splitter.split(np.zeros(len(y)), y, groups))[fold]
    digest = hashlib.sha256(f"{protocol.split_seed}:{dataset}:{fold}".encode()).digest()
    cap_seed = int.from_bytes(digest[:8], "little")
    support = support[stratified_order(y[support], cap_seed, cover=True)]
    query = query[stratified_order(y[query], protocol.query_seed, cover=False)]
    if capped:
        support = support[: protocol.support_cap]
    return Split(fold, support.astype(np.int64), np.sort(query[: protocol.query_cap]).astype(np.int64))


def _repeats(rows: int) -> int:
    return _REPEATS if rows < _LONG else _REPEATS_LONG


def _repeated(y: npt.NDArray[Any], fold: int, protocol: Protocol) -> Split:
    """A fold as TabPFN-Wide's authors cut it; on long tables they repeat three times only."""
    order = shuffle(np.arange(len(y)), random_state=protocol.split_seed)
    repeats = _repeats(len(y))
    if fold >= 3 * repeats:
        raise DataError(f"A table of {len(y)} rows has {3 * repeats} folds under {protocol.name!r}, no fold {fold}.")
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=repeats, random_state=protocol.split_seed)
    support, query = list(folds.split(np.zeros(len(y)), y[order]))[fold]
    return Split(fold, order[support].astype(np.int64), order[query].astype(np.int64))


def stratified_order(y: npt.NDArray[Any], seed: int, *, cover: bool) -> IntArray:
    """An order of rows in which every prefix has about the class shares of the whole.

    Parameters
    ----------
    y : ndarray
    seed : int
    cover : bool
        Put one row of every class first, so that no class is missing from a prefix at least as long as there are
        classes. Right for a support; a query has to keep its shares.

    Returns
    -------
    ndarray of int
    """
    rng = np.random.default_rng(seed)
    key = np.empty(len(y))
    shift = rng.random()
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        # Evenly spread over [0, 1): a class with n rows appears about once in every 1/n of the order.
        key[rows] = (np.arange(len(rows)) + rng.random(len(rows)) * 0.999 + shift * 1e-3) / len(rows)
        if cover:
            key[rows[0]] -= 2.0
    order: IntArray = np.argsort(key, kind="stable").astype(np.int64)
    return order


def _hash_rows(rows: IntArray) -> str:
    return hashlib.sha256(np.ascontiguousarray(rows, dtype="<i8").tobytes()).hexdigest()
