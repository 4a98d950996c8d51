"""Services for the client's tests: in a thread of this process, or in a process to kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import sojourn
from sojourn.client import AsyncClient
from sojourn.service.server import Server
from sojourn.service.service import Service
from sojourn.service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sojourn.durable import Operation, Purgatory

WAIT_S = 60.0


class ServiceThread:
    """A service on a free port, served by an event loop in a thread."""

    def __init__(
        self, folder: Path, purgatory: Purgatory | None = None, port: int = 0, **settings: Any
    ) -> None:
        self._settings = Settings(folder, port=port, **settings)
        self._purgatory = purgatory
        self._listener = socket.create_server(("127.0.0.1", port))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(WAIT_S)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with Service(self._settings, self._purgatory) as service:
                self._server = Server(service)
                self._ready.set()
                await self._server.serve(sockets=[self._listener])
        finally:
            self._listener.close()
            self._ready.set()

    def close(self) -> None:
        """Stop, as SIGTERM would."""
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


class ServiceProcess:
    """`sojourn serve` on one port, killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = _own_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [
            *(sys.executable, "-m", "sojourn", "serve", str(folder), "--port", str(self.port)),
            *options,
        ]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if not sojourn.compiled:
            environment["SOJOURN_PURE"] = "1"
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if self.url in line:
                return
        raise AssertionError("the service ended before it listened")

    def kill(self) -> None:
        """kill -9."""
        self._end(lambda process: process.kill())

    def stop(self) -> int:
        """SIGTERM; return the exit status."""
        return self._end(lambda process: process.terminate())

    def _end(self, how: Callable[[subprocess.Popen[str]], None]) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        how(process)
        status = process.wait(WAIT_S)
        assert process.stdout is not None
        process.stdout.close()
        return status


def _own_port() -> int:
    """A free port that stays free while the service is down.

    It is below those that the system gives to whoever asks for any, as every client does.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Blocking:
    """An AsyncClient with the verbs of a Client: each call runs the loop until it is answered."""

    def __init__(self, make: Callable[[], AsyncClient]) -> None:
        self._runner = asyncio.Runner()

        async def made() -> AsyncClient:
            return make()

        self._client = self._runner.run(made())

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **named: Any) -> Any:
            async def awaited() -> Any:
                return await method(*args, **named)

            return self._runner.run(awaited())

        return call

    def follow(self, after: int = 0) -> Iterator[Operation]:
        outcomes = self._client.follow(after)

        async def following() -> Operation:
            return await anext(outcomes)

        while True:
            yield self._runner.run(following())

    def subscription(self, name: str) -> BlockingSubscription:
        return BlockingSubscription(self._runner, self._client.subscription(name))

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


class BlockingSubscription:
    """The same for an AsyncSubscription."""

    def __init__(self, runner: asyncio.Runner, subscription: Any) -> None:
        self._runner = runner
        self._subscription = subscription

    @property
    def position(self) -> int:
        position: int = self._runner.run(self._subscription.position())
        return position

    @property
    def behind(self) -> int:
        behind: int = self._runner.run(self._subscription.behind())
        return behind

    def read(self, limit: int = 1000, wait_ms: int = 0) -> list[Operation]:
        outcomes: list[Operation] = self._runner.run(self._subscription.read(limit, wait_ms))
        return outcomes

    def commit(self, number: int | None = None) -> None:
        self._runner.run(self._subscription.commit(number))
