"""More classes than the model has: several tasks of fewer classes, whose answers are put together.

A code word gives every class one of as many symbols as the model knows. Classes that share a symbol in one word part in
others, so the words together tell them all apart. Each word is a task of its own: its columns are ranked, and the
table is shown, for its symbols.

Shape legend: ``W`` words, ``K`` classes, ``N`` held-back rows, ``Q`` query rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scff.backbones.base import Backbone
from scff.fold.methods import compile_view
from scff.fold.native import Compiled
from scff.gate.class_evidence import log_softmax
from scff.tables.table import Table
from scff.trials.case import Case
from scff.trials.presentations import Presentation, Shown

__all__ = ["WORDS", "Coded", "code_words"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

WORDS = 6
_TRIES = 64


def code_words(n_classes: int, n_symbols: int, n_words: int = WORDS) -> IntArray:
    """Words that tell classes apart.

    Parameters
    ----------
    n_classes : int
    n_symbols : int
        Classes that the model knows.
    n_words : int

    Returns
    -------
    ndarray of shape (n_words, n_classes)
        Symbols, each word using all of them as evenly as it can. The draw is fixed; of several the one is taken whose
        closest two classes differ in most words.

    Examples
    --------
    >>> words = code_words(13, 10)
    >>> words.shape, int(words.max())
    ((6, 13), 9)
    >>> int(min((words[:, i] != words[:, j]).sum() for i in range(13) for j in range(i)))
    5
    """
    rng = np.random.default_rng(0)
    best: tuple[int, IntArray] | None = None
    for _ in range(_TRIES):
        words = np.stack([rng.permutation(np.arange(n_classes) % n_symbols) for _ in range(n_words)])
        differ = (words[:, :, None] != words[:, None, :]).sum(axis=0)
        apart = int(differ[~np.eye(n_classes, dtype=bool)].min())
        if best is None or apart > best[0]:
            best = apart, words
    assert best is not None
    return best[1]


@dataclass(frozen=True)
class Coded:
    """A presentation read once for every code word; to a trial it is an alternative that answers by itself.

    Attributes
    ----------
    presentation : Presentation
    n_symbols : int
        Classes that the model knows.
    """

    presentation: Presentation
    n_symbols: int

    @property
    def name(self) -> str:
        """The presentation's."""
        return self.presentation.name

    @property
    def prior(self) -> float:
        """The presentation's."""
        return self.presentation.prior

    def answer(self, case: Case) -> tuple[FloatArray | None, Callable[[Table], FloatArray]]:
        """Probabilities of the held-back rows, and of any others."""
        n_classes = int(case.y.max()) + 1
        words_WK = code_words(n_classes, min(self.n_symbols, n_classes))
        held: list[FloatArray] = []
        readers: list[_Word] = []
        for word_K in words_WK:
            coded = case.relabelled(np.unique(word_K[case.y], return_inverse=True)[1])
            shown = self.presentation.show(coded)
            if shown is None:
                continue
            view = shown.views.view(0)
            compiled = compile_view(
                view, shown.plan, coded.y, coded.runtime(view, shown.plan, shown.method), narrow=shown.narrow
            )
            word = _Word(case.backbone, shown, compiled, np.searchsorted(np.unique(word_K), word_K))
            if shown.held_back is not None:
                held.append(word.logs(shown.held_back))
            readers.append(word)
        # A word says which of the symbols, not which of the classes: this much more must all of them say together.
        size = np.log(n_classes) / np.log(min(self.n_symbols, n_classes))

        def together(logs: list[FloatArray]) -> FloatArray:
            return np.exp(log_softmax(size * np.mean(logs, axis=0)))

        return together(held) if held else None, lambda rows: together(
            [word.logs(word.shown.table(rows)) for word in readers]
        )

    def words(self, case: Case) -> str:
        """What is read."""
        return f"{self.presentation.words(case)}, {WORDS} times for {int(case.y.max()) + 1} classes"


@dataclass(frozen=True, eq=False)
class _Word:
    """One task of fewer classes, compiled."""

    backbone: Backbone
    shown: Shown
    compiled: Compiled
    symbol_K: IntArray

    def logs(self, rows: Table) -> FloatArray:
        """Logarithm of the probability of each class's symbol, for rows as they are shown."""
        proba = self.backbone.combine([self.compiled.predict(rows).float().cpu().numpy()])
        out: FloatArray = np.log(np.maximum(proba, 1e-6))[:, self.symbol_K]
        return out
