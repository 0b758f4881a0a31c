"""What to read, and how: files by their names, the parts that columns play, and what contradicts itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scff.errors import DataError, shown

__all__ = ["Orient", "Request"]

Orient = Literal["auto", "rows", "columns"]


@dataclass(frozen=True)
class Request:
    """What to read, and how.

    Attributes
    ----------
    tables : tuple of (str, Path)
        Measurements: a name for each table, and its file. Several become blocks of one table, joined by row name.
    target : str or None
        Column of the labels, in a table or in the sample sheet.
    samples : Path or None
        The sample sheet: labels, groups and what is to be carried along, one line per sample.
    on : str or None
        Its column with the samples' names; found by default.
    orient : {"auto", "rows", "columns"}
        Where a table has its samples. ``"auto"`` tells by the names in the sample sheet, or those a model knows.
    id : str or None
        Column with the row names; found by default.
    keep_id : bool
        Whether a column that looks like row names is a feature all the same.
    group : str or None
        Column of the groups: patients, batches. It is no feature.
    keep : tuple of str
        Columns to carry along. They are no features, unless a model knows them as such.
    drop : tuple of str
        Columns to leave out.
    categorical : tuple of str
        Columns whose numbers are codes of categories.
    layer : str or None
        Which matrix of an ``.h5ad`` file.
    """

    tables: tuple[tuple[str, Path], ...]
    target: str | None = None
    samples: Path | None = None
    on: str | None = None
    orient: Orient = "auto"
    id: str | None = None
    keep_id: bool = False
    group: str | None = None
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    layer: str | None = None

    @classmethod
    def of(cls, tables: Sequence[str | Path] | str | Path, **options: Any) -> Request:
        """A request for files by their paths; ``name=path`` names a block, otherwise the file does.

        Examples
        --------
        >>> Request.of(["rna=expr.tsv.gz", "mirna.tsv"], target="dx").tables
        (('rna', PosixPath('expr.tsv.gz')), ('mirna', PosixPath('mirna.tsv')))
        """
        listed: Any = [tables] if isinstance(tables, str | Path) else tables
        if isinstance(listed, bytes) or not isinstance(listed, Iterable):
            raise DataError(f"Give the path of a table, or several, not {shown(tables)}.")
        return cls(tuple(_named(one) for one in listed), **options)

    def __post_init__(self) -> None:
        for name in ("target", "on", "id", "group", "layer"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise DataError(f"{name} must be a name, not {shown(value)}.")
        for name in ("keep", "drop", "categorical"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Collection):
                raise DataError(f"{name} must be a list of names, not {shown(value)}.")
            if odd := [one for one in value if not isinstance(one, str | int)]:
                raise DataError(f"{name} must be a list of names, and {shown(odd[0])} is none.")
        self._refuse_contradictions()
        if self.samples is not None and not isinstance(self.samples, str | Path):
            raise DataError(f"samples must be the path of a sample sheet, not {shown(self.samples)}.")

    def _refuse_contradictions(self) -> None:
        for part, name in (("the target", self.target), ("the groups", self.group), ("the row names", self.id)):
            if name is not None and name in self.drop:
                raise DataError(f"Column {name!r} cannot hold {part} and be left out; say one of the two.")
        if self.target is not None and self.target == self.group:
            raise DataError(
                f"Column {self.target!r} cannot be the target and the groups; groups are patients, batches."
            )
        if self.on is not None and self.samples is None:
            raise DataError(f"on is a column of a sample sheet ({self.on!r}), and there is none; give samples too.")

    @property
    def described(self) -> tuple[str, ...]:
        """Columns that describe rows and are no measurements."""
        return tuple(name for name in (self.target, self.group, *self.keep) if name is not None)


def _named(table: str | Path) -> tuple[str, Path]:
    text = str(table)
    name, separator, path = text.partition("=")
    if separator and name and not Path(text).exists() and "/" not in name:
        return name, Path(path)
    return Path(text).name.split(".")[0], Path(text)
