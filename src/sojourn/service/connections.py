"""Connections: how many there may be, and how long a request may take to arrive.

uvicorn reads the requests; this adds what it leaves open. A client that sends half a request, or a
byte now and then, is answered with 408 and disconnected; beyond `limits.connections` a client gets
a 503. What is not HTTP gets a 400. All of it is JSON.

    first byte           headers are whole            body is whole
    |---- header_ms ----|
    |---------------------- body_ms ------------------|

A timer runs only while a request is incomplete, so a request that comes in one piece needs none.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from sojourn.service.errors import Refusal, closing
from sojourn.service.limits import Limits

log = logging.getLogger("sojourn.service")

_LINGER_S = 5.0  # for a last answer to be read
_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class Guarded:
    """Mixed into uvicorn's protocols."""

    limits: Limits  # set on the class that `protocol_for` makes
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    connections: set[Any]
    cycle: Any
    _alarm: asyncio.TimerHandle | None = None
    _is_surplus = False
    _head_bytes = 0  # of headers that are not whole yet

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(Joined(transport, self.loop))  # type: ignore[misc]
        most = self.limits.connections
        if len(self.connections) > 2 * most:
            transport.abort()
            return
        self._is_surplus = len(self.connections) > most
        self._arm(self.limits.header_ms, "header_timeout")

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)  # type: ignore[misc]

    def data_received(self, data: bytes) -> None:
        if self._is_surplus:
            self._refuse(
                Refusal(
                    503,
                    "too_many_connections",
                    f"{self.limits.connections} connections are open, and no more may be "
                    "(limit connections)",
                    do="use fewer connections, or try again later",
                    headers=[(b"retry-after", b"1")],
                )
            )
            return
        super().data_received(data)  # type: ignore[misc]
        if self.transport.is_closing():
            self._disarm()
            return
        state = self._state()
        if state == "whole":
            self._head_bytes = 0
            if self._alarm is not None:
                self._disarm()
        elif state == "headers":
            self._head_bytes += len(data)
            if self._head_bytes > self.limits.header_bytes:
                self._refuse(
                    Refusal(
                        431,
                        "header_too_large",
                        f"the headers have more than {self.limits.header_bytes} bytes "
                        "(limit header_bytes)",
                        do="send fewer or shorter headers",
                    )
                )
            elif self._alarm is None:
                self._arm(self.limits.header_ms, "header_timeout")
        elif self._alarm is None or self._alarm_code != "body_timeout":
            self._disarm()
            self._arm(self.limits.body_ms, "body_timeout")

    def shutdown(self) -> None:
        """Stop: a request that is not whole is not waited for."""
        if self._state() == "body" and not self._is_answering():
            self._refuse(closing())
        else:
            super().shutdown()  # type: ignore[misc]

    def send_400_response(self, msg: str) -> None:
        """What was received is no HTTP."""
        if self._is_answering():
            self.transport.close()  # in the middle of it nothing can be said
            return
        self._refuse(Refusal(400, "bad_request", msg, do="send HTTP/1.1"))

    def _state(self) -> str:
        """What has arrived of a request: part of its "headers", or "body"; or all: "whole"."""
        raise NotImplementedError

    def _is_answering(self) -> bool:
        cycle = self.cycle
        return cycle is not None and cycle.response_started and not cycle.response_complete

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _arm(self, after_ms: int, code: str) -> None:
        self._alarm_code = code
        self._alarm = self.loop.call_later(after_ms / 1000, self._on_alarm, code)

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _on_alarm(self, code: str) -> None:
        self._alarm = None
        if self.cycle is None and self._has_nothing():
            self.transport.close()  # connected, and never said a word
        elif self._is_answering() or (code == "header_timeout" and self._has_request()):
            self.transport.close()  # what could be said would be taken for that request's answer
        else:
            self._refuse(
                Refusal(408, code, "the request did not arrive in time", do="send it in one piece")
            )

    def _has_nothing(self) -> bool:
        return False

    def _refuse(self, refusal: Refusal) -> None:
        """Answer without the application, and hang up."""
        self._disarm()
        if self.transport.is_closing():
            return
        reply = refusal.reply()
        head = [b"HTTP/1.1 %d %b\r\n" % (refusal.status, _REASONS[refusal.status])]
        headers = [each for each in reply.headers if each[0] != b"connection"]
        head += [b"%b: %b\r\n" % each for each in (*headers, (b"connection", b"close"))]
        self.transport.write(b"".join([*head, b"\r\n", reply.body]))
        self.transport.close()


class Joined:
    """A transport that sends at once what is written in one turn of the loop.

    uvicorn writes the head of an answer and its body one after the other; each would be a system
    call, and a packet, of its own.
    """

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def _flush(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        """Close when what was written is sent; a client that does not read is not waited for."""
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(_LINGER_S, self._transport.abort)

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)


class GuardedH11(Guarded, H11Protocol):  # type: ignore[misc]
    """With the parser in Python."""

    def _state(self) -> str:
        import h11

        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            return "headers"
        return "whole"

    def _has_nothing(self) -> bool:
        return not self.conn.trailing_data[0]
