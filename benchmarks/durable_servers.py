"""Other people's servers, each told to sync before it answers: Redis, beanstalkd, PostgreSQL.

Each keeps a submission as its users would: a member of a sorted set, a delayed job, a row. They
are started on loopback in a folder of ours, and ended. Connections are served by one thread with
prepared bytes, which is the cheapest client that Python has.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CONTENT = b"x" * 60  # what has to be kept beside id and deadline


@dataclass
class Server:
    """How to talk to it."""

    name: str
    connect: Callable[[], socket.socket]
    request: Callable[[int, int, int], bytes]  # of connection, number and size
    answers: Callable[[bytes], int]  # how many stand in what was read


@dataclass
class Connection:
    """One submitter: sends a request, waits for all its answers, sends the next."""

    socket: socket.socket
    number: int
    sent: int = 0
    left: int = 0
    rest: bytes = b""
    began_s: float = 0.0
    took_ms: list[float] = field(default_factory=list)


def run(
    server: Server, connections: int, size: int, seconds: float
) -> tuple[int, float, list[float]]:
    """Let so many submitters send requests of so many submissions; return how it went."""
    selector = selectors.DefaultSelector()
    everyone = []
    for number in range(connections):
        connection = Connection(server.connect(), number)
        connection.socket.setblocking(False)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        everyone.append(connection)
    began_s = time.perf_counter()
    until_s = began_s + seconds
    for connection in everyone:
        _send(server, connection, size)
    busy = connections
    while busy:
        for key, _ in selector.select(10):
            connection = key.data
            try:
                data = connection.rest + connection.socket.recv(1 << 20)
            except BlockingIOError:
                continue
            if data == connection.rest:
                raise SystemExit(f"{server.name} closed the connection")
            end = data.rfind(b"\n") + 1 if server.name != "PostgreSQL" else len(data)
            connection.left -= server.answers(data[:end])
            connection.rest = data[end:]
            if connection.left > 0:
                continue
            connection.took_ms.append((time.perf_counter() - connection.began_s) * 1000)
            if time.perf_counter() < until_s:
                _send(server, connection, size)
            else:
                busy -= 1
    took_s = time.perf_counter() - began_s
    for connection in everyone:
        connection.socket.close()
    selector.close()
    count = sum(connection.sent for connection in everyone) * size
    return count, took_s, [ms for connection in everyone for ms in connection.took_ms]


def _send(server: Server, connection: Connection, size: int) -> None:
    request = server.request(connection.number, connection.sent, size)
    connection.sent += 1
    connection.left = 1 if server.name == "PostgreSQL" else size
    connection.began_s = time.perf_counter()
    connection.socket.setblocking(True)
    connection.socket.sendall(request)
    connection.socket.setblocking(False)


@contextmanager
def redis(folder: Path) -> Iterator[Server]:
    port = _free_port()
    arguments = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    arguments += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]

    def request(connection: int, number: int, size: int) -> bytes:
        parts = []
        for n in range(size):
            member = b"order-%d-%d-%d-%d %s" % (size, connection, number, n, CONTENT)
            parts.append(
                b"*4\r\n$4\r\nZADD\r\n$5\r\nwaits\r\n$13\r\n1700000000000\r\n$%d\r\n%s\r\n"
                % (len(member), member)
            )
        return b"".join(parts)

    with _running(arguments):
        connect = _over_tcp(port)
        yield Server("Redis, appendfsync always", connect, request, lambda data: data.count(b":"))


@contextmanager
def beanstalkd(folder: Path) -> Iterator[Server]:
    port = _free_port()
    arguments = ["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", str(folder), "-f0"]

    def request(connection: int, number: int, size: int) -> bytes:
        parts = []
        for n in range(size):
            job = b"order-%d-%d-%d %s" % (connection, number, n, CONTENT)
            parts.append(b"put 0 3600 60 %d\r\n%s\r\n" % (len(job), job))
        return b"".join(parts)

    with _running(arguments):
        connect = _over_tcp(port)
        yield Server("beanstalkd -f0", connect, request, lambda data: data.count(b"INSERTED"))


@contextmanager
def postgres(folder: Path) -> Iterator[Server]:
    """Speaks as much of its protocol as this needs: no password, simple queries."""
    programs = _postgres_programs()
    assert programs is not None
    user = "postgres" if os.getuid() == 0 else None  # it does not run as root
    if user:
        for part in (folder, *folder.parents[:2]):
            part.chmod(0o755)
        shutil.chown(folder, user)
    data = folder / "data"
    initdb = [str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "bench", "--no-sync"]
    subprocess.run(initdb, check=True, user=user, stdout=subprocess.DEVNULL)
    port = _free_port()
    arguments = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-k", ""]
    arguments += ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=on"]
    over_tcp = _over_tcp(port)

    def connect() -> socket.socket:
        while True:
            connection = over_tcp()
            fields = b"user\0bench\0database\0postgres\0\0"
            connection.sendall(struct.pack(">ii", 8 + len(fields), 196608) + fields)
            if _until_ready(connection):
                return connection
            connection.close()  # it is starting up
            time.sleep(0.05)

    def request(connection: int, number: int, size: int) -> bytes:
        rows = ",".join(
            f"('order-{size}-{connection}-{number}-{n}',1700000000000,'{CONTENT.decode()}')"
            for n in range(size)
        )
        return _query(f"INSERT INTO waits VALUES {rows}")

    with _running(arguments, user):
        with connect() as first:
            table = "CREATE TABLE waits (id text PRIMARY KEY, deadline bigint, content bytea)"
            first.sendall(_query(table))
            _until_ready(first)
        yield Server("PostgreSQL", connect, request, _postgres_answers)


def _postgres_answers(data: bytes) -> int:
    if b"SERROR" in data:
        raise SystemExit(f"PostgreSQL: {data!r}")
    return data.count(b"Z\0\0\0\x05I")


def _query(text: str) -> bytes:
    query = text.encode() + b"\0"
    return b"Q" + struct.pack(">i", 4 + len(query)) + query


def _until_ready(connection: socket.socket) -> bool:
    data = b""
    while not data.endswith(b"Z\0\0\0\x05I"):
        more = connection.recv(65_536)
        if not more or data[:1] == b"E":
            return False
        data += more
    return True


def available() -> list[Callable[[Path], object]]:
    """Those whose programs are installed."""
    servers: list[Callable[[Path], object]] = []
    if shutil.which("redis-server"):
        servers.append(redis)
    if shutil.which("beanstalkd"):
        servers.append(beanstalkd)
    if _postgres_programs():
        servers.append(postgres)
    return servers


def _postgres_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
    return found[-1].parent if found else None


def _version(path: Path) -> int:
    digits = re.search(r"/(\d+)/bin", str(path))
    return int(digits[1]) if digits else 0


@contextmanager
def _running(arguments: list[str], user: str | None = None) -> Iterator[None]:
    process = subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _over_tcp(port: int) -> Callable[[], socket.socket]:
    def connect() -> socket.socket:
        for _ in range(1_000):
            try:
                connection = socket.create_connection(("127.0.0.1", port))
            except ConnectionRefusedError:
                time.sleep(0.01)
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        raise SystemExit(f"nobody listens at {port}")

    return connect


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
