"""Validation of a producer's batch before it is appended.

The header is always checked. The records themselves are read only where there is a reason, since
that costs time for each of them:

    they are compressed                 decompress them: broken ones are refused
    the topic has another codec         compress them anew
    the topic is compacted              each needs a key
    the topic limits timestamps         from below; for the upper limit the header has the latest

Kafka reads every record: it also refuses a batch whose checksum is right and whose records are
garbage, which only a broken client writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.kafka.log.batch import (
    APPEND_TIME,
    CODEC_MASK,
    CONTROL,
    Batch,
    each_record,
    recompressed,
)
from sojourn.kafka.log.compression import CODECS, CannotDecompress, compress
from sojourn.kafka.log.varint import decode_varint
from sojourn.kafka.refusal import RecordError, Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.settings.layers import Settings

_NO_TIME = -1
_UNLIMITED = 2**63 - 1


def validate(batch: Batch, settings: Settings, now_ms: int) -> Batch:
    """The batch as it is to be appended; or Refused. `now_ms` is wall time."""
    size, most = len(batch.data), settings.number("max.message.bytes")
    if size > most:
        raise Refused(
            ErrorCode.message_too_large, f"a batch of {size} bytes; max.message.bytes is {most}"
        )
    batch.check_crc()
    if batch.base_offset:
        raise Refused(ErrorCode.invalid_record, "the offsets of a producer's batch must start at 0")
    if batch.count < 1 or batch.last_offset != batch.count - 1:
        raise Refused(ErrorCode.invalid_record, f"the offsets do not fit {batch.count} records")
    if batch.is_idempotent and batch.base_sequence < 0:
        raise Refused(ErrorCode.invalid_record, "a producer id without a sequence")
    if batch.attributes & CONTROL:
        raise Refused(ErrorCode.invalid_record, "clients may not write control batches")
    codec = batch.attributes & CODEC_MASK
    records: bytes | memoryview = batch.records
    if codec:
        try:
            records = batch.decompressed()
        except CannotDecompress as error:
            raise Refused(ErrorCode.unknown_server_error, str(error)) from None
    try:
        _check_records(batch, records, settings, now_ms)
    except IndexError:
        raise Refused(ErrorCode.invalid_record, "the records cannot be read") from None
    wanted = CODECS.get(settings.text("compression.type"), codec)
    if wanted != codec:
        batch = recompressed(batch, wanted, compress(wanted, bytes(records)))
    return batch


def _check_records(
    batch: Batch, records: bytes | memoryview, settings: Settings, now_ms: int
) -> None:
    if "compact" in settings.text("cleanup.policy"):
        keyless = [
            number
            for number, (_, _, key_at, _) in enumerate(each_record(batch, records))
            if decode_varint(records, key_at)[0] < 0
        ]
        _refuse(
            ErrorCode.invalid_record, keyless, "Compacted topic cannot accept message without key"
        )
    if batch.attributes & APPEND_TIME or settings.text("message.timestamp.type") != "CreateTime":
        return
    before_ms = settings.number("message.timestamp.before.max.ms")
    earliest = now_ms - before_ms
    latest = now_ms + settings.number("message.timestamp.after.max.ms")
    if before_ms < _UNLIMITED or batch.max_timestamp > latest:
        outside = [
            number
            for number, (_, time_ms, _, _) in enumerate(each_record(batch, records))
            if time_ms != _NO_TIME and not earliest <= time_ms <= latest
        ]
        _refuse(
            ErrorCode.invalid_timestamp,
            outside,
            f"the timestamp is not between {earliest} and {latest}",
        )


def _refuse(code: ErrorCode, numbers: list[int], why: str) -> None:
    if numbers:
        raise Refused(
            code,
            "One or more records have been rejected",
            [RecordError(number, f"{why} (record {number})") for number in numbers],
        )
