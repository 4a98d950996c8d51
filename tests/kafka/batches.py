"""Record batches as a client writes them."""

from __future__ import annotations

import time

from crc32c import crc32c

from sojourn.kafka import Record
from sojourn.kafka.log.batch import build_batch
from sojourn.kafka.log.compression import compress
from sojourn.kafka.log.record import encode_record

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_CRC, _COUNT = 17, 57  # where they stand in a batch


def batch(
    *records: bytes | tuple[bytes | None, bytes | None],
    codec: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    timestamp_ms: int | None = None,
    step_ms: int = 0,
    attributes: int = 0,
    payload: bytes | None = None,
    count: int | None = None,
) -> bytes:
    """A batch of values, or of keys with values; of now, unless told otherwise.

    `payload` takes the place of the encoded records, `count` of their number.
    """
    first_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    rows = [Record(one) if isinstance(one, bytes) else Record(one[1], one[0]) for one in records]
    encoded = b"".join(encode_record(row, n * step_ms, n) for n, row in enumerate(rows))
    data = build_batch(
        compress(CODECS.index(codec), encoded) if payload is None else payload,
        count=len(rows),
        first_ms=first_ms,
        latest_ms=first_ms + max(0, (len(rows) - 1) * step_ms),
        attributes=attributes | CODECS.index(codec),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    return data if count is None else _with_count(data, count)


def _with_count(data: bytes, count: int) -> bytes:
    """The same batch with another number of records in its header."""
    changed = data[:_COUNT] + count.to_bytes(4, "big", signed=True) + data[_COUNT + 4 :]
    crc = crc32c(changed[_CRC + 4 :]).to_bytes(4, "big")
    return changed[:_CRC] + crc + changed[_CRC + 4 :]
