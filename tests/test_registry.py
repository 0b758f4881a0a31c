"""Backbones from elsewhere: another package's, and checkpoints of a depth of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from backbone_models import tiny_tabicl
from conftest import V2, paper
from scff.backbones import BackboneSpec, Views, get_spec, load_backbone, register, registry, specs
from scff.backbones.registry import canonical, locate
from scff.errors import BackboneError
from scff.tables.table import Table

# The twenty lines of docs: a model whose rows are linear in its columns, with nearest class means for a head.
PLUGIN = """
import numpy as np, torch
from pathlib import Path
from scff.backbones import BackboneSpec
from scff.backbones.shared.joint import JointBackbone, JointRowView

class View(JointRowView):
    def fit(self, block):
        mean, std = np.nanmean(block, axis=0), np.nanstd(block, axis=0) + 1e-9
        return lambda rows: np.nan_to_num((rows - mean) / std)
    def row_bytes(self, width):
        return 8 * width
    def encode(self, x_GTW, leaves):
        return torch.stack([x @ self.model.weight[: x.shape[1]] for x in x_GTW])
    def head(self, h_TE):
        h_SE, h_QE = h_TE[: len(self.y_S)], h_TE[len(self.y_S) :]
        centres = torch.stack([h_SE[self.y_S == k].mean(dim=0) for k in range(self.n_classes)])
        return -torch.cdist(h_QE, centres)
    def run(self, x_TD, columns):
        return self.head(self.encode(x_TD[None], [columns])[0])

def load(path, device):
    model = torch.nn.Module()
    model.weight = torch.load(path, weights_only=True)["projection"]
    return JointBackbone(SPEC, path, model, device, View)

def recognises(path):
    payload = torch.load(path, weights_only=True)
    return isinstance(payload, dict) and "projection" in payload

SPEC = BackboneSpec("projection", "row", "a plug-in", load, None, "MIT", "MIT", recognises=recognises)
"""


def test_a_plug_in_comes_with_its_package(tmp_path):
    """Install a tiny distribution with the entry point, and use it in a fresh process."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "scff_projection.py").write_text(PLUGIN)
    info = site / "scff_projection-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scff-projection\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[scff.backbones]\nprojection = scff_projection:SPEC\n")
    generator = torch.Generator().manual_seed(0)
    torch.save({"projection": torch.randn(64, 8, generator=generator)}, tmp_path / "weights.pt")
    script = f"""
        import sys
        sys.path.insert(0, {str(site)!r})
        import numpy as np
        from scff import FoldedClassifier
        from scff.backbones import specs
        assert "projection" in specs()
        rng = np.random.default_rng(0)
        y = np.arange(90) % 2
        X = rng.normal(size=(90, 200)) + 1.5 * y[:, None] * (np.arange(200) < 40)
        model = FoldedClassifier({str(tmp_path / "weights.pt")!r}, leaf_width=16).fit(X[:60], y[:60])
        assert model.backbone_ == "projection"
        assert len(model.plan_.core_leaves) > 1
        assert model.score(X[60:], y[60:]) > 0.9
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], check=True)


def test_a_broken_plug_in_is_named_and_harms_no_other(tmp_path):
    site = tmp_path / "site"
    info = site / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[scff.backbones]\nbroken = no_such_module:SPEC\n")
    script = (
        f"import sys; sys.path.insert(0, {str(site)!r}); from scff.backbones import specs; assert 'nano' in specs()"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "'broken'" in done.stderr
    assert "not usable" in done.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Upper"}, "lower case"),
        ({"name": "a b"}, "without spaces"),
        ({"name": "nano"}, "already a backbone"),
        ({"kind": "cell"}, "kind 'row' or 'token'"),
        ({"load": None}, "callable `load`"),
        ({"code_licence": ""}, "licences"),
    ],
)
def test_registering_validates(changes, message):
    specs()
    fields = {"name": "mine", "kind": "row", "load": lambda path, device: None, "code_licence": "MIT"} | changes
    with pytest.raises(BackboneError, match=message):
        register(BackboneSpec(summary="", weights=None, weights_licence="MIT", **fields))
    with pytest.raises(BackboneError, match="BackboneSpec"):
        register("mine")


def test_any_depth_of_tabicls_layout_loads_by_path(tmp_path, wide):
    """RefineICL-24L is not published; a context stack of 24 blocks is a matter of its configuration."""
    Xs, ys, Xq = wide
    path = tiny_tabicl(V2 | {"icl_num_blocks": 24}, tmp_path / "deep.ckpt")
    model = paper(path, leaf_width=32).fit(Xs, ys)
    assert model.backbone_ == "tabicl"
    depth = len(model.fitted_.compiled()[0].backbone.model.icl_predictor.tf_icl.blocks)
    assert depth == 24
    out = model.predict_proba(Xq)
    np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("tabpfn-3", "tabpfn-v3"),
        ("tabpfn-3.5-regressor", "tabpfn-v3.5-regressor"),
        ("tabpfn-2.5", "tabpfn-v2.5"),
        ("tabiclv2", "tabicl-v2"),
    ],
)
def test_an_alias_is_its_backbone(alias, name):
    assert get_spec(alias) is specs()[name]
    assert canonical(alias) == canonical(name) == name
    assert alias not in specs()


def test_a_path_has_no_other_name():
    assert canonical("models/mine.ckpt") == "models/mine.ckpt"


def test_names_follow_one_scheme():
    for name, spec in specs().items():
        family, _, rest = name.removesuffix("-regressor").partition("-")
        assert rest == "" or rest[0] == "v" or rest in ("2m", "16m", "msp"), name
        assert name.endswith("-regressor") == (spec.task == "regression")
        assert family == family.lower()


def test_an_alias_cannot_take_a_name_that_is_there(monkeypatch):
    monkeypatch.setattr(registry, "_SPECS", dict(specs()))
    for alias in ("nano", "tabpfn-3"):
        with pytest.raises(BackboneError, match=f"already a backbone {alias!r}"):
            register(BackboneSpec("mine", "row", "", lambda path, device: None, None, "MIT", "MIT", aliases=(alias,)))


def test_the_name_of_a_classifier_or_its_alias_stands_for_the_regressor(monkeypatch, tmp_path):
    monkeypatch.setattr(registry.checkpoints, "fetch", lambda spec: tmp_path / spec.name)
    for name in ("tabpfn-v3", "tabpfn-3", "tabpfn-v3-regressor", "tabpfn-3-regressor"):
        assert locate(name, "regression")[0].name == "tabpfn-v3-regressor"
    with pytest.raises(BackboneError, match="is for FoldedClassifier; for regression there are"):
        locate("nano", "regression")


def test_a_view_is_built_when_it_is_asked_for():
    built = []
    views = Views(3, lambda i: built.append(i) or i)
    assert len(views) == 3
    assert built == []
    assert views.view(2) == 2
    assert built == [2]


def test_the_first_of_many_views_builds_no_other(monkeypatch, wide):
    from scff.backbones.tabicl import model

    Xs, ys, _ = wide
    backbone = load_backbone("nano", torch.device("cpu"))
    built = []
    monkeypatch.setattr(model, "TabICLView", lambda *arguments: built.append(arguments[2]))
    views = backbone.views(Table(Xs), ys, n_estimators=8, cache=True, random_state=0)
    assert len(views) == 8
    views.view(0)
    assert len(built) == 1
