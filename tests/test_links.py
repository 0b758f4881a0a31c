"""A Core filled with columns that move with it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from scff import compile_plan
from scff.tables.on_disk import open_wide
from scff.tables.table import as_table
from scff.trials.links import link, linked_columns


def linked_plan(X, y, leaf_width):
    return link(compile_plan(X, y, leaf_width=leaf_width), as_table(X).numeric())


@pytest.fixture
def grouped():
    """Two hidden sources, each seen through four columns; the label follows both, one column shows it best."""
    rng = np.random.default_rng(3)
    n = 160
    y = np.arange(n) % 2
    sources = rng.normal(size=(n, 2))
    X = rng.normal(size=(n, 60))
    X[:, 10:14] = sources[:, [0]] + 0.3 * rng.normal(size=(n, 4))
    X[:, 20:24] = sources[:, [1]] + 0.3 * rng.normal(size=(n, 4))
    X[:, 10] += 2.5 * y
    X[:, 40] = X[:, 10] * 0.8 + X[:, 20]  # ties the groups together
    return X.astype(np.float32), y


def test_groups_join_the_core_behind_the_discoveries(grouped):
    X, y = grouped
    plain, plan = compile_plan(X, y, leaf_width=16), linked_plan(X, y, 16)
    assert plan.discoveries == plain.discoveries
    assert plan.core[: plan.cut].tolist() == plain.core.tolist()
    assert set(plan.core.tolist()) >= {10, 11, 12, 13, 20, 21, 22, 23, 40}
    assert not set(plan.core.tolist()) & (
        set(range(60)) - {*range(10, 14), *range(20, 24), 40} - set(plain.core.tolist())
    )
    assert plan.linked.tolist() == plan.core[plan.cut :].tolist() != []
    assert len(plain.linked) == 0


def test_every_column_stays_in_one_leaf(grouped):
    X, y = grouped
    plan = linked_plan(X, y, 16)
    assert sorted(np.concatenate(plan.leaves).tolist()) == list(range(60))
    ranks = plan.f[plan.tail]
    assert (np.diff(ranks) <= 0).all()


@pytest.mark.parametrize("leaf_width", [1, 3, 6])
def test_the_core_grows_to_one_leaf_at_most(grouped, leaf_width):
    X, y = grouped
    plain = compile_plan(X, y, leaf_width=leaf_width)
    plan = linked_plan(X, y, leaf_width)
    assert len(plan.core) == max(len(plain.core), leaf_width)


def test_a_full_core_is_the_papers(grouped):
    X, y = grouped
    X = X + 2 * y[:, None]
    plain, plan = compile_plan(X, y, leaf_width=16), linked_plan(X, y, 16)
    assert len(plain.core) > 16
    assert dataclasses.replace(plan, routing="anova") == plain


@pytest.mark.parametrize("n_rows", [3, 12, 60, 400])
def test_noise_is_not_linked(n_rows):
    rng = np.random.default_rng(n_rows)
    false = sum(
        len(linked_columns(rng.normal(size=(n_rows, 150)), np.arange(5), np.arange(5, 150), room=100))
        for _ in range(20)
    )
    assert false <= 3  # a round has a chance of one in twenty


def test_constant_and_missing_values(grouped):
    X, y = grouped
    X[:, 50] = 7.0
    X[:, 51] = np.nan
    X[::9, 11] = np.nan
    plan = linked_plan(X, y, 16)
    assert {11, 12, 13} <= set(plan.core.tolist())
    assert not {50, 51} & set(plan.core.tolist())


def test_a_file_on_disk_and_text_columns_give_the_same_links(grouped, tmp_path):
    X, y = grouped
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(60)])
    frame.to_parquet(tmp_path / "table.parquet")
    plan = linked_plan(frame, y, 16)
    lazy = linked_plan(open_wide(tmp_path / "table.parquet"), y, 16)
    assert lazy == plan
    frame["c59"] = pd.Categorical(np.where(np.arange(len(y)) % 3, "a", "b"))
    assert set(plan.core.tolist()) == set(linked_plan(frame, y, 16).core.tolist())
