"""Loaded weights: once for a process and device, shared by all who ask; found again by models fitted with them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scff.backbones.registry import called, locate
from scff.backbones.spec import BackboneSpec, Task
from scff.backbones.weights import checkpoints
from scff.errors import CheckpointError, CheckpointMissing

if TYPE_CHECKING:
    import torch

    from scff.backbones.base import Backbone

__all__ = ["CheckpointRef", "load_backbone", "reload_backbone", "staying_loaded"]

#: Name, digest and path of a checkpoint, and device. A model remembers the path: the same weights elsewhere are others.
_Key = tuple[str, str, str, str]

_LOADED: weakref.WeakValueDictionary[tuple[_Key, bool], Any] = weakref.WeakValueDictionary()


class _Keeper:
    """Keeps weights in memory that nobody else refers to: all that are asked for while it is there, or the last few.

    Parameters
    ----------
    most : int or None
        How many of them; None for all.
    most_bytes : int or None
        How large their file may be; None for any size.
    """

    def __init__(self, most: int | None = None, most_bytes: int | None = None) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._kept: dict[_Key, Any] = {}

    def keep(self, key: _Key, loaded: Any, path: Path) -> None:
        """Keep these weights, if they are small enough, and let the oldest go that are too many."""
        if self.most_bytes is not None and not (path.is_file() and path.stat().st_size <= self.most_bytes):
            return
        # A new dict each time: another thread may be loading too.
        others = [entry for entry in self._kept.items() if entry[0] != key]
        self._kept = dict([*others, (key, loaded)][-self.most if self.most is not None else 0 :])


# The last small ones stay for the next fit, the user's and the embedded one that reads beside it: without that a loop
# of fits would read them again every time, which takes as long as fitting a small table.
_BETWEEN_FITS = _Keeper(most=2, most_bytes=32 << 20)
_KEEPERS: list[_Keeper] = [_BETWEEN_FITS]


@dataclass(frozen=True)
class CheckpointRef:
    """Which weights a fitted model speaks of; the weights themselves are never stored with it."""

    backbone: str
    path: str
    sha256: str

    @classmethod
    def of(cls, backbone: Backbone) -> CheckpointRef:
        """The reference of a loaded backbone."""
        return cls(backbone.spec.name, str(backbone.path), checkpoints.sha256(Path(backbone.path)))


def load_backbone(
    backbone: str | os.PathLike[str], device: torch.device, task: Task = "classification", *, probe: bool = True
) -> Backbone:
    """Load a backbone by name, or from the path of a checkpoint.

    A checkpoint is loaded once per process and device and shared: frozen weights have no state. Without ``probe`` an
    upstream package is taken for the one that the adapter knows; whoever asks for one that is probed gets another.
    """
    return _shared(*locate(backbone, task), device, probe)


def _shared(spec: BackboneSpec, path: Path, device: torch.device, probe: bool) -> Backbone:
    """A checkpoint, loaded unless somebody has it."""
    key = (spec.name, checkpoints.sha256(path), str(path), str(device))
    loaded: Any = _LOADED.get((key, True)) or (None if probe else _LOADED.get((key, False)))
    if loaded is None:
        from scff.backbones.shared.probe import probed_before  # with torch, which a list of names does without

        with nullcontext() if probe else probed_before():
            loaded = spec.load(path, device)
        _LOADED[key, probe] = loaded
    for keeper in tuple(_KEEPERS):
        keeper.keep(key, loaded, path)
    return loaded  # type: ignore[no-any-return]


@contextmanager
def staying_loaded() -> Iterator[None]:
    """Keep weights in memory to the end of this block: models fitted one after the other read the file once."""
    keeper = _Keeper()
    _KEEPERS.append(keeper)
    try:
        yield
    finally:
        _KEEPERS.remove(keeper)


def reload_backbone(
    ref: CheckpointRef, device: torch.device, task: Task = "classification", *, probe: bool = True
) -> Backbone:
    """Load the weights a saved model was fitted with, from wherever they are now; ``probe`` as in `load_backbone`.

    Raises
    ------
    CheckpointMissing, CheckpointError
        If they are not on this machine, or others stand in their place.
    """
    spec = called(ref.backbone)
    found = checkpoints.find(spec.weights) if spec is not None and spec.weights is not None else None
    file = Path(ref.path).name
    places = [(folder / file, str(folder / file)) for folder in checkpoints.folders()]
    places.insert(0, (Path(ref.path), ref.path))
    if found is not None:
        places.insert(0, (found[0], ref.backbone))
    for path, name in places:
        if path.is_file() and checkpoints.sha256(path) == ref.sha256:
            # What the model was fitted with need not be what this release calls by that name.
            whose = spec if spec is not None and spec.task == task else locate(name, task)[0]
            return _shared(whose, path, device, probe)
    put = "put that file beside the model or into the directory named by SCFF_CHECKPOINT_DIR"
    if any(path.is_file() for path, _ in places):
        raise CheckpointError(
            f"The weights of {ref.backbone!r} on this machine are not those this model was fitted with ({file}, sha256 "
            f"{ref.sha256[:12]}...); {put}, or fit again."
        )
    if spec is not None and spec.weights is not None and (spec.weights.repo or spec.weights.fetch):
        put = f"get them with `scff backbones fetch {spec.name}`, or {put}"
    raise CheckpointMissing(
        f"The weights this model was fitted with ({file}, sha256 {ref.sha256[:12]}...) are not on this machine; {put}."
    )
