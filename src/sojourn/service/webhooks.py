"""Webhooks: where outcomes are posted to, and that nobody else is.

A subscription may have a webhook. Its settings are kept in `webhooks.json` beside the waits, which
only the service's user can read: the secrets are in it. It is written beside and renamed, so it is
always whole.

A URL has to begin with one of `--webhook-allow`: same scheme, host and port, and a path at or below
the one given. It is checked when the webhook is set, and again before each POST.
"""

from __future__ import annotations

import contextlib
import hmac
import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec
from msgspec import Struct

from sojourn.durable.disk import sync
from sojourn.errors import BadFile, OutOfRange
from sojourn.service.errors import Refusal

_PORTS = {"http": 80, "https": 443}
_LONGEST_URL = 2048


class Webhook(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the outcomes of a subscription go."""

    url: str
    secret: str | None = None  #: for the signature
    batch: int = 100  #: outcomes in one POST, at most
    per_second: float = 20.0  #: POSTs, at most

    def check(self) -> None:
        """Refuse settings that cannot mean anything."""
        for is_good, name, rule in (
            (1 <= self.batch <= 1000, "batch", "an integer from 1 to 1000"),
            (0 < self.per_second <= 1000, "per_second", "above 0, and 1000 at most"),
            (
                self.secret is None or 16 <= len(self.secret.encode()) <= 1024,
                "secret",
                "of 16 to 1024 bytes",
            ),
        ):
            if not is_good:
                raise Refusal(400, "bad_row", f"the webhook's {name} must be {rule}")


class AllowList:
    """Which URLs webhooks may have."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._prefixes = []
        for prefix in prefixes:
            parts = _split(prefix)
            if parts is None or parts.query:
                raise OutOfRange(
                    f"--webhook-allow takes http://HOST[:PORT][/PATH] or https://…, got {prefix!r}"
                )
            self._prefixes.append((_origin(parts), parts.path or "/"))

    def allows(self, url: str) -> bool:
        """Whether the URL begins with one of the list."""
        parts = _split(url)
        if parts is None:
            return False
        origin, path = _origin(parts), parts.path or "/"
        return any(
            origin == its_origin
            and (path == its_path or path.startswith(its_path.rstrip("/") + "/"))
            for its_origin, its_path in self._prefixes
        )

    def check(self, url: str) -> None:
        """Refuse a URL that is not allowed."""
        if not self.allows(url):
            raise Refusal(
                403,
                "not_allowed_url",
                "webhooks may not go to this URL",
                found=url[:200],
                do="start the service with --webhook-allow and what the URL begins with",
            )


def _split(url: str) -> SplitResult | None:
    """The parts of a URL that is plain enough to be compared; None for any other."""
    if len(url) > _LONGEST_URL or not url.isascii() or any(c <= " " or c in '\\"<>' for c in url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc or parts.fragment:
        return None
    decoded = unquote(parts.path)
    if "\\" in decoded or any(part in (".", "..") for part in decoded.split("/")):
        return None
    return parts


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS[parts.scheme]


def sign(secret: str, timestamp_s: int, body: bytes) -> str:
    """The header Sojourn-Signature: `t=<seconds since 1970>,v1=<HMAC-SHA256 of "t.body">`."""
    message = b"%d.%b" % (timestamp_s, body)
    return f"t={timestamp_s},v1={hmac.new(secret.encode(), message, sha256).hexdigest()}"


class Webhooks:
    """The webhooks by the names of their subscriptions, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_name = self._load()

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._by_name))

    def get(self, name: str) -> Webhook | None:
        """The subscription's webhook, if it has one."""
        return self._by_name.get(name)

    def set(self, name: str, webhook: Webhook | None) -> None:
        """Keep the webhook, or remove it; it is on disk when this returns."""
        by_name = {**self._by_name}
        by_name.pop(name, None)
        if webhook is not None:
            by_name[name] = webhook
        if by_name != self._by_name:
            self._save(by_name)
            self._by_name = by_name

    def _load(self) -> dict[str, Webhook]:
        try:
            written = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            return msgspec.json.decode(written, type=_File).webhooks
        except (msgspec.MsgspecError, ValueError) as error:
            raise BadFile(
                f"{self._path} cannot be read: {error}; repair it, or remove it and set the "
                "webhooks again"
            ) from None

    def _save(self, by_name: dict[str, Webhook]) -> None:
        written = msgspec.json.format(msgspec.json.encode(_File(1, by_name)))
        beside = self._path.with_suffix(".new")
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:
            file.write(written)
            file.flush()
            os.fsync(handle)
        os.replace(beside, self._path)
        sync(self._path.parent)


class _File(Struct, forbid_unknown_fields=True):
    version: int
    webhooks: dict[str, Webhook]
