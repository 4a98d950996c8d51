"""One connection to one broker: fields in, plain values out.

A request is given by the fields that matter; the others get the protocol's default, or zero,
"" or nothing. An answer comes as dictionaries, lists, numbers and text, records taken apart.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import io
import select
import socket
import uuid
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from tests.kafka.conformance.batches import described

API_KEYS = {name: key for key, name in api_key_map.items()}

#: What is noted of a request that the broker answers by closing the connection.
CLOSED = "closed"
_WAIT_S = 60.0
# A transaction that has not begun begins at -1, which kio does not read; so 1 stands for it.
_NO_TIME, _FIRST_TIME = (ms.to_bytes(8, "big", signed=True) for ms in (-1, 1))


class Exchange:
    """Sends requests and reads answers, in order."""

    def __init__(self, host: str, port: int, client_id: str = "conformance") -> None:
        self.client_id = client_id
        self._address = (host, port)
        self._asked: list[tuple[str, int] | None] = []
        self._socket = socket.create_connection(self._address, timeout=_WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, name: str, version: int, **fields: Any) -> None:
        schema: Any = load_request_schema(API_KEYS[name], version)
        header: Any = schema.__header_schema__
        values = {
            "request_api_key": API_KEYS[name],
            "request_api_version": version,
            "correlation_id": len(self._asked),
            "client_id": self.client_id,
        }
        buffer = io.BytesIO()
        entity_writer(header)(buffer, _build(header, values))
        entity_writer(schema)(buffer, _build(schema, fields))
        self._asked.append((name, version))
        self._send_frame(buffer.getvalue())

    def send_raw(self, frame: bytes) -> None:
        """Send a frame of any kind; its answer comes as hex."""
        number = len(self._asked).to_bytes(4, "big")
        self._asked.append(None)
        self._send_frame(frame[:4] + number + frame[8:])

    def _send_frame(self, frame: bytes) -> None:
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)

    @property
    def has_answer(self) -> bool:
        """Whether something has come, if only the end of the connection."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def receive(self) -> Any:
        """The next answer, or CLOSED; then the connection is made anew."""
        try:
            size = int.from_bytes(self._exactly(4), "big")
            frame = self._exactly(size)
        except ConnectionError:
            self._socket.close()
            self._socket = socket.create_connection(self._address, timeout=_WAIT_S)
            return CLOSED
        asked = self._asked[int.from_bytes(frame[:4], "big")]
        if asked is None:
            return {"frame": frame[4:].hex()}
        schema: Any = load_response_schema(API_KEYS[asked[0]], asked[1])
        if asked[0] == "describe_transactions":
            frame = frame.replace(_NO_TIME, _FIRST_TIME)
        _, start = entity_reader(schema.__header_schema__)(frame, 0)
        response, read = entity_reader(schema)(frame, start)
        assert start + read == size, "bytes after the answer"
        return plain(response)

    def ask(self, name: str, version: int, **fields: Any) -> Any:
        self.send(name, version, **fields)
        return self.receive()

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            some = self._socket.recv(size - len(received))
            if not some:
                raise ConnectionError("closed by the broker")
            received += some
        return received


def plain(value: Any) -> Any:
    """An answer of kio's in dictionaries, lists, numbers and text."""
    if dataclasses.is_dataclass(value):
        found = {}
        for field in dataclasses.fields(value):
            one = getattr(value, field.name)
            if field.name == "records" and isinstance(one, bytes):
                found["records"] = described(one)
            else:
                found[field.name] = plain(one)
        return found
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, enum.IntEnum):
        return int(value)
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, uuid.UUID) else value


def _build(entity: Any, fields: dict[str, Any]) -> Any:
    values = {}
    for field in dataclasses.fields(entity):
        if field.name in fields:
            values[field.name] = _as(field, fields[field.name])
        elif field.default is dataclasses.MISSING:
            values[field.name] = _nothing(field)
    return entity(**values)


def _nothing(field: dataclasses.Field[Any]) -> Any:
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


def _as(field: dataclasses.Field[Any], value: Any) -> Any:
    nested = _nested(field.type)
    if value is None:
        return None
    if nested is not None and isinstance(value, dict):
        return _build(nested, value)
    if nested is not None:
        return tuple(_build(nested, one) for one in value)
    kind = str(field.metadata.get("kafka_type", ""))
    if kind.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kind == "uuid":
        return uuid.UUID(value)
    return tuple(value) if isinstance(value, list) else value


def _nested(annotation: Any) -> Any:
    if dataclasses.is_dataclass(annotation):
        return annotation
    found = (_nested(argument) for argument in getattr(annotation, "__args__", ()))
    return next((one for one in found if one is not None), None)
