"""A sparse table as Arrow: for every row the places of its cells and what stands there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from scff.models.messages import read_batches
from scff.models.tensors import Misfit
from scff.tables.sparse import SparseColumns

__all__ = ["read_sparse", "sparse_batches"]


def sparse_batches(values: SparseColumns, kind: pa.DataType) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The rows as one batch, and its schema."""
    matrix = values.matrix
    matrix.sum_duplicates()
    offsets = pa.array(matrix.indptr.astype(np.int64))
    schema = _schema(kind)
    lists = [
        pa.LargeListArray.from_arrays(offsets, pa.array(matrix.indices.astype(np.int32)), type=schema.field(0).type),
        pa.LargeListArray.from_arrays(offsets, pa.array(matrix.data), type=schema.field(1).type),
    ]
    return schema, iter([pa.RecordBatch.from_arrays(lists, schema=schema)])


def read_sparse(content: memoryview, kind: pa.DataType, n_rows: int, n_columns: int) -> SparseColumns:
    """The table that `sparse_batches` gave.

    Raises
    ------
    Misfit
        If rows or places are not those of a table of this size.
    """
    batches = list(read_batches(content, _schema(kind)))
    if len(batches) != 1 or batches[0].num_rows != n_rows:
        raise Misfit("fewer or more rows than table.rows says")
    places, cells = batches[0].columns
    if places.null_count or cells.null_count or places.values.null_count or cells.values.null_count:
        raise Misfit("rows that are not those of the table")
    indptr = places.offsets.to_numpy()
    if not np.array_equal(indptr, cells.offsets.to_numpy()) or indptr[0] != 0:
        raise Misfit("as many places as cells are not there")
    indices, data = (part.values.to_numpy()[: indptr[-1]] for part in (places, cells))
    if len(indices) and not 0 <= indices.min() <= indices.max() < n_columns:
        raise Misfit("cells in columns that the table has not")
    if np.isinf(data).any():
        raise Misfit("an infinite value")
    matrix = csr_array((data.copy(), indices.copy(), indptr.copy()), shape=(n_rows, n_columns))
    if not matrix.has_canonical_format:
        raise Misfit("two cells in one place")
    return SparseColumns(matrix)


def _schema(kind: pa.DataType) -> pa.Schema:
    place, cell = pa.field("place", pa.int32(), nullable=False), pa.field("cell", kind, nullable=False)
    return pa.schema(
        [
            pa.field("places", pa.large_list(place), nullable=False),
            pa.field("cells", pa.large_list(cell), nullable=False),
        ]
    )
