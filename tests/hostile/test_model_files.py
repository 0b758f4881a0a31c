"""Model files that were damaged, cut off, forged or made to attack: one sentence each, and no command is run.

Where a change leaves a file readable, it is because nothing of the model changed, or because what it says now is a
model too; then it predicts.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import struct
import zipfile
import zlib

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import scff
from scff import FoldedClassifier
from scff.errors import ModelFileError, SCFFError
from scff.memory.meter import PeakMemory

STRANGE = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**400,
    0.5,
    -0.5,
    1e308,
    "",
    "nan",
    "-inf",
    "auto",
    "../../etc/passwd",
    "C:\\Windows",
    "x" * 5000,
    "\x00",
    "\x1b[31m",
    "os.system",
    [],
    {},
    [[]],
    [None] * 9,
    {"values": []},
    {"paper": {}},
    {"__class__": "subprocess.Popen"},
)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Three models as files: numbers, a table of all kinds of columns, a Tail that was let in and caches; with rows."""
    folder = tmp_path_factory.mktemp("originals")
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 24)) + (np.arange(24) < 6) * y[:, None]
    Q = rng.normal(size=(3, 24))
    frame = pd.DataFrame(X[:, :4], columns=list("abcd"))
    frame["text"] = np.where(X[:, 0] > 0, "warm", "cold")
    frame["grade"] = pd.Categorical(np.where(X[:, 1] > 0, "high", "low"), ["low", "high"], ordered=True)
    frame["mixed"] = pd.Series(["one", None, "two", "one"] * 10, dtype=object)
    frame["count"] = pd.Series([1, None] * 20, dtype="Int64")
    tail = FoldedClassifier("nano", method="scff", leaf_width=8, tail="fixed-prototype").fit(X, y)
    assert tail.gate_.accepted == "prototype"
    models = {
        "numbers": (FoldedClassifier("nano", method="raw-core").fit(X, y), Q),
        "columns": (FoldedClassifier("nano", method="raw-core").fit(frame, np.array(["no", "yes"])[y]), frame[:3]),
        "tail": (tail, Q),
    }
    for name, (model, _) in models.items():
        model.save(folder / f"{name}.scff", caches=name == "tail")
    return {name: ((folder / f"{name}.scff").read_bytes(), rows) for name, (_, rows) in models.items()}


@pytest.fixture
def cases(whole):
    """How many files each kind of change makes."""
    return 240 if whole else 25


def parts_of(content):
    """The members of a file by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(path, parts):
    """A file of these members, with the right checksums: a forger knows how."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)


def is_refused(path):
    """Whether a file is refused, in the one way that there is."""
    said = None
    try:
        scff.load(path)
    except ModelFileError as error:
        said = str(error)
    assert said is None or (len(said) < 1000 and "\n" not in said)
    return said is not None


def predicts_or_says_why(path, rows):
    """What a readable file must do: predict, or say what stands in the way."""
    try:
        model = scff.load(path)
        proba = model.predict_proba(rows)
    except SCFFError:
        return
    assert proba.shape == (len(rows), len(model.classes_))


def flip(content, rng):
    at, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
    return content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]


def cut(content, rng):
    return content[: rng.randrange(len(content))]


def overwrite(content, rng):
    at = rng.randrange(len(content))
    return content[:at] + rng.randbytes(rng.randrange(1, 64)) + content[at + rng.randrange(64) :]


def insert(content, rng):
    at = rng.randrange(len(content))
    return content[:at] + rng.randbytes(rng.randrange(1, 32)) + content[at:]


def swap(content, rng):
    a, b = sorted(rng.randrange(len(content)) for _ in range(2))
    return content[:a] + content[b:] + content[a:b]


@pytest.mark.parametrize("change", [flip, cut, overwrite, insert, swap], ids=lambda change: change.__name__)
def test_damage_is_told_or_harmless(change, originals, cases, tally, tmp_path):
    rng = random.Random(change.__name__)
    path = tmp_path / "model.scff"
    for content, _ in originals.values():
        path.write_bytes(content)
        caches = b"caches.safetensors" in content
        scff.load(path).save(tmp_path / "whole.scff", caches=caches)
        for _ in range(cases // 3):
            path.write_bytes(change(content, rng))
            if is_refused(path):
                tally("model files", "refused")
                continue
            # A flag or a date in the zip's own list: the model itself is the one that was saved.
            scff.load(path).save(tmp_path / "again.scff", caches=caches)
            assert (tmp_path / "again.scff").read_bytes() == (tmp_path / "whole.scff").read_bytes()
            tally("model files", "unharmed")


def nodes(data, path=()):
    """Every place in a JSON document."""
    yield path
    if isinstance(data, dict):
        for key in data:
            yield from nodes(data[key], (*path, key))
    elif isinstance(data, list):
        for i in range(len(data)):
            yield from nodes(data[i], (*path, i))


def changed(data, path, rng):
    """A document with something else at one place."""
    if not path:
        return rng.choice(STRANGE)
    data = json.loads(json.dumps(data))
    *way, last = path
    inside = data
    for step in way:
        inside = inside[step]
    kind = rng.randrange(6)
    if kind == 0:
        del inside[last]
    elif kind == 1 and isinstance(inside, dict):
        inside[rng.choice(["extra", "", "format"])] = inside[last]
    elif kind == 2 and isinstance(inside, list):
        inside.insert(last, inside[last])
    else:
        inside[last] = rng.choice(STRANGE)
    return data


def test_a_forged_document_is_refused_or_a_model(originals, cases, tally, tmp_path):
    rng = random.Random("document")
    path = tmp_path / "model.scff"
    for content, rows in originals.values():
        parts = parts_of(content)
        document = json.loads(parts["model.json"])
        places = list(nodes(document))
        for _ in range(cases):
            text = json.dumps(changed(document, rng.choice(places), rng)).encode()
            pack(path, parts | {"model.json": text})
            if is_refused(path):
                tally("model files", "refused")
            else:
                predicts_or_says_why(path, rows)
                tally("model files", "served")


@pytest.mark.parametrize("member", ["support.arrow", "arrays.safetensors", "caches.safetensors"])
@pytest.mark.parametrize("change", [flip, cut, overwrite, insert], ids=lambda change: change.__name__)
def test_forged_rows_and_arrays_are_refused_or_a_model(member, change, originals, cases, tally, tmp_path):
    rng = random.Random(member + change.__name__)
    path = tmp_path / "model.scff"
    for content, rows in originals.values():
        parts = parts_of(content)
        if member not in parts:
            continue
        for _ in range(cases // 6 + 1):
            pack(path, parts | {member: change(parts[member], rng)})
            if is_refused(path):
                tally("model files", "refused")
            else:
                predicts_or_says_why(path, rows)
                tally("model files", "served")


def test_a_forged_list_of_arrays_is_refused_or_a_model(originals, cases, tally, tmp_path):
    rng = random.Random("arrays")
    path = tmp_path / "model.scff"
    for content, rows in originals.values():
        parts = parts_of(content)
        (size,) = struct.unpack("<Q", parts["arrays.safetensors"][:8])
        listed = json.loads(parts["arrays.safetensors"][8 : 8 + size])
        data = parts["arrays.safetensors"][8 + size :]
        places = list(nodes(listed))
        for _ in range(cases // 3):
            text = json.dumps(changed(listed, rng.choice(places), rng)).encode()
            pack(path, parts | {"arrays.safetensors": struct.pack("<Q", len(text)) + text + data})
            if is_refused(path):
                tally("model files", "refused")
            else:
                predicts_or_says_why(path, rows)
                tally("model files", "served")


NUMBERS = (0, 1, -1, 3, 2**31 - 1, 2**53, -(2**63), 1e-320, 0.5, 1e308, -1e308, "nan", "inf")


def forged_numbers(document):
    """Every number of a document, the first of a list's, replaced by others that are numbers too."""
    for path in nodes(document):
        inside = document
        for step in path:
            inside = inside[step]
        listed = any(isinstance(step, int) and step > 1 for step in path)
        if isinstance(inside, int | float) and not isinstance(inside, bool) and not listed:
            yield path


def test_a_forged_number_is_refused_or_a_model(originals, whole, tally, tmp_path):
    rng = random.Random("numbers")
    path = tmp_path / "model.scff"
    for content, rows in originals.values():
        parts = parts_of(content)
        document = json.loads(parts["model.json"])
        for place in list(forged_numbers(document))[:: 1 if whole else 12]:
            other = json.loads(json.dumps(document))
            inside = other
            for step in place[:-1]:
                inside = inside[step]
            inside[place[-1]] = rng.choice(NUMBERS)
            pack(path, parts | {"model.json": json.dumps(other).encode()})
            if is_refused(path):
                tally("model files", "refused")
            else:
                predicts_or_says_why(path, rows)
                tally("model files", "served")


NONSENSE = {
    "not numbers": lambda values: b"\xff" * len(values),
    "nothing": lambda values: bytes(len(values)),
    "endless": lambda values: b"\x7f" * len(values),
    "backwards": lambda values: values[::-1],
}


@pytest.mark.parametrize("kind", NONSENSE)
@pytest.mark.parametrize("member", ["arrays.safetensors", "caches.safetensors"])
def test_arrays_of_nonsense_are_refused_or_a_model(member, kind, originals, whole, tally, tmp_path):
    path = tmp_path / "model.scff"
    for content, rows in originals.values():
        parts = parts_of(content)
        if member not in parts:
            continue
        (size,) = struct.unpack("<Q", parts[member][:8])
        head, data = parts[member][: 8 + size], parts[member][8 + size :]
        spans = [entry["data_offsets"] for entry in json.loads(head[8:]).values()]
        for start, stop in spans if whole else spans[:2]:
            pack(path, parts | {member: head + data[:start] + NONSENSE[kind](data[start:stop]) + data[stop:]})
            if is_refused(path):
                tally("model files", "refused")
            else:
                predicts_or_says_why(path, rows)
                tally("model files", "served")


class Trap:
    """A pickle that leaves a mark when it is read."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def extension_type(trap):
    """Arrow rows whose schema asks a reader to unpickle a type."""
    metadata = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": trap}
    field = pa.field("row", pa.list_(pa.field("cell", pa.float64(), nullable=False), 24), False, metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema([field], {"pandas": '{"columns": []}'})):
        pass
    return sink.getvalue().to_pybytes()


def test_no_file_runs_a_command(originals, tally, tmp_path):
    mark = tmp_path / "mark"
    trap = pickle.dumps(Trap(mark))
    pickle.loads(trap).close()
    assert mark.exists()  # where a pickle is read, it does
    mark.unlink()
    parts = parts_of(originals["numbers"][0])
    document = json.loads(parts["model.json"])
    path = tmp_path / "model.scff"

    def saying(**other):
        return parts | {"model.json": json.dumps(document | other).encode()}

    attacks = {
        "a pickle": lambda: path.write_bytes(trap),
        "joblib": lambda: joblib.dump(Trap(mark), path),
        "joblib, compressed": lambda: joblib.dump(Trap(mark), path, compress=3),
        "a pickle for a document": lambda: pack(path, parts | {"model.json": trap}),
        "a pickle for rows": lambda: pack(path, parts | {"support.arrow": trap}),
        "a pickle for arrays": lambda: pack(path, parts | {"arrays.safetensors": trap}),
        "a torch file for arrays": lambda: pack(path, parts | {"data.pkl": trap, "version": b"3"}),
        "an extension type": lambda: pack(path, parts | {"support.arrow": extension_type(trap)}),
        "a zip in front of a pickle": lambda: path.write_bytes(originals["numbers"][0] + trap),
        "a pickle in front of a zip": lambda: path.write_bytes(trap + originals["numbers"][0]),
        "a class by name": lambda: pack(path, saying(estimator="os.system")),
        "a class for a label": lambda: pack(path, saying(classes={"dtype": "object", "values": [{"os.system": "x"}]})),
        "a type that evaluates": lambda: pack(
            path, saying(classes={"dtype": f"open({str(mark)!r}, 'w')", "values": []})
        ),
    }
    for name, attack in attacks.items():
        mark.unlink(missing_ok=True)  # joblib opens what it is given to write
        attack()
        assert is_refused(path), name
        assert not mark.exists(), name
        tally("model files", "refused")


def test_bombs_are_refused_before_they_take_memory(originals, tally, tmp_path):
    parts = parts_of(originals["numbers"][0])
    path = tmp_path / "model.scff"
    document = json.loads(parts["model.json"])

    def deflated(name):
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in parts.items():
                if member == name:
                    archive.writestr(member, bytes(64 << 20), zipfile.ZIP_DEFLATED)
                else:
                    archive.writestr(member, content)

    def saying(**other):
        return parts | {"model.json": json.dumps(document | other).encode()}

    def described(**about):
        return saying(table=document["table"] | about)

    def listed(**entry):
        text = json.dumps({"fitted.y": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]} | entry}).encode()
        return parts | {"arrays.safetensors": struct.pack("<Q", len(text)) + text + bytes(8)}

    def compressed_rows(kind):
        table = pa.table({"row": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(24 * 100_000)), 24)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=kind)) as out:
            out.write_table(table)
        return sink.getvalue().to_pybytes()

    bombs = {
        "a member that unpacks to a thousand times its size": lambda: deflated("support.arrow"),
        "a document that does": lambda: deflated("model.json"),
        "rows beyond counting": lambda: pack(path, described(rows=2**39)),
        "columns beyond counting": lambda: pack(path, described(columns=2**31)),
        "an array of a petabyte": lambda: pack(path, listed(shape=[2**47])),
        "an array of no rows and endless columns": lambda: pack(path, listed(shape=[0, 2**62], data_offsets=[0, 0])),
        "a list that says it is endless": lambda: pack(
            path, parts | {"arrays.safetensors": struct.pack("<Q", 2**63) + bytes(64)}
        ),
        "a hundred thousand brackets": lambda: pack(path, parts | {"model.json": b"[" * 100_000}),
        "two million empty lists": lambda: pack(path, parts | {"model.json": b"[" + b"[]," * 2_000_000 + b"0]"}),
        "a number of a million digits": lambda: pack(path, parts | {"model.json": b"9" * 1_000_000}),
        "rows that Arrow compressed": lambda: pack(path, parts | {"support.arrow": compressed_rows("zstd")}),
        "rows that Arrow compressed otherwise": lambda: pack(path, parts | {"support.arrow": compressed_rows("lz4")}),
        "labels of endless width": lambda: pack(
            path, saying(classes={"dtype": "str", "width": 2**31, "values": ["a", "b"]})
        ),
    }
    for name, bomb in bombs.items():
        bomb()
        with PeakMemory() as memory:
            assert is_refused(path), name
        assert memory.added < (32 << 20) + 8 * path.stat().st_size, name
        tally("model files", "refused")


def test_tricks_of_the_archive_are_refused(originals, tally, tmp_path):
    content = originals["numbers"][0]
    parts = parts_of(content)
    path = tmp_path / "model.scff"
    for name in (
        "../escaped",
        "/etc/passwd",
        "C:\\evil",
        "model.json/",
        "MODEL.JSON",
        "model.json\x00",
        "a" * 300,
        "ä",
    ):
        pack(path, parts | {name: b"data"})
        assert is_refused(path), name
        tally("model files", "refused")
    for missing in parts:
        pack(path, {name: part for name, part in parts.items() if name != missing})
        assert is_refused(path), missing
        tally("model files", "refused")
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(zipfile.ZipInfo("model.json"), parts["model.json"])
    assert is_refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = b"hidden"
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part)
    assert is_refused(path)
    path.write_bytes(b"#!/bin/sh\nexit\n" + content)
    assert is_refused(path)
    path.write_bytes(content + b"hidden")
    assert is_refused(path)
    path.write_bytes(content[: content.index(b"PK\x01\x02")] + b"hidden" + content[content.index(b"PK\x01\x02") :])
    assert is_refused(path)
    tally("model files", "refused", 5)
    # The list of members says one thing, the members another.
    at = content.index(b"PK\x01\x02")
    for field, value in {8: 1, 10: 8, 16: 0, 20: 2**31, 24: 2**31, 42: 7}.items():
        listed = bytearray(content)
        struct.pack_into("<H" if field < 16 else "<I", listed, at + field, value)
        path.write_bytes(bytes(listed))
        assert is_refused(path), field
        tally("model files", "refused")
    assert not (tmp_path.parent / "escaped").exists()


def test_what_is_no_file_is_refused(tmp_path, tally):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("pipe", "folder", "dangling", "missing", "loop", "a" * 5000, "\0", "\ud800"):
        assert is_refused(tmp_path / name)
        tally("model files", "refused")
    for path in (None, 3, b"model.scff", object(), ["model.scff"], "/dev/zero"):
        assert is_refused(path), path
        tally("model files", "refused")


def test_a_model_is_written_to_a_file_or_not_at_all(tmp_path, tally):
    rng = np.random.default_rng(0)
    model = FoldedClassifier("nano", method="raw-core").fit(rng.normal(size=(20, 5)), np.arange(20) % 2)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    places = [tmp_path, tmp_path / "loop", tmp_path / "a" / "b", "/dev/full", "a\0b", tmp_path / "\ud800", "b" * 5000]
    for place in (*places, None, 3, b"model.scff"):
        with pytest.raises(SCFFError):
            model.save(place)
        tally("model files", "refused")
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]
    assert (tmp_path / "loop").is_symlink()
    for name, value in {"leaf_width": -3, "fdr": float("nan"), "cache": "nope", "random_state": None}.items():
        with pytest.raises(SCFFError, match=name):  # what could not be read again is not written
            FoldedClassifier.save(clone_with(model, name, value), tmp_path / "model.scff")
        tally("model files", "refused")
    assert not (tmp_path / "model.scff").exists()


EXTREMES = {
    "leaf_width": [1, 2**31 - 1, np.int64(7)],
    "leaf_batch": [1, 2**31 - 1],
    "query_chunk": [1, 2**31 - 1],
    "fdr": [1e-300, 1 - 1e-16, np.float32(0.5)],
    "memory_limit": [10**18, 1e18, "1000 TiB"],
    "random_state": [2**32 - 1, np.uint32(7)],
    "verbose": [10**30, True],
    "class_weight": [{0: 1e-300, 1: 1e300}, {np.int64(1): 2}],
    "categorical": [[0], (4,), []],
    "id_column": [None],
    "cache": [False, "disk"],
}


@pytest.mark.parametrize("name", EXTREMES)
def test_whatever_fit_accepts_is_read_again(name, tmp_path, tally):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, size=(20, 5)).astype(float), np.arange(20) % 2
    for value in EXTREMES[name]:
        model = FoldedClassifier("nano", method="raw-core", **{name: value}).fit(X, y)
        model.save(tmp_path / "model.scff")
        assert np.array_equal(scff.load(tmp_path / "model.scff").predict_proba(X), model.predict_proba(X))
        tally("model files", "served")


def clone_with(model, name, value):
    """A fitted model, one of whose arguments was set since."""
    other = pickle.loads(pickle.dumps(model))
    return other.set_params(**{name: value})


def test_a_format_of_the_future_is_refused_with_its_name(originals, tmp_path):
    parts = parts_of(originals["numbers"][0])
    document = json.loads(parts["model.json"]) | {"format": "scff-model-99"}
    pack(tmp_path / "model.scff", parts | {"model.json": json.dumps(document).encode()})
    with pytest.raises(ModelFileError, match=r"'scff-model-99'.*this version of scff reads 'scff-model-2'"):
        scff.load(tmp_path / "model.scff")


def test_a_checksum_is_not_taken_on_faith(originals, tmp_path):
    content = bytearray(originals["numbers"][0])
    at = bytes(content).index(b'"fdr"')
    content[at + 1 : at + 4] = b"rdf"
    (tmp_path / "model.scff").write_bytes(bytes(content))
    assert zlib.crc32(b"fdr") != zlib.crc32(b"rdf")
    with pytest.raises(ModelFileError, match=r"model\.json is not what was written"):
        scff.load(tmp_path / "model.scff")
