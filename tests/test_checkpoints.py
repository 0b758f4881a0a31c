"""Finding, checking and reading weights."""

from __future__ import annotations

import gc
import hashlib
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from tabicl._model.tabicl import TabICL

from conftest import V1, V2, make_wide, paper
from scff.backbones import BackboneSpec, Weights, get_spec, load_backbone, loaded, register, registry, specs
from scff.backbones.weights import checkpoints
from scff.backbones.weights.reading import fitting
from scff.errors import BackboneError, BackboneNotAvailable, CheckpointError, CheckpointMissing
from scff.memory.meter import PeakMemory

CPU = torch.device("cpu")


@pytest.fixture
def nothing_here(monkeypatch, tmp_path):
    """A machine without any downloaded weights or network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SCFF_CHECKPOINT_DIR", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


def test_a_named_checkpoint_without_network_is_one_sentence(nothing_here):
    with pytest.raises(
        CheckpointMissing, match=r"HF_HUB_OFFLINE is set; .*scff backbones fetch .* put .* SCFF_CHECKPOINT_DIR"
    ) as caught:
        load_backbone("tabicl-v2", CPU)
    assert str(caught.value).count("\n") == 0


def test_an_unreachable_hub_is_one_sentence(nothing_here, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.hf_hub_download", _unreachable)
    with pytest.raises(CheckpointMissing, match="hub cannot be reached"):
        load_backbone("tabicl-v1", CPU)


def _unreachable(*_, **__):
    raise ConnectionError("no route to host")


def test_search_order_is_directory_then_own_cache_then_hub_then_package(nothing_here, monkeypatch):
    weights = Weights("nano.ckpt", repo="someone/something", embedded=True)
    assert checkpoints.find(weights)[1] == "embedded"
    hub = nothing_here / "hub" / "models--someone--something"
    (hub / "snapshots" / "abc").mkdir(parents=True)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("abc")
    (hub / "snapshots" / "abc" / "nano.ckpt").write_text("hub")
    assert checkpoints.find(weights)[1] == "hub cache"
    checkpoints.cache_dir().mkdir(parents=True)
    (checkpoints.cache_dir() / "nano.ckpt").write_text("fetched")
    assert checkpoints.find(weights)[1] == "fetched"
    local = nothing_here / "local"
    local.mkdir()
    (local / "nano.ckpt").write_text("local")
    monkeypatch.setenv("SCFF_CHECKPOINT_DIR", str(local))
    assert checkpoints.find(weights) == (local / "nano.ckpt", "local")


def test_a_file_in_the_directory_is_used_by_name_and_must_be_the_released_one(
    nothing_here, monkeypatch, checkpoint_dir
):
    monkeypatch.setenv("SCFF_CHECKPOINT_DIR", str(nothing_here))
    target = nothing_here / get_spec("tabicl-v1.1").weights.filename
    target.write_bytes((checkpoint_dir / "v1.ckpt").read_bytes())
    assert load_backbone("tabicl-v1.1", CPU).path == target  # no digest is pinned for v1.1
    pinned = nothing_here / get_spec("tabicl-v2").weights.filename
    pinned.write_bytes((checkpoint_dir / "v2.ckpt").read_bytes())
    with pytest.raises(CheckpointError, match="damaged or not the released file"):
        load_backbone("tabicl-v2", CPU)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"<html>404</html>",
        lambda data: b"",
    ],
)
def test_damaged_files_are_one_typed_error(tmp_path, checkpoint_dir, damage):
    path = tmp_path / "broken.ckpt"
    path.write_bytes(damage((checkpoint_dir / "v2.ckpt").read_bytes()))
    with pytest.raises(CheckpointError, match=r"fetch it again|another one"):
        load_backbone(str(path), CPU)


def test_wrong_files_are_one_typed_error(tmp_path):
    other = tmp_path / "other.ckpt"
    torch.save({"weights": torch.zeros(3)}, other)
    with pytest.raises(CheckpointError, match="not in the layout of any known backbone"):
        load_backbone(str(other), CPU)
    misfit = tmp_path / "misfit.ckpt"
    torch.save({"config": V2 | {"embed_dim": 32}, "state_dict": TabICL(**V2).state_dict()}, misfit)
    with pytest.raises(CheckpointError, match="do not fit their own configuration"):
        load_backbone(str(misfit), CPU)


def test_code_in_a_checkpoint_is_never_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (print, ("boom",))

    path = tmp_path / "bomb.ckpt"
    torch.save({"config": V2, "state_dict": Bomb()}, path)
    with pytest.raises(CheckpointError):
        load_backbone(str(path), CPU)


def test_files_of_the_first_tabicl_load(tmp_path, checkpoint_dir):
    """tabicl 0.1.x wrote configurations without today's flags."""
    new = {"col_affine", "col_feature_group", "col_target_aware", "col_ssmax", "icl_ssmax", "row_rope_interleaved"}
    payload = torch.load(checkpoint_dir / "v1.ckpt", weights_only=True)
    old = tmp_path / "tabicl-classifier-v1-0208.ckpt"
    torch.save(payload | {"config": {k: v for k, v in V1.items() if k not in new}}, old)
    X, y, Q = make_wide()
    a, b = (paper(p, leaf_width=32).fit(X, y) for p in (old, checkpoint_dir / "v1.ckpt"))
    np.testing.assert_array_equal(a.predict_proba(Q), b.predict_proba(Q))


def test_any_depth_of_context_loads_by_path(tmp_path):
    config = V2 | {"icl_num_blocks": 24}
    path = tmp_path / "deep.ckpt"
    torch.save({"config": config, "state_dict": TabICL(**config).state_dict()}, path)
    X, y, Q = make_wide()
    clf = paper(path, leaf_width=32).fit(X, y)
    assert clf.backbone_ == "tabicl"
    assert np.isfinite(clf.predict_proba(Q)).all()


def test_digests(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"one")
    assert checkpoints.sha256(path) == hashlib.sha256(b"one").hexdigest()
    path.write_bytes(b"other")
    assert checkpoints.sha256(path) == hashlib.sha256(b"other").hexdigest()


def test_weights_are_loaded_once_per_process():
    assert load_backbone("nano", CPU) is load_backbone("nano", CPU)


def test_a_changed_upstream_is_one_clear_error(checkpoint_dir, monkeypatch):
    from tabicl._model.embedding import ColEmbedding

    original = ColEmbedding._compute_embeddings

    def drifted(self, *args, **kwargs):
        out = original(self, *args, **kwargs)
        return out + torch.linspace(0, 9, out.shape[-1]).sin()

    monkeypatch.setattr(ColEmbedding, "_compute_embeddings", drifted)
    monkeypatch.setattr(loaded, "_LOADED", {})
    # Upstream's own inference has changed, and what is packed here has not.
    with pytest.raises(BackboneError, match="no longer reproduces"):
        load_backbone(str(checkpoint_dir / "v2.ckpt"), CPU)
    monkeypatch.delattr(ColEmbedding, "_compute_embeddings")
    with pytest.raises(BackboneError, match="not one this version knows"):
        load_backbone(str(checkpoint_dir / "v2.ckpt"), CPU)


def test_registering_validates(monkeypatch):
    monkeypatch.setattr(registry, "_SPECS", dict(specs()))
    good = BackboneSpec("mine", "row", "mine", lambda path, device: None, None, "MIT", "MIT")
    assert register(good) is good
    assert get_spec("mine") is good
    assert register(good) is good  # twice the same object is no conflict
    for bad, message in (
        ({"name": "mine"}, "already a backbone"),
        ({"name": "My Model"}, "lower case"),
        ({"name": "other", "kind": "column"}, "kind"),
        ({"name": "other", "load": None}, "callable"),
        ({"name": "other", "weights_licence": ""}, "licences"),
    ):
        from dataclasses import replace

        with pytest.raises(BackboneError, match=message):
            register(replace(good, **bad))
    with pytest.raises(BackboneError, match="BackboneSpec"):
        register("mine")
    with pytest.raises(BackboneNotAvailable, match="no backbone"):
        get_spec("yours")


def test_a_damaged_safetensors_file_is_a_typed_error(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\xff" * 64)
    with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
        load_backbone(str(path), CPU)


def test_threads_that_ask_for_the_list_first_all_see_the_whole(monkeypatch):
    import threading

    monkeypatch.setattr(registry, "_SPECS", {})
    monkeypatch.setattr(registry, "_discovered", False)
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(len(specs()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
    assert seen[0] > 10


@pytest.mark.parametrize(
    "absurd",
    [
        {"embed_dim": 1 << 17},
        {"icl_num_blocks": 10**9},
        {"col_num_inds": 10**11},
        {"row_num_cls": 10**10},
        {"ff_factor": 10**8},
        {"col_num_blocks": 10**9},
        {"col_nhead": 0},
    ],
    ids=repr,
)
def test_absurd_sizes_are_refused_before_they_take_memory(absurd, tmp_path, checkpoint_dir):
    payload = torch.load(checkpoint_dir / "v2.ckpt", weights_only=True)
    torch.save(payload | {"config": payload["config"] | absurd}, tmp_path / "absurd.ckpt")
    load_backbone(checkpoint_dir / "v2.ckpt", CPU)  # what torch imports on the way is not the file's doing
    with PeakMemory() as memory, pytest.raises(CheckpointError, match="do not fit their own configuration"):
        load_backbone(tmp_path / "absurd.ckpt", CPU)
    assert memory.added < 64 << 20


@pytest.mark.parametrize("absurd", [{"emsize": 1 << 16}, {"nlayers": 10**9}, {"num_features": 10**10}], ids=repr)
def test_absurd_sizes_of_another_family_too(absurd, tmp_path):
    from backbone_models import tiny_tabpfn_v1

    state, nothing, config = torch.load(tiny_tabpfn_v1(tmp_path / "v1.cpkt"), weights_only=True)
    torch.save((state, nothing, config | absurd), tmp_path / "absurd.cpkt")
    with PeakMemory() as memory, pytest.raises(CheckpointError, match="more parameters than the file has bytes"):
        load_backbone(tmp_path / "absurd.cpkt", CPU)
    assert memory.added < 64 << 20


def test_a_checkpoint_that_unpacks_to_more_than_itself_is_refused(tmp_path, checkpoint_dir):
    import zipfile

    with zipfile.ZipFile(checkpoint_dir / "v2.ckpt") as old, zipfile.ZipFile(tmp_path / "bomb.ckpt", "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
        new.writestr("v2/data/bomb", bytes(64 << 20), zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match="larger than the file"):
        load_backbone(tmp_path / "bomb.ckpt", CPU)


def test_another_nano_in_a_folder_is_passed_over_and_the_embedded_one_is_what_is_pinned(
    tmp_path, monkeypatch, checkpoint_dir
):
    from scff.backbones import listing

    (found,) = listing.verify("nano")
    assert found.ok is True, f"nano.ckpt is another file now: pin {found.sha256} in backbones/tabicl/files.py"
    X, y, Q = make_wide(n_columns=10)
    own = paper("nano").fit(X, y)
    # Of another release, say, and there for a model that was fitted with it.
    (tmp_path / "nano.ckpt").write_bytes((checkpoint_dir / "v2.ckpt").read_bytes())
    monkeypatch.setenv("SCFF_CHECKPOINT_DIR", str(tmp_path))
    again = paper("nano").fit(X, y)
    assert again.checkpoint_.sha256 == own.checkpoint_.sha256 == found.sha256
    np.testing.assert_array_equal(again.predict_proba(Q), own.predict_proba(Q))
    other = paper(tmp_path / "nano.ckpt").fit(X, y)
    assert other.checkpoint_.sha256 != own.checkpoint_.sha256
    # A model that names those weights by the embedded one's name gets them, and no others.
    ref = replace(other.checkpoint_, backbone="nano", path="nano.ckpt")
    assert loaded.reload_backbone(ref, CPU).path == tmp_path / "nano.ckpt"
    (tmp_path / "nano.ckpt").unlink()
    with pytest.raises(CheckpointError, match="not those this model was fitted with"):
        loaded.reload_backbone(ref, CPU)


def test_the_last_small_model_stays_for_the_next_fit(checkpoint_dir, monkeypatch):
    monkeypatch.setattr(loaded, "_KEEPERS", [loaded._Keeper(most=1, most_bytes=loaded._BETWEEN_FITS.most_bytes)])
    monkeypatch.setattr(loaded, "_LOADED", weakref.WeakValueDictionary())
    small = str(checkpoint_dir / "v2.ckpt")
    first = weakref.ref(load_backbone(small, CPU))
    gc.collect()
    assert first() is load_backbone(small, CPU)
    load_backbone("nano", CPU)
    gc.collect()
    assert first() is None  # one at a time
    monkeypatch.setattr(loaded, "_KEEPERS", [loaded._Keeper(most=1, most_bytes=10)])
    second = weakref.ref(load_backbone(small, CPU))
    gc.collect()
    assert second() is None


def test_the_users_small_model_and_the_one_beside_it_both_stay(checkpoint_dir, monkeypatch):
    monkeypatch.setattr(loaded, "_LOADED", weakref.WeakValueDictionary())
    small = str(checkpoint_dir / "v2.ckpt")
    first = weakref.ref(load_backbone(small, CPU)), weakref.ref(load_backbone("nano", CPU))
    gc.collect()
    assert first[0]() is load_backbone(small, CPU)
    assert first[1]() is load_backbone("nano", CPU)


def test_a_network_that_draws_nothing_is_built_whatever_memory_holds(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(bytes(1 << 16))
    layers = [torch.full((64,), value) for value in (1e9, float("nan"), -3.0)]

    def build():
        with fitting(path, draw=False):
            for layer in layers:
                torch.nn.init.trunc_normal_(layer, mean=0.1, std=0.02)  # torch draws again what lies outside
                torch.nn.init.xavier_uniform_(layer.view(8, 8))

    state = torch.get_rng_state()
    building = threading.Thread(target=build, daemon=True)
    building.start()
    building.join(timeout=60)
    assert not building.is_alive()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.isfinite(layer).all() for layer in layers)


def test_a_path_is_read_once_to_be_recognised(checkpoint_dir, monkeypatch, tmp_path):
    read = []
    monkeypatch.setattr(
        "torch.load", lambda path, *_, _load=torch.load, **options: read.append(path) or _load(path, **options)
    )
    path = tmp_path / "v2.ckpt"
    path.write_bytes((checkpoint_dir / "v2.ckpt").read_bytes())
    assert registry.specification(path).name == "tabicl"
    assert registry.specification(path).name == "tabicl"
    assert len(read) == 1
    path.write_bytes(b"another file by now")
    with pytest.raises(CheckpointError, match=r"v2\.ckpt"):
        registry.specification(path)
    read.clear()
    (tmp_path / "half.ckpt").write_bytes(b"half a download")
    with pytest.raises(CheckpointError, match="half a download"):
        registry.specification(tmp_path / "half.ckpt")
    assert len(read) == 1
