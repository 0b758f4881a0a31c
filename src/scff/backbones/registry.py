"""Names of backbones: the ones written here, and those other packages bring.

Another package adds a backbone with an entry point in the group ``scff.backbones`` that names a `BackboneSpec`, or a
function returning one. Registering validates it, so a broken plug-in is one clear error and never a wrong number.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from scff.backbones.absent import ABSENT
from scff.backbones.known import SPECS
from scff.backbones.spec import BackboneSpec, Task
from scff.backbones.weights import checkpoints
from scff.errors import BackboneError, BackboneNotAvailable, CheckpointError, CheckpointMissing

if TYPE_CHECKING:
    pass

__all__ = [
    "AUTO_ORDER",
    "EMBEDDED",
    "canonical",
    "choose_auto",
    "get_spec",
    "locate",
    "on_this_machine",
    "register",
    "specification",
    "specs",
]

logger = logging.getLogger(__name__)

AUTO_ORDER: dict[Task, tuple[str, ...]] = {
    "classification": ("tabicl-v2", "tabpfn-v1", "nano"),
    "regression": ("tabicl-v2-regressor", "tabpfn-v2-regressor"),
}
"""What ``backbone="auto"`` tries, best first; only files already on this machine."""

EMBEDDED = "nano"
"""The one whose weights are part of the package."""

_SPECS: dict[str, BackboneSpec] = {}
_discovered = False
_discovering = threading.RLock()
_hinted: set[str] = set()


def register(spec: BackboneSpec) -> BackboneSpec:
    """Add a backbone to the registry.

    Raises
    ------
    BackboneError
        If the name is taken or malformed, or the specification is incomplete.
    """
    if not isinstance(spec, BackboneSpec):
        raise BackboneError(f"A backbone is registered by a BackboneSpec, not by {type(spec).__name__}.")
    for name in (spec.name, *spec.aliases):
        if name != name.lower() or not name or any(c.isspace() or c in "/\\" for c in name):
            raise BackboneError(f"A backbone's name is lower case, without spaces or slashes; {name!r} is not.")
        if (called(name) or spec) is not spec:
            raise BackboneError(f"There is already a backbone {name!r}; choose another name.")
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
    for spec in SPECS:
        register(spec)
    for point in entry_points(group="scff.backbones"):
        try:
            loaded = point.load()
            register(loaded() if callable(loaded) and not isinstance(loaded, BackboneSpec) else loaded)
        except Exception as error:  # a broken plug-in must not take the others down, nor hide
            logger.warning("the backbone plug-in %r (%s) is not usable: %s", point.name, point.value, error)


def get_spec(name: str) -> BackboneSpec:
    """Look a backbone up by its name or an alias.

    Raises
    ------
    BackboneNotAvailable
        If there is none of that name.
    """
    spec = called(name)
    if spec is None:
        if name.lower() in ABSENT:
            raise BackboneNotAvailable(f"There is no backbone {name!r} here: {ABSENT[name.lower()]}.")
        raise BackboneNotAvailable(
            f"There is no backbone {name!r}; known are {', '.join(specs())}, or pass the path of a checkpoint."
        )
    return spec


def canonical(backbone: str) -> str:
    """The name an alias stands for; any other name, or a path, is returned as it is."""
    spec = called(backbone)
    return backbone if spec is None else spec.name


def called(name: str) -> BackboneSpec | None:
    known = specs()
    return known.get(name) or next((spec for spec in known.values() if name in spec.aliases), None)


def on_this_machine(task: Task = "classification", n_classes: int = 2) -> list[str]:
    """Backbones for a task whose weights are on this machine, the one to take in doubt first; never the network.

    Those that know fewer classes than there are come in only where no other is here. Says once how to get a better one.

    Raises
    ------
    CheckpointMissing
        If there is none.
    """
    order = AUTO_ORDER[task]
    here = [name for name in order if (weights := get_spec(name).weights) and checkpoints.find(weights)]
    if not here and task == "regression":
        raise CheckpointMissing(
            f"No regressor has weights on this machine; get one with: scff backbones fetch {order[-1]}"
        )
    if not here:
        raise CheckpointMissing('No backbone has weights on this machine, not even "nano": reinstall scff.')
    if task == "classification" and here[0] != order[0] and here[0] not in _hinted:
        _hinted.add(here[0])
        warnings.warn(
            f'backbone="auto" uses what is on this machine ({", ".join(here)}); `scff backbones fetch {order[0]}` gets '
            f'a better one. Pass backbone="{here[0]}" to say that you want that one.',
            stacklevel=3,
        )
    known = {name: get_spec(name).limits.classes for name in here}
    able = [name for name in here if n_classes <= (known[name] or n_classes)]
    return able or here


def choose_auto(task: Task = "classification", n_classes: int = 2) -> str:
    """The one to take in doubt."""
    return on_this_machine(task, n_classes)[0]


def locate(backbone: str | os.PathLike[str], task: Task = "classification") -> tuple[BackboneSpec, Path]:
    """What a name or the path of a checkpoint stands for, and its file, fetched if it is named and not here.

    For regression the name of a classifier stands for the regressor of its family.

    Raises
    ------
    BackboneError, BackboneNotAvailable, CheckpointMissing, CheckpointError
        If it is for another task, there is no such name or file, or the file is not what it should be.
    """
    spec = specification(backbone, task)
    return spec, Path(backbone) if _is_path(backbone) else checkpoints.fetch(spec)


def specification(backbone: str | os.PathLike[str], task: Task = "classification") -> BackboneSpec:
    """What a name or the path of a checkpoint stands for; no weights are loaded or fetched.

    Raises
    ------
    BackboneError, BackboneNotAvailable, CheckpointMissing, CheckpointError
        As for `locate`.
    """
    if _is_path(backbone):
        return _for_task(_recognise(Path(backbone), task), task)
    spec = get_spec(os.fspath(backbone))
    if task == "regression":
        spec = specs().get(f"{spec.name}-regressor", spec)
    return _for_task(spec, task)


def _is_path(backbone: str | os.PathLike[str]) -> bool:
    name, path = os.fspath(backbone), Path(backbone)
    # `os.path` answers for names that no file system takes.
    return called(name) is None and bool(path.suffix or len(path.parts) > 1 or os.path.exists(name))


def _for_task(spec: BackboneSpec, task: Task) -> BackboneSpec:
    if spec.task != task:
        kind = "FoldedClassifier" if spec.task == "classification" else "FoldedRegressor"
        able = ", ".join(other.name for other in specs().values() if other.task == task)
        raise BackboneError(f"{spec.name!r} is for {kind}; for {task} there are {able}.")
    return spec


def _recognise(path: Path, task: Task) -> BackboneSpec:
    """Whose file this is; remembered while it does not change and no backbone is added."""
    if not os.path.isfile(path):
        raise CheckpointMissing(f"There is no checkpoint at {path}; check the path given as backbone.")
    stat = path.stat()
    return _whose(str(path), stat.st_mtime_ns, stat.st_size, task, tuple(map(id, specs().values())))


@lru_cache(maxsize=64)
def _whose(name: str, mtime_ns: int, size: int, task: Task, known: tuple[int, ...]) -> BackboneSpec:
    path = Path(name)
    from scff.backbones.weights.reading import read_once  # brings torch, which a name alone does not need

    # Those of the task first, one file may hold both; the one that takes any file of its layout last.
    unreadable: CheckpointError | None = None
    with read_once():
        for spec in sorted(specs().values(), key=lambda spec: (spec.task != task, spec.weights is None)):
            try:
                if spec.recognises is not None and spec.recognises(path):
                    return spec
            except CheckpointError as error:  # what one layout cannot read may be another's own format
                unreadable = unreadable or error
    if unreadable is not None:
        raise unreadable
    raise CheckpointError(f"{path} is not in the layout of any known backbone ({', '.join(specs())}).")
