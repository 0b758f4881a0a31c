"""Where weights come from, and that they are what they claim to be: finding, fetching, verifying.

Search order: an explicit path; the directory in ``SCFF_CHECKPOINT_DIR``; scff's own cache (files fetched by ``scff
backbones fetch``); the Hugging Face cache; the upstream package; scff itself. Only then, and only when asked by name,
the network. ``HF_HUB_OFFLINE=1`` forbids that too, for files from a package index as well.
"""

from __future__ import annotations

import hashlib
import logging
import os
from functools import lru_cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from scff.errors import CheckpointError, CheckpointMissing

if TYPE_CHECKING:
    from scff.backbones.spec import BackboneSpec, Weights

__all__ = [
    "cache_dir",
    "fetch",
    "find",
    "folders",
    "sha256",
    "verify",
]

logger = logging.getLogger(__name__)


def cache_dir() -> Path:
    """Directory of files that scff fetched itself."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "scff"


def folders() -> list[Path]:
    """Directories in which files of weights are looked for by their name."""
    directory = os.environ.get("SCFF_CHECKPOINT_DIR")
    return [*([Path(directory)] if directory else []), cache_dir()]


def find(weights: Weights) -> tuple[Path, str] | None:
    """Look for a file of weights on this machine.

    Returns
    -------
    (path, origin) or None
        ``origin`` is "local", "fetched", "hub cache", "package" (in the upstream one) or "embedded".
    """
    origins = ("fetched", "local")
    candidates = [(folder / weights.filename, origins[folder != cache_dir()]) for folder in folders()]
    if weights.repo is not None:
        cached = _in_hub_cache(weights.repo, weights.filename)
        if cached is not None:
            candidates.append((cached, "hub cache"))
    if weights.package is not None:
        name, _, folder = weights.package.partition("/")
        spec = find_spec(name)  # does not import it
        for base in (spec.submodule_search_locations or ()) if spec is not None else ():
            candidates.append((Path(base) / folder / weights.filename, "package"))
    if weights.embedded:
        # A file of that name in a user's folder may be of another release, kept for a model that was fitted with it.
        candidates = [(path, origin) for path, origin in candidates if path.is_file() and _is_pinned(path, weights)]
        candidates.append((Path(str(resources.files("scff.backbones.weights") / weights.filename)), "embedded"))
    return next(((path, origin) for path, origin in candidates if path.is_file()), None)


def _in_hub_cache(repo: str, filename: str) -> Path | None:
    from huggingface_hub import constants

    # Most repositories were never fetched, and the client's own look is half a second of imports away.
    if not (Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}").is_dir():
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo, filename)
    return Path(found) if isinstance(found, str) else None


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


def verify(path: Path, weights: Weights) -> None:
    """Compare a file with its pinned digest.

    Raises
    ------
    CheckpointError
        If they differ.
    """
    if weights.sha256 is None:
        return
    if not _is_pinned(path, weights):
        raise CheckpointError(
            f"{path} is damaged or not the released file: sha256 {sha256(path)[:12]}..., expected "
            f"{weights.sha256[:12]}... Delete it and fetch it again."
        )


def _is_pinned(path: Path, weights: Weights) -> bool:
    return weights.sha256 is None or sha256(path).startswith(weights.sha256)


def sha256(path: Path) -> str:
    """Digest of a file; remembered while the file does not change."""
    stat = path.stat()
    return _sha256(str(path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=64)
def _sha256(path: str, mtime_ns: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(name: str, weights: Weights, *, progress: bool = False) -> Path:
    from huggingface_hub import constants

    remedy = (
        f"put {weights.filename} into a directory and name it in SCFF_CHECKPOINT_DIR, pass the file's path as "
        'backbone, or use backbone="nano", which is part of the package.'
    )
    if weights.package is not None:
        package = weights.package.partition("/")[0]
        raise CheckpointMissing(f"The weights of {name!r} are inside the package {package}: pip install {package}.")
    if weights.fetch is None and weights.repo is None:
        raise CheckpointMissing(f"The weights of {name!r} are not on this machine; {remedy}")
    if constants.HF_HUB_OFFLINE:
        raise CheckpointMissing(
            f"The weights of {name!r} are not on this machine and HF_HUB_OFFLINE is set; unset it and run `scff "
            f"backbones fetch {name}`, or {remedy}"
        )
    if weights.fetch is not None:
        from scff.backbones.weights.fetching import ArchivedFile, fetch_archived

        assert weights.sha256 is not None, "a file from a package index is trusted by its digest alone"
        source = ArchivedFile.parse(weights.fetch)
        return fetch_archived(source, cache_dir() / weights.filename, weights.sha256, progress=progress)
    assert weights.repo is not None
    return _from_hub(name, weights, weights.repo, remedy)


def _from_hub(name: str, weights: Weights, repo: str, remedy: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError

    logger.info("downloading %s from the Hugging Face hub (%s)", weights.filename, repo)
    try:
        for other in weights.beside:
            hf_hub_download(repo, other)
        return Path(hf_hub_download(repo, weights.filename))
    except GatedRepoError as error:
        raise CheckpointMissing(
            f"The weights of {name!r} are given to those who accept their licence: do so at "
            f"https://huggingface.co/{repo}, put your token into HF_TOKEN, and try again; or {remedy}"
        ) from error
    except (HfHubHTTPError, OSError) as error:  # a missing connection is an OSError here
        raise CheckpointMissing(
            f"The weights of {name!r} are not on this machine and the Hugging Face hub cannot be reached; run `scff "
            f"backbones fetch {name}` where it can, or {remedy}"
        ) from error
