"""Records, one by one: what a test appends without a producer and reads without a consumer.

A record in a batch (records.py), all numbers as zigzag varints:

    length | attributes (1 byte) | time and offset, less the batch's | key | value | headers
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from crc32c import crc32c

from sojourn.errors import OutOfRange, WrongType
from sojourn.kafka.log.batch import APPEND_TIME, CODEC_MASK, HEADER, Batch, varint
from sojourn.kafka.log.compression import CannotDecompress, decompressed
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

_MAGIC = 2
_NO_PRODUCER = -1

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record. To append one, give what matters; the rest is known when it stands in a log."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    topic: str = ""
    partition: int = 0
    offset: int = -1


#: What `Cluster.append` takes for a record: a value, a key with a value, or the whole.
RecordLike = Record | bytes | str | None | tuple[bytes | str | None, bytes | str | None]


def record_of(given: RecordLike) -> Record:
    """The record that is meant."""
    if isinstance(given, Record):
        headers = given.headers.items() if isinstance(given.headers, Mapping) else given.headers
        return given._replace(
            value=_bytes(given.value, "a value"),
            key=_bytes(given.key, "a key"),
            headers=tuple((str(name), _bytes(value, "a header")) for name, value in headers),
        )
    if isinstance(given, tuple):
        if len(given) != 2:
            raise WrongType(f"a record is a value, (key, value) or a Record, got {given!r}")
        key, value = given
        return Record(_bytes(value, "a value"), _bytes(key, "a key"))
    return Record(_bytes(given, "a record"))


def _bytes(given: object, what: str) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    raise WrongType(f"{what} must be bytes, a string or None, got {given!r}")


def batch_of(records: Iterable[Record], now_ms: int) -> Batch:
    """A batch as a producer would send it; records without a time of their own are of now."""
    rows = [(one, now_ms if one.timestamp_ms is None else one.timestamp_ms) for one in records]
    if not rows:
        raise OutOfRange("there must be at least one record, got none")
    first_ms = rows[0][1]
    body = b"".join(
        _encoded(one, time_ms - first_ms, number) for number, (one, time_ms) in enumerate(rows)
    )
    count = len(rows)
    rest = struct.pack(
        ">hiqqqhii",
        0,
        count - 1,
        first_ms,
        max(time_ms for _, time_ms in rows),
        _NO_PRODUCER,
        _NO_PRODUCER,
        _NO_PRODUCER,
        count,
    )
    rest += body
    return Batch(struct.pack(">qiibI", 0, len(rest) + 9, -1, _MAGIC, crc32c(rest)) + rest)


def records_in(batch: Batch, topic: str, partition: int) -> Iterator[Record]:
    """The records of a batch that stands in this partition's log; or Refused."""
    try:
        data = decompressed(batch.attributes & CODEC_MASK, batch.data[HEADER.size :])
        at = 0
        for _ in range(batch.count):
            size, at = varint(data, at)
            yield _decoded(data, at, batch, topic, partition)
            at += size
    except (CannotDecompress, IndexError) as error:
        raise Refused(
            ErrorCode.invalid_record, f"the records of {batch!r} cannot be read: {error}"
        ) from error


def _encoded(record: Record, time_delta: int, number: int) -> bytes:
    parts = [b"\0", _varint(time_delta), _varint(number)]
    parts += [_sized(record.key), _sized(record.value), _varint(len(record.headers))]
    for name, value in record.headers:
        parts += [_sized(name.encode()), _sized(value)]
    return _sized(b"".join(parts))


def _decoded(data: bytes, at: int, batch: Batch, topic: str, partition: int) -> Record:
    time_delta, at = varint(data, at + 1)
    offset_delta, at = varint(data, at)
    key, at = _field(data, at)
    value, at = _field(data, at)
    count, at = varint(data, at)
    headers = []
    for _ in range(count):
        name, at = _field(data, at)
        header, at = _field(data, at)
        headers.append(((name or b"").decode(errors="replace"), header))
    is_of_append = batch.attributes & APPEND_TIME
    time_ms = batch.max_timestamp if is_of_append else batch.base_timestamp + time_delta
    return Record(
        value, key, tuple(headers), time_ms, topic, partition, batch.base_offset + offset_delta
    )


def _field(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
