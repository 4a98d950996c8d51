"""The address: where the service is, and the token that opens it."""

from __future__ import annotations

import os
from urllib.parse import quote, urlsplit

from sojourn.errors import OutOfRange, WrongType

DEFAULT_URL = "http://127.0.0.1:8080"  # where `sojourn serve` listens unless told otherwise


class Address:
    """A URL and a token. The token is in no text that this object gives."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        """Take what is given, else SOJOURN_URL and SOJOURN_TOKEN, else the default URL."""
        self.url = _checked_url(url or os.environ.get("SOJOURN_URL") or DEFAULT_URL)
        parts = urlsplit(self.url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._prefix = parts.path
        self.headers = {"accept": "application/json", "user-agent": "sojourn-client"}
        token = _checked_token(os.environ.get("SOJOURN_TOKEN") if token is None else token)
        if token:
            self.headers["authorization"] = f"Bearer {token}"

    def path(self, *segments: str) -> str:
        """The path of something, each segment encoded, so that an id may have slashes."""
        return "/".join([self._prefix, *(_encoded(segment) for segment in segments)])

    def __repr__(self) -> str:
        return self.url


def _encoded(segment: str) -> str:
    # "." and ".." would be taken for steps within the path.
    return segment.replace(".", "%2E") if segment in (".", "..") else quote(segment, safe="")


def _checked_url(url: object) -> str:
    if not isinstance(url, str):
        raise WrongType(f"url must be a str like {DEFAULT_URL}, got {url!r}")
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError as error:
        raise OutOfRange(f"url cannot be read: {error}; write it like {DEFAULT_URL}") from None
    if "@" in parts.netloc:  # not repeated here: it may be a secret
        raise OutOfRange("url must have no user or password in it; give the token by itself")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OutOfRange(f"url must begin with http:// or https:// and a host, got {url!r}")
    if parts.query or parts.fragment:
        raise OutOfRange(f"url must end before any ? or #, got {url!r}")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _checked_token(token: object) -> str | None:
    if token is None:
        return None
    if not isinstance(token, str):
        raise WrongType(f"token must be a str, got one of type {type(token).__name__}")
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise OutOfRange("token must be printable ASCII without spaces; is it the whole line?")
    return token
