"""Meters, budgets and caches."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from conftest import make_wide, paper
from scff.backbones.base import LeafCache
from scff.errors import DataError, MemoryBudgetError
from scff.fold.caches import CacheStore
from scff.memory.budget import Footprint, format_bytes, keep_within, parse_bytes
from scff.memory.meter import PeakMemory


@pytest.mark.parametrize(
    ("text", "size"), [("2GiB", 2 << 30), ("500 MB", 500 * 10**6), ("1g", 1 << 30), (123, 123), ("0.5 KiB", 512)]
)
def test_sizes(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", 0, "2 parsecs"])
def test_bad_sizes(text):
    with pytest.raises(DataError):
        parse_bytes(text)


def test_formatting():
    assert [format_bytes(s) for s in (0, 1023, 1536, 5 << 30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]


def test_the_meter_sees_torch_and_forgets_earlier_peaks():
    large = torch.ones(64 << 20, dtype=torch.uint8)
    del large
    with PeakMemory() as memory:
        small = torch.ones(16 << 20, dtype=torch.uint8)
        del small
    assert 15 << 20 < memory.added < 40 << 20


LEAF = Footprint(scratch=10 << 20, cache=2 << 20, support_row=10_000, query_row=10_000, summary_row=2_000)


def test_blocks_shrink_with_the_budget_and_never_below_one():
    sizes = [keep_within(limit << 20, LEAF, 1000, 256, 8192, 8) for limit in (4000, 100, 45, 41)]
    for generous, tight in itertools.pairwise(sizes):
        (leaves, chunk, _, cached), (more_leaves, longer_chunk, _, more_cached) = tight, generous
        assert leaves <= more_leaves
        assert chunk <= longer_chunk
        assert cached <= more_cached
    assert sizes[0][:3] == (8, 256, 8192)
    assert sizes[-1][0] == 1
    assert min(chunk for _, chunk, _, _ in sizes) >= 1


def test_an_impossible_budget_says_what_would_do():
    with pytest.raises(MemoryBudgetError, match=r"takes (\S+ MiB) beside the weights") as caught:
        keep_within(20 << 20, LEAF, 1000, 256, 8192)
    needed = str(caught.value).split("takes ")[1].split(" beside")[0]
    keep_within(parse_bytes(needed), LEAF, 1000, 256, 8192)


@pytest.mark.parametrize("method", ["native", "raw-core", "scff"])
def test_over_budget_is_one_typed_error_and_nothing_is_dropped(backbone, method):
    X, y, _ = make_wide()
    with pytest.raises(MemoryBudgetError, match=r"memory_limit is 1\.0 KiB"):
        paper(backbone, method=method, memory_limit=1024).fit(X, y)


def test_a_limit_changes_no_prediction(backbone):
    X, y, Q = make_wide()
    settings = {"backbone": backbone, "leaf_width": 32, "tail": "raw-residual"}
    free = paper(**settings).fit(X, y)
    bound = paper(**settings, memory_limit="32MiB").fit(X, y)
    assert bound.plan_ == free.plan_  # every row, every column
    np.testing.assert_allclose(bound.predict_proba(Q), free.predict_proba(Q), atol=1e-5)


def test_the_fit_survives_under_a_hard_limit_where_native_dies():
    """RLIMIT_DATA makes the kernel refuse what goes over: the budget is kept, not only promised."""
    outcomes = {method: _under_limit(method) for method in ("native", "scff")}
    assert outcomes["native"] == {"error": "memory"}
    assert outcomes["scff"]["rows"] == 64


def _under_limit(method):
    code = f"""
        import json, resource
        import numpy as np, torch
        torch.set_num_threads(1)
        from scff import FoldedClassifier
        rng = np.random.default_rng(0)
        X = rng.normal(size=(464, 2000)).astype(np.float32)
        y = np.arange(400) % 2
        limit = "128MiB" if {method!r} == "scff" else None
        FoldedClassifier("nano").fit(X[:30, :4], y[:30]).predict(X[:2, :4])
        used = int(next(l for l in open("/proc/self/status") if l.startswith("VmData")).split()[1]) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (used + (160 << 20),) * 2)
        try:
            clf = FoldedClassifier("nano", method={method!r}, memory_limit=limit).fit(X[:400], y)
            print(json.dumps({{"rows": len(clf.predict_proba(X[400:]))}}))
        except (MemoryError, RuntimeError) as error:
            assert "memory" in str(error).lower() or isinstance(error, MemoryError), error
            print(json.dumps({{"error": "memory"}}))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_caches_spill_to_disk_and_come_back():
    store = CacheStore(True, memory_bytes=5000)
    caches = [LeafCache({"a": torch.randn(1000), "b": torch.randn(20)}, state=f"state {i}") for i in range(3)]
    keys = [store.put(cache) for cache in caches]
    directory = store._scratch[0].path

    def spilled():
        return sorted(path.name for path in directory.iterdir() if path.name.isdigit())

    assert spilled() == ["1", "2"]  # the first fits, the others do not
    for key, cache in zip(keys, caches, strict=True):
        back = store.get(key, never)
        assert back.state == cache.state
        assert all(torch.equal(back.tensors[name], cache.tensors[name]) for name in "ab")
    del back
    store.drop(keys[0])
    assert store.put(caches[0]) is not None
    assert spilled() == ["1", "2"]  # the freed room was used again
    store.drop(keys[1])
    assert spilled() == ["2"]
    del store
    assert not directory.exists()


def never():
    raise AssertionError("the cache is there")
