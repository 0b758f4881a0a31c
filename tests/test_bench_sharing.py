"""Arms that share a process: the same predictions, less arithmetic, and no figure of cost that is not theirs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from backbone_models import tiny_tabpfn_v1
from scff.backbones.loaded import load_backbone
from scff.backbones.tabpfn.v1_net import TabPFNv1Net
from scff.bench.arms import ARMS
from scff.bench.sharing import remembering
from scff.bench.worker import ArmRequest, run_arm, run_together

CONTROLS = [arm for arm in ARMS.values() if not arm.costed]


@pytest.fixture
def requests(tmp_path, wide):
    X, y, X_query = wide
    path = str(tiny_tabpfn_v1(tmp_path / "v1.cpkt"))
    return [ArmRequest(arm, path, "cpu", X, y, X_query, 16) for arm in CONTROLS]


@pytest.fixture
def wide():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(90, 260)), columns=[f"c{j}" for j in range(260)])
    y = np.where(X.iloc[:, :130].sum(axis=1) + rng.normal(size=90) > 0, "a", "b").astype(object)
    return X.iloc[:60], y[:60], X.iloc[60:]


def test_shared_arms_predict_as_they_do_alone(requests, monkeypatch):
    calls, real = [], TabPFNv1Net.support_states
    monkeypatch.setattr(TabPFNv1Net, "support_states", lambda net, *a: calls.append(1) or real(net, *a))
    alone = [run_arm(request) for request in requests]
    one_by_one = len(calls)
    calls.clear()
    together = run_together(requests)
    assert [r.status for r in together] == ["ok"] * len(CONTROLS)
    assert len({r.proba.tobytes() for r in together}) > 1  # else nothing could be mixed up
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.proba, other.proba)
        assert (one.gate, one.plan) == (other.gate, other.plan)
        assert one.memory["meter"] != other.memory["meter"] == "shared"
    assert len(calls) < one_by_one


def test_what_is_remembered_is_forgotten_and_is_nobodys_to_change(requests):
    backbone = load_backbone(requests[0].backbone, torch.device("cpu"))
    h_SE, y_S = torch.randn(5, backbone.model.encoder.out_features), torch.arange(5.0)
    plain = backbone.model.support_states(h_SE, y_S)
    with remembering(backbone):
        backbone.model.support_states(h_SE, y_S).zero_()
        assert torch.equal(backbone.model.support_states(h_SE, y_S), plain)
        assert not torch.equal(backbone.model.support_states(h_SE + 1, y_S), plain)
    assert "support_states" not in vars(backbone.model)
