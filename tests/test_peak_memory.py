import numpy as np

from scff import FoldedClassifier
from scff.memory.meter import PeakMemory


def test_memory_that_was_freed_before_is_not_taken_for_free():
    kept = []

    def work():
        # Small blocks stay in the allocator's heap when they are freed, if something still in use lies above them.
        blocks = [np.ones(8000) for _ in range(1500)]
        kept.append(blocks[-1])
        assert len(blocks) == 1500

    peaks = []
    for _ in range(2):
        with PeakMemory() as memory:
            work()
        peaks.append(memory.added)
    assert min(peaks) > 0.8 * max(peaks) > 50e6


def test_an_inner_block_does_not_hide_the_peak_of_the_outer_one():
    with PeakMemory() as outer:
        early = np.ones(10_000_000)
        del early
        with PeakMemory() as inner:
            late = np.ones(5_000_000)
        del late
        with PeakMemory() as quiet:
            pass
    assert outer.added > 75e6
    assert 35e6 < inner.added < 75e6
    assert quiet.added < 10e6


def test_fit_measures_its_stages():
    y = np.arange(60) % 2
    X = np.random.default_rng(0).normal(size=(60, 200)) + y[:, None]
    with PeakMemory() as whole:
        model = FoldedClassifier(backbone="nano").fit(X, y)
    assert set(model.peak_bytes_) == {"load", "compile"}
    assert 0 < model.peak_bytes_["compile"] <= whole.added + (4 << 20)
