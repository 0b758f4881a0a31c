"""Addresses of package indexes that may carry a user's name and password: sent to their own host, shown to nobody."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request

__all__ = ["IndexAddress", "masked"]


def masked(text: str) -> str:
    """Text without the credentials of the addresses in it.

    Examples
    --------
    >>> masked("cannot reach https://me:secret@pypi.example/simple today")
    'cannot reach https://***@pypi.example/simple today'
    """
    return re.sub(r"//\S*@", "//***@", text)  # up to the last @: a password may hold one, or a slash


@dataclass(frozen=True)
class IndexAddress:
    """The address of a package index.

    Attributes
    ----------
    url : str
        Without credentials.
    """

    url: str
    _credentials: str = field(default="", repr=False)
    _secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, text: str) -> IndexAddress:
        """Take an address apart.

        Raises
        ------
        ValueError
            If it is none.

        Examples
        --------
        >>> IndexAddress.parse("https://me:secret@pypi.example/simple")
        IndexAddress(url='https://pypi.example/simple')
        """
        inside = re.search(r"//(\S*)@", text)
        found = tuple(part for part in re.split(r"[:/@]", inside[1]) if len(part) > 1) if inside else ()
        parts = urlsplit(text.strip())
        credentials, _, host = parts.netloc.rpartition("@")
        if parts.scheme not in ("http", "https") or not host:
            raise ValueError("it is no http address")
        if inside and not credentials:  # and half of a password would pass for the name of a host
            raise ValueError("write a / in a password as %2F")
        secrets = tuple(sorted({*found, *map(unquote, found)}, key=len, reverse=True))
        return cls(urlunsplit(parts._replace(netloc=host)), unquote(credentials), secrets)

    def request(self, url: str) -> Request:
        """A request that carries the credentials if it goes to the index's own host, and loses them on the way off."""
        request = Request(url, headers={"Accept": "text/html, */*"})
        if self._credentials and urlsplit(url)[:2] == urlsplit(self.url)[:2]:
            token = base64.b64encode(self._credentials.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {token}")
        return request

    def said(self, error: object) -> str:
        """What went wrong, in one line without credentials."""
        text = masked((str(error).strip().splitlines() or [type(error).__name__])[0][:200])
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text
