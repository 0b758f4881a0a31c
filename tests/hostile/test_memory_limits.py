"""A budget of memory in fresh processes: what a refusal names is enough, and what is accepted is kept to."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from scff.errors import MemoryBudgetError
from scff.memory.budget import Footprint, keep_within, parse_bytes

FIT = """
import json, sys
import numpy as np
import torch
from scff import FoldedClassifier
from scff.errors import MemoryBudgetError
from scff.memory.meter import PeakMemory

backbone, method, limit, n, width = sys.argv[1:]
rng, n, width = np.random.default_rng(0), int(n), int(width)
y = np.arange(n) % 2
X = (rng.normal(size=(n, width)) + 0.6 * y[:, None] * (np.arange(width) < width // 4)).astype(np.float32)
clf = FoldedClassifier(backbone, method=method, memory_limit=limit)
try:
    clf.fit(X, y)
except MemoryBudgetError as error:
    print(json.dumps({"refused": str(error)}))
else:
    with PeakMemory(torch.device("cpu")) as predicting:
        clf.predict_proba(np.tile(X, (6, 1)))
    print(json.dumps(clf.peak_bytes_ | {"predict": predicting.added}))
"""

SLACK = 1.1
"""What a measured peak may be above a limit: pages that the allocator keeps, modules that are imported late."""


def fit(backbone, method, limit, shape=(120, 600)):
    """Fit in a process of its own: how it was refused, or its peaks."""
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", FIT, str(backbone), method, limit, *map(str, shape)],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(
    params=["nano", pytest.param("v2", marks=pytest.mark.hostile), pytest.param("tabpfn-v1", marks=pytest.mark.hostile)]
)
def weights(request, checkpoint_dir):
    if request.param == "tabpfn-v1":
        from scff.backbones.registry import get_spec
        from scff.backbones.weights import checkpoints

        if checkpoints.find(get_spec("tabpfn-v1").weights) is None:
            pytest.skip("the weights of tabpfn-v1 are not on this machine: scff backbones fetch tabpfn-v1")
    return checkpoint_dir / "v2.ckpt" if request.param == "v2" else request.param


@pytest.mark.parametrize("method", ["scff", pytest.param("auto", marks=pytest.mark.hostile)])
def test_the_figure_that_a_refusal_names_is_accepted_and_kept(weights, method, tally):
    refused = fit(weights, method, "1MiB")["refused"]
    named = re.search(r"takes (?:about )?([\d.]+ \w+) beside the weights", refused)[1]
    peaks = fit(weights, method, named)
    assert "refused" not in peaks, peaks
    # The weights are apart: they are the same whatever the limit, and loading them is measured on its own.
    assert peaks["compile"] <= SLACK * parse_bytes(named)
    assert peaks["load"] > 0
    tally("memory limits", "refused")
    tally("memory limits", "served")


@pytest.mark.parametrize("shape", [(1000, 400), pytest.param((3000, 300), marks=pytest.mark.hostile)])
def test_the_same_of_the_default_on_many_rows(shape, tally):
    # Matrices of rows by rows stay while the model reads: neither alone is the peak.
    refused = fit("nano", "auto", "1MiB", shape)["refused"]
    named = re.search(r"takes (?:about )?([\d.]+ \w+) beside the weights", refused)[1]
    peaks = fit("nano", "auto", named, shape)
    assert peaks["compile"] <= SLACK * parse_bytes(named)
    assert peaks["predict"] <= SLACK * parse_bytes(named)
    tally("memory limits", "refused")
    tally("memory limits", "served")


@pytest.mark.hostile
@pytest.mark.parametrize("limit", ["48MiB", "64MiB", "96MiB"])
def test_a_limit_that_is_accepted_is_kept(weights, limit, tally):
    peaks = fit(weights, "scff", limit)
    assert "refused" in peaks or peaks["compile"] <= SLACK * parse_bytes(limit)
    tally("memory limits", "refused" if "refused" in peaks else "served")


@pytest.mark.parametrize("n_support", [1, 37, 1000, 10**6])
def test_what_a_footprint_needs_is_what_it_is_refused_below(n_support):
    leaf = Footprint(scratch=123_457, cache=98_765, support_row=4_321, query_row=999, summary_row=777)
    keep_within(leaf.least(n_support), leaf, n_support, 256, 8192)
    with pytest.raises(MemoryBudgetError):
        keep_within(leaf.least(n_support) - 1, leaf, n_support, 256, 8192)
