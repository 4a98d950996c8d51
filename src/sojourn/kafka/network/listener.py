"""The listener: one thread for all sockets of a cluster.

It sleeps in `select` and is woken by sockets or by `call_soon`. What it calls never blocks
longer than the cluster's lock is held. An error in one connection closes only that connection.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING

from sojourn._log import log
from sojourn.errors import Closed
from sojourn.kafka import wire
from sojourn.kafka.network.connection import REQUEST_MAX_BYTES, Connection

if TYPE_CHECKING:
    from sojourn.kafka.security.tls import Tls

_SCRATCH_BYTES = 1 << 20


class Listener:
    """Runs the doors and connections of every broker of a cluster."""

    def __init__(self, host: str = "127.0.0.1", request_max_bytes: int = REQUEST_MAX_BYTES) -> None:
        self.host = host
        self.request_max_bytes = request_max_bytes
        self._selector = selectors.DefaultSelector()
        self._woken, self._bell = socket.socketpair()
        self._woken.setblocking(False)
        self._bell.setblocking(False)
        self._soon: deque[Callable[[], object]] = deque()
        self._later: list[tuple[float, Callable[[], object]]] = []  # rarely more than one
        self._closing = threading.Lock()
        self._called: set[Future[None]] = set()
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._connections = 0
        self._stopping = False
        self._selector.register(self._woken, selectors.EVENT_READ, self._drain_bell)
        self._thread = threading.Thread(target=self._run, name="sojourn-kafka-io", daemon=True)
        self._thread.start()

    @property
    def is_current_thread(self) -> bool:
        return threading.get_ident() == self._thread.ident

    def call_soon(self, step: Callable[[], object]) -> None:
        """Do the step on the listener's thread. From any thread."""
        self._soon.append(step)
        if self.is_current_thread:  # which checks before it sleeps
            return
        with contextlib.suppress(OSError):  # full: it is awake anyway; closed: the thread has ended
            self._bell.send(b"\0")

    def call_later(self, delay_s: float, step: Callable[[], object]) -> None:
        """Do the step after a delay. On the listener's thread."""
        self._later.append((time.monotonic() + delay_s, step))

    def call(self, step: Callable[[], object]) -> None:
        """Do the step on the listener's thread, wait for it, and raise what it raises.

        Raises Closed if the listener is closed before the step is done.
        """
        if self.is_current_thread:
            step()
            return
        done: Future[None] = Future()

        def do() -> None:
            try:
                step()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        with self._closing:
            if self._stopping:
                raise Closed("the cluster is closed")
            self._called.add(done)
        try:
            self.call_soon(do)
            done.result()
        finally:
            self._called.discard(done)

    def close(self) -> None:
        """Close every socket and end the thread."""
        with self._closing:
            self._stopping = True
        self.call_soon(lambda: None)
        self._thread.join()
        for done in list(self._called):
            with contextlib.suppress(InvalidStateError):
                done.set_exception(Closed("the cluster is closed"))

    # On the listener's thread, for connections and doors.

    def register(self, sock: socket.socket, events: int, on_event: Callable[[int], None]) -> None:
        self._selector.register(sock, events, on_event)

    def modify(self, sock: socket.socket, events: int, on_event: Callable[[int], None]) -> None:
        if events:
            try:
                self._selector.modify(sock, events, on_event)
            except KeyError:
                self._selector.register(sock, events, on_event)
        else:
            self._selector.unregister(sock)

    def unregister(self, sock: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(sock)

    def connect(
        self,
        sock: socket.socket,
        serve: Callable[[Connection, wire.Request], None],
        tls: Tls | None,
    ) -> Connection:
        self._connections += 1
        return Connection(
            self._connections, sock, self, serve, self._scratch, self.request_max_bytes, tls
        )

    def _run(self) -> None:
        while not self._stopping:
            for key, events in self._selector.select(self._sleep_s()):
                self._call(key.data, events)
            while self._soon:
                self._call_soon(self._soon.popleft())
            if self._later:
                self._do_later()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()
        self._bell.close()

    def _sleep_s(self) -> float | None:
        if not self._later:
            return None
        return max(0.0, min(due_s for due_s, _ in self._later) - time.monotonic())

    def _do_later(self) -> None:
        now_s = time.monotonic()
        due = [step for due_s, step in self._later if due_s <= now_s]
        self._later = [one for one in self._later if one[0] > now_s]
        for step in due:
            self._call_soon(step)

    def _call(self, on_event: Callable[[int], None], events: int) -> None:
        try:
            on_event(events)
        except Exception:
            log.exception("kafka: a socket's event raised; other connections go on")

    def _call_soon(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception:
            log.exception("kafka: %r raised on the listener's thread, which goes on", step)

    def _drain_bell(self, events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
