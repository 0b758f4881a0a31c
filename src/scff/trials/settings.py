"""How a support is folded: what the user decides, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from scff.fold.caches import CacheMode
from scff.fold.encode import FoldOptions
from scff.fold.methods import EngineName
from scff.gate.record import TailRule
from scff.memory.device import resolve_device
from scff.plan.plan import Routing

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """How a support is folded; decided once, by the user.

    Attributes
    ----------
    leaf_width : int
    fdr : float
    routing : {"anova", "linear", "random"}
    rule : TailRule or None
        What lets the Tail in; None leaves it out.
    n_views : int
        The backbone's own views to fold and average.
    random_state : int
    cache : bool or "disk"
    limit : int, optional
        Budget of added bytes.
    engine : {"local", "ray"}
    device : str
        As the user names it.
    leaf_batch, query_chunk : int or "auto"
        Leaves and query rows encoded together.
    progress : bool
        Show progress bars.
    class_weights : tuple of float, optional
        What the probability of each class is multiplied by in the answer; trials know nothing of it.
    """

    leaf_width: int = 128
    fdr: float = 0.05
    routing: Routing = "anova"
    rule: TailRule | None = field(default_factory=TailRule)
    n_views: int = 1
    random_state: int = 0
    cache: CacheMode = True
    limit: int | None = None
    engine: EngineName = "local"
    device: str = "auto"
    leaf_batch: int | Literal["auto"] = "auto"
    query_chunk: int | Literal["auto"] = "auto"
    progress: bool = False
    class_weights: tuple[float, ...] | None = None

    @property
    def options(self) -> FoldOptions:
        """Blocks and threads as this machine suggests them."""
        return FoldOptions.on(resolve_device(self.device), self.leaf_batch, self.query_chunk, self.progress)
