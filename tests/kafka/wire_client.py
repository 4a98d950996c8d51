"""One connection to one broker: sends requests exactly as told, and reads what comes back.

Real clients hide timing and errors behind retries. This one speaks any version of any API, through
kio, which the cluster's own wire also reads with; the tests with real clients check both.

    client.ask("list_groups", 0)                                  a request by its fields
    client.ask(client.produce("t", acks=1))                       or one that is built already

`WireClient` connects to the broker's port. `DirectClient` sends the same frames without a socket:
the broker handles a request before `send` returns. With a clock moved by hand nothing is left to
chance then, and nothing to wait for.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import select
import socket
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from sojourn.kafka.wire import API_KEYS, read_request
from tests.kafka import requests
from tests.kafka.batches import batch
from tests.until import PATIENCE_S

if TYPE_CHECKING:
    from sojourn.kafka import Cluster
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.network.connection import Connection


class WireClient:
    """One connection; answers are read in any order of correlation ids."""

    def __init__(
        self, host: str, port: int, client_id: str = "test", timeout_s: float = PATIENCE_S
    ) -> None:
        self.client_id = client_id
        self.sock = self._connect((host, port), timeout_s)
        self._asked: list[tuple[int, int]] = []  # API key and version, by correlation id

    def _connect(self, address: tuple[str, int], timeout_s: float) -> socket.socket:
        return socket.create_connection(address, timeout=timeout_s)

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def send(self, request: Any, version: int = 0, **fields: Any) -> None:
        """Send a request, by its name, version and fields or built already; do not wait."""
        if isinstance(request, str):
            request = build_request(request, version, **fields)
        self.send_frame(self.frame(request))

    def send_frame(self, frame: bytes) -> None:
        """Send these bytes."""
        self.sock.sendall(frame)

    def frame(self, request: Any) -> bytes:
        """The request as it is sent."""
        header: Any = request.__header_schema__
        key, version = request.__api_key__, request.__version__
        values = {
            "request_api_key": key,
            "request_api_version": version,
            "correlation_id": len(self._asked),
            "client_id": self.client_id,
        }
        self._asked.append((key, version))
        buffer = io.BytesIO()
        entity_writer(header)(buffer, build(header, values))
        entity_writer(type(request))(buffer, request)
        return framed(buffer.getvalue())

    def receive(self) -> Any:
        """The next answer."""
        frame = self.receive_frame()
        key, version = self._asked[int.from_bytes(frame[:4], "big")]
        return decode_response(key, version, frame)

    def receive_frame(self) -> bytes:
        """The next answer's bytes, without their length."""
        return self.read(int.from_bytes(self.read(4), "big"))

    def ask(self, request: Any, version: int = 0, **fields: Any) -> Any:
        """Send a request and return its answer."""
        self.send(request, version, **fields)
        return self.receive()

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            some = self.sock.recv(size - len(data))
            if not some:
                raise ConnectionError("the broker has closed the connection")
            data += some
        return data

    @property
    def is_closed(self) -> bool:
        """Whether the broker closes the connection, without another word."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    def has_answer(self, wait_s: float = 0.0) -> bool:
        """Whether something comes in this time, if only the end of the connection."""
        return bool(select.select([self.sock], [], [], wait_s)[0])

    # The requests that tests make most.

    def produce(
        self, topic: str, *partitions: int, records: bytes | None = None, **options: Any
    ) -> Any:
        data = batch(b"value") if records is None else records
        fields = requests.produce(topic, data, *partitions, **options)
        return build_request("produce", 9, **fields)

    def fetch(self, topic: str, offsets: dict[int, int], **options: Any) -> Any:
        fields = requests.fetch(topic, offsets, **({"max_wait_ms": 3_000} | options))
        return build_request("fetch", 12, **fields)

    def delete_records(self, topic: str, offset: int, timeout_ms: int = 30_000) -> Any:
        fields = requests.delete_records(topic, offset, timeout_ms)
        return build_request("delete_records", 2, **fields)

    def create_topics(self, *names: str, version: int = 7, **options: Any) -> Any:
        return build_request("create_topics", version, **requests.create_topics(*names, **options))

    def create_partitions(self, topic: str, count: int, timeout_ms: int = 30_000) -> Any:
        topics = [{"name": topic, "count": count, "assignments": None}]
        return build_request("create_partitions", 3, topics=topics, timeout=timeout_ms)


def connect(cluster: Cluster, broker_id: int = 1) -> WireClient:
    """A client of this broker."""
    broker = cluster.broker(broker_id)
    return WireClient(broker.host, broker.port)


class DirectClient(WireClient):
    """A client without a socket: a request is handled in this thread, before `send` returns."""

    def __init__(self, broker: Broker, client_id: str = "test") -> None:
        self.client_id = client_id
        self._asked = []
        self._broker = broker
        self._connection = _DirectConnection()

    def send_frame(self, frame: bytes) -> None:
        if not self._connection.is_open:
            raise ConnectionError("the broker has closed the connection")
        self._broker.serve(cast("Connection", self._connection), read_request(frame))

    def receive_frame(self) -> bytes:
        assert self.has_answer(), "not answered"
        return self._connection.frames.popleft()[4:]

    @property
    def is_closed(self) -> bool:
        return not self._connection.is_open

    def has_answer(self, wait_s: float = 0.0) -> bool:
        """Whether an answer has come that was not received yet."""
        return bool(self._connection.frames)

    def close(self) -> None:
        """Disconnect; a request that waits is cancelled."""
        self._connection.close()


class _DirectConnection:
    """A connection as the broker sees it."""

    host = local_host = "127.0.0.1"
    number = 1
    authentication = None

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.is_open = True
        self._on_hang_up: Callable[[], object] | None = None

    def send(self, frame: Sequence[bytes] | None, is_last: bool = False) -> None:
        self._on_hang_up = None
        if frame is not None and self.is_open:
            self.frames.append(b"".join(frame))
        if is_last:
            self.close()

    def on_hang_up(self, step: Callable[[], object]) -> None:
        self._on_hang_up = step

    def close(self) -> None:
        self.is_open = False
        step, self._on_hang_up = self._on_hang_up, None
        if step is not None:
            step()

    close_soon = close


def direct(cluster: Cluster, broker_id: int = 1) -> DirectClient:
    """A client of this broker, without a socket."""
    return DirectClient(cluster.broker(broker_id))


def only(response: Any) -> Any:
    """The one partition's, or topic's, result in a response."""
    for name in ("responses", "topics", "results"):
        if hasattr(response, name):
            (row,) = getattr(response, name)
            for nested in ("partition_responses", "partitions"):
                if hasattr(row, nested):
                    (result,) = getattr(row, nested)
                    return result
            return row
    raise AssertionError(f"no results in {response}")


# From plain fields to kio's classes, and back.


def framed(body: bytes) -> bytes:
    """The bytes with their length in front."""
    return len(body).to_bytes(4, "big") + body


def build_request(name: str, version: int, **fields: Any) -> Any:
    """A request of this name and version."""
    return build(load_request_schema(API_KEYS[name], version), fields)


def decode_response(key: int, version: int, frame: bytes) -> Any:
    """The answer in this frame, which must have nothing behind it."""
    schema: Any = load_response_schema(key, version)
    _, start = entity_reader(schema.__header_schema__)(frame, 0)
    response, size = entity_reader(schema)(frame, start)
    assert start + size == len(frame), "bytes after the answer"
    return response


def build(entity: Any, fields: dict[str, Any]) -> Any:
    """The entity with these fields.

    Fields that this version lacks are left out; those that are not given get the protocol's
    default, or zero, "" or nothing. Durations are milliseconds.
    """
    values = {}
    for field in dataclasses.fields(entity):
        if field.name in fields:
            values[field.name] = _convert(field, fields[field.name])
        elif field.default is dataclasses.MISSING:
            values[field.name] = _blank(field)
    return entity(**values)


def _blank(field: dataclasses.Field[Any]) -> Any:
    kind = str(field.metadata.get("kafka_type", ""))
    if type(None) in getattr(field.type, "__args__", ()):
        return None
    if kind.startswith("timedelta"):
        return datetime.timedelta()
    if kind == "string":
        return ""
    if kind == "bool":
        return False
    return 0 if kind.startswith(("int", "uint")) else ()


def _convert(field: dataclasses.Field[Any], value: Any) -> Any:
    nested = _nested(field.type)
    if value is None:
        return None
    if nested is not None and isinstance(value, dict):
        return build(nested, value)
    if nested is not None:
        return tuple(build(nested, one) for one in value)
    kind = str(field.metadata.get("kafka_type", ""))
    if kind.startswith("timedelta") and not isinstance(value, datetime.timedelta):
        return datetime.timedelta(milliseconds=value)
    if kind == "uuid" and not isinstance(value, uuid.UUID):
        return uuid.UUID(value)
    return tuple(value) if isinstance(value, list) else value


def _nested(annotation: Any) -> Any:
    if dataclasses.is_dataclass(annotation):
        return annotation
    nested = (_nested(argument) for argument in getattr(annotation, "__args__", ()))
    return next((one for one in nested if one is not None), None)
