"""Record batches, by their header; the records themselves are never looked at, save by time.

     0  base offset            8 \\  outside the checksum: the broker
     8  length from here on    4  | writes where the batch came to
    12  leader epoch           4  | stand, and under which leader
    16  magic (2)              1 /
    17  CRC-32C of the rest    4
    21  attributes             2    bits 0-2 codec, 3 time of append, 4 transactional, 5 control
    23  last offset delta      4
    27  base timestamp         8
    35  max timestamp          8
    43  producer id            8
    51  producer epoch         2
    53  base sequence          4
    57  number of records      4
    61  records, as the client compressed them

So a batch goes through the broker as it came: one copy to write the first 16 bytes, and the
same bytes object stands in every replica's log and in every answer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from crc32c import crc32c

from sojourn.kafka.compression import CannotDecompress, decompressed
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

HEADER = struct.Struct(">qiibIhiqqqhii")
_PLACE = struct.Struct(">qii")
_ATTRIBUTES = 21
_MAX_TIMESTAMP = 35

CODEC_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


class Batch:
    """A batch that stands in a log: its bytes, and what is asked of its header again and again."""

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
        return (self.base_sequence + self.count - 1) & 0x7FFFFFFF

    @property
    def is_idempotent(self) -> bool:
        return self.producer_id >= 0

    def placed(self, base_offset: int, leader_epoch: int, append_ms: int | None = None) -> Batch:
        """The same batch at this place in the log; with the time of append, if there is one."""
        data = bytearray(self.data)
        _PLACE.pack_into(data, 0, base_offset, len(data) - 12, leader_epoch)
        if append_ms is not None:
            struct.pack_into(">h", data, _ATTRIBUTES, self.attributes | APPEND_TIME)
            struct.pack_into(">q", data, _MAX_TIMESTAMP, append_ms)
            struct.pack_into(">I", data, 17, crc32c(memoryview(data)[_ATTRIBUTES:]))
        return Batch(bytes(data))

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<Batch of {self.count} at {self.base_offset}, epoch {self.leader_epoch}>"


def checked(data: bytes | None, max_bytes: int) -> Batch:
    """The one batch that a producer may send for a partition, its checksum right; or Refused."""
    if not data:
        raise Refused(ErrorCode.invalid_record, "there are no records")
    if len(data) < HEADER.size:
        raise Refused(ErrorCode.corrupt_message, f"{len(data)} bytes are no record batch")
    magic = data[16]
    if magic != 2:
        raise Refused(ErrorCode.invalid_record, f"records of format {magic} are not taken, only 2")
    size = int.from_bytes(data[8:12], "big", signed=True) + 12
    if size < HEADER.size or size > len(data):
        raise Refused(ErrorCode.corrupt_message, f"a batch of {size} bytes in {len(data)}")
    if size < len(data):
        raise Refused(ErrorCode.invalid_record, "more than one record batch for a partition")
    if size > max_bytes:
        raise Refused(
            ErrorCode.message_too_large, f"a batch of {size} bytes; at most {max_bytes} are taken"
        )
    if int.from_bytes(data[17:21], "big") != crc32c(memoryview(data)[_ATTRIBUTES:]):
        raise Refused(ErrorCode.corrupt_message, "the checksum is wrong")
    batch = Batch(data)
    if batch.count < 1 or batch.last_offset - batch.base_offset != batch.count - 1:
        raise Refused(ErrorCode.invalid_record, f"a batch of {batch.count} records, badly numbered")
    if batch.attributes & CONTROL:
        raise Refused(ErrorCode.invalid_record, "clients do not write control batches")
    if batch.attributes & TRANSACTIONAL:
        raise Refused(ErrorCode.invalid_txn_state, "there are no transactions here")
    if batch.is_idempotent and (batch.base_sequence < 0 or batch.producer_epoch < 0):
        raise Refused(ErrorCode.invalid_record, "a producer id without epoch or sequence")
    return batch


def first_at_or_after(batch: Batch, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
    """Offset and time of the first record from `from_offset` on that is not older; or None.

    Records that are compressed in a way that nobody here can undo are not looked at: then it is
    the first that it can be.
    """
    if batch.max_timestamp < timestamp_ms or batch.last_offset < from_offset:
        return None
    first = max(batch.base_offset, from_offset)
    if batch.attributes & APPEND_TIME:
        return first, batch.max_timestamp
    try:
        records = decompressed(batch.attributes & CODEC_MASK, batch.data[HEADER.size :])
        for offset_delta, time_delta in _deltas(records, batch.count):
            offset, time_ms = batch.base_offset + offset_delta, batch.base_timestamp + time_delta
            if time_ms >= timestamp_ms and offset >= from_offset:
                return offset, time_ms
    except (CannotDecompress, IndexError):  # never checked: they are the client's own affair
        return first, max(batch.base_timestamp, timestamp_ms)
    return None


def _deltas(records: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Each record's offset and time, from the batch's base."""
    at = 0
    for _ in range(count):
        size, at = _varint(records, at)
        end = at + size
        time_delta, at = _varint(records, at + 1)
        offset_delta, at = _varint(records, at)
        yield offset_delta, time_delta
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
