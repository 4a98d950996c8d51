"""Single records: what a test appends without a producer and reads without a consumer.

A record in a batch (batch.py), all numbers as zigzag varints (varint.py):

    length | attributes (1 byte) | time and offset, less the batch's | key | value | headers
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sojourn.errors import OutOfRange, WrongType
from sojourn.kafka.log.batch import APPEND_TIME, Batch, build_batch, each_record
from sojourn.kafka.log.compression import CannotDecompress
from sojourn.kafka.log.varint import decode_field, decode_varint, encode_field, encode_varint
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record. To append one, give its value; offset, time and place follow from the append."""

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
    """The record that was given, as a `Record`."""
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
    """A batch as a producer would send it; records without a time get `now_ms`."""
    rows = [(one, now_ms if one.timestamp_ms is None else one.timestamp_ms) for one in records]
    if not rows:
        raise OutOfRange("there must be at least one record, got none")
    first_ms = rows[0][1]
    encoded = b"".join(
        encode_record(record, time_ms - first_ms, number)
        for number, (record, time_ms) in enumerate(rows)
    )
    latest_ms = max(time_ms for _, time_ms in rows)
    return Batch(build_batch(encoded, count=len(rows), first_ms=first_ms, latest_ms=latest_ms))


def records_in(batch: Batch, topic: str, partition: int) -> Iterator[Record]:
    """The records of a batch that stands in this partition's log; or Refused."""
    has_append_time = batch.attributes & APPEND_TIME
    try:
        data = batch.decompressed()
        for offset, create_ms, key_at, _ in each_record(batch, data):
            value, key, headers = _decode_rest(data, key_at)
            time_ms = batch.max_timestamp if has_append_time else create_ms
            yield Record(value, key, headers, time_ms, topic, partition, offset)
    except (CannotDecompress, IndexError) as error:
        raise Refused(
            ErrorCode.invalid_record, f"the records of {batch!r} cannot be read: {error}"
        ) from error


def encode_record(record: Record, time_delta: int, offset_delta: int) -> bytes:
    """The record as it stands in a batch."""
    parts = [b"\0", encode_varint(time_delta), encode_varint(offset_delta)]
    parts += [encode_field(record.key), encode_field(record.value)]
    parts.append(encode_varint(len(record.headers)))
    for name, value in record.headers:
        parts += [encode_field(name.encode()), encode_field(value)]
    return encode_field(b"".join(parts))


def _decode_rest(data: bytes, at: int) -> tuple[bytes | None, bytes | None, Headers]:
    """The value, the key and the headers of the record whose key is here."""
    key, at = decode_field(data, at)
    value, at = decode_field(data, at)
    count, at = decode_varint(data, at)
    headers = []
    for _ in range(count):
        name, at = decode_field(data, at)
        header, at = decode_field(data, at)
        headers.append(((name or b"").decode(errors="replace"), header))
    return value, key, tuple(headers)
