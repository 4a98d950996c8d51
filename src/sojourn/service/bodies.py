"""Bodies: what a request brings, up to a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, Request

from sojourn.service.errors import Refusal

if TYPE_CHECKING:
    from sojourn.service.service import Service

_SMALL = 64 << 10  # as much as uvicorn holds for each connection anyway


async def read(request: Request) -> bytes:
    """The body, if it is JSON and no larger than is allowed.

    A client that takes too long over it is the connection's business (connections.py).
    """
    most = request.app.state.service.settings.limits.body_bytes
    content_type = b"application/json"
    for name, value in request.scope["headers"]:
        if name == b"content-length":
            size = int(value) if value.isdigit() else 0
            if size > most:
                raise _too_large(size, most)
            if size > _SMALL:
                _reserve(request, size)
        elif name == b"content-type":
            content_type = value
        elif name == b"content-encoding" and value.lower() != b"identity":
            raise Refusal(
                415,
                "bad_content",
                "the body is compressed",
                found=value.decode("latin-1"),
                do="send it as it is",
            )
    if content_type.partition(b";")[0].strip().lower() != b"application/json":
        # Also a guard: a page of another site can send text/plain without asking first.
        raise Refusal(
            415,
            "bad_content",
            "the body has to be JSON",
            found=content_type.decode("latin-1"),
            do="send the header Content-Type: application/json",
        )
    receive = request.receive
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        if len(body) > most:
            raise _too_large(len(body), most)
        return body
    parts = [body]
    size = len(body)
    reserved = request.scope.get("sojourn.reserved", _SMALL)
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_large(size, most)
        if size > reserved:  # without a content-length
            _reserve(request, size)
            reserved += size
    return b"".join(parts)


def _reserve(request: Request, size: int) -> None:
    """Count a large body among those that are in memory, until the request is answered."""
    service: Service = request.app.state.service
    most = service.settings.limits.bodies_bytes
    if service.reserved_bytes + size > most:
        raise Refusal(
            503,
            "busy",
            f"large bodies have {service.reserved_bytes} bytes already; {most} are taken at once "
            "(limit bodies_bytes)",
            found=size,
            do="try again later, or send fewer rows at once",
            headers=[(b"retry-after", b"1"), (b"connection", b"close")],
        )
    service.reserved_bytes += size
    request.scope["sojourn.reserved"] = request.scope.get("sojourn.reserved", 0) + size


def _too_large(size: int, most: int) -> Refusal:
    return Refusal(
        413,
        "too_large",
        f"the body has {size} bytes or more; {most} are taken (limit body_bytes)",
        found=size,
        do="send fewer rows at once",
        headers=[(b"connection", b"close")],
    )
