"""The labelled rows as Arrow, and back into the very table that was fitted.

A table of numbers is one column whose cells are its rows, so that a hundred thousand columns are read at the speed of
an array. Any other table has a column for each of its own; what Arrow's types do not say of a pandas column (its
categories and their order, its unit of time, how it writes what is missing) stands beside it in ``model.json``.

Arrow's stream is read message by message: a schema that is the expected one, then rows, uncompressed. Dictionaries,
extension types and pandas metadata, which may bring types of their own, are never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from scff.models.columns import Column, decode_column, describe, encode_column
from scff.models.heads import describe_heads, read_heads
from scff.models.messages import read_batches
from scff.models.sparse import read_sparse, sparse_batches
from scff.models.tensors import Misfit
from scff.models.values import decode_value, encode_value
from scff.tables.sparse import SparseColumns
from scff.tables.table import Table, check_unique

__all__ = ["describe_table", "read_table", "write_table"]

_FLOATS = {"float32": pa.float32(), "float64": pa.float64()}

#: Bytes of rows that are written together.
_BLOCK = 64 << 20


def describe_table(table: Table) -> dict[str, Any]:
    """What ``model.json`` says of a table: its size, the names of its columns, and their types.

    Raises
    ------
    TypeError
        If a column is of a type that a model file does not hold; the message names it.
    """
    about: dict[str, Any] = {"rows": table.n_rows, "columns": table.n_columns}
    about["names"] = None if table.names is None else list(table.names)
    about["heads"] = describe_heads(table)
    values = table.values
    if isinstance(values, pd.DataFrame):
        # A label is mostly the name itself; where it is a number, backbones are given the number.
        labels = [encode_value(label) for label in values.columns]
        about["labels"] = None if labels == about["names"] else labels
        about["kinds"] = [describe(str(name), values.iloc[:, j]).facts for j, name in enumerate(values.columns)]
        return about
    dtype = np.dtype(values.dtype).name  # type: ignore[union-attr]
    if dtype not in _FLOATS:
        raise TypeError(f"a table of {dtype}")
    return about | {"sparse" if isinstance(values, SparseColumns) else "dtype": dtype}


def write_table(out: IO[bytes], table: Table) -> None:
    """Write the rows, a block at a time: a table on disk is never loaded as a whole."""
    schema, batches = _batches(table)
    # Any Arrow reader opens the file; `read_table` takes the stream inside it.
    with pa.ipc.new_file(pa.PythonFile(_Forward(out), mode="w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def read_table(content: memoryview, about: Any) -> Table:
    """The table that `write_table` wrote.

    Raises
    ------
    Misfit
        If rows or description are not as they are written.
    """
    if not isinstance(about, dict):
        raise Misfit("table is not an object")
    n_rows, n_columns = (_positive(about.get(name), name) for name in ("rows", "columns"))
    names = about.get("names")
    if names is not None:
        if not isinstance(names, list) or len(names) != n_columns or not all(type(name) is str for name in names):
            raise Misfit("table.names are not the names of its columns")
        try:
            check_unique(names)
        except ValueError as error:
            raise Misfit("table.names repeat") from error
        names = tuple(names)
    cells = {"sparse"} if "sparse" in about else {"dtype"} if "dtype" in about else {"labels", "kinds"}
    if set(about) != {"rows", "columns", "names", "heads"} | cells:
        raise Misfit("table has not the fields of a table")
    heads = read_heads(about["heads"], n_rows, n_columns)
    values: Any
    if "sparse" in about:
        values = read_sparse(content, _kind(about["sparse"]), n_rows, n_columns)
    elif "dtype" in about:
        values = _read_numbers(content, about["dtype"], n_rows, n_columns)
    else:  # an array some of whose columns are categories has no names, and numbers for labels
        values = _read_frame(content, about, n_rows, names or tuple(map(str, range(n_columns))))
    return Table(values, names, **heads)


def _batches(table: Table) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    values = table.values
    if isinstance(values, pd.DataFrame):
        columns = [describe(str(name), values.iloc[:, j]) for j, name in enumerate(values.columns)]
        arrays = [encode_column(values.iloc[:, j], column) for j, column in enumerate(columns)]
        schema = pa.schema([pa.field(str(j), column.arrow) for j, column in enumerate(columns)])
        return schema, iter([pa.RecordBatch.from_arrays(arrays, schema=schema)])
    kind = _FLOATS[np.dtype(values.dtype).name]  # type: ignore[union-attr]
    if isinstance(values, SparseColumns):
        return sparse_batches(values, kind)
    schema = _row_schema(kind, table.n_columns)
    step = max(1, _BLOCK // (table.n_columns * kind.bit_width // 8))

    def blocks() -> Iterator[pa.RecordBatch]:
        for part in table.chunks(step):
            flat = np.ascontiguousarray(part.values).reshape(-1)
            rows = pa.FixedSizeListArray.from_arrays(pa.array(flat), type=schema.field(0).type)
            yield pa.RecordBatch.from_arrays([rows], schema=schema)

    return schema, blocks()


def _kind(dtype: Any) -> pa.DataType:
    if not isinstance(dtype, str) or dtype not in _FLOATS:
        raise Misfit("table.dtype is not that of a table of numbers")
    return _FLOATS[dtype]


def _row_schema(kind: pa.DataType, n_columns: int) -> pa.Schema:
    return pa.schema([pa.field("row", pa.list_(pa.field("cell", kind, nullable=False), n_columns), nullable=False)])


def _read_numbers(content: memoryview, dtype: Any, n_rows: int, n_columns: int) -> npt.NDArray[np.floating]:
    kind = _kind(dtype)
    if n_rows * n_columns * (kind.bit_width // 8) > len(content) or n_columns >= 2**31:
        raise Misfit("fewer rows than table.rows says")
    out = np.empty((n_rows, n_columns), dtype=dtype)
    here = 0
    for batch in read_batches(content, _row_schema(kind, n_columns)):
        rows = batch.column(0)
        cells = rows.flatten()
        if rows.null_count or cells.null_count or len(cells) != len(rows) * n_columns or here + len(rows) > n_rows:
            raise Misfit("rows that are not those of the table")
        out[here : here + len(rows)] = cells.to_numpy(zero_copy_only=True).reshape(len(rows), n_columns)
        here += len(rows)
    if here != n_rows:
        raise Misfit("fewer rows than table.rows says")
    if np.isinf(out).any():
        raise Misfit("an infinite value")
    return out


def _read_frame(content: memoryview, about: dict[str, Any], n_rows: int, names: tuple[str, ...]) -> pd.DataFrame:
    kinds = about["kinds"]
    if not isinstance(kinds, list) or len(kinds) != len(names):
        raise Misfit("table.kinds are not those of its columns")
    columns = [Column.read(facts) for facts in kinds]
    schema = pa.schema([pa.field(str(j), column.arrow) for j, column in enumerate(columns)])
    batches = list(read_batches(content, schema))
    if len(batches) != 1 or batches[0].num_rows != n_rows:
        raise Misfit("fewer or more rows than table.rows says")
    labels: list[Any] = list(names)
    if about["labels"] is not None:
        if not isinstance(about["labels"], list) or len(about["labels"]) != len(names):
            raise Misfit("table.labels are not those of its columns")
        labels = [decode_value(label) for label in about["labels"]]
        if [str(label) for label in labels] != list(names):
            raise Misfit("table.labels are not those of its columns")
    series = {j: decode_column(batches[0].column(j), column) for j, column in enumerate(columns)}
    frame = pd.DataFrame(series, index=pd.RangeIndex(n_rows), copy=False)
    frame.columns = pd.Index(labels, dtype=object if any(type(one) is not str for one in labels) else None)
    if all(type(one) is int for one in labels):
        frame.columns = pd.Index(labels)
    return frame


def _positive(value: Any, name: str) -> int:
    if type(value) is not int or not 1 <= value < 2**40:
        raise Misfit(f"table.{name} is not a number of {name}")
    return value


class _Forward:
    """A file that Arrow may write to and must not close: the archive does."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._at = 0
        self.closed = False

    def write(self, block: Any) -> int:
        self._out.write(memoryview(block))
        self._at += len(block)
        return len(block)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False
