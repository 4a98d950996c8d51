"""The wire: from frames to requests and from answers to frames. Only this file uses kio.

A request frame, after its four bytes of length:

    api key (2) | api version (2) | correlation id (4) | client id | tags | the request itself

kio has one class for each version of each message. Handlers get the request as kio read it, and
answer with fields by name, nested as dictionaries and lists:

    reply({"topics": [{"name": "t", "error_code": ErrorCode.none}]})

`Api.encode` builds the version's own class from them: fields that this version lacks are left out,
those not given take the protocol's default (or null, zero, no error). Durations are
milliseconds. A name that no version has is a bug; tests set `check_names` to find those, since it
has to load every version's classes.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import DecodeError

from sojourn.errors import SojournError

#: An answer: fields by name.
Fields = Mapping[str, Any]

#: The versions of each API that brokers can serve, if they have a handler for it.
VERSIONS: Mapping[str, tuple[int, int]] = {
    "produce": (3, 11),
    "fetch": (4, 17),
    "list_offsets": (1, 9),
    "metadata": (0, 12),
    "offset_commit": (2, 9),
    "offset_fetch": (1, 9),
    "find_coordinator": (0, 6),
    "join_group": (0, 9),
    "heartbeat": (0, 4),
    "leave_group": (0, 5),
    "sync_group": (0, 5),
    "describe_groups": (0, 5),
    "list_groups": (0, 5),
    "sasl_handshake": (0, 1),
    "api_versions": (0, 4),
    "create_topics": (2, 7),
    "delete_topics": (1, 6),
    "delete_records": (0, 2),
    "init_producer_id": (0, 5),
    "add_partitions_to_txn": (0, 5),
    "add_offsets_to_txn": (0, 4),
    "end_txn": (0, 4),
    "write_txn_markers": (1, 1),
    "txn_offset_commit": (0, 4),
    "offset_for_leader_epoch": (2, 4),
    "describe_configs": (1, 4),
    "alter_configs": (0, 2),
    "alter_replica_log_dirs": (1, 2),
    "describe_log_dirs": (1, 4),
    "sasl_authenticate": (0, 2),
    "create_partitions": (0, 3),
    "delete_groups": (0, 2),
    "elect_leaders": (0, 2),
    "incremental_alter_configs": (0, 1),
    "alter_partition_reassignments": (0, 0),
    "list_partition_reassignments": (0, 0),
    "offset_delete": (0, 0),
    "describe_user_scram_credentials": (0, 0),
    "alter_user_scram_credentials": (0, 0),
    "describe_quorum": (0, 2),
    "update_features": (0, 2),
    "describe_cluster": (0, 1),
    "describe_producers": (0, 0),
    "describe_transactions": (0, 0),
    "list_transactions": (0, 1),
    "consumer_group_heartbeat": (0, 1),
    "consumer_group_describe": (0, 1),
    "describe_topic_partitions": (0, 0),
}

API_KEYS: Mapping[str, int] = {name: key for key, name in api_key_map.items()}

_MILLISECOND = datetime.timedelta(milliseconds=1)
_LENGTH = 4  # bytes that a frame's length takes
_LARGE_BYTES = 1 << 14
_START = struct.Struct(">hhi")


class BadFrame(SojournError, ValueError):
    """The bytes are not a request that can be answered; their connection is closed."""


#: Whether names of fields are checked against all versions.
check_names = False


class Request(NamedTuple):
    """A request, decoded."""

    api: Api
    correlation_id: int
    client_id: str
    payload: Any


class _Written(list[bytes]):
    """What kio writes, piece by piece."""

    write = list.append

    def joined(self) -> list[bytes]:
        """The same in few pieces; large ones, which are records, are not copied."""
        pieces, first = [], 0
        for at, piece in enumerate(self):
            if len(piece) >= _LARGE_BYTES:
                pieces += [b"".join(self[first:at]), piece]
                first = at + 1
        return [*pieces, b"".join(self[first:])]


class Api:
    """One version of one API: reads its requests and writes its responses."""

    __slots__ = (
        "_build",
        "_header",
        "_read",
        "_read_header",
        "_write",
        "key",
        "name",
        "response",
        "version",
    )

    def __init__(self, name: str, version: int) -> None:
        self.name = name
        self.key = API_KEYS[name]
        self.version = version
        request = load_request_schema(self.key, version)
        #: The answer's class, with the fields of this version.
        self.response: Any = load_response_schema(self.key, version)
        response = self.response
        self._read_header = entity_reader(request.__header_schema__)
        self._read = entity_reader(request)
        self._header = b"\0" if response.__header_schema__.__flexible__ else b""
        self._build = _builder(response, name)
        self._write: Any = entity_writer(response)

    def read(self, frame: bytes | memoryview) -> Request:
        """Read a request, as a frame with its length."""
        try:
            header, size = self._read_header(frame, _LENGTH)
            payload, _ = self._read(frame, _LENGTH + size)
        except (DecodeError, ValueError, OverflowError) as error:
            raise BadFrame(f"{self.name} version {self.version}: {error}") from error
        return Request(self, header.correlation_id, header.client_id or "", payload)

    def encode(self, correlation_id: int, fields: Fields) -> Sequence[bytes]:
        """Write the answer as a frame, with its length, in pieces to be sent one after another."""
        frame = _Written((b"", correlation_id.to_bytes(4, "big", signed=True), self._header))
        self._write(frame, self._build(fields))
        frame[0] = sum(map(len, frame)).to_bytes(_LENGTH, "big")
        return frame.joined()

    def __repr__(self) -> str:
        return f"<Api {self.name} version {self.version}>"


class UnknownVersion(BadFrame):
    """A version that is not served. For `api_versions` there is an answer to it."""

    def __init__(self, name: str, version: int, correlation_id: int) -> None:
        super().__init__(f"{name} version {version} is not served")
        self.name = name
        self.correlation_id = correlation_id


def read_request(frame: bytes | memoryview) -> Request:
    """Read a frame, with its length; or `BadFrame`."""
    size = len(frame) - _LENGTH
    if size < _START.size:
        raise BadFrame(f"a request of {size} bytes is shorter than any header")
    key, version, correlation_id = _START.unpack_from(frame, _LENGTH)
    name = api_key_map.get(key)
    if name is None or name not in VERSIONS:
        shown = f" ({name})" if name else ""
        raise BadFrame(f"API key {key}{shown} is not served")
    low, high = VERSIONS[name]
    if not low <= version <= high:
        raise UnknownVersion(name, version, correlation_id)
    return api(name, version).read(frame)


_apis: dict[tuple[str, int], Api] = {}


def api(name: str, version: int) -> Api:
    """The API of this name and version, made when first asked for."""
    cached = _apis.get((name, version))
    if cached is None:
        cached = _apis[name, version] = Api(name, version)
    return cached


def milliseconds(duration: datetime.timedelta) -> int:
    """A duration as kio reads it, in whole milliseconds."""
    return round(duration / _MILLISECOND)


# From fields to kio's classes.


@functools.cache
def _known_fields(name: str) -> frozenset[str]:
    """Every field name that any version of this response has, at any depth."""
    names: set[str] = set()

    def collect(entity: Any) -> None:
        for field in dataclasses.fields(entity):
            names.add(field.name)
            nested = _nested(field.type)
            if nested is not None:
                collect(nested)

    low, high = VERSIONS[name]
    for version in range(low, high + 1):
        collect(load_response_schema(API_KEYS[name], version))
    return frozenset(names)


def _nested(annotation: Any) -> Any:
    """The class of an entity, or of those in a tuple, possibly null; None for anything else."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        nested = _nested(argument)
        if nested is not None:
            return nested
    return None


def _is_tuple(annotation: Any) -> bool:
    if getattr(annotation, "__origin__", None) is tuple:
        return True
    return any(_is_tuple(argument) for argument in getattr(annotation, "__args__", ()))


def nested_in(entity: Any, name: str) -> Any:
    """The class of this field's value, or of the values in its list."""
    return next(_nested(field.type) for field in dataclasses.fields(entity) if field.name == name)


def is_nullable(annotation: Any) -> bool:
    return type(None) in getattr(annotation, "__args__", ())


def _builder(entity: Any, api_name: str) -> Callable[[Fields], Any]:
    converters: dict[str, Callable[[Any], Any]] = {}
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        converters[field.name] = _converter(field, api_name)
        if field.default is dataclasses.MISSING:
            kafka_type = field.metadata.get("kafka_type", "")
            if is_nullable(field.type):
                defaults[field.name] = None
            elif kafka_type.startswith("timedelta"):
                defaults[field.name] = datetime.timedelta()
            elif kafka_type == "error_code":
                defaults[field.name] = ErrorCode.none
            elif _is_tuple(field.type):
                defaults[field.name] = ()

    def build(fields: Fields) -> Any:
        values = dict(defaults)
        for name, value in fields.items():
            convert = converters.get(name)
            if convert is not None:
                values[name] = convert(value)
            elif check_names and name not in _known_fields(api_name):
                raise TypeError(f"no version of {entity.__name__} has a field {name!r}")
        return entity(**values)

    return build


def _converter(field: dataclasses.Field[Any], api_name: str) -> Callable[[Any], Any]:
    nested = _nested(field.type)
    kafka_type = field.metadata.get("kafka_type", "")
    if nested is not None:
        build = _builder(nested, api_name)
        if _is_tuple(field.type):
            return lambda values: None if values is None else tuple(map(build, values))
        return lambda value: None if value is None else build(value)
    if _is_tuple(field.type):
        return lambda values: None if values is None else tuple(values)
    if kafka_type.startswith("timedelta"):
        return lambda ms: datetime.timedelta(milliseconds=ms)
    if kafka_type == "datetime_i64":
        return _as_datetime_or_none if is_nullable(field.type) else _as_datetime
    if kafka_type == "error_code":
        return ErrorCode
    return lambda value: value


def _as_datetime(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)


def _as_datetime_or_none(ms: int) -> datetime.datetime | None:
    return None if ms < 0 else _as_datetime(ms)
