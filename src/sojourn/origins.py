"""Origins: whom an HTTP request may say it is for, and where it may come from.

A web page of a stranger can send requests to a server on this machine. Two checks stop it:

    Host      has to be a name of ours. A page that lets its own name point here (DNS rebinding)
              sends its own name.
    Origin    of a write, if there is one, has to be ours too. Browsers send it with every POST,
              PUT and DELETE of a page; programs that are not browsers send none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Objection(NamedTuple):
    """Why a request is not to be served: a status, a code, and what to do."""

    status: int
    code: str
    message: str
    found: str
    do: str


class Origins:
    """The names that a server answers to."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(name.lower() for name in (*_LOOPBACK, *names))
        self._seen: set[bytes] = set()  # Host headers that are fine

    def objection(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> Objection | None:
        """What speaks against this request; names of headers are in lower case."""
        host = origin = site = None
        hosts = 0
        for name, value in headers:
            if name == b"host":
                host = value
                hosts += 1
            elif name == b"origin":
                origin = value
            elif name == b"sec-fetch-site":
                site = value
        if hosts != 1 or host is None or (host not in self._seen and not self._knows(host)):
            return Objection(
                421,
                "bad_host",
                "the Host header does not name this service",
                (host or b"").decode("latin-1"),
                "use a loopback name, or start the service with --host-name NAME",
            )
        if method in _SAFE_METHODS:
            return None
        if site is not None and site not in (b"same-origin", b"none"):
            return _foreign(site)
        if origin is not None:
            scheme, _, its_host = origin.partition(b"://")
            if scheme not in (b"http", b"https") or its_host.lower() != host.lower():
                return _foreign(origin)
        return None

    def _knows(self, host: bytes) -> bool:
        name = host.decode("latin-1").lower()
        if name.rpartition(":")[2].isdigit() and not name.endswith("]"):
            name = name.rpartition(":")[0]
        if name not in self._names:
            return False
        if len(self._seen) < 100:
            self._seen.add(host)
        return True


def _foreign(found: bytes) -> Objection:
    return Objection(
        403,
        "bad_origin",
        "a page of another origin may not write here",
        found.decode("latin-1"),
        "send the request from the service's own page, or from a program without Origin",
    )
