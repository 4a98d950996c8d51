"""Replies: JSON answers, as ASGI applications that cost little."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

_ENCODER = msgspec.json.Encoder()
encode = _ENCODER.encode

# Nothing that the service says is meant to be stored, run or shown as a page.
_SAFE: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_JSON = (b"content-type", b"application/json")


class Reply:
    """A status and a body."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self,
        status: int,
        body: bytes,
        headers: Iterable[tuple[bytes, bytes]] = (),
        content_type: tuple[bytes, bytes] = _JSON,
    ) -> None:
        self.status = status
        self.body = body
        self.headers = [
            content_type,
            (b"content-length", b"%d" % len(body)),
            *_SAFE,
            *headers,
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


def json(value: Any, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()) -> Reply:
    """The value as JSON."""
    return Reply(status, encode(value), headers)


def text(body: bytes, content_type: bytes) -> Reply:
    """Text of another kind."""
    return Reply(200, body, content_type=(b"content-type", content_type))
