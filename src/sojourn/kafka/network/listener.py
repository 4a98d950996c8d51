"""The listener: one thread that does all the socket work of a cluster.

It sleeps in `select` and is woken by sockets or by `call_soon`. What it calls never blocks
longer than the cluster's lock is held. An error in one connection ends that connection alone.
"""

from __future__ import annotations

import contextlib
import errno
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
_BACKLOG = 128
_OUT_OF_FILES_S = 0.1


class Listener:
    """Accepts connections for every broker of a cluster and moves their bytes."""

    def __init__(self, host: str = "127.0.0.1", request_max_bytes: int = REQUEST_MAX_BYTES) -> None:
        self.host = host
        self.request_max_bytes = request_max_bytes
        self._selector = selectors.DefaultSelector()
        self._woken, self._bell = socket.socketpair()
        self._woken.setblocking(False)
        self._bell.setblocking(False)
        self._soon: deque[Callable[[], object]] = deque()
        self._later: list[tuple[float, Callable[[], object]]] = []  # seldom more than one
        self._closing = threading.Lock()
        self._called: set[Future[None]] = set()
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._connections = 0
        self._stopping = False
        self._selector.register(self._woken, selectors.EVENT_READ, self._hear)
        self._thread = threading.Thread(target=self._run, name="sojourn-kafka-io", daemon=True)
        self._thread.start()

    @property
    def is_current_thread(self) -> bool:
        return threading.get_ident() == self._thread.ident

    def call_soon(self, step: Callable[[], object]) -> None:
        """Have the step done on the listener's thread. Any thread may ask."""
        self._soon.append(step)
        if self.is_current_thread:  # which looks before it sleeps
            return
        with contextlib.suppress(OSError):  # full: it is awake anyway; closed: nobody listens
            self._bell.send(b"\0")

    def call_later(self, delay_s: float, step: Callable[[], object]) -> None:
        """Have the step done after a while. On the listener's thread."""
        self._later.append((time.monotonic() + delay_s, step))

    def call(self, step: Callable[[], object]) -> None:
        """Have the step done on the listener's thread, wait for that, and raise what it raises.

        Raises Closed if the listener is, or comes to be before the step is done.
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
            log.exception("kafka: a socket's event raised; the others go on")

    def _call_soon(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception:
            log.exception("kafka: %r raised on the listener's thread, which goes on", step)

    def _hear(self, events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass


class Door:
    """One broker's listening socket. While shut it keeps its port, and refuses connections."""

    def __init__(
        self,
        listener: Listener,
        port: int,
        serve: Callable[[Connection, wire.Request], None],
        tls: Callable[[], Tls | None] = lambda: None,
    ) -> None:
        self._listener = listener
        self._serve = serve
        self._tls = tls
        self._sock = self._bound(port)
        self.host = listener.host
        self.port: int = self._sock.getsockname()[1]
        self._inside: set[Connection] = set()
        self._is_open = False
        self._is_closed = False

    def open(self) -> None:
        """Take connections. From any thread."""
        self._listener.call(self._open)

    def shut(self) -> None:
        """Take no more, and close those that there are. From any thread."""
        self._listener.call(self._shut)

    @property
    def connections(self) -> int:
        return sum(connection.is_open for connection in list(self._inside))

    def _bound(self, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._listener.host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        try:
            sock.bind((self._listener.host, port))
        except OSError:
            sock.close()
            raise
        return sock

    def _open(self) -> None:
        if not self._is_open and not self._is_closed:
            self._is_open = True
            self._sock.listen(_BACKLOG)
            self._listener.register(self._sock, selectors.EVENT_READ, self._accept)

    def _shut(self) -> None:
        if self._is_open:
            self._is_open = False
            self._listener.unregister(self._sock)
            self._sock.close()
            self._sock = self._bound(self.port)
        for connection in self._inside:
            connection.close()
        self._inside.clear()

    def close(self) -> None:
        """Shut it for good. From any thread."""
        self._listener.call(self._close)

    def _close(self) -> None:
        self._shut()
        self._is_closed = True
        self._sock.close()

    def _accept(self, events: int) -> None:
        try:
            sock, _ = self._sock.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                # It would be ready again at once, and for as long as there is no descriptor.
                log.warning("kafka: out of file descriptors; clients have to wait")
                self._listener.unregister(self._sock)
                self._listener.call_later(_OUT_OF_FILES_S, self._accept_again)
            return
        self._inside = {connection for connection in self._inside if connection.is_open}
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._inside.add(self._listener.connect(sock, self._serve, self._tls()))
        except OSError:  # gone before we looked
            sock.close()
        except BaseException:
            sock.close()
            raise

    def _accept_again(self) -> None:
        if self._is_open:
            self._listener.register(self._sock, selectors.EVENT_READ, self._accept)
