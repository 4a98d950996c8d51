"""Record batches as a client writes them, and as an answer holds them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

from crc32c import crc32c

from sojourn.kafka.log.compression import CannotDecompress, decompress

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_HEADER = struct.Struct(">qiibIhiqqqhii")

#: A record to write: its key and its value.
Record = tuple[bytes | None, bytes | None]


def batch(
    *records: Record | bytes,
    codec: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    timestamp_ms: int = 1_000,
    step_ms: int = 0,
    attributes: int = 0,
    payload: bytes | None = None,
    count: int | None = None,
) -> bytes:
    """A batch of these records; a value alone has no key. `payload` stands in for the records."""
    rows = [(None, record) if isinstance(record, bytes) else record for record in records]
    body = b"".join(_record(number, number * step_ms, *row) for number, row in enumerate(rows))
    body = compressed(codec, body) if payload is None else payload
    total = len(rows) if count is None else count
    rest = (
        struct.pack(
            ">hiqqqhii",
            attributes | CODECS.index(codec),
            len(rows) - 1,
            timestamp_ms,
            timestamp_ms + max(0, (len(rows) - 1) * step_ms),
            producer_id,
            producer_epoch,
            base_sequence,
            total,
        )
        + body
    )
    return struct.pack(">qiibI", 0, len(rest) + 9, -1, 2, crc32c(rest)) + rest


def compressed(codec: str, data: bytes) -> bytes:
    if codec == "none":
        return data
    if codec == "gzip":
        coder = zlib.compressobj(wbits=31)
        return coder.compress(data) + coder.flush()
    import cramjam

    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == "lz4":
        return _LZ4_START + _lz4_block(data) + bytes(4)
    return bytes(cramjam.zstd.compress(data))


# A frame of independent blocks of at most 64 KiB, without checksums: the only kind that Java reads.
_LZ4_START = bytes.fromhex("04224d18604082")


def _lz4_block(data: bytes) -> bytes:
    import cramjam

    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    return len(block).to_bytes(4, "little") + block


def _record(number: int, time_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\0" + _varint(time_delta) + _varint(number) + _sized(key) + _sized(value) + _varint(0)
    return _varint(len(body)) + body


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


def described(data: bytes) -> list[dict[str, Any]]:
    """What stands in the records of an answer, batch by batch; the last may be cut off."""
    batches: list[dict[str, Any]] = []
    at = 0
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if len(data) - at < max(size, _HEADER.size):
            batches.append({"cut_off_after": len(data) - at})
            break
        one = data[at : at + size]
        at += size
        (
            base_offset,
            _,
            leader_epoch,
            magic,
            crc,
            attributes,
            last_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ) = _HEADER.unpack_from(one)
        batches.append(
            {
                "base_offset": base_offset,
                "leader_epoch": leader_epoch,
                "magic": magic,
                "crc_fits": crc == crc32c(one[21:]),
                "codec": CODECS[attributes & 7] if attributes & 7 < len(CODECS) else attributes & 7,
                "attributes": attributes >> 3,
                "last_delta": last_delta,
                "base_timestamp": base_timestamp,
                "max_timestamp": max_timestamp,
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "base_sequence": base_sequence,
                "count": count,
                "records": _shown_records(attributes & 7, one[_HEADER.size :]),
            }
        )
    return batches


def _shown_records(codec: int, data: bytes) -> list[str]:
    """Each record as text: its offset's and its time's distance from the batch's, key, value."""
    try:
        records = list(_records(decompress(codec, data)))
    except (CannotDecompress, IndexError):
        return ["unreadable"]
    return [" ".join("-" if one is None else str(one) for one in record) for record in records]


def _records(data: bytes) -> Iterator[tuple[int, int, str | None, str | None]]:
    at = 0
    while at < len(data):
        size, at = _read_varint(data, at)
        end = at + size
        time_delta, at = _read_varint(data, at + 1)
        offset_delta, at = _read_varint(data, at)
        key, at = _read_sized(data, at)
        value, at = _read_sized(data, at)
        yield offset_delta, time_delta, key, value
        at = end


def _read_sized(data: bytes, at: int) -> tuple[str | None, int]:
    size, at = _read_varint(data, at)
    if size < 0:
        return None, at
    text = data[at : at + size].decode("latin-1")
    return (text if len(text) < 40 else f"{len(text)} bytes"), at + size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
