"""Accelerator paths without an accelerator, and a real Ray cluster of two workers."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import serving_models
from conftest import compile_anew, make_wide, paper
from scff import FoldedClassifier
from scff.backbones.base import LeafCache
from scff.errors import DataError, MemoryBudgetError
from scff.evaluate import evaluate
from scff.fold.algorithm import fold
from scff.fold.encode import FoldOptions, Queries
from scff.fold.ray import resources
from scff.memory.device import leaves_that_fit, to_device
from scff.serving import score
from scff.tables.table import Table

# Ray's workers give way to everything else, and on a busy machine would not get to import what they need.
PATIENT = {"RAY_worker_niceness": "0"}
SETTINGS = {"leaf_width": 16, "tail": "raw-residual"}


def test_leaf_batch_follows_free_memory():
    assert [leaves_that_fit(free << 20, 100 << 20) for free in (0, 150, 399, 400, 1000, 10**6)] == [1, 1, 1, 2, 5, 64]
    assert leaves_that_fit(None, 1 << 40) == 8
    assert FoldOptions.on(torch.device("cuda"), "auto", "auto", False).leaf_batch is None
    assert FoldOptions.on(torch.device("cpu"), "auto", "auto", False).leaf_batch == 1
    assert FoldOptions.on(torch.device("cuda"), 3, "auto", False).leaf_batch == 3


def test_an_accelerators_free_memory_decides_how_many_leaves_go_together(monkeypatch):
    X, y, Q = make_wide()
    clf = paper("nano", **SETTINGS).fit(X, y)
    view = clf.fitted_.readings[0].views[0].view
    leaf_bytes = view.native_bytes(max(map(len, clf.plan_.leaves)), 1024)
    sizes = []
    encode = type(view).encode_support
    monkeypatch.setattr(type(view), "encode_support", lambda self, g: sizes.append(len(g)) or encode(self, g))
    options = FoldOptions.on(torch.device("cuda"), "auto", "auto", False)
    for room in (1, 3):
        del sizes[:]
        monkeypatch.setattr("scff.fold.methods.free_bytes", lambda device, room=room: 2 * room * leaf_bytes)
        folded = compile_anew(clf, options)
        assert max(sizes) == room
        assert sum(sizes) == len(clf.plan_.leaves)
        logits = folded.predict(Table(Q)).numpy()
        np.testing.assert_allclose(logits, clf.fitted_.readings[0].views[0].predict(Table(Q)).numpy(), atol=1e-5)


class SmallDevice:
    """Encodes rows as their first two columns, and at most so many at a time."""

    def __init__(self, most):
        self.most, self.calls = most, []

    def prepare(self, rows):
        return rows

    def encode_query(self, leaves, cache, rows):
        self.calls.append(rows.n_rows)
        if rows.n_rows > self.most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return torch.from_numpy(rows.columns(np.arange(2)))[None]


def test_query_chunks_are_halved_when_memory_runs_out_and_stay_small():
    X = np.arange(40.0).reshape(20, 2)
    view = SmallDevice(most=4)
    queries = Queries(view, Table(X), 16)
    for _ in range(2):
        np.testing.assert_array_equal(queries.encode([], LeafCache({}))[0].numpy(), X)  # no row lost, order kept
    assert queries.chunk == 4
    assert view.calls == [16, 8] + 2 * 5 * [4]
    with pytest.raises(torch.cuda.OutOfMemoryError):
        Queries(SmallDevice(most=0), Table(X), 16).encode([], LeafCache({}))


def test_another_error_is_not_taken_for_want_of_memory():
    view = SmallDevice(most=4)
    view.encode_query = lambda *_: (_ for _ in ()).throw(RuntimeError("shape mismatch"))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        Queries(view, Table(np.ones((8, 2))), 8).encode([], LeafCache({}))


def test_copies_to_cuda_are_pinned_and_do_not_block():
    calls = []

    class Recorder:
        def pin_memory(self):
            calls.append("pinned")
            return self

        def to(self, device, **settings):
            calls.append((str(device), settings))
            return self

    to_device(Recorder(), torch.device("cuda:0"))
    to_device(Recorder(), "cpu")
    assert calls == ["pinned", ("cuda:0", {"non_blocking": True}), ("cpu", {})]


@pytest.mark.parametrize("settings", [{"method": "native"}, {"method": "mass-huber"}, {"method": "raw-core"}])
def test_ray_is_for_leaves(settings):
    X, y, _ = make_wide()
    with pytest.raises(DataError, match='engine="ray" spreads the leaves'):
        paper("nano", engine="ray", **settings).fit(X, y)
    with pytest.raises(DataError, match="The 'engine' parameter"):
        paper("nano", engine="spark").fit(X, y)


@pytest.fixture(scope="module")
def ray():
    """A local Ray cluster of two workers."""
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install ray")
    os.environ.update(PATIENT)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    yield ray
    ray.shutdown()


@pytest.mark.parametrize("settings", [{}, {"cache": False}, {"memory_limit": "64MiB", "query_chunk": 6}])
def test_a_cluster_gives_the_local_result(ray, settings):
    X, y, Q = make_wide()
    local = paper("nano", **SETTINGS).fit(X, y)
    spread = paper("nano", engine="ray", **SETTINGS, **settings).fit(X, y)
    assert spread.plan_ == local.plan_
    assert spread.gate_.accepted == local.gate_.accepted
    reference = local.predict_proba(Q)
    np.testing.assert_allclose(spread.predict_proba(Q), reference, atol=1e-5)
    np.testing.assert_array_equal(spread.predict_proba(Q), spread.predict_proba(Q))


def test_trials_on_a_cluster_give_the_local_verdict(ray):
    X, y, Q = make_wide()
    local = FoldedClassifier("nano").fit(X, y)
    spread = FoldedClassifier("nano", engine="ray").fit(X, y)
    assert local.verdicts_[0].tried
    assert spread.verdicts_ == local.verdicts_  # to the last bit of every loss and weight
    np.testing.assert_allclose(spread.predict_proba(Q), local.predict_proba(Q), atol=1e-5)


def test_folds_of_an_evaluation_are_tasks_with_the_same_figures(ray, tmp_path):
    X, y, _ = make_wide()
    asked = {"folds": 3, "repeats": 1, "baselines": ["logistic", "majority"]}
    model = FoldedClassifier("nano", method="raw-core")
    local = evaluate(X, y, estimator=model, **asked)
    spread = evaluate(X, y, estimator=model, engine="ray", resume=tmp_path, **asked)
    assert spread.scores == local.scores
    for name, answers in local.answers.items():
        np.testing.assert_array_equal(spread.answers[name], answers)
    assert evaluate(X, y, estimator=model, engine="ray", resume=tmp_path, **asked).scores == local.scores
    with pytest.raises(DataError, match='engine must be "local" or "ray"'):
        evaluate(X, y, engine="spark")


def test_tasks_ask_for_what_the_model_is_on():
    assert resources(torch.device("cuda:0")) == {"num_gpus": 1}
    with pytest.raises(DataError, match="hands out CPUs and CUDA devices, not mps"):
        resources(torch.device("mps"))


@pytest.mark.parametrize("moment", ["encode_support", "encode_query"])
def test_a_worker_killed_in_the_middle_changes_nothing(ray, tmp_path, moment):
    from scff.fold.ray import RayEngine

    X, y, Q = make_wide()
    clf = paper("nano", **SETTINGS).fit(X, y)
    folded = clf.fitted_.readings[0].views[0]
    driver, victims = os.getpid(), tmp_path

    class Deadly:
        """The view, but the first worker to reach the moment a third time is killed."""

        def __init__(self, view):
            self._view, self._calls = view, 0

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            found = getattr(self._view, name)
            if name == moment:
                self._calls += 1
                victim = victims / "pid"
                if self._calls == 3 and os.getpid() != driver and not victim.exists():
                    victim.write_text(str(os.getpid()))
                    os.kill(os.getpid(), signal.SIGKILL)
            return found

    engine = RayEngine(FoldOptions(), most=4)
    spread = fold(Deadly(folded.view), clf.plan_, y, engine, rule=clf.fitted_.settings.rule)
    logits = spread.predict(Table(Q)).numpy()
    assert (victims / "pid").exists()  # one was killed
    np.testing.assert_allclose(logits, folded.predict(Table(Q)).numpy(), atol=1e-5)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A model file, a folder of five parts in two partitions with keys, and the probabilities of all rows."""
    folder = tmp_path_factory.mktemp("scored")
    X, y, Q = make_wide(n_columns=40, n_query=50)
    names = [f"g{j}" for j in range(40)]
    clf = paper("nano", method="raw-core").fit(pd.DataFrame(X, columns=names), y)
    clf.save(folder / "m.scff")
    query = pd.DataFrame(Q, columns=names).assign(key=np.arange(50))
    query.iloc[20, 0] = 1e6  # the first row of the third part
    for i in range(5):
        part = folder / "parts" / f"half={i // 3}" / f"part-{i}.parquet"
        part.parent.mkdir(parents=True, exist_ok=True)
        query[10 * i : 10 * i + 10].to_parquet(part)
    return folder, clf.predict_proba(query[names])


def test_a_folder_is_scored_on_a_cluster_where_a_worker_dies(ray, scored, tmp_path, monkeypatch):
    folder, proba = scored
    shutil.copytree(folder / "parts", tmp_path / "parts")
    (tmp_path / "parts" / "half=1" / "part-9.parquet").write_bytes(b"PAR1 this is not a table")
    note = tmp_path / "note"
    ray.cloudpickle.register_pickle_by_value(serving_models)  # a worker of Ray cannot import it
    monkeypatch.setattr("scff.serving.run.Scorer", functools.partial(serving_models.Deadly, note=note))
    done = score(folder / "m.scff", tmp_path / "parts", tmp_path / "out", keep=["key"], engine="ray")
    assert note.exists()  # one was killed
    assert [failure.part for failure in done.failed] == ["half=1/part-9.parquet"]
    assert done.rows == 50
    assert done.peak_bytes > 0
    out = pd.read_parquet(tmp_path / "out").sort_values("key")
    assert list(out["key"]) == list(range(50))
    assert set(out["half"]) == {0, 1}
    np.testing.assert_allclose(out[["p_0", "p_1"]], proba, atol=1e-5)
    again = score(folder / "m.scff", tmp_path / "parts", tmp_path / "out", keep=["key"])
    assert (again.skipped, again.rows) == (5, 0)  # what a cluster has finished nobody does again


def test_a_limit_that_no_actor_can_keep_is_said_as_it_is_here(ray, scored, tmp_path):
    folder, _ = scored
    with pytest.raises(MemoryBudgetError, match="raise the limit"):
        score(folder / "m.scff", folder / "parts", tmp_path / "out", memory_limit="64KiB", engine="ray")


def test_actors_share_the_limit_and_fewer_are_started_where_it_is_too_small(scored, tmp_path, monkeypatch):
    folder, _ = scored
    asked = []

    def score_on_ray(job, parts, happened, count):
        asked.append((count, job.scorer.memory_limit + job.room))
        if count > 2:
            raise MemoryBudgetError("too small")

    monkeypatch.setattr("scff.serving.ray.actors", lambda *_: 4)
    monkeypatch.setattr("scff.serving.ray.score_on_ray", score_on_ray)
    score(folder / "m.scff", folder / "parts", tmp_path / "out", memory_limit=4 << 20, engine="ray")
    # An eighth of each share is for what nobody counts.
    assert asked == [(4, 7 << 17), (2, 7 << 18)]


def test_one_table_for_one_file_is_not_scored_on_the_cluster_and_it_is_said(scored, tmp_path):
    folder, _ = scored
    part = folder / "parts" / "half=0" / "part-0.parquet"
    done = score(folder / "m.scff", part, tmp_path / "out.csv", engine="ray")
    assert done.notes == ("one table for one file is scored here: a cluster shares out parts",)


def test_a_cluster_that_loses_a_worker_leaves_standard_output_to_the_answer(scored, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed: pip install ray")
    folder, _ = scored
    code = """
import functools, sys
from pathlib import Path
import ray, serving_models
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
ray.cloudpickle.register_pickle_by_value(serving_models)
import scff.serving.run as run
run.Scorer = functools.partial(serving_models.Deadly, note=Path(sys.argv.pop(1)))
from scff.cli.main import main
main()
"""
    note = tmp_path / "note"
    asked = ["predict", str(folder / "m.scff"), str(folder / "parts"), "-o", str(tmp_path / "out/"), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", code, str(note), *asked, "--engine", "ray"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]), **PATIENT},
    )
    assert note.exists()  # one was killed
    assert json.loads(done.stdout)["rows"] == 50


def test_a_scorer_is_a_stage_of_ray_data(ray, scored, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "examples" / "integrations"))
    import ray_scoring

    folder, proba = scored
    rows = ray.data.read_parquet(str(folder / "parts"))
    stage = ray_scoring.predict(rows, str(folder / "m.scff"), keep=["key", "half"])
    stage.write_parquet(str(tmp_path / "out"), partition_cols=["half"])
    out = pd.read_parquet(tmp_path / "out").sort_values("key")
    assert list(out["key"]) == list(range(50))
    np.testing.assert_allclose(out[["p_0", "p_1"]], proba, atol=1e-5)


def test_a_worker_unpacks_a_model_once(ray):
    from scff.fold.ray import share, unpacked

    shared = [share(ray, {"number": i}) for i in range(3)]
    first = unpacked(shared[0])
    assert unpacked(shared[0]) is first
    assert unpacked(shared[1]) == {"number": 1}
    assert unpacked(shared[0]) is first
    assert unpacked(shared[2]) == {"number": 2}  # the third takes the place of the one used longest ago
    assert unpacked(shared[0]) is first


def test_weights_are_stored_once_for_all_views_and_trials(ray, monkeypatch):
    from scff.fold.ray import _stored

    X, y, Q = make_wide()
    stored, put = [], ray.put
    monkeypatch.setattr(ray, "put", lambda what: stored.append(what) or put(what))
    _stored.clear()
    clf = FoldedClassifier("nano", engine="ray", n_estimators=3).fit(X, y)
    clf.predict_proba(Q)
    networks = [what for what in stored if isinstance(what, torch.nn.Module)]
    sizes = [sum(p.numel() * p.element_size() for p in network.parameters()) for network in networks]
    assert len(networks) == len({id(network) for network in networks})
    assert sum(sizes) < 1.1 * max(sizes)  # a view holds parts of the network for themselves, too
    largest = max(len(what[0]) for what in stored if isinstance(what, tuple) and isinstance(what[0], bytes))
    assert largest < max(sizes) / 8


def test_things_with_one_network_share_it_on_a_worker_too(ray):
    from scff.fold.ray import share, unpacked

    network, rows = torch.nn.Linear(3, 2), np.arange(1000.0)
    first, second = (share(ray, {"network": network, "rows": rows, "number": i}) for i in range(2))
    assert first[1:] == second[1:]
    assert unpacked(first)["network"] is unpacked(second)["network"]
    np.testing.assert_array_equal(unpacked(first)["network"].weight.detach(), network.weight.detach())
    np.testing.assert_array_equal(unpacked(second)["rows"], rows)
    assert not unpacked(second)["rows"].flags.owndata  # read where it lies
