"""Record batches as scenarios write them, and as an answer holds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crc32c import crc32c

from sojourn.kafka.log.batch import HEADER, Batch
from sojourn.kafka.log.compression import CannotDecompress, decompress
from sojourn.kafka.log.varint import decode_field, decode_varint
from tests.kafka import batches
from tests.kafka.batches import CODECS as CODECS


def batch(
    *records: bytes | tuple[bytes | None, bytes | None], timestamp_ms: int = 1_000, **fields: Any
) -> bytes:
    """A batch of these records, with the same time in every run."""
    return batches.batch(*records, timestamp_ms=timestamp_ms, **fields)


def described(data: bytes) -> list[dict[str, Any]]:
    """What stands in the records of an answer, batch by batch; the last may be cut off."""
    batches: list[dict[str, Any]] = []
    at = 0
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if len(data) - at < max(size, HEADER.size):
            batches.append({"cut_off_after": len(data) - at})
            break
        one = data[at : at + size]
        at += size
        found = Batch(one)
        codec = found.attributes & 7
        batches.append(
            {
                "base_offset": found.base_offset,
                "leader_epoch": found.leader_epoch,
                "magic": one[16],
                "crc_fits": int.from_bytes(one[17:21], "big") == crc32c(one[21:]),
                "codec": CODECS[codec] if codec < len(CODECS) else codec,
                "attributes": found.attributes >> 3,
                "last_delta": found.last_offset - found.base_offset,
                "base_timestamp": found.base_timestamp,
                "max_timestamp": found.max_timestamp,
                "producer_id": found.producer_id,
                "producer_epoch": found.producer_epoch,
                "base_sequence": found.base_sequence,
                "count": found.count,
                "records": _shown_records(found),
            }
        )
    return batches


def _shown_records(found: Batch) -> list[str]:
    """Each record as text: its offset's and its time's distance from the batch's, key, value.

    The base timestamp of a batch with a delete horizon says when it was cleaned: its latest one
    stands for it.
    """
    later_ms = 0
    if found.delete_horizon_ms is not None:
        later_ms = found.base_timestamp - found.max_timestamp
    try:
        data = decompress(found.attributes & 7, found.data[HEADER.size :])
        records = [
            (offset, time + later_ms, key, value) for offset, time, key, value in _records(data)
        ]
    except (CannotDecompress, IndexError):
        return ["unreadable"]
    return [" ".join("-" if one is None else str(one) for one in record) for record in records]


def _records(data: bytes) -> Iterator[tuple[int, int, str | None, str | None]]:
    at = 0
    while at < len(data):
        size, at = decode_varint(data, at)
        end = at + size
        time_delta, at = decode_varint(data, at + 1)
        offset_delta, at = decode_varint(data, at)
        key, at = _read_text(data, at)
        value, at = _read_text(data, at)
        yield offset_delta, time_delta, key, value
        at = end


def _read_text(data: bytes, at: int) -> tuple[str | None, int]:
    field, at = decode_field(data, at)
    if field is None:
        return None, at
    return (field.decode("latin-1") if len(field) < 40 else f"{len(field)} bytes"), at
