"""The rehearsal: what the paper's gate cannot see on an encoder that reads labels."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import log_loss

from scff import FoldedClassifier
from scff.gate.decide import TailRule
from scff.tables.table import PickedRows, Table
from scff.trials.trial import HALF_ROWS, _spread


def _noisy(seed: int, rows: int = 240, noise: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """A few telling columns among many that say nothing."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % 2
    X = rng.normal(size=(rows, 6 + noise))
    X[:, :6] += 0.9 * y[:, None]
    return X, y


def _telling(seed: int, rows: int = 600, columns: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """One clear column, and a Tail whose columns are each too weak to be discovered but tell a lot together."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % 2
    X = rng.normal(size=(rows, columns))
    X[:, 0] += 0.9 * y
    X[:, 1:] += 0.2 * y[:, None]
    return X, y


def test_noise_is_let_in_by_the_papers_gate_and_kept_out_by_the_rehearsal():
    let_in = {"paper": 0, "gated": 0}
    losses = {"paper": [], "gated": []}
    for seed in range(3):
        X, y = _noisy(seed)
        for name in let_in:
            clf = FoldedClassifier(backbone="nano", tail=name).fit(X[:160], y[:160])
            let_in[name] += clf.gate_.accepted is not None
            losses[name].append(log_loss(y[160:], clf.predict_proba(X[160:])))
    assert let_in == {"paper": 3, "gated": 0}
    assert np.mean(losses["gated"]) < np.mean(losses["paper"])


def test_a_refused_rehearsal_is_the_core_bit_for_bit_and_keeps_its_numbers():
    X, y = _noisy(0)
    gated = FoldedClassifier(backbone="nano").fit(X[:160], y[:160])
    core = FoldedClassifier(backbone="nano", tail="off").fit(X[:160], y[:160])
    np.testing.assert_array_equal(gated.predict_proba(X[160:]), core.predict_proba(X[160:]))
    rehearsed = gated.gate_.rehearsed
    assert not rehearsed.passed
    assert rehearsed.reason in gated.gate_.reason
    assert len(rehearsed.nll) in (1, 2)
    assert gated.gate_.candidates == rehearsed.candidates != ()


def test_what_is_let_in_is_the_papers_own_update_at_a_tested_step_and_helps():
    let_in = 0
    for seed in (3, 4, 5, 6):
        X, y = _telling(seed)
        gated = FoldedClassifier(backbone="nano").fit(X[:400], y[:400])
        rehearsed = gated.gate_.rehearsed
        if not rehearsed.passed:
            continue
        let_in += 1
        assert rehearsed.gain > rehearsed.error
        paper = FoldedClassifier(backbone="nano", tail="paper").fit(X[:400], y[:400])
        core = FoldedClassifier(backbone="nano", tail="off").fit(X[:400], y[:400])
        assert paper.gate_.rehearsed is None
        assert gated.gate_.alpha == rehearsed.step * paper.gate_.alpha
        np.testing.assert_array_equal(gated.gate_.support_update, rehearsed.step * paper.gate_.support_update)
        new = [log_loss(y[400:], model.predict_proba(X[400:])) for model in (gated, core)]
        assert new[0] < new[1]
    assert let_in >= 1


def test_encoders_that_do_not_read_labels_are_not_rehearsed_unless_asked(checkpoint_dir):
    X, y = _noisy(1, rows=80, noise=200)
    auto = FoldedClassifier(backbone=checkpoint_dir / "v1.ckpt").fit(X, y)
    asked = FoldedClassifier(backbone=checkpoint_dir / "v1.ckpt", tail=TailRule(rehearse="always")).fit(X, y)
    assert auto.gate_.rehearsed is None
    assert asked.gate_.rehearsed is not None


def test_multiclass_tasks_and_tiny_classes_are_not_rehearsed():
    X, _ = _noisy(2)
    three = FoldedClassifier(backbone="nano").fit(X[:90], np.arange(90) % 3)
    assert three.gate_.rehearsed is None
    rare = np.zeros(60, dtype=int)
    rare[:3] = 1
    assert FoldedClassifier(backbone="nano").fit(X[:60], rare).gate_.rehearsed is None


def test_the_decision_is_a_function_of_the_support_and_survives_saving(tmp_path):
    import joblib

    X, y = _noisy(0)
    clf = FoldedClassifier(backbone="nano").fit(X[:160], y[:160])
    joblib.dump(clf, tmp_path / "model")
    again = joblib.load(tmp_path / "model")
    assert again.gate_.rehearsed == clf.gate_.rehearsed
    np.testing.assert_array_equal(again.predict_proba(X[160:]), clf.predict_proba(X[160:]))
    assert FoldedClassifier(backbone="nano").fit(X[:160], y[:160]).gate_.rehearsed == clf.gate_.rehearsed


def test_ensemble_members_are_rehearsed_each_for_itself():
    X, y = _noisy(0, rows=160)
    clf = FoldedClassifier(backbone="nano", n_estimators=2).fit(X, y)
    assert all(gate.rehearsed is not None for gate in clf.gates_)
    assert clf.gates_[0].rehearsed != clf.gates_[1].rehearsed


def test_columns_that_are_constant_on_a_half_do_no_harm():
    X, y = _noisy(0, rows=80, noise=300)
    X[:, 50:300] = 0.0
    for j in range(50, 300):
        X[j % 80, j] = 1.0  # one row each: constant on the other half
    clf = FoldedClassifier(backbone="nano").fit(X, y)
    assert clf.gate_.rehearsed is not None


def test_halves_are_bounded_and_keep_every_class():
    y = np.zeros(20_000, dtype=np.int64)
    y[5::4_000] = 1
    half = np.arange(0, 20_000)
    picked = _spread(half, y)
    assert len(picked) <= HALF_ROWS + 4
    assert (y[picked] == 1).sum() >= 2
    assert (np.diff(picked) > 0).all()


def test_picked_rows_read_as_the_array_they_stand_for():
    values = np.arange(40.0).reshape(8, 5)
    rows = np.array([6, 1, 3])
    taken = Table(values).take(rows)
    assert isinstance(taken.values, PickedRows)
    np.testing.assert_array_equal(np.asarray(taken.values), values[rows])
    np.testing.assert_array_equal(taken.rows(1, 3).columns(np.array([4, 0])), values[[1, 3]][:, [4, 0]])
    assert taken.shape == (3, 5)
