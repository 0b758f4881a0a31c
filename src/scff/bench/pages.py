"""Whether a page speaks of the weights that this package has."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from scff.backbones.registry import specs
from scff.backbones.weights import checkpoints

__all__ = ["known_digests", "stale_digests"]

_DIGEST = re.compile(r"(?<![\w-])(?=[0-9a-f]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{12}(?:[0-9a-f]{52})?(?![\w-])")


def known_digests() -> dict[str, str]:
    """Sha256 of the weights that the package pins or embeds, by backbone."""
    known = {}
    for name, spec in specs().items():
        if spec.weights is not None and spec.weights.embedded:
            known[name] = checkpoints.sha256(
                Path(str(resources.files("scff.backbones.weights") / spec.weights.filename))
            )
        elif spec.weights is not None and spec.weights.sha256:
            known[name] = spec.weights.sha256
    return known


def stale_digests(text: str) -> list[str]:
    """Digests of checkpoints on a page, of 12 or 64 digits, that belong to none of the package's weights.

    Examples
    --------
    >>> stale_digests("measured with `3c9aadaeddbf`, and before with `773135104dd2`")
    ['773135104dd2']
    """
    known = tuple(known_digests().values())
    return [found for found in _DIGEST.findall(text) if not any(digest.startswith(found) for digest in known)]
