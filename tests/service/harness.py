"""A service in a thread of this process, with real connections; and one in a process of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

import sojourn
from sojourn.durable import Purgatory
from sojourn.service import Service, Settings
from sojourn.service.server import Server, listen

LONG_S = 60.0  # how long a test waits for what has to come


class Running:
    """A service that runs, and a client of it."""

    def __init__(self, service: Service, server: Server, port: int, http: httpx.Client) -> None:
        self.service = service
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.http = http
        self._loop = asyncio.get_running_loop()

    def call(self, function: Callable[[], Any]) -> Any:
        """Call it on the service's loop; wait for what it returns."""
        done: Any = asyncio.run_coroutine_threadsafe(_call(function), self._loop)
        return done.result(LONG_S)

    # Verbs, for tests that are about something else.

    def submit(self, id: str, key: str = "k", offset: int = 1, timeout_ms: int = 600_000) -> Any:
        row = {"id": id, "requires": [{"key": key, "offset": offset}], "timeout_ms": timeout_ms}
        answer = self.http.post("/v1/operations", json=row)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def signal(self, key: str = "k", offset: int = 1) -> Any:
        answer = self.http.post("/v1/signals", json={"key": key, "offset": offset})
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def end(self, *ids: str) -> None:
        """Submit operations and complete them."""
        rows = [
            {"id": id, "requires": [{"key": f"done/{id}", "offset": 1}], "timeout_ms": 600_000}
            for id in ids
        ]
        self.http.post("/v1/operations", json=rows).raise_for_status()
        signals = [{"key": f"done/{id}", "offset": 1} for id in ids]
        self.http.post("/v1/signals", json=signals).raise_for_status()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), LONG_S)


async def _call(function: Callable[[], Any]) -> Any:
    answer = function()
    return await answer if asyncio.iscoroutine(answer) else answer


@contextmanager
def running(
    data: Path, purgatory: Purgatory | None = None, token: str | None = None, **settings: Any
) -> Iterator[Running]:
    """A service on a free port, until the block ends; its ending is part of the test."""
    started = threading.Event()
    services: list[Running] = []
    errors: list[BaseException] = []
    headers = {} if token is None else {"authorization": f"Bearer {token}"}

    async def main(http: httpx.Client) -> None:
        listener = listen("127.0.0.1", 0)
        try:
            async with Service(Settings(data, **settings), purgatory) as service:
                server = Server(service)
                port = listener.getsockname()[1]
                http.base_url = httpx.URL(f"http://127.0.0.1:{port}")
                services.append(Running(service, server, port, http))
                started.set()
                await server.serve(sockets=[listener])
        finally:
            listener.close()

    def run(http: httpx.Client) -> None:
        try:
            asyncio.run(main(http))
        except BaseException as error:
            errors.append(error)
        finally:
            started.set()

    with httpx.Client(headers=headers, timeout=LONG_S, trust_env=False) as http:
        thread = threading.Thread(target=run, args=(http,), name="service")
        thread.start()
        started.wait(LONG_S)
        try:
            if services:
                yield services[0]
        finally:
            http.close()
            if services and thread.is_alive():
                services[0]._loop.call_soon_threadsafe(services[0].server.stop)
            thread.join(LONG_S)
            assert not thread.is_alive(), "the service does not end"
    if errors:
        raise errors[0]


class Process:
    """`sojourn serve` in a process of its own."""

    def __init__(self, data: Path, *options: str) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SOJOURN_")}
        if not sojourn.compiled:
            environment["SOJOURN_PURE"] = "1"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sojourn", "serve", str(data), "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        self.url = first.partition("listening on ")[2].partition(",")[0]
        self.port = int(self.url.rpartition(":")[2]) if self.url else 0

    def wait(self) -> tuple[int, str, str]:
        """How it ended, and what it said."""
        out, err = self.process.communicate(timeout=LONG_S)
        return self.process.returncode, out, err

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
