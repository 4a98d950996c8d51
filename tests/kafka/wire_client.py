"""One connection to one broker: sends requests exactly as told, and reads what comes back.

Real clients hide timing and errors behind retries. This one speaks any version of any API, through
kio, which the cluster's own wire also reads with; the tests with real clients check both.

    client.ask("list_groups", 0)                                  a request by its fields
    client.ask(client.produce("t", acks=1))                       or one that is built already
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import select
import socket
import uuid
from typing import TYPE_CHECKING, Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from sojourn.kafka.wire import API_KEYS
from tests.kafka import requests
from tests.kafka.batches import batch

if TYPE_CHECKING:
    from sojourn.kafka import Cluster

WAIT_S = 10.0


class WireClient:
    """One connection; answers are read in any order of correlation ids."""

    def __init__(
        self, host: str, port: int, client_id: str = "test", timeout_s: float = WAIT_S
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
        self.sock.sendall(self.frame(request))

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
    found = (_nested(argument) for argument in getattr(annotation, "__args__", ()))
    return next((one for one in found if one is not None), None)
