"""The control port's HTTP server.

For tests in any language, beside the brokers' own ports. It uses Python's own HTTP server, a thread
for each connection: a test has few of them, and nothing has to be installed. Only this machine can
connect unless `host` says otherwise, and requests must name a host that it has (origins.py).
"""

from __future__ import annotations

import contextlib
import http.server
import json
import secrets
import socket
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sojourn._log import log
from sojourn.errors import SojournError
from sojourn.kafka.control.call import ControlError
from sojourn.kafka.control.router import Answer, Router
from sojourn.origins import Origins

if TYPE_CHECKING:
    from sojourn.kafka.cluster import Cluster

_BODY_MAX_BYTES = 64 * 1024 * 1024
_CONNECTIONS_MAX = 100
_IDLE_S = 75.0
_BACKLOG = 32
_OUT_OF_FILES_S = 0.1


class Control:
    """Serves a cluster's control port until it is closed; close it before the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        host_names: Iterable[str] = (),
    ) -> None:
        self.router = Router(cluster)
        self.origins = Origins((host, *host_names))
        self.host = host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._sock = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise SojournError(
                f"cannot listen on {host}, port {port}: {reason}; give another port, or 0 for any"
            ) from error
        self.port: int = self._sock.getsockname()[1]
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._changing = threading.Lock()
        self._thread = threading.Thread(
            target=self._accept, name="sojourn-kafka-control", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is: http://127.0.0.1:…"""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def close(self) -> None:
        """Accept no more calls, end those that wait, and close every connection."""
        with self._changing:
            if self.router.is_closed:
                return
            self.router.is_closed = True
            threads = list(self._connections.values())
            for sock in self._connections:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        # Closing a socket does not wake the thread that accepts from it; a connection does.
        with contextlib.suppress(OSError), socket.create_connection(self._own_address(), timeout=5):
            pass
        self._thread.join()
        self._sock.close()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _own_address(self) -> tuple[str, int]:
        every = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
        return every.get(self.host, self.host), self.port

    def _accept(self) -> None:
        while True:
            try:
                sock, address = self._sock.accept()
            except OSError as error:
                if self.router.is_closed:
                    return
                log.warning("kafka control: a connection could not be accepted: %s", error)
                time.sleep(_OUT_OF_FILES_S)  # the socket stays ready: do not spin
                continue
            thread = threading.Thread(
                target=self._serve, args=(sock, address), name="sojourn-kafka-call", daemon=True
            )
            with self._changing:
                if self.router.is_closed or len(self._connections) >= _CONNECTIONS_MAX:
                    sock.close()
                    if self.router.is_closed:
                        return
                    log.warning("kafka control: more than %d connections", _CONNECTIONS_MAX)
                    continue
                self._connections[sock] = thread
                thread.start()

    def _serve(self, sock: socket.socket, address: Any) -> None:
        try:
            _Calls(sock, address, self)  # type: ignore[arg-type]  # it wants a server for its name
        except OSError as error:
            log.debug("kafka control: a connection broke: %s", error)
        finally:
            with self._changing:
                del self._connections[sock]
            sock.close()

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Control of {self.router.cluster!r} at {self.url}>"


class _Calls(http.server.BaseHTTPRequestHandler):
    """The calls of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    server: Any
    disable_nagle_algorithm = True

    def _call(self) -> None:
        headers = [
            (n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in self.headers.items()
        ]
        objection = self.server.origins.objection(self.command, headers)
        try:
            if objection is not None:
                status, code, message, found, do = objection
                raise ControlError(status, code, message, do, found)
            answer = self.server.router.answer(self.command, self.path, self._body())
        except ControlError as error:
            self.close_connection = True  # its body, if any, was not read
            answer = Answer(error.status, error.body)
        except OSError:
            raise
        except Exception:
            number = secrets.token_hex(8)
            log.exception("kafka control: error %s in %s %s", number, self.command, self.path)
            message = f"a bug; the log has the details under {number}"
            answer = Answer(500, ControlError(500, "internal", message, "report it").body)
        self._send(answer)

    do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = do_HEAD = do_OPTIONS = _call

    def _body(self) -> bytes:
        if "transfer-encoding" in self.headers:
            raise ControlError(411, "no_length", "the body must come with Content-Length")
        text = self.headers.get("content-length", "0")
        if not text.isdigit():
            raise ControlError(400, "bad_length", f"Content-Length must be a number, got {text!r}")
        if int(text) > _BODY_MAX_BYTES:
            raise ControlError(
                413, "too_large", f"a body of {text} bytes; at most {_BODY_MAX_BYTES} are allowed"
            )
        body = self.rfile.read(int(text))
        if len(body) < int(text):
            raise ConnectionError("the body was cut off")
        return body

    def _send(self, answer: Answer) -> None:
        body = json.dumps(answer.body, ensure_ascii=False).encode() + b"\n"
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Errors that Python's server finds by itself, in bad requests, in our form."""
        self.close_connection = True
        self.command = getattr(self, "command", None) or "GET"
        refusal = ControlError(code, "bad_request", message or explain or "not an HTTP request")
        self._send(Answer(code, refusal.body))

    def version_string(self) -> str:
        return "sojourn"

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("kafka control: " + format, *args)
