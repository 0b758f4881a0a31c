"""Whether the installed upstream package is there, and is the one an adapter was written against.

An adapter leans on the inside of another package. A changed inside must give one clear error when the backbone is
loaded, never a wrong number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import numpy as np
import torch

from scff.backbones.base import Backbone, RowView, TokenView
from scff.backbones.spec import package_of
from scff.errors import BackboneError, BackboneNotAvailable
from scff.tables.table import Table

__all__ = ["not_installed", "probed", "probed_before"]

B = TypeVar("B", bound=Backbone)

_BEFORE: ContextVar[bool] = ContextVar("scff_probed_before", default=False)


@contextmanager
def probed_before() -> Iterator[None]:
    """Load weights whose probe went well with the versions that are installed: it is not repeated."""
    token = _BEFORE.set(True)
    try:
        yield
    finally:
        _BEFORE.reset(token)


def probed(backbone: B) -> B:
    """Fold a tiny table as one leaf, and natively without any cache: the same numbers, or the package changed.

    Parameters
    ----------
    backbone : Backbone

    Returns
    -------
    Backbone
        The same.

    Raises
    ------
    BackboneError
        If the upstream package is not the one the adapter knows.
    """
    if _BEFORE.get():
        return backbone
    spec = backbone.spec
    package = package_of(spec.requires) or "package"
    rng = np.random.default_rng(0)
    support, query = (Table(rng.normal(size=(n, 5))) for n in (8, 2))
    y = np.arange(8, dtype=np.int64) % 2 if spec.task == "classification" else rng.normal(size=8)
    try:
        view, joint = (
            backbone.views(support, y, n_estimators=1, cache=cache, random_state=0).view(0) for cache in (True, False)
        )
        folded = _one_leaf(view, query)
        native = joint.native(joint.compile_native(joint.columns), query)
    except (AttributeError, TypeError, KeyError, ImportError) as error:
        raise BackboneError(
            f"The installed {package} is not one this version knows ({error}); use {spec.requires}."
        ) from error
    # Mixed precision on accelerators is coarser; a changed seam is wrong by far more than that.
    atol = 1e-3 if backbone.device.type == "cpu" else 5e-2
    if not torch.allclose(folded.float(), native.float(), atol=atol, rtol=1e-3):
        raise BackboneError(f"Folding no longer reproduces the installed {package}'s own numbers; use {spec.requires}.")
    return backbone


def not_installed(model: str, error: ImportError, *install: str) -> BackboneNotAvailable:
    """What to say where a package is missing that wants an environment of its own.

    Parameters
    ----------
    model : str
        What needs it.
    error : ImportError
    *install : str
        Requirements to install, the package itself first.
    """
    wanted = " ".join(f"'{requirement}'" for requirement in install)
    return BackboneNotAvailable(
        f"{model} needs the {package_of(install[0])} package ({error}); install it in an environment of its own with: "
        f"pip install {wanted}"
    )


def _one_leaf(view: RowView | TokenView, query: Table) -> torch.Tensor:
    rows = view.prepare(query)
    if isinstance(view, TokenView):
        tokens, state = view.tokenize_support(view.columns)
        return view.predict(view.build_context(tokens), view.tokenize_query(view.columns, state, rows))
    messages, cache = view.encode_support([view.columns])
    return view.predict(view.build_context(messages[0]), view.encode_query([view.columns], cache, rows)[0])
