"""A client that speaks any version of any API: plain fields in, kio's response out."""

from __future__ import annotations

import dataclasses
import datetime
import io
import socket
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from sojourn.kafka.wire import API_KEYS


class RawClient:
    """One connection to one broker."""

    def __init__(self, host: str, port: int, client_id: str = "raw") -> None:
        self.client_id = client_id
        self._socket = socket.create_connection((host, port), timeout=10)
        self._asked: list[tuple[str, int]] = []

    def send(self, name: str, version: int, **fields: Any) -> None:
        """Send a request, and do not wait for the answer."""
        schema: Any = load_request_schema(API_KEYS[name], version)
        self.send_entity(name, version, build(schema, fields))

    def send_entity(self, name: str, version: int, request: Any) -> None:
        """Send a request that is made already."""
        schema: Any = type(request)
        header: Any = schema.__header_schema__
        values = {
            "request_api_key": API_KEYS[name],
            "request_api_version": version,
            "correlation_id": len(self._asked),
            "client_id": self.client_id,
        }
        buffer = io.BytesIO()
        entity_writer(header)(buffer, build(header, values))
        entity_writer(schema)(buffer, request)
        frame = buffer.getvalue()
        self._asked.append((name, version))
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def receive(self) -> Any:
        """The next answer."""
        size = int.from_bytes(self._exactly(4), "big")
        frame = self._exactly(size)
        name, version = self._asked[int.from_bytes(frame[:4], "big")]
        schema: Any = load_response_schema(API_KEYS[name], version)
        _, start = entity_reader(schema.__header_schema__)(frame, 0)
        response, read = entity_reader(schema)(frame, start)
        assert start + read == size, "bytes after the answer"
        return response

    def ask(self, name: str, version: int, **fields: Any) -> Any:
        """Send a request and return its answer."""
        self.send(name, version, **fields)
        return self.receive()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            some = self._socket.recv(size - len(received))
            if not some:
                raise ConnectionError("closed by the broker")
            received += some
        return received


def build(entity: Any, fields: dict[str, Any]) -> Any:
    """The entity with these fields; those that this version lacks are left out."""
    values = {}
    for field in dataclasses.fields(entity):
        if field.name in fields:
            values[field.name] = _as(field, fields[field.name])
        elif field.default is dataclasses.MISSING:
            raise TypeError(f"{entity.__name__} needs {field.name}")
    return entity(**values)


def _as(field: dataclasses.Field[Any], value: Any) -> Any:
    nested = _nested(field.type)
    if value is None:
        return None
    if nested is not None and isinstance(value, dict):
        return build(nested, value)
    if nested is not None:
        return tuple(build(nested, one) for one in value)
    if str(field.metadata.get("kafka_type", "")).startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    return tuple(value) if isinstance(value, list) else value


def _nested(annotation: Any) -> Any:
    if dataclasses.is_dataclass(annotation):
        return annotation
    found = (_nested(argument) for argument in getattr(annotation, "__args__", ()))
    return next((one for one in found if one is not None), None)
