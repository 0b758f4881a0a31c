"""Files of tables that are damaged, that lie about themselves, or that would run something: refused in a sentence.

Readers below trust what a file says: Arrow follows offsets wherever they point, SciPy indices, NumPy pickles. A case
that would take the process with it runs in a child.
"""

from __future__ import annotations

import io
import os
import pickle
import random
import struct
import warnings
import zipfile

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from scipy.io import mmwrite

from hostile.judging import refusal
from scff.errors import DataError, DataWarning, SCFFError
from scff.estimators.input import given_support
from scff.tables.formats import load
from scff.tables.sparse import SparseColumns

N = 24


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(N, 6)), columns=list("abcdef"))
    return table.assign(word=np.array(["u", "v", "w"])[np.arange(N) % 3])


def in_a_child(call):
    """Whether a call ends in a sentence or an answer; a process that dies, or another error, does not."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            refusal(call)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def write_h5ad(path, frame):
    names = pd.Index([f"c{i}" for i in range(N)], dtype=object)
    obs = pd.DataFrame({"age": np.arange(N)}, index=names)
    var = pd.DataFrame(index=pd.Index(list("abcdef"), dtype=object))
    anndata.AnnData(sparse.csr_matrix(frame.iloc[:, :6].to_numpy(np.float32)), obs=obs, var=var).write_h5ad(path)


WRITERS = {
    "csv": lambda path, frame: frame.to_csv(path, index=False),
    "csv.gz": lambda path, frame: frame.to_csv(path, index=False),
    "parquet": lambda path, frame: frame.to_parquet(path),
    "feather": lambda path, frame: frame.to_feather(path, compression="uncompressed"),
    "arrow": lambda path, frame: frame.astype({"word": "category"}).to_feather(path, compression="uncompressed"),
    "xlsx": lambda path, frame: frame.to_excel(path, index=False),
    "npy": lambda path, frame: np.save(path, frame.iloc[:, :6].to_numpy()),
    "npz": lambda path, frame: sparse.save_npz(path, sparse.csr_matrix(frame.iloc[:, :6].to_numpy())),
    "h5ad": write_h5ad,
    "mtx": lambda path, frame: mmwrite(path, sparse.coo_matrix(frame.iloc[:, :6].to_numpy())),
}


def damaged(content, rng):
    """Bytes with something else at some places."""
    out = bytearray(content)
    kind = rng.randrange(5)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(out))
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at + 1 :]
        elif kind == 2:
            out[at : at + 4] = struct.pack("<I", rng.choice([0, 2**32 - 1, 2**31 - 1, 1 << 20]))
        elif kind == 3:
            out[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            out[at : at + 8] = struct.pack("<q", rng.choice([-1, 2**62, 2**31, 1]))
    return bytes(out)


@pytest.mark.parametrize("ending", WRITERS)
def test_a_damaged_file_is_a_table_or_a_sentence(ending, frame, tmp_path, whole, tally):
    path = tmp_path / f"table.{ending}"
    WRITERS[ending](path, frame)
    assert refusal(lambda: load(path)) is None
    content, rng = path.read_bytes(), random.Random(ending)

    def read():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # which columns look odd is worth saying of such a table
            given_support(path, np.arange(N) % 2)

    for _ in range(100 if whole else 10):
        path.write_bytes(damaged(content, rng))
        assert in_a_child(read), f"see {path}"
        tally("bad inputs: files", "refused")


class Trap:
    """A pickle that leaves a mark when it is read."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


@pytest.mark.parametrize("ending", [*WRITERS, "npz of a pickle", "npy of a pickle"])
def test_no_table_runs_a_pickle(ending, tmp_path, tally):
    mark = tmp_path / "mark"
    path = tmp_path / f"table.{ending.split()[0]}"
    objects = np.array([[Trap(mark)] * 2] * N, dtype=object)
    if ending.startswith("npz "):
        np.savez(path, X=np.ones((N, 2)), y=objects)
    elif ending.startswith("npy "):
        np.save(path, objects, allow_pickle=True)
    else:
        path.write_bytes(pickle.dumps(Trap(mark)))
    assert isinstance(refusal(lambda: load(path)), DataError)
    assert not mark.exists()
    tally("bad inputs: files", "refused")


def arrow(path, **columns):
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)


def codes_beyond(path):
    codes = pa.Array.from_buffers(pa.int32(), N, [None, pa.py_buffer(np.full(N, 10**6, np.int32).tobytes())])
    arrow(path, kind=pa.DictionaryArray.from_arrays(codes, pa.array(["a"]), safe=False), x=np.arange(N))


def offsets_beyond(path):
    arrow(path, word=pa.array(["a"] * N), x=np.arange(N))
    offsets = np.arange(N + 1, dtype=np.int32)
    content = path.read_bytes()
    assert offsets.tobytes() in content
    path.write_bytes(content.replace(offsets.tobytes(), (offsets * 10**6).tobytes()))


@pytest.mark.parametrize("lie", [codes_beyond, offsets_beyond], ids=lambda lie: lie.__name__)
@pytest.mark.parametrize("ending", ["arrow", "feather"])
def test_arrow_that_points_outside_of_itself_is_refused(lie, ending, tmp_path, tally):
    path = tmp_path / f"table.{ending}"
    lie(path)
    assert in_a_child(lambda: load(path))
    with pytest.raises(DataError):
        load(path)
    tally("bad inputs: files", "refused")


LIES = {
    "an end beyond the data": {"indptr": lambda m: m.indptr * 1000},
    "rows that go back": {"indptr": lambda m: m.indptr[::-1].copy()},
    "too few rows": {"indptr": lambda m: m.indptr[:-2]},
    "columns beyond the last": {"indices": lambda m: m.indices + 100},
    "columns before the first": {"indices": lambda m: m.indices - 100},
    "columns in fractions": {"indices": lambda m: m.indices + 0.5},
    "too little data": {"data": lambda m: m.data[:3]},
}


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("lie", LIES)
def test_sparse_indices_that_point_outside_are_refused(lie, layout, frame, tally):
    matrix = sparse.csr_matrix(frame.iloc[:, :6].to_numpy()).asformat(layout)
    for name, change in LIES[lie].items():
        setattr(matrix, name, change(matrix))
    assert in_a_child(lambda: SparseColumns(matrix)[:, np.arange(6)])
    assert isinstance(refusal(lambda: SparseColumns(matrix)), DataError)
    tally("bad inputs: files", "refused")


def test_sparse_lists_that_point_outside_are_refused(frame):
    matrix = sparse.lil_matrix(frame.iloc[:, :6].to_numpy())
    matrix.rows[0], matrix.data[0] = [500], [1.0]
    assert isinstance(refusal(lambda: SparseColumns(matrix)), DataError)


@pytest.mark.parametrize("lie", LIES)
def test_single_cells_that_lie_are_refused(lie, frame, tmp_path, tally):
    path = tmp_path / "cells.h5ad"
    write_h5ad(path, frame)
    with h5py.File(path, "r+") as file:
        matrix = sparse.csr_matrix(tuple(file["X"][name][:] for name in ("data", "indices", "indptr")), shape=(N, 6))
        for name, change in LIES[lie].items():
            del file["X"][name]
            file["X"][name] = change(matrix)
    assert in_a_child(lambda: load(path).values[:, np.arange(6)])
    assert isinstance(refusal(lambda: load(path)), SCFFError)
    tally("bad inputs: files", "refused")


MARKET = "%%MatrixMarket matrix {} real general\n"
MATRICES = {
    "a terabyte": MARKET.format("array") + "1000000 1000000\n1\n",
    "rows beyond counting": MARKET.format("coordinate") + "99999999999 99999999999 1\n1 1 1\n",
    "more entries than there are": MARKET.format("coordinate") + "3 3 999999999999\n1 1 1\n",
    "a place outside": MARKET.format("coordinate") + "3 3 1\n9 9 1\n",
    "a place before the first": MARKET.format("coordinate") + "3 3 1\n-1 1 1\n",
    "complex numbers": MARKET.format("coordinate").replace("real", "complex") + "24 6 1\n1 1 1 1\n",
    "infinity": MARKET.format("coordinate") + "24 6 1\n1 1 1e400\n",
    "nothing": MARKET.format("coordinate") + "0 0 0\n",
    "no matrix": "%%MatrixMarket vector",
    "no word": "",
}


@pytest.mark.parametrize("lie", MATRICES)
def test_matrix_market_that_lies_is_refused(lie, tmp_path, tally):
    path = tmp_path / "matrix.mtx"
    path.write_text(MATRICES[lie])
    assert isinstance(refusal(lambda: load(path)), SCFFError)
    tally("bad inputs: files", "refused")


ENTITIES = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + b"".join(
    b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9)
)


@pytest.mark.parametrize(
    "sheet",
    [ENTITIES + b"]><worksheet>&j;</worksheet>", b"", b"\x00" * 50, b"<worksheet", b"<html/>"],
    ids=["a billion laughs", "nothing", "zeros", "half", "another page"],
)
def test_a_spreadsheet_of_nonsense_is_refused(sheet, frame, tmp_path, tally):
    path, content = tmp_path / "table.xlsx", io.BytesIO()
    frame.to_excel(content, index=False)
    with zipfile.ZipFile(content) as good, zipfile.ZipFile(path, "w") as bad:
        for name in good.namelist():
            bad.writestr(name, sheet if name.endswith("sheet1.xml") else good.read(name))
    assert isinstance(refusal(lambda: load(path)), SCFFError)
    tally("bad inputs: files", "refused")
