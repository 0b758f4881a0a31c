"""The training card: what a checkpoint is and how it came to be, stored beside it as JSON."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

from scff.backbones.weights.checkpoints import sha256
from scff.tables.atomic import write_atomically


def versions() -> dict[str, str]:
    """Return the versions a result depends on."""
    found = {"python": platform.python_version()}
    for package in ("scff", "torch", "tabicl", "numpy", "scikit-learn", "scipy"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "absent"
    return found


def write_card(checkpoint: Path, facts: dict[str, Any]) -> Path:
    """Write the card of a checkpoint beside it.

    Parameters
    ----------
    checkpoint : Path
        A finished checkpoint.
    facts : dict
        What to record besides the hash, the size and the versions.

    Returns
    -------
    Path
        The card: the checkpoint's name with the suffix ``.json``.
    """
    card = {
        "checkpoint": checkpoint.name,
        "sha256": sha256(checkpoint),
        "bytes": checkpoint.stat().st_size,
        **facts,
        "versions": versions(),
    }
    path = checkpoint.with_suffix(".json")
    write_atomically(path, lambda part: part.write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8"))
    return path
