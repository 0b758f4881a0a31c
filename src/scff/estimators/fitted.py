"""What a fit makes: everything that was decided, and what is compiled from it."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scff.backbones.loaded import CheckpointRef, reload_backbone
from scff.errors import ModelFileError, SCFFError
from scff.fold.kept import Kept
from scff.gate.record import TailGate
from scff.memory.device import resolve_device
from scff.plan.leaks import Flag
from scff.plan.plan import FoldPlan
from scff.tables.table import Table
from scff.trials.average import mixed
from scff.trials.beside import Beside
from scff.trials.case import Case
from scff.trials.reading import Choice, Reading, answers, read_all, without_tail
from scff.trials.settings import Settings
from scff.trials.trial import Verdict

__all__ = ["Fitted"]

logger = logging.getLogger(__name__)

#: Query rows that are predicted together where several readings are mixed; fewer, and a multiple of the second, where a
#: quarter of a memory limit is less than summing them up takes.
_ROWS = 4096
_TOGETHER = 32


@dataclass(eq=False)
class Fitted:
    """The record of a fit; public, read by the report, never changed but for what is compiled on first use.

    Attributes
    ----------
    support : Table
        The labelled rows.
    y : ndarray
        Their class codes, or numbers.
    classes : ndarray or None
        The classes behind the codes; None for a regressor.
    checkpoint : CheckpointRef
        Which weights; they are never stored.
    settings : Settings
    plan : FoldPlan or None
        The paper's plan, or the one of the heaviest presentation that folds columns; None where nothing is folded.
    choices : tuple of Choice
        What is read, heaviest first.
    gates : tuple of tuple of TailGate or None
        What each view of each choice decided about the Tail.
    temperature : float
    verdicts : tuple of Verdict
        What held-back rows said.
    seconds : dict of str to float
    peak_bytes : dict of str to int
    flags : tuple of Flag
        Columns that look too good: they tell every label, or follow the order of the rows.
    """

    support: Table
    y: npt.NDArray[Any]
    classes: npt.NDArray[Any] | None
    checkpoint: CheckpointRef
    settings: Settings
    plan: FoldPlan | None
    choices: tuple[Choice, ...]
    gates: tuple[tuple[TailGate | None, ...], ...] = ()
    temperature: float = 1.0
    verdicts: tuple[Verdict, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    flags: tuple[Flag, ...] = ()
    _kept: tuple[tuple[Kept | None, ...], ...] = field(default=(), repr=False)
    _recalled: dict[str, npt.NDArray[Any]] = field(default_factory=dict, repr=False)
    _compiled: tuple[Case, tuple[Reading, ...]] | None = field(default=None, repr=False)
    _compiling: Any = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What is predicted."""
        return "regression" if self.classes is None else "classification"

    @property
    def beside(self) -> CheckpointRef | None:
        """The weights that read beside the backbone's; None where nothing of theirs is in the answer."""
        read = (choice.presentation for choice in self.choices)
        return next((one.reader for one in read if isinstance(one, Beside)), None)

    def found_in(self, folder: Path) -> None:
        """Take the weights of this record from a folder, those beside the backbone too, where they are there."""

        def placed(ref: CheckpointRef) -> CheckpointRef:
            return replace(ref, path=str(folder / ref.path)) if (folder / ref.path).is_file() else ref

        self.checkpoint = placed(self.checkpoint)
        self.choices = tuple(
            replace(choice, presentation=replace(choice.presentation, reader=placed(choice.presentation.reader)))
            if isinstance(choice.presentation, Beside)
            else choice
            for choice in self.choices
        )

    def compiled(self) -> tuple[Case, tuple[Reading, ...]]:
        """The case and its readings, compiled again if this record was read from a file.

        Raises
        ------
        CheckpointError
            If the weights are not on this machine.
        ModelFileError
            If what could be compiled when it was fitted no longer can.
        """
        with self._compiling:  # several threads may ask a model that was just read
            if self._compiled is None:
                self._compiled = self._compile()
            return self._compiled

    def _compile(self) -> tuple[Case, tuple[Reading, ...]]:
        # What is kept is of the versions that are installed, and they were probed when it was made.
        device, probe = resolve_device(self.settings.device), not self._kept
        backbone = reload_backbone(self.checkpoint, device, self.task, probe=probe)
        beside = None if self.beside is None else reload_backbone(self.beside, device, probe=probe)
        case = Case(backbone, self.support, self.y, self.settings, beside=beside)
        case.recall(self._recalled)
        try:
            return case, read_all(case, self.choices, self.gates, self._kept)
        except SCFFError:
            raise
        except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
            raise ModelFileError(
                f"This model cannot be compiled again ({said}): the file, or the packages it was fitted with, changed "
                "since; fit it again."
            ) from error

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What is read, compiled."""
        return self.compiled()[1]

    def predict(self, rows: Table, *, tail: bool = True) -> npt.NDArray[np.float64]:
        """Probabilities, or numbers in one column; without what the Tail adds where ``tail`` is False."""
        return self._weighed(self._answer(rows, tail))

    def _weighed(self, answer: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Probabilities multiplied by what each class is worth."""
        if self.settings.class_weights is None:
            return answer
        weighed: npt.NDArray[np.float64] = answer * np.asarray(self.settings.class_weights)
        weighed /= weighed.sum(axis=1, keepdims=True)
        return weighed

    def _answer(self, rows: Table, tail: bool) -> npt.NDArray[np.float64]:
        try:
            return self._predict(rows, tail)
        except (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, SCFFError) or not self._kept:
                raise
            logger.warning("the caches beside this model do not fit it (%s): it is compiled again", error)
        with self._compiling:
            self._kept, self._recalled, self._compiled = (), {}, None
        return self._predict(rows, tail)

    def _predict(self, rows: Table, tail: bool) -> npt.NDArray[np.float64]:
        case, readings = self.compiled()
        if not tail:
            readings = tuple(without_tail(case, reading) for reading in readings)
        if len(readings) == 1 and self.temperature == 1.0:
            return readings[0].answer(rows)  # the paper's own numbers, bit for bit
        weights = tuple(choice.weight for choice in self.choices)
        mixture = mixed(weights, self.temperature, self.classes is not None)
        parts, limit, step = [], self.settings.limit, _ROWS
        if limit is not None:
            step = max(_TOGETHER, min(step, limit // 4 // case.query_bytes // _TOGETHER * _TOGETHER))
        for part in rows.chunks(step):
            n = part.n_rows
            # Products of matrices round the rows of a rest differently; filled up, a row's answer is its own.
            filled = part.take(np.arange(-(-n // _TOGETHER) * _TOGETHER) % n) if n % _TOGETHER else part
            parts.append(mixture(np.stack(answers(case, readings, filled)))[:n])
        return np.concatenate(parts)

    def __getstate__(self) -> dict[str, Any]:
        # Neither weights nor caches: the first are referenced by digest, the second are rebuilt on first use.
        return {name: value for name, value in self.__dict__.items() if name != "_compiling"} | {
            "_compiled": None,
            "_kept": (),
            "_recalled": {},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _compiling=threading.Lock())
