"""A door: one broker's listening socket. While shut it keeps its port and refuses connections."""

from __future__ import annotations

import errno
import selectors
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from sojourn._log import log
from sojourn.kafka.network.connection import Connection

if TYPE_CHECKING:
    from sojourn.kafka import wire
    from sojourn.kafka.network.listener import Listener
    from sojourn.kafka.security.tls import Tls

_BACKLOG = 128
_OUT_OF_FILES_S = 0.1


class Door:
    """One broker's listening socket, and the connections that it has accepted."""

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
        self._connections: set[Connection] = set()
        self._is_open = False
        self._is_closed = False

    def open(self) -> None:
        """Accept connections. From any thread."""
        self._listener.call(self._open)

    def shut(self) -> None:
        """Accept no more connections, and close all. From any thread."""
        self._listener.call(self._shut)

    @property
    def connections(self) -> int:
        return sum(connection.is_open for connection in list(self._connections))

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
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def close(self) -> None:
        """Shut it, and free its port. From any thread."""
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
                # The socket stays ready until there is a descriptor again: do not spin.
                log.warning("kafka: out of file descriptors; clients have to wait")
                self._listener.unregister(self._sock)
                self._listener.call_later(_OUT_OF_FILES_S, self._accept_again)
            return
        self._connections = {connection for connection in self._connections if connection.is_open}
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.add(self._listener.connect(sock, self._serve, self._tls()))
        except OSError:  # the client has disconnected already
            sock.close()
        except BaseException:
            sock.close()
            raise

    def _accept_again(self) -> None:
        if self._is_open:
            self._listener.register(self._sock, selectors.EVENT_READ, self._accept)
