"""Names of backbones: the ones written here, and those other packages bring.

Another package adds a backbone with an entry point in the group ``scff.backbones`` that names a `BackboneSpec`, or a
function returning one. Registering validates it, so a broken plug-in is one clear error and never a wrong number.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
import weakref
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

import torch

from scff.backbones.base import Backbone, BackboneSpec
from scff.backbones.weights import checkpoints
from scff.errors import BackboneError, BackboneNotAvailable, CheckpointError, CheckpointMissing

__all__ = [
    "AUTO_ORDER",
    "CheckpointRef",
    "choose_auto",
    "get_spec",
    "load_backbone",
    "register",
    "reload_backbone",
    "specs",
]

logger = logging.getLogger(__name__)

Task = Literal["classification", "regression"]

AUTO_ORDER = ("tabicl-v2", "tabpfn-v1", "nano")
"""What ``backbone="auto"`` tries, best first; only files already on this machine."""

_SPECS: dict[str, BackboneSpec] = {}
_LOADED: weakref.WeakValueDictionary[tuple[str, str, str], Any] = weakref.WeakValueDictionary()
_discovered = False
_discovering = threading.RLock()
_hinted: set[str] = set()


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


def register(spec: BackboneSpec) -> BackboneSpec:
    """Add a backbone to the registry.

    Raises
    ------
    BackboneError
        If the name is taken or malformed, or the specification is incomplete.
    """
    if not isinstance(spec, BackboneSpec):
        raise BackboneError(f"A backbone is registered by a BackboneSpec, not by {type(spec).__name__}.")
    if spec.name != spec.name.lower() or not spec.name or any(c.isspace() or c in "/\\" for c in spec.name):
        raise BackboneError(f"A backbone's name is lower case, without spaces or slashes; {spec.name!r} is not.")
    if _SPECS.get(spec.name, spec) is not spec:
        raise BackboneError(f"There is already a backbone {spec.name!r}; choose another name.")
    if not callable(spec.load) or spec.kind not in ("row", "token"):
        raise BackboneError(f"The specification of {spec.name!r} needs a callable `load` and kind 'row' or 'token'.")
    if not spec.code_licence or not spec.weights_licence:
        raise BackboneError(f"The specification of {spec.name!r} must state the licences of its code and weights.")
    _SPECS[spec.name] = spec
    return spec


def specs() -> dict[str, BackboneSpec]:
    """Every known backbone by name, built-in ones first."""
    with _discovering:  # threads that ask first at the same time must all see the whole list
        if not _discovered:
            _discover()
    return dict(_SPECS)


def _discover() -> None:
    global _discovered
    _discovered = True  # a plug-in that asks for the list while it is imported gets what is there so far
    from scff.backbones import limix, mitra, orion_msp, tabdpt, tabfm
    from scff.backbones.tabicl import files as tabicl
    from scff.backbones.tabicl import regression as tabicl_regression
    from scff.backbones.tabpfn import files as tabpfn
    from scff.backbones.tabpfn import v1 as tabpfn_v1

    families = (tabicl, tabpfn_v1, tabpfn, tabicl_regression, limix, orion_msp, mitra, tabdpt, tabfm)
    for family in families:
        for spec in family.SPECS:
            register(spec)
    for point in entry_points(group="scff.backbones"):
        try:
            loaded = point.load()
            register(loaded() if callable(loaded) and not isinstance(loaded, BackboneSpec) else loaded)
        except Exception as error:  # a broken plug-in must not take the others down, nor hide
            logger.warning("the backbone plug-in %r (%s) is not usable: %s", point.name, point.value, error)


def get_spec(name: str) -> BackboneSpec:
    """Look a backbone up by name.

    Raises
    ------
    BackboneNotAvailable
        If there is none of that name.
    """
    known = specs()
    if name not in known:
        raise BackboneNotAvailable(
            f"There is no backbone {name!r}; known are {', '.join(known)}, or pass the path of a checkpoint."
        )
    return known[name]


def choose_auto() -> str:
    """The best backbone whose weights are already on this machine; never the network.

    Says once how to get a better one.
    """
    known = specs()
    for name in AUTO_ORDER:
        spec = known.get(name)
        if spec is None or spec.weights is None or checkpoints.find(spec.weights) is None:
            continue
        if name != AUTO_ORDER[0] and name not in _hinted:
            _hinted.add(name)
            warnings.warn(
                f'backbone="auto" uses {name!r}, the best one on this machine; `scff backbones fetch {AUTO_ORDER[0]}` '
                f'gets a better one. Pass backbone="{name}" to say that you want this one.',
                stacklevel=3,
            )
        return name
    raise CheckpointMissing('No backbone has weights on this machine, not even "nano": reinstall scff.')


def load_backbone(backbone: str | os.PathLike[str], device: torch.device, task: Task = "classification") -> Backbone:
    """Load a backbone by name, or from the path of a checkpoint.

    A checkpoint is loaded once per process and device and shared: frozen weights have no state.
    For regression the name of a classifier stands for the regressor of its family.
    """
    name = os.fspath(backbone)
    if task == "regression" and f"{name}-regressor" in specs():
        name = f"{name}-regressor"
    path = Path(name)
    if name in specs():
        spec = get_spec(name)
        path = checkpoints.obtain(spec)
    elif path.suffix or len(path.parts) > 1 or path.exists():
        spec = _recognise(path, task)
    else:
        spec = get_spec(name)
    if spec.task != task:
        kind = "FoldedClassifier" if spec.task == "classification" else "FoldedRegressor"
        able = ", ".join(s.name for s in specs().values() if s.task == task)
        raise BackboneError(f"{spec.name!r} is for {kind}; for {task} there are {able}.")
    key = (spec.name, checkpoints.sha256(path), str(device))
    loaded: Any = _LOADED.get(key)
    if loaded is None:
        loaded = spec.load(path, device)
        _LOADED[key] = loaded
    return loaded  # type: ignore[no-any-return]


def reload_backbone(ref: CheckpointRef, device: torch.device, task: Task = "classification") -> Backbone:
    """Load the weights a saved model was fitted with, from wherever they are now.

    Raises
    ------
    CheckpointMissing, CheckpointError
        If they are not on this machine, or others stand in their place.
    """
    spec = specs().get(ref.backbone)
    found = checkpoints.find(spec.weights) if spec is not None and spec.weights is not None else None
    places = [(Path(ref.path), ref.path)]
    if found is not None:
        places.insert(0, (found[0], ref.backbone))
    for path, name in places:
        if path.is_file() and checkpoints.sha256(path) == ref.sha256:
            return load_backbone(name, device, task)
    if any(path.is_file() for path, _ in places):
        raise CheckpointError(
            f"The weights of {ref.backbone!r} on this machine are not those this model was fitted with "
            f"(sha256 {ref.sha256[:12]}...); put that file at {ref.path}, or fit again."
        )
    raise CheckpointMissing(
        f"The weights this model was fitted with ({Path(ref.path).name}, sha256 {ref.sha256[:12]}...) are not on "
        f"this machine; put the file into the directory named by SCFF_CHECKPOINT_DIR or back at {ref.path}."
    )


def _recognise(path: Path, task: Task) -> BackboneSpec:
    if not path.is_file():
        raise CheckpointMissing(f"There is no checkpoint at {path}; check the path given as backbone.")
    # Those of the task first, one file may hold both; the one that takes any file of its layout last.
    unreadable: CheckpointError | None = None
    for spec in sorted(specs().values(), key=lambda spec: (spec.task != task, spec.weights is None)):
        try:
            if spec.recognises is not None and spec.recognises(path):
                return spec
        except CheckpointError as error:  # what one layout cannot read may be another's own format
            unreadable = unreadable or error
    if unreadable is not None:
        raise unreadable
    raise CheckpointError(f"{path} is not in the layout of any known backbone ({', '.join(specs())}).")
