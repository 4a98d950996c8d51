"""Bodies: what a request brings, up to a limit."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request

from sojourn.service.errors import Refusal


async def read(request: Request, most: int) -> bytes:
    """The body, if it is JSON and no larger than that.

    A client that takes too long over it is the connection's business (connections.py).
    """
    content_type = b"application/json"
    for name, value in request.scope["headers"]:
        if name == b"content-length":
            if value.isdigit() and int(value) > most:
                raise _too_large(int(value), most)
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
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_large(size, most)
    return b"".join(parts)


def _too_large(size: int, most: int) -> Refusal:
    return Refusal(
        413,
        "too_large",
        f"the body has {size} bytes or more; {most} are taken (limit body_bytes)",
        found=size,
        do="send fewer rows at once",
        headers=[(b"connection", b"close")],
    )
