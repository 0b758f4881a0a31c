"""What people hand to an estimator, as a table: arrays, frames, AnnData, paths, several tables under their names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scff.errors import DataError, DataWarning
from scff.tables.foreign import as_frame, is_anndata
from scff.tables.formats import load
from scff.tables.hidden_numbers import refuse_hidden_numbers
from scff.tables.naming import find_row_names
from scff.tables.reading import Dataset, Request, assemble, read
from scff.tables.sheet import Sheet
from scff.tables.single_cell import sheet_of_anndata
from scff.tables.sparse import SparseColumns, is_sparse
from scff.tables.table import Table, as_table, check_unique

__all__ = ["Given", "given_queries", "given_support", "is_plain"]

#: Labels of a column beyond which their order is all that a model can read of them.
_MANY_LABELS = 40


@dataclass(frozen=True, eq=False)
class Given:
    """Labelled rows as they were handed in.

    Attributes
    ----------
    table : Table
    y, groups : Any
        As given, or the columns that were named.
    heads : DataFrame or None
        The features under the caller's own names, where X was a frame.
    """

    table: Table
    y: Any
    groups: Any = None
    heads: pd.DataFrame | None = None


def given_support(
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    id_column: str | None = None,
    keep_id: bool = False,
    categorical: Collection[Any] | None = None,
) -> Given:
    """Labelled rows; ``y`` and ``groups`` may be names of columns.

    Raises
    ------
    DataError
        If something is not there, or cannot be used.
    """
    codes = () if categorical is None else tuple(categorical)
    target, group = (one if isinstance(one, str) else None for one in (y, groups))
    options: dict[str, Any] = {
        "target": target,
        "group": group,
        "id": id_column,
        "keep_id": keep_id,
        "categorical": codes,
    }
    data: Dataset | None = None
    if _is_path(X):
        data = read(X, **options)
    elif _is_blocks(X):
        data = assemble(_request(X, **options), [_sheet(name, table) for name, table in X.items()])
        if target is None and data.table.n_rows < len(_first(X)):
            raise DataError("The tables do not hold the same samples; take those that all of them have first.")
    elif is_anndata(X):
        # Columns of `obs` describe cells; none of them is a feature, and none need be looked at.
        data = assemble(_request({"X": X}, target=target, group=group), [sheet_of_anndata(X, "the AnnData")])
    if data is not None:
        _tell(data.table, keep_id)
        y = y if target is None else data.y
        groups = groups if group is None else data.groups
        return Given(data.table, y, groups)
    frame = None if isinstance(X, Table) else as_frame(X)
    if frame is None:
        if target is not None or group is not None:
            raise DataError("The target can be named only where X is a table with names; pass the labels themselves.")
        if id_column is not None and not isinstance(X, Table):
            raise DataError(f"id_column is {id_column!r}, and the columns of an array have no names; pass a DataFrame.")
        return Given(as_table(X, codes), y, groups)
    # Columns are found by their names as text; whatever else a caller calls them, features keep it.
    names = list(map(str, frame.columns))
    check_unique(names)
    for name in (target, group):
        if name is not None and name not in names:
            raise DataError(f"X has no column {name!r}; pass the labels themselves or the name of one of its columns.")
    named = frame.copy(deep=False)
    named.columns = pd.Index(names, dtype=object)  # text of any kind, lone surrogates too
    refuse_hidden_numbers(named, {target, group, id_column, *map(str, codes)})
    naming = find_row_names(
        named,
        id_column=id_column,
        keep_id=keep_id,
        known=[n for n in (target, group) if n is not None],
    )
    y = y if target is None else frame.iloc[:, names.index(target)]
    groups = groups if group is None else frame.iloc[:, names.index(group)].to_numpy()
    gone = {target, group, *(name for name, _ in naming.aside)}
    features = frame.loc[:, [name not in gone for name in names]] if gone & set(names) else frame
    table = as_table(features, codes)
    table = replace(table, row_names=naming.row_names, id_column=naming.id_column, aside=naming.aside)
    if id_column is None:
        _tell(table, keep_id)
    elif naming.doubt:
        warnings.warn(f"Besides the row names {id_column!r}, {naming.doubt}.", DataWarning, stacklevel=4)
    return Given(table, y, groups, features)


def given_queries(X: Any, support: Table) -> tuple[Table, pd.DataFrame | None]:
    """Rows to predict, and their features under the caller's own names, where X is a frame."""
    if _is_path(X):
        return read(X, like=support).table, None
    if _is_blocks(X):
        sheets = [_sheet(name, table) for name, table in X.items()]
        return assemble(_request(X), sheets, like=support).table, None
    frame = None if isinstance(X, Table) or is_anndata(X) else as_frame(X)
    if frame is None:
        return as_table(X), None
    known = set(support.names or ())
    gone = {name for name, _ in support.aside} - known
    kept = [str(name) not in gone for name in frame.columns]
    frame = frame if all(kept) else frame.loc[:, kept]
    return as_table(frame), frame


def is_plain(X: Any) -> bool:
    """Whether X is an array or a sparse matrix: numbers, and nothing said about them."""
    return not (_is_path(X) or _is_blocks(X) or isinstance(X, Table) or is_anndata(X) or as_frame(X) is not None)


def _tell(table: Table, keep_id: bool) -> None:
    """One warning about all that a reader should look at."""
    said = []
    if table.aside and not keep_id:
        names = " and ".join(f"{name!r} ({reason})" for name, reason in table.aside)
        said.append(
            f"Taken as row names, not as features: {names}. Set keep_id=True to make features of them, or id_column to "
            "the column that names the rows."
        )
    if isinstance(table.values, pd.DataFrame):
        frame = table.values
        texts = [name for name, dtype in zip(frame.columns, frame.dtypes, strict=True) if _is_label(dtype)]
        many = [name for name in texts if frame[name].nunique() > _MANY_LABELS]
        if many:
            said.append(
                f"More than {_MANY_LABELS} labels: {', '.join(map(repr, many[:5]))}{', ...' if len(many) > 5 else ''}; "
                "a model reads them by their alphabetical rank only. Drop such a column or group its labels."
            )
    if said:
        warnings.warn(" ".join(said), DataWarning, stacklevel=5)


def _is_label(dtype: Any) -> bool:
    return bool(pd.api.types.is_string_dtype(dtype) or isinstance(dtype, pd.CategoricalDtype))


def _is_blocks(X: Any) -> bool:
    """Whether X is several tables under their names; one of SciPy's sparse layouts is a dict as well."""
    if not isinstance(X, Mapping) or is_sparse(X):
        return False
    if not X:
        raise DataError("X is a dictionary without a table in it; pass at least one.")
    return True


def _is_path(X: Any) -> bool:
    return isinstance(X, str | os.PathLike)


def _request(X: Mapping[Any, Any], **options: Any) -> Request:
    return Request(tuple((str(name), Path(str(name))) for name in X), **options)


def _first(X: Mapping[Any, Any]) -> Any:
    first = next(iter(X.values()))
    return _sheet("", first).values


def _sheet(name: Any, table: Any) -> Sheet:
    """One of several tables."""
    if _is_path(table):
        return load(Path(table))
    if is_anndata(table):
        return sheet_of_anndata(table, str(name))
    frame = as_frame(table)
    if frame is not None:
        return Sheet.of_frame(frame.rename(columns=str), str(name))
    if not is_sparse(table):
        try:
            table = np.asarray(table)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"The table {str(name)!r} is none ({error}); pass numbers, or a frame.") from error
        if table.ndim != 2 or table.dtype.kind not in "fiub":
            raise DataError(f"The table {str(name)!r} must be numbers in two dimensions, or a frame.")
    values = SparseColumns(table) if is_sparse(table) else table
    return Sheet(str(name), values, tuple(f"x{j}" for j in range(values.shape[1])))
