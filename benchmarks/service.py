"""The service under load: `python -m benchmarks.service [--folder FOLDER] [--seconds 5]`.

`sojourn serve` in a process of its own, and this one sends to it over loopback, by raw HTTP/1.1 on
asyncio, so that the load costs less than the service. Beside it, in the same run and on the same
disk, Redis, beanstalkd and PostgreSQL where they are installed (durable_servers.py). They are
asked for less: an id and a deadline, nothing to wait for.

    batches    8 connections, 100 operations a request
    singles    64 connections, an operation a request
    signal     from sending a signal to the answer of the long poll that waits for it
    idle       the service's processor time while 100,000 operations wait and nobody asks; the
               memory and the bytes on disk that an operation takes while it waits and when it has
               ended; how long a backup takes

A connection sends its next request when the last one is answered, and every answer is looked at.
What a sync costs is measured before and after.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from benchmarks import durable_servers
from sojourn import compiled

BATCH = 100
BATCH_CONNECTIONS = 8
SINGLE_CONNECTIONS = 64
POLLS = 400
WAITING = 100_000
PARTS = ("batches", "singles", "signal", "idle")
_HOUR_MS = 3_600_000
_AHEAD_A_SECOND = {1: 12_000, BATCH: 1_500}  # requests made before the clock runs


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.service",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, help="where the data is; a disk, not /dev/shm")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each part; default 5")
    parser.add_argument("--only", choices=PARTS, action="append", help="default all")
    parser.add_argument("--alone", action="store_true", help="nothing beside it")
    options = parser.parse_args()
    parts = options.only or list(PARTS)
    parser_in_use = "httptools" if find_spec("httptools") else "h11, for httptools is not installed"
    build = "compiled" if compiled else "interpreted"
    print(f"{build}, {os.cpu_count()} processors, HTTP parsed by {parser_in_use}")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="sojourn-service-") as folder:
        sync_cost(Path(folder) / "sync")
        with served(Path(folder) / "waits") as service:
            for part in parts:
                if part == "signal":
                    asyncio.run(signals(service, POLLS))
                elif part != "idle":
                    measure(part, service, options.seconds)
        if "idle" in parts:
            with served(Path(folder) / "idle") as service:
                idle(service, options.seconds, Path(folder))
        for server_of in [] if options.alone else durable_servers.available():
            own = Path(folder) / server_of.__name__
            own.mkdir()
            with server_of(own) as server:  # type: ignore[attr-defined]
                for part in ("batches", "singles"):
                    if part in parts:
                        measure_beside(part, server, options.seconds)
        sync_cost(Path(folder) / "sync")


class Target(NamedTuple):
    """A server under test."""

    port: int
    pid: int

    def processor_s(self) -> float:
        """How much processor time it has taken, all its threads together."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """How much memory it has."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


# The service.


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Target]:
    """`sojourn serve` on a free port."""
    command = [sys.executable, "-m", "sojourn", "serve", str(folder), "--port", "0"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if found := re.search(r"http://[\d.]+:(\d+)", line):
                    break
            else:
                raise RuntimeError("the service ended before it listened")
            yield Target(int(found[1]), process.pid)
        finally:
            process.terminate()
            process.wait(30)


# Requests.


def post(path: str, body: bytes) -> bytes:
    return (
        b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (path.encode(), len(body), body)
    )


def get(path: str) -> bytes:
    return b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" % path.encode()


def operation(id: str, n: int) -> bytes:
    """An order that has to be paid, and in stock."""
    return (
        b'{"id":"%b","requires":[{"key":"paid-%b","offset":1},{"key":"stock-%d","offset":%d}],'
        b'"timeout_ms":%d}' % (id.encode(), id.encode(), n % 1000, n, _HOUR_MS)
    )


def submissions(name: str, rows: int) -> Iterator[bytes]:
    """Requests to submit, so many rows each."""
    n = 0
    while True:
        some = [operation(f"{name}-{m}", m) for m in range(n, n + rows)]
        yield post("/v1/operations", b"[" + b",".join(some) + b"]" if rows > 1 else some[0])
        n += rows


# Sending.


class Connection(asyncio.Protocol):
    """Sends a request, waits for the whole answer, looks at it, sends the next."""

    def __init__(self, requests: Iterator[bytes], answered: Callable[[bytes], bool]) -> None:
        self.requests = requests
        self.answered = answered  # whether the answer is whole; raises if it is wrong
        self.took_ms: list[float] = []
        self.until_s = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def start(self, until_s: float) -> None:
        self.until_s = until_s
        self._send()

    def _send(self) -> None:
        self._buffer = b""
        self._started_s = time.perf_counter()
        request = next(self.requests, None)
        if request is None or self._started_s >= self.until_s:
            self.done.set_result(None)
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        try:
            whole = self.answered(self._buffer)
        except Exception as error:
            self.done.set_exception(error)
            return
        if whole:
            self.took_ms.append((time.perf_counter() - self._started_s) * 1000)
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))

    def close(self) -> None:
        self._transport.close()


def http_answer(rows: int) -> Callable[[bytes], bool]:
    def answered(buffer: bytes) -> bool:
        head, end, body = buffer.partition(b"\r\n\r\n")
        if not end:
            return False
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return False
        if body.count(b'"verdict":"accepted"') != rows:
            raise AssertionError(buffer[:500].decode(errors="replace"))
        return True

    return answered


async def load(
    port: int,
    streams: list[Iterator[bytes]],
    answered: Callable[[bytes], bool],
    seconds: float,
) -> tuple[float, list[float]]:
    """A connection for each stream; how long it took, and each request."""
    loop = asyncio.get_running_loop()
    connections = []
    for requests in streams:
        make = partial(Connection, requests, answered)
        _, connection = await loop.create_connection(make, "127.0.0.1", port)
        connections.append(connection)
    started_s = time.perf_counter()
    for connection in connections:
        connection.start(started_s + seconds)
    await asyncio.gather(*(connection.done for connection in connections))
    took_s = time.perf_counter() - started_s
    for connection in connections:
        connection.close()
    return took_s, [ms for connection in connections for ms in connection.took_ms]


def ahead(source: Iterator[bytes], rows: int, connections: int, seconds: float) -> Iterator[bytes]:
    """The same, made before the clock runs."""
    most = int(_AHEAD_A_SECOND[rows] * seconds / connections)
    return iter(list(islice(source, most)))


# The parts.


def shape(part: str) -> tuple[int, int]:
    """Rows in a request, and connections."""
    return (BATCH, BATCH_CONNECTIONS) if part == "batches" else (1, SINGLE_CONNECTIONS)


def measure(part: str, service: Target, seconds: float) -> None:
    rows, connections = shape(part)
    streams = [
        ahead(submissions(f"{part}-{n}", rows), rows, connections, seconds)
        for n in range(connections)
    ]
    run_load(service, streams, http_answer(rows), rows, seconds)


def measure_beside(part: str, server: durable_servers.Server, seconds: float) -> None:
    rows, connections = shape(part)
    count, took_s, took_ms = durable_servers.run(server, connections, rows, seconds)
    print(
        f"{server.name}, {connections} connections, {rows} a request: {count / took_s:,.0f} "
        f"operations/s; a request p50 {at(took_ms, 50):.1f} ms, p99 {at(took_ms, 99):.1f} ms"
    )


def run_load(
    service: Target,
    streams: list[Iterator[bytes]],
    answered: Callable[[bytes], bool],
    rows: int,
    seconds: float,
) -> None:
    before_s, ours_s = service.processor_s(), time.process_time()
    took_s, took_ms = asyncio.run(load(service.port, streams, answered, seconds))
    processor_s = service.processor_s() - before_s
    ours_s = time.process_time() - ours_s
    count = len(took_ms) * rows
    print(
        f"sojourn serve, {len(streams)} connections, {rows} a request: {count / took_s:,.0f} "
        f"operations/s; a request p50 {at(took_ms, 50):.1f} ms, p99 {at(took_ms, 99):.1f} ms; "
        f"{processor_s / count * 1e6:.1f} µs of processor each, {processor_s / took_s:.0%} of one "
        f"(the load: {ours_s / took_s:.0%})"
    )


async def signals(service: Target, polls: int) -> None:
    """One at a time: an operation, a long poll for it, and the signal that completes it."""
    took_ms = []
    poll_in, poll_out = await asyncio.open_connection("127.0.0.1", service.port)
    send_in, send_out = await asyncio.open_connection("127.0.0.1", service.port)

    async def answer(reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        return await reader.readexactly(length)

    for n in range(polls):
        send_out.write(post("/v1/operations", operation(f"poll-{n}", 0)))
        assert b'"accepted"' in await answer(send_in)
        send_out.write(post("/v1/signals", b'{"key":"stock-0","offset":%d}' % n))
        await answer(send_in)
        poll_out.write(get(f"/v1/operations/poll-{n}?wait_ms=10000"))
        await asyncio.sleep(0.01)  # it is there now
        started_s = time.perf_counter()
        send_out.write(post("/v1/signals", b'{"key":"paid-poll-%d","offset":1}' % n))
        assert b'"completed"' in await answer(poll_in)
        took_ms.append((time.perf_counter() - started_s) * 1000)
        assert b'"accepted"' in await answer(send_in)
    for writer in (poll_out, send_out):
        writer.close()
    print(
        f"signal sent → long poll answered: p50 {at(took_ms, 50):.1f} ms, "
        f"p99 {at(took_ms, 99):.1f} ms, {polls} one after the other"
    )


def idle(service: Target, seconds: float, folder: Path) -> None:
    before_bytes = service.resident_bytes()
    requests = iter(list(islice(submissions("idle", BATCH), WAITING // BATCH)))
    asyncio.run(load(service.port, [requests], http_answer(BATCH), 600))
    time.sleep(1)  # what it writes after that is written
    before_s = service.processor_s()
    time.sleep(seconds)
    share = (service.processor_s() - before_s) / seconds
    print(f"idle, {WAITING:,} waiting: {share:.2%} of one processor")
    memory = (service.resident_bytes() - before_bytes) / WAITING
    waiting, _ = backed_up(folder / "idle", folder / "waiting")
    asyncio.run(load(service.port, [iter(completions("idle"))], http_answer(BATCH), 600))
    ended, took_s = backed_up(folder / "idle", folder / "ended")
    print(
        f"an operation with two requirements and no payload: {memory:.0f} bytes of memory and "
        f"{waiting / WAITING:.0f} on disk while it waits, {ended / WAITING:.0f} on disk when it "
        f"has ended; a backup of {ended / 1e6:.0f} MB in {took_s:.1f} s"
    )


def completions(name: str) -> Iterator[bytes]:
    """Signals for all operations of that name."""
    keys = [f"paid-{name}-{n}" for n in range(WAITING)] + [f"stock-{n}" for n in range(1000)]
    for at in range(0, len(keys), BATCH):
        rows = [b'{"key":"%b","offset":%d}' % (key.encode(), WAITING) for key in keys[at:][:BATCH]]
        yield post("/v1/signals", b"[" + b",".join(rows) + b"]")


def backed_up(data: Path, target: Path) -> tuple[int, float]:
    """The bytes of a compact backup, and how long it took."""
    started_s = time.perf_counter()
    command = [sys.executable, "-m", "sojourn", "backup", str(data), str(target), "--compact"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (target / "waits.db").stat().st_size, time.perf_counter() - started_s


def sync_cost(path: Path, rounds: int = 100) -> None:
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    took_ms = []
    for _ in range(rounds):
        os.write(file, bytes(4096))
        started = time.perf_counter()
        os.fdatasync(file)
        took_ms.append((time.perf_counter() - started) * 1000)
    os.close(file)
    print(f"a sync of 4 kB: p50 {at(took_ms, 50):.2f} ms, p99 {at(took_ms, 99):.2f} ms")


def at(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


if __name__ == "__main__":
    main()
