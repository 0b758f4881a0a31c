"""The facts a backbone states about itself. Stating them imports neither torch nor any model."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

__all__ = ["BackboneSpec", "Limits", "Task", "Weights", "deferred", "package_of"]

Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Weights:
    """Where the weights of a named backbone come from.

    Attributes
    ----------
    filename : str
        Name of the file in every place it is looked for.
    repo : str or None
        Hugging Face repository, if it is published there.
    sha256 : str or None
        Digest of the file, or its beginning where only that is known.
    embedded : bool
        Whether the file is part of this package.
    fetch : str or None
        For files that are on no hub: ``pypi:<project>==<version>/<path>``, a file in a source distribution.
    beside : tuple of str
        Other files of the repository that must stand next to it.
    package : str or None
        Import name of the upstream package that brings it along, and the folder in it.
    """

    filename: str
    repo: str | None = None
    sha256: str | None = None
    embedded: bool = False
    fetch: str | None = None
    beside: tuple[str, ...] = ()
    package: str | None = None


@dataclass(frozen=True)
class Limits:
    """What a backbone can take; None means no limit of its own.

    ``leaf_width``, ``classes`` and ``views`` are enforced; ``rows`` says how many support rows it was made for.
    """

    leaf_width: int | None = None
    classes: int | None = None
    rows: int | None = None
    views: int | None = None


@dataclass(frozen=True)
class BackboneSpec:
    """The facts of one backbone, and how to load it.

    Attributes
    ----------
    name : str
        Lower case: ``<model>-v<version>`` or ``<model>-<size>``.
    kind : {"row", "token"}
    summary : str
        One line for listings.
    load : callable
        ``load(path, device)`` returns the backbone.
    weights : Weights or None
        None for a layout that is only ever loaded from a path.
    code_licence, weights_licence : str
    limits : Limits
    requires : str
        The upstream package and the versions the adapter was written against.
    recognises : callable or None
        Tells from the path of a checkpoint whether it has this backbone's layout.
    task : {"classification", "regression"}
        A regressor of the same family is a backbone of its own, named ``<name>-regressor``.
    aliases : tuple of str
        Other names people type; they stand for this one wherever a name is taken.
    """

    name: str
    kind: Literal["row", "token"]
    summary: str
    load: Callable[[Path, torch.device], Any]
    weights: Weights | None
    code_licence: str
    weights_licence: str
    limits: Limits = field(default_factory=Limits)
    requires: str = ""
    recognises: Callable[[Path], bool] | None = None
    task: Task = "classification"
    aliases: tuple[str, ...] = ()


def deferred(address: str, **options: Any) -> Callable[..., Any]:
    """A function by its address, imported when it is first called, so that a list of models need not wait for them.

    Parameters
    ----------
    address : str
        ``module:function``.
    **options
        Keywords it is called with.

    Examples
    --------
    >>> deferred("math:hypot")(3, 4)
    5.0
    """
    return partial(_called, address, **options)


def _called(address: str, *args: Any, **options: Any) -> Any:
    module, _, name = address.partition(":")
    return getattr(import_module(module), name)(*args, **options)


def package_of(requires: str) -> str:
    """Name of the package in a requirement.

    Examples
    --------
    >>> package_of("tabicl>=2.1,<3")
    'tabicl'
    """
    return re.split(r"[<>=!~ \[]", requires, maxsplit=1)[0]
