"""The server: uvicorn around the application, from start to a clean end.

SIGTERM or SIGINT     no new connections; long polls and streams are answered at once
then                  requests under way are answered, the file is closed, exit status 0
SIGINT again          does not wait for requests under way
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Any

import uvicorn

from sojourn.errors import OutOfRange, SojournError
from sojourn.service.app import create_app
from sojourn.service.parsers import protocol_for
from sojourn.service.service import Service
from sojourn.service.settings import Settings

log = logging.getLogger("sojourn.service")

_KEEP_ALIVE_S = 75
_GRACE_S = 30  # for requests under way at the end


class Server(uvicorn.Server):
    """uvicorn's, with our ending."""

    def __init__(self, service: Service) -> None:
        settings = service.settings
        super().__init__(
            uvicorn.Config(
                create_app(service),
                http=protocol_for(settings.limits),
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_GRACE_S,
                h11_max_incomplete_event_size=settings.limits.header_bytes,
            )
        )
        self._service = service
        self._stopping = asyncio.Event()
        service.connections = lambda: len(self.server_state.connections)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals end the service, and the process then ends by itself."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        try:
            for each in signals:
                loop.add_signal_handler(each, self.stop, each)
        except (RuntimeError, ValueError, NotImplementedError):  # not the main thread
            yield
            return
        try:
            yield
        finally:
            for each in signals:
                loop.remove_signal_handler(each)

    async def main_loop(self) -> None:
        """Wait for the end. uvicorn looks ten times a second; the Date header needs one."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._stopping.wait()

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Begin to end. The loop's thread."""
        if self.should_exit and number == signal.SIGINT:
            self.force_exit = True
        if not self.should_exit:
            log.info("stopping: %s", signal.Signals(number).name)
        self._service.begin_closing()
        self.should_exit = True
        self._stopping.set()


def serve(settings: Settings, started: Callable[[str, Service], Any] | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C. `started` is told the address once it listens."""
    check_address(settings)
    asyncio.run(_serve(settings, started))


async def _serve(settings: Settings, started: Callable[[str, Service], Any] | None) -> None:
    listener = listen(settings.host, settings.port)
    try:
        async with Service(settings) as service:
            server = Server(service)
            if started is not None:
                started(_address(listener), service)
            await server.serve(sockets=[listener])
    finally:
        listener.close()


def check_address(settings: Settings) -> None:
    """Refuse to be reached by others without tokens."""
    if not is_loopback(settings.host) and not settings.tokens:
        raise OutOfRange(
            f"{settings.host} can be reached by others, so a token file is needed: "
            "give --token-file, or listen on 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect there."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(1024)
        listener.setblocking(False)
    except (OSError, OverflowError) as error:
        listener.close()
        raise SojournError(
            f"cannot listen on {host}, port {port}: {error}; give another --port, or 0 for any"
        ) from error
    return listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
