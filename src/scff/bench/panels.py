"""Panels: lists of tables with checked metadata, from the paper's registries or from a folder of files."""

from __future__ import annotations

import csv
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from scff.bench.headers import header
from scff.errors import DataError

__all__ = ["REGISTRIES", "Dataset", "Panel", "TableData", "load_panel"]

logger = logging.getLogger(__name__)

REGISTRIES = ("paper-18", "tabprep-11")


@dataclass(frozen=True, eq=False)
class TableData:
    """A loaded table.

    Attributes
    ----------
    X : DataFrame
    y : ndarray of str
        Labels as text, so that a label's type in a file changes nothing.
    digest : str
        ``sha256:`` of the file and what is asked of it (`Dataset.digest`), or ``md5:`` of the OpenML version.
    groups : ndarray of str or None
        Rows that belong together: a patient, a molecule. A fold takes a group whole.
    """

    X: pd.DataFrame
    y: npt.NDArray[Any]
    digest: str
    groups: npt.NDArray[Any] | None = None


@dataclass(frozen=True)
class Dataset:
    """What is known of a table before it is read.

    Attributes
    ----------
    name : str
    features, rows, classes : int or None
        As declared; checked on load where given.
    openml_id : int or None
        Set only for the exact OpenML version.
    path : Path or None
        The file, for a table of a folder.
    sha256 : str or None
        Declared digest of that file.
    target : str or None
        Name of the label column; "target" or the last column by default.
    benchmark : str
        The benchmark it is from, for registries.
    groups : str or None
        Name of the column that says which rows belong together; it is no feature.
    """

    name: str
    rows: int | None = None
    features: int | None = None
    classes: int | None = None
    openml_id: int | None = None
    path: Path | None = None
    sha256: str | None = None
    target: str | None = None
    benchmark: str = ""
    groups: str | None = None

    def load(self) -> TableData:
        """Read the table and check it against its declaration.

        Raises
        ------
        DataError
            If it cannot be read or is not what was declared.
        """
        table = self._from_file(self.path) if self.path is not None else _from_openml(self)
        found = {"rows": len(table.X), "features": table.X.shape[1], "classes": len(np.unique(table.y))}
        for key, value in found.items():
            declared = getattr(self, key)
            if declared is not None and declared != value:
                raise DataError(
                    f"{self.name} has {value} {key} and was declared with {declared}; "
                    "it is another version of the table, or the index needs correcting."
                )
        return table

    def label_column(self) -> tuple[str, bool]:
        """Name of a file's label column, and whether it is taken only because it is the last.

        Raises
        ------
        DataError
            If a column that was named is not there.
        """
        assert self.path is not None
        names, _ = header(self.path)
        for wanted, option in ((self.target, "target"), (self.groups, "groups")):
            if wanted is not None and wanted not in names:
                raise DataError(
                    f"{self.path} has no column {wanted!r}, it ends with {', '.join(map(repr, names[-3:]))}; "
                    f"name the right one with --{option}, or in the column {option!r} of an index.csv."
                )
        if self.target is not None or "target" in names:
            return self.target or "target", False
        return next((name for name in reversed(names) if name != self.groups), ""), True

    def digest(self) -> str:
        """Digest of a file, with the columns of labels and groups where they are not ``target`` and none.

        Two records with one digest are answers to the same question about the same rows.
        """
        assert self.path is not None
        with self.path.open("rb") as file:
            text = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        label, _ = self.label_column()
        text += "" if label == "target" else f" label {label}"
        return text if self.groups is None else f"{text} groups {self.groups}"

    def _from_file(self, path: Path) -> TableData:
        digest = self.digest()
        found = digest.removeprefix("sha256:").partition(" ")[0]
        if self.sha256 and found != self.sha256:
            raise DataError(f"{path} has sha256 {found[:12]}..., its index says {self.sha256[:12]}...: get it again.")
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
        target, _ = self.label_column()
        together = None if self.groups is None else frame[self.groups].astype(str).to_numpy(dtype=object)
        features = frame.drop(columns=[target, *([self.groups] if self.groups is not None else [])])
        return TableData(features, _labels(frame[target], self.name), digest, together)


@dataclass(frozen=True)
class Panel:
    """A named list of tables."""

    name: str
    datasets: tuple[Dataset, ...]

    def __getitem__(self, name: str) -> Dataset:
        for dataset in self.datasets:
            if dataset.name == name:
                return dataset
        raise DataError(f"The panel {self.name!r} has no table {name!r}; it has {', '.join(self.names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its tables."""
        return tuple(dataset.name for dataset in self.datasets)

    def select(self, names: Sequence[str]) -> Panel:
        """A panel of only the named tables."""
        return Panel(self.name, tuple(self[name] for name in names))

    def widest_bands(self, bands: Sequence[Sequence[int]]) -> Panel:
        """For each band of raw width, the table with most rows, ties to the lower OpenML id: input metadata only.

        On the paper's registry this rule gives the four tables of its context study.
        """
        chosen = []
        for low, high in bands:
            inside = [d for d in self.datasets if d.features is not None and low <= d.features <= high]
            inside.sort(key=lambda d: (-(d.rows or 0), d.openml_id or 0, d.name))
            chosen += inside[:1]
        return Panel(self.name, tuple(chosen))


def load_panel(name: str | Path, target: str | None = None, groups: str | None = None) -> Panel:
    """A registry by name, or the panel of a folder.

    Parameters
    ----------
    name : str or path
        One of `REGISTRIES`, or a folder of Parquet or CSV files. Its ``index.csv`` has a column ``name`` and may have
        ``rows``, ``features``, ``classes``, ``openml_id``, ``sha256``, ``target``, ``groups`` and ``file``; without
        one, every such file is a table.
    target, groups : str, optional
        Names of the label column and of the column of groups, where the index does not say.

    Returns
    -------
    Panel
    """
    if str(name) in REGISTRIES:
        text = files("scff.bench").joinpath("panels", f"{name}.csv").read_text(encoding="utf-8")
        return Panel(str(name), tuple(_dataset(row, None) for row in csv.DictReader(text.splitlines())))
    folder = Path(name).resolve()
    index = folder / "index.csv"
    if index.is_file():
        datasets = tuple(_dataset(row, folder) for row in _index(index))
    else:
        files_of = sorted(p for p in folder.glob("*") if p.suffix in (".parquet", ".csv")) if folder.is_dir() else []
        datasets = tuple(_unlisted(path, groups is not None) for path in files_of)
    if not datasets:
        raise DataError(f"{name} is no panel: pass {' or '.join(REGISTRIES)}, or a folder of Parquet or CSV files.")
    filled = (replace(d, target=d.target or target, groups=d.groups or groups) for d in datasets)
    return Panel(folder.name, tuple(filled))


def _unlisted(path: Path, has_groups: bool) -> Dataset:
    """A table of a folder without an index: what its file says without being read whole."""
    columns, rows = header(path)
    return Dataset(path.stem, rows=rows, features=len(columns) - 1 - has_groups, path=path)


def _index(path: Path) -> list[dict[str, str]]:
    """The lines of an index."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is no table in UTF-8 text ({error}); write it again.") from error
    if not rows or not all(row.get("name") for row in rows):
        raise DataError(f"{path} needs a line for every table and its name in a column 'name'.")
    return rows


def _dataset(row: dict[str, str], folder: Path | None) -> Dataset:
    def number(key: str) -> int | None:
        # "1476 (subset of rows ...)" is a note about another version, not an id.
        text = (row.get(key) or "").strip()
        return int(text) if text.isdigit() else None

    path = None
    if folder is not None:
        named = row.get("file") or ""
        candidates = [folder / named] if named else [folder / f"{row['name']}{end}" for end in (".parquet", ".csv")]
        path = next((p for p in candidates if p.is_file()), None)
        if path is None:
            raise DataError(f"{folder / 'index.csv'} lists {row['name']!r} but {candidates[0]} does not exist.")
    return Dataset(
        name=row["name"],
        rows=number("rows"),
        features=number("features"),
        classes=number("classes"),
        openml_id=number("openml_id"),
        path=path,
        sha256=(row.get("sha256") or "").strip() or None,
        target=(row.get("target") or "").strip() or None,
        groups=(row.get("groups") or "").strip() or None,
        benchmark=row.get("benchmark") or "",
    )


def _from_openml(dataset: Dataset) -> TableData:
    """The openml package's Parquet cache first, then scikit-learn's cache."""
    data_id = dataset.openml_id
    if data_id is None:
        raise DataError(f"{dataset.name} has neither a file nor an OpenML id.")
    errors = []
    try:
        import openml

        version = openml.datasets.get_dataset(data_id, download_data=True)
        X, y, _, _ = version.get_data(target=version.default_target_attribute)
        return TableData(pd.DataFrame(X), _labels(y, dataset.name), f"md5:{version.md5_checksum}")
    except ImportError:
        errors.append("the openml package is not installed (pip install openml)")
    except Exception as error:  # no network, no such version, a damaged cache: say so and try the next source
        errors.append(f"openml: {error}")
    try:
        from sklearn.datasets import fetch_openml

        # Not parser="auto": with pandas 3.1 the pandas parser of scikit-learn 1.9.1 fails on nominal columns with
        # integer-like labels, and deletes the cached file when it does (scikit-learn PR 34902).
        bunch = fetch_openml(data_id=data_id, as_frame=True, parser="liac-arff")
        digest = f"md5:{bunch.details['md5_checksum']}"
        return TableData(bunch.data, _labels(bunch.target, dataset.name), digest)
    except Exception as error:
        errors.append(f"scikit-learn: {error}")
    raise DataError(
        f"{dataset.name} (OpenML {data_id}) cannot be had here: {'; '.join(errors)}. "
        "Connect once to fill a cache, or pass --panel with a folder of files."
    )


def _labels(column: Any, name: str) -> npt.NDArray[Any]:
    labels = pd.Series(np.asarray(column, dtype=object))
    if labels.isna().any():
        raise DataError(f"{name} has {int(labels.isna().sum())} rows without a label; a panel's tables have none.")
    out: npt.NDArray[Any] = labels.astype(str).to_numpy(dtype=object)
    return out
