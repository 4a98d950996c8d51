"""Server-sent events: the feed as a stream that a browser's EventSource reads.

    id: 42
    event: outcome
    data: {"id":"order-7","status":"completed",…}

`Last-Event-ID`, which a browser sends when it connects again, or `after` says where to begin. A
comment line is sent when nothing else was for a while. The reader sets the pace: the next outcomes
are looked up when it has taken the last, and one that takes nothing is disconnected in the end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from sojourn._log import log
from sojourn.errors import Closed, Missed
from sojourn.service.errors import Refusal
from sojourn.service.parameters import Parameter
from sojourn.service.polls import until_disconnected
from sojourn.service.replies import encode

if TYPE_CHECKING:
    from sojourn.service.service import Service

LAST_EVENT_ID = Parameter(
    "Last-Event-ID", "header", "As `after`, and before it: what a browser sends by itself."
)

_AT_ONCE = 200
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),  # nginx would collect it
]


async def stream(request: Request, after: int) -> Stream:
    """GET /v1/outcomes/stream."""
    service: Service = request.app.state.service
    last_event_id = request.headers.get("last-event-id")
    if last_event_id:
        after = LAST_EVENT_ID.value(last_event_id, service.settings.limits)
    most = service.settings.limits.streams
    if service.streams >= most:
        raise Refusal(
            429,
            "too_many_streams",
            f"{most} streams are open, and no more may be (limit streams)",
            found=service.streams,
            do="close one, or ask for /v1/outcomes with wait_ms",
            headers=[(b"retry-after", b"5")],
        )
    first = await service.feed.page(after, 1)  # raises Missed while there is a status to say so
    return Stream(service, first[0][0] - 1 if first else after)


class Stream:
    """The answer: an endless one."""

    def __init__(self, service: Service, after: int) -> None:
        self._service = service
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        scope["sojourn.waited"] = True
        self._service.streams += 1
        telling = asyncio.ensure_future(self._tell(send))
        leaving = asyncio.ensure_future(until_disconnected(receive))
        try:
            await asyncio.wait((telling, leaving), return_when=asyncio.FIRST_COMPLETED)
            if telling.done() and not telling.result() and "sojourn.abort" in scope:
                scope["sojourn.abort"]()
                await leaving
        finally:
            telling.cancel()
            leaving.cancel()
            self._service.streams -= 1

    async def _tell(self, send: Send) -> bool:
        """Tell until the service closes; False if the reader takes nothing any more."""
        service = self._service
        settings = service.settings
        patience_s = settings.limits.write_ms / 1000

        async def write(body: bytes, more: bool = True) -> None:
            async with asyncio.timeout(patience_s):
                await send({"type": "http.response.body", "body": body, "more_body": more})

        try:
            await write(b"retry: 1000\n\n")
            with service.feed.reading():
                while not service.is_closing:
                    events = await self._next()
                    if events:
                        await write(events)
                    elif not await self._follow():
                        await write(b": still here\n\n")
            await write(b"", more=False)
        except TimeoutError:
            log.info("an event stream is closed: its reader took nothing for %g s", patience_s)
            return False
        return True

    async def _follow(self) -> bool:
        service = self._service
        try:
            return await service.polls.follow(self._after + 1, service.settings.heartbeat_ms)
        except Closed:
            return True  # the loop above looks at is_closing

    async def _next(self) -> bytes:
        try:
            page = await self._service.feed.page(self._after, _AT_ONCE)
        except Missed as missed:
            self._after = missed.last
            told_missed = encode({"message": str(missed), "after": missed.last})
            return b"id: %d\nevent: missed\ndata: %b\n\n" % (missed.last, told_missed)
        if page:
            self._after = page[-1][0]
        return b"".join(
            [b"id: %d\nevent: outcome\ndata: %b\n\n" % (number, each) for number, each in page]
        )
