"""One client's connection: frames in, one request at a time, answers out in the same order.

    reading --(a whole frame)--> answering --(reply)--> writing --(all sent)--> reading
                                     |
                                     +-- a request that waits stays here; reading goes on only
                                         when it has been answered

Kafka's brokers, too, take one request at a time: it keeps answers in order without a queue, and
limits what a connection can hold to one request, one answer and one read. While a request is being
answered, nothing more is read. If the client disconnects while its request waits, the request is
cancelled (`on_hang_up`). Only the listener's thread uses the socket; `send` and `close_soon` may be
called from any thread.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sojourn._log import log
from sojourn.kafka import wire
from sojourn.kafka.security.tls import why_failed

if TYPE_CHECKING:
    from sojourn.kafka.network.listener import Listener
    from sojourn.kafka.security.authentication import Authentication
    from sojourn.kafka.security.tls import Tls

#: What Kafka calls socket.request.max.bytes.
REQUEST_MAX_BYTES = 100 * 1024 * 1024

#: A frame of this size is not copied: what was received after it is.
_LARGE_BYTES = 1 << 16

_PIECES_MAX = 1_000  # the system takes about as many at once

_READ = selectors.EVENT_READ
_WRITE = selectors.EVENT_WRITE


class Connection:
    """A socket, what has been read of the next frame, and what is yet to be sent."""

    def __init__(
        self,
        number: int,
        sock: socket.socket,
        listener: Listener,
        serve: Callable[[Connection, wire.Request], None],
        scratch: bytearray,
        request_max_bytes: int,
        tls: Tls | None = None,
    ) -> None:
        self.number = number
        self.host = sock.getpeername()[0]
        self.local_host: str = sock.getsockname()[0]
        self.is_open = True
        #: The client's SASL authentication; None without SASL.
        self.authentication: Authentication | None = None
        #: Gets the next frame as it is, where it is not a request.
        self.on_token: Callable[[bytes], object] | None = None
        self._tls = tls
        self._sock = sock
        self._listener = listener
        self._serve = serve
        self._scratch = memoryview(scratch)
        self._request_max_bytes = request_max_bytes
        self._received = bytearray()
        self._answering = False
        self._is_answered = False  # the answer is being sent
        self._is_last = False
        self._on_hang_up: Callable[[], object] | None = None
        self._unsent: list[bytes | memoryview] = []
        self._interest = _READ
        listener.register(sock, _READ, self.on_event)

    # From any thread.

    def send(self, frame: Sequence[bytes] | None, is_last: bool = False) -> None:
        """Send the answer to the present request, in pieces; None if it gets no answer.

        After the last answer the connection is closed.
        """
        # Later even on the listener's own thread: the caller may hold the cluster's lock.
        self._listener.call_soon(lambda: self._answer(frame, is_last))

    def close_soon(self) -> None:
        """Close the connection, shortly."""
        self._listener.call_soon(self.close)

    def on_hang_up(self, step: Callable[[], object]) -> None:
        """Do this if the client disconnects before the present request is answered, or already has.

        It may be done twice if the client disconnects at this moment.
        """
        self._on_hang_up = step
        if not self.is_open:
            step()

    # On the listener's thread.

    def on_event(self, events: int) -> None:
        """Read and write what the socket is ready for."""
        try:
            if events & _WRITE:
                self._flush()
            if events & _READ and self.is_open:
                self._receive()
                if self._tls is not None:
                    self._flush()  # what TLS answers to what it has read
            self._serve_received()
        except OSError as error:
            log.debug("kafka: connection %d from %s: %s", self.number, self.host, error)
            self.close()

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._listener.unregister(self._sock)
        with contextlib.suppress(OSError):
            self._sock.close()
        self._received = bytearray()
        self._unsent = []
        step, self._on_hang_up = self._on_hang_up, None
        if step is not None:
            step()

    def _receive(self) -> None:
        if self._answering:
            # Only to notice a disconnect; other bytes can wait until the answer is sent.
            if self._on_hang_up is None or self._read():
                self._listen(self._interest & ~_READ)
            return
        while not self._frame_end():
            if self._read() < len(self._scratch):
                return

    def _read(self) -> int:
        """Read once; 0 if nothing was there, or if the client has disconnected."""
        try:
            size = self._sock.recv_into(self._scratch)
        except BlockingIOError:
            return 0
        if not size:
            self.close()
        elif self._tls is None:
            self._received += self._scratch[:size]
        else:
            self._decrypt(self._tls, self._scratch[:size])
        return size

    def _decrypt(self, tls: Tls, data: memoryview) -> None:
        try:
            self._received += tls.decrypt(data)
        except ssl.SSLError as error:
            log.warning(
                "kafka: connection %d from %s: TLS failed, it is closed: %s%s",
                self.number,
                self.host,
                error,
                why_failed(error),
            )
            with contextlib.suppress(OSError):
                self._sock.send(tls.to_send())  # the reason, for the client's log
            self.close()
            return
        if answer := tls.to_send():
            self._unsent.append(answer)
        if tls.is_closed:
            self.close()

    def _frame_end(self) -> int:
        """The end of the first frame received; 0 if it is not complete."""
        received = self._received
        if len(received) < 4:
            return 0
        size = int.from_bytes(received[:4], "big", signed=True)
        if not 0 <= size <= self._request_max_bytes:
            log.warning(
                "kafka: connection %d from %s announces a request of %d bytes, at most %d are "
                "allowed; it is closed%s",
                self.number,
                self.host,
                size,
                self._request_max_bytes,
                looks_like(bytes(received[:4])),
            )
            raise ConnectionError("oversized request")
        return 4 + size if len(received) >= 4 + size else 0

    def _serve_received(self) -> None:
        """Serve the complete frames, while each is answered at once."""
        while self.is_open and not self._answering:
            end = self._frame_end()
            if not end:
                self._listen(self._interest | _READ)
                return
            frame = self._pop_frame(end)
            if self.on_token is not None:
                self._answering = True
                self.on_token(bytes(frame[4:]))
                continue
            request = self._read_request(frame)
            if request is not None:
                self._answering = True
                self._serve(self, request)

    def _pop_frame(self, end: int) -> bytes | memoryview:
        received = self._received
        if end < _LARGE_BYTES:
            frame = bytes(memoryview(received)[:end])
            del received[:end]
            return frame
        self._received = received[end:]  # at most what one read returns: less than the frame
        del received[end:]
        return memoryview(received).toreadonly()

    def _read_request(self, frame: bytes | memoryview) -> wire.Request | None:
        try:
            return wire.read_request(frame)
        except wire.UnknownVersion as error:
            if error.name == "api_versions":
                self._answering = True
                low, high = wire.VERSIONS["api_versions"]
                served = {
                    "api_key": wire.API_KEYS["api_versions"],
                    "min_version": low,
                    "max_version": high,
                }
                answer = {"error_code": wire.ErrorCode.unsupported_version, "api_keys": [served]}
                self.send(wire.api("api_versions", 0).encode(error.correlation_id, answer))
                return None
            self._refuse(error)
        except wire.BadFrame as error:
            self._refuse(error)
        return None

    def _refuse(self, error: wire.BadFrame) -> None:
        log.warning("kafka: connection %d from %s: %s; it is closed", self.number, self.host, error)
        self.close()

    def _answer(self, frame: Sequence[bytes] | None, is_last: bool) -> None:
        self._on_hang_up = None
        if self.is_open and self._answering:
            self._is_last = is_last
            if frame is None:
                self._answering = False
            else:
                self._is_answered = True
                self._unsent += frame if self._tls is None else [self._tls.encrypt(b"".join(frame))]
            self.on_event(_WRITE)

    def _flush(self) -> None:
        unsent = self._unsent
        if not unsent:
            return
        while unsent:
            try:
                size = self._sock.sendmsg(unsent[:_PIECES_MAX])
            except BlockingIOError:
                self._listen(self._interest | _WRITE)
                return
            while unsent and size >= len(unsent[0]):
                size -= len(unsent.pop(0))
            if size:
                unsent[0] = memoryview(unsent[0])[size:]
        self._listen(self._interest & ~_WRITE)
        if self._is_answered:
            self._answering = self._is_answered = False
            if self._is_last:
                self.close()

    def _listen(self, interest: int) -> None:
        if interest != self._interest and self.is_open:
            self._interest = interest
            self._listener.modify(self._sock, interest, self.on_event)


def looks_like(start: bytes) -> str:
    """Which other protocol the first bytes look like; empty if unknown."""
    if start[:2] == b"\x16\x03":
        return (
            ": it looks like TLS, which this port does not accept; use "
            'security.protocol=PLAINTEXT, or Cluster(security="SSL")'
        )
    if start in (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN"):
        return ": it looks like HTTP; this port is for Kafka clients"
    return ""
