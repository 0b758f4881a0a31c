"""Fold plans: written files that were changed, and `compile_plan` with nonsense."""

from __future__ import annotations

import copy
import json
import random
from functools import partial

import numpy as np
import pandas as pd
import pytest

from hostile.judging import refusal
from scff import FoldPlan, compile_plan
from scff.errors import DataError

JUNK = [None, True, -1, 0, 1.5, 10**30, "", "7", [], [[]], [0, 0], [99], [-1], [True], {}, {"a": 1}, float("1e308")]


@pytest.fixture(scope="module")
def plan():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    X = rng.normal(size=(40, 12))
    X[:, 3:6] += 2 * y[:, None]
    return compile_plan(pd.DataFrame(X, columns=[f"c{j}" for j in range(12)]), y, leaf_width=4)


@pytest.fixture(scope="module")
def written(plan):
    return json.loads(plan.to_json())


def holds(plan: FoldPlan) -> None:
    """Assert what every plan promises."""
    leaves = np.concatenate(plan.leaves)
    assert len(set(leaves)) == len(leaves)
    assert set(leaves) == {*plan.core, *plan.tail} <= set(range(plan.n_columns))
    assert all(1 <= len(leaf) <= plan.leaf_width for leaf in plan.leaves)
    assert len(plan.f) == len(plan.p) == plan.n_columns
    assert ((plan.p >= 0) & (plan.p <= 1)).all()
    assert (plan.f >= 0).all()


def read(text):
    """Read a plan; what is read holds."""
    holds(FoldPlan.from_json(text))


def overlapping(data):
    data["tail_leaves"][0][0] = data["core_leaves"][0][0]
    data["tail_leaves"][0].sort()


def outside(data):
    data["tail"][0] = data["tail_leaves"][0][-1] = 12


def in_both(data):
    data["tail"].append(data["core"][0])
    data["tail_leaves"].append([data["core"][0]])


def negative(data):
    data["core"][0] = data["core_leaves"][0][0] = -1


def too_wide(data):
    data["tail_leaves"] = [sorted(data["tail"])]


def unsorted(data):
    data["core_leaves"][0].reverse()


def repeated(data):
    data["names"][0] = data["names"][1]


def improbable(data):
    data["p"][0] = 1.5


IMPOSSIBLE = [overlapping, outside, in_both, negative, too_wide, unsorted, repeated, improbable]


@pytest.mark.parametrize("change", IMPOSSIBLE, ids=lambda change: change.__name__)
def test_a_plan_that_no_table_can_have_is_refused(written, change, tally):
    data = copy.deepcopy(written)
    change(data)
    assert isinstance(refusal(lambda: read(json.dumps(data))), DataError)
    tally("plan files", "refused")


NO_PLANS = ["", "{", "[]", "null", "3", '"scff-plan-1"', "[" * 100_000, '{"format": NaN}', b"\xff"]


@pytest.mark.parametrize("text", NO_PLANS)
def test_what_is_no_plan_is_refused(text, tally):
    assert isinstance(refusal(lambda: read(text)), DataError)
    tally("plan files", "refused")


def test_any_field_may_be_missing_or_junk(written, tally):
    cases = [written | {"more": 1}]
    for key, value in written.items():
        cases.append({k: v for k, v in written.items() if k != key})
        cases += [written | {key: junk} for junk in JUNK]
        cases += [written | {key: [junk, *(value if isinstance(value, list) else [])]} for junk in JUNK]
    answers = [refusal(partial(read, json.dumps(case))) for case in cases]
    served = [case for case, refused in zip(cases, answers, strict=True) if refused is None]
    # What is served is what another plan could say: other counts of rows, another level or routing, no names.
    assert all(len(case) == len(written) and case["core_leaves"] == written["core_leaves"] for case in served)
    tally("plan files", "served", len(served))
    tally("plan files", "refused", len(cases) - len(served))


def test_a_written_plan_with_flipped_and_lost_bytes_is_read_whole_or_refused(plan, whole, tally):
    text = plan.to_json().encode()
    dice = random.Random(0)
    for _ in range(2000 if whole else 300):
        broken = bytearray(text)
        for _ in range(dice.choice([1, 1, 2, 8])):
            kind, at = dice.randrange(4), dice.randrange(len(broken))
            if kind == 0:
                broken[at] ^= 1 << dice.randrange(8)
            elif kind == 1:
                del broken[at : at + dice.randrange(1, 40)]
            elif kind == 2:
                broken[at:at] = bytes(dice.randrange(256) for _ in range(dice.randrange(1, 5)))
            else:
                broken[at] = dice.choice(b'0123456789,[]{}"-e.')
        refused = refusal(partial(read, bytes(broken)))
        tally("plan files", "refused" if refused else "served")


def X_y(n=40, d=6):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), np.arange(n) % 2


@pytest.mark.parametrize(
    "change",
    [
        {"columns": [0, 0, 1]},
        {"columns": [6]},
        {"columns": [-1]},
        {"columns": [0.5]},
        {"columns": [True, False]},
        {"columns": "abc"},
        {"columns": [[0, 1]]},
        {"columns": []},
        {"names": ["a"]},
        {"names": ["a"] * 6},
        {"names": [1, 2, 3, 4, 5, 6]},
        {"names": "abcdef"},
        {"leaf_width": 0},
        {"leaf_width": -3},
        {"leaf_width": 2.5},
        {"leaf_width": "8"},
        {"leaf_width": True},
        {"leaf_width": None},
        {"fdr": 0},
        {"fdr": 1},
        {"fdr": float("nan")},
        {"fdr": "small"},
        {"fdr": None},
        {"fdr": 1j},
        {"routing": "linked"},
        {"routing": None},
        {"routing": ["anova"]},
        {"routing": "random", "random_state": -1},
        {"routing": "random", "random_state": "seed"},
        {"routing": "linear", "y": ["a"] * 40},
        {"routing": "linear", "y": [float("inf")] * 40},
        {"y": None},
        {"y": 3},
        {"y": "label"},
        {"y": np.zeros(40)},
        {"y": np.linspace(0, 1, 40)},
        {"y": np.zeros((40, 2))},
        {"X": None},
        {"X": "table"},
        {"X": 3},
        {"X": [[1, 2], [3]]},
        {"X": np.zeros(40)},
        {"X": np.zeros((40, 2, 2))},
        {"X": np.zeros((40, 0))},
        {"X": np.array([["a", "b"]] * 40)},
        {"X": np.array([[1j, 2]] * 40)},
        {"X": {"a": [1] * 40}},
    ],
    ids=lambda change: ", ".join(f"{k}={type(v).__name__}" for k, v in change.items()),
)
def test_compiling_with_nonsense_is_refused(change, tally):
    X, y = X_y()
    error = refusal(lambda: compile_plan(**({"X": X, "y": y} | change)))
    assert isinstance(error, DataError)
    tally("bad inputs: plans", "refused")
