"""Record batches, by their header; the records themselves are read only where they must be.

     0  base offset            8 \\  outside the checksum: the leader
     8  length from here on    4  | writes the batch's place in the
    12  leader epoch           4  | log, and its own epoch
    16  magic (2)              1 /
    17  CRC-32C of the rest    4
    21  attributes             2    bits 0-2 codec, 3 time of append, 4 transactional, 5 control,
                                    6 the base timestamp is a delete horizon (cleaner.py)
    23  last offset delta      4
    27  base timestamp         8
    35  max timestamp          8
    43  producer id            8
    51  producer epoch         2
    53  base sequence          4
    57  number of records      4
    61  records, as the client compressed them

So a broker does not read what is in a batch: it copies it once, to write the first 16 bytes, and
the same bytes object stands in every replica's log and in every answer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from crc32c import crc32c

from sojourn.kafka.log.compression import ZSTD, CannotDecompress, decompress
from sojourn.kafka.log.varint import decode_varint
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

HEADER = struct.Struct(">qiibIhiqqqhii")
_MAGIC = 2
_AFTER_CRC = struct.Struct(">hiqqqhii")
_BEFORE_CRC = struct.Struct(">qiibI")
_PLACE = struct.Struct(">qii")
_ATTRIBUTES = 21
_MAX_TIMESTAMP = 35

CODEC_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_ZSTD_SINCE = 7


class Batch:
    """A batch: its bytes, and the fields of its header."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "data",
        "last_offset",
        "leader_epoch",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
    )

    base_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    def __init__(self, data: bytes) -> None:
        self.data = data
        (
            self.base_offset,
            _,
            self.leader_epoch,
            _,
            _,
            self.attributes,
            last_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = HEADER.unpack_from(data)
        self.last_offset: int = self.base_offset + last_delta

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        # By the offsets: records may be gone from a compacted log.
        return (self.base_sequence + self.last_offset - self.base_offset) & 0x7FFFFFFF

    @property
    def delete_horizon_ms(self) -> int | None:
        """When its tombstones, or its marker, may be removed; None if no cleaner has met them."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def records(self) -> memoryview:
        """The records as they stand in the batch: encoded, and compressed by its codec."""
        return memoryview(self.data)[HEADER.size :]

    def decompressed(self) -> bytes:
        """The records, encoded; or CannotDecompress."""
        return decompress(self.attributes & CODEC_MASK, self.data[HEADER.size :])

    @property
    def is_idempotent(self) -> bool:
        return self.producer_id >= 0

    def check_crc(self) -> None:
        """Raise Refused if the checksum is wrong."""
        if int.from_bytes(self.data[17:21], "big") != crc32c(memoryview(self.data)[_ATTRIBUTES:]):
            raise Refused(ErrorCode.corrupt_message, "the checksum is wrong")

    def placed(self, base_offset: int, leader_epoch: int, append_ms: int | None = None) -> Batch:
        """The same batch at this place in the log; with its time of append, if one is given."""
        data = self.data if append_ms is None else self._stamped(append_ms)
        place = _PLACE.pack(base_offset, len(data) - 12, leader_epoch)
        return Batch(b"".join((place, memoryview(data)[_PLACE.size :])))

    def _stamped(self, append_ms: int) -> bytearray:
        data = bytearray(self.data)
        struct.pack_into(">h", data, _ATTRIBUTES, self.attributes | APPEND_TIME)
        struct.pack_into(">q", data, _MAX_TIMESTAMP, append_ms)
        struct.pack_into(">I", data, 17, crc32c(memoryview(data)[_ATTRIBUTES:]))
        return data

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<Batch of {self.count} at {self.base_offset}, epoch {self.leader_epoch}>"


def build_batch(
    records: bytes,
    *,
    count: int,
    first_ms: int,
    latest_ms: int,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch as a producer sends it; the records are encoded, and compressed as `attributes` say.

    `first_ms` is the first record's time, from which the others' are counted; `latest_ms` the
    largest of them.
    """
    rest = _AFTER_CRC.pack(
        attributes,
        count - 1,
        first_ms,
        latest_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    rest += records
    return _BEFORE_CRC.pack(0, len(rest) + 9, -1, _MAGIC, crc32c(rest)) + rest


def single_batch(data: bytes | None, version: int) -> Batch:
    """The one batch that a produce request of this version may have for a partition; or Refused."""
    size = 12 + int.from_bytes(data[8:12], "big", signed=True) if data else 0
    if not data or len(data) < max(size, HEADER.size):
        raise Refused(
            ErrorCode.invalid_record, f"{len(data or b'')} bytes are not a whole record batch"
        )
    if size < HEADER.size or data[16] > 2:
        raise Refused(
            ErrorCode.corrupt_message, f"a batch of {size} bytes and of format {data[16]}"
        )
    if data[16] < 2:
        raise Refused(
            ErrorCode.invalid_record, f"records of format {data[16]} are not accepted, only 2"
        )
    if size < len(data):
        raise Refused(ErrorCode.invalid_record, "more than one record batch for a partition")
    batch = Batch(data)
    if version < _ZSTD_SINCE and batch.attributes & CODEC_MASK == ZSTD:
        raise Refused(
            ErrorCode.unsupported_compression_type,
            f"zstd needs produce version {_ZSTD_SINCE}, got {version}",
        )
    return batch


def recompressed(batch: Batch, codec: int, records: bytes) -> Batch:
    """The same batch with these records, which this codec has compressed."""
    return with_records(
        batch,
        records,
        count=batch.count,
        attributes=batch.attributes & ~CODEC_MASK | codec,
        base_ms=batch.base_timestamp,
        max_ms=batch.max_timestamp,
    )


def with_records(
    batch: Batch, records: bytes, *, count: int, attributes: int, base_ms: int, max_ms: int
) -> Batch:
    """A batch at the same place, of the same producer, with other records, encoded."""
    data = bytearray(batch.data[: HEADER.size]) + records
    struct.pack_into(">i", data, 8, len(data) - 12)
    _AFTER_CRC.pack_into(
        data,
        _ATTRIBUTES,
        attributes,
        batch.last_offset - batch.base_offset,
        base_ms,
        max_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[_ATTRIBUTES:]))
    return Batch(bytes(data))


def each_record(batch: Batch, records: bytes | memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Each record's offset and time, and where its key and its end are; or IndexError."""
    at = 0
    for _ in range(batch.count):
        size, at = decode_varint(records, at)
        end = at + size
        time_delta, at = decode_varint(records, at + 1)
        offset_delta, at = decode_varint(records, at)
        yield batch.base_offset + offset_delta, batch.base_timestamp + time_delta, at, end
        at = end


def first_at_or_after(batch: Batch, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
    """Offset and time of the first record from `from_offset` on that is not older; or None.

    If the records cannot be decompressed, the first offset that is possible.
    """
    if batch.max_timestamp < timestamp_ms or batch.last_offset < from_offset:
        return None
    first = max(batch.base_offset, from_offset)
    if batch.attributes & APPEND_TIME:
        return first, batch.max_timestamp
    try:
        for offset, time_ms, _, _ in each_record(batch, batch.decompressed()):
            if time_ms >= timestamp_ms and offset >= from_offset:
                return offset, time_ms
    except (CannotDecompress, IndexError):  # such records were not checked when they came
        return first, max(batch.base_timestamp, timestamp_ms)
    return None
