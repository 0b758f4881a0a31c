"""Read by a second model: the embedded one looks at the same narrow tables beside the user's backbone.

Two models that were trained apart are wrong about different rows. What the embedded model says of a narrow table costs
next to nothing, and held-back rows give it weight, or none, like any other reading.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scff.backbones.base import Backbone
from scff.backbones.loaded import CheckpointRef, load_backbone
from scff.backbones.registry import EMBEDDED
from scff.errors import SCFFError
from scff.trials.case import Case
from scff.trials.presentations import Presentation, Shown

if TYPE_CHECKING:
    import torch

__all__ = ["Beside", "cases_of", "reader_of", "second_reader"]


@dataclass(frozen=True)
class Beside:
    """A presentation that the model beside the backbone reads.

    Attributes
    ----------
    presentation : Presentation
    reader : CheckpointRef
        Which model that is.
    """

    presentation: Presentation
    reader: CheckpointRef

    @property
    def name(self) -> str:
        """Such as ``"digest-beside"``."""
        return f"{self.presentation.name}-beside"

    @property
    def prior(self) -> float:
        """The presentation's."""
        return self.presentation.prior

    @property
    def shares(self) -> tuple[float, ...]:
        """The presentation's."""
        return self.presentation.shares

    def show(self, case: Case) -> Shown | None:
        """Show the other model the same rows."""
        return self.presentation.show(case.lent)

    def words(self, case: Case) -> str:
        """What is read, and by whom."""
        return f"{self.presentation.words(case.lent)}, read by {self.reader.backbone}"


def reader_of(case: Case, alternative: object) -> Case:
    """The case as the model that reads an alternative has it."""
    return case.lent if isinstance(alternative, Beside) else case


def cases_of(case: Case, backbones: Sequence[Backbone], second: Backbone | None) -> list[Case]:
    """The same rows for every backbone, each with the second one beside it, but for those of the same weights."""
    return [case.read_by(one, None if _same(one, second) else second) for one in backbones]


def second_reader(device: torch.device) -> Backbone | None:
    """The model that reads beside others; None, and a warning, where it cannot be loaded."""
    try:
        return load_backbone(EMBEDDED, device)
    except (SCFFError, ImportError) as error:
        warnings.warn(f"{EMBEDDED!r} does not read beside the backbone, for it cannot be loaded: {error}", stacklevel=3)
        return None


def _same(one: Backbone, other: Backbone | None) -> bool:
    return other is not None and CheckpointRef.of(one).sha256 == CheckpointRef.of(other).sha256
