"""Control batches: how the end of a transaction stands in a log.

One record that no client writes and no consumer hands on, from the producer whose transaction it
ends. Version 0 of both parts:

    key     version (2) | 0 aborted, 1 committed (2)
    value   version (2) | the coordinator's epoch (4)
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from sojourn.kafka.log.batch import CONTROL, HEADER, TRANSACTIONAL, Batch

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1
_NO_SEQUENCE = -1
# Size, attributes, time delta and offset delta; then the key's size.
_BEFORE_KEY = bytes([2 * 16, 0, 0, 0, 2 * _KEY.size])
_BEFORE_VALUE = bytes([2 * _VALUE.size])
_NO_HEADERS = b"\0"


class EndMarker(NamedTuple):
    """How a transaction ended, and in which epoch its coordinator said so."""

    is_commit: bool
    coordinator_epoch: int


def marker_batch(
    producer_id: int, producer_epoch: int, marker: EndMarker, timestamp_ms: int
) -> Batch:
    """The batch that ends the producer's transaction in a partition."""
    rest = struct.pack(
        ">hiqqqhii",
        TRANSACTIONAL | CONTROL,
        0,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        _NO_SEQUENCE,
        1,
    ) + b"".join(
        (
            _BEFORE_KEY,
            _KEY.pack(0, _COMMIT if marker.is_commit else _ABORT),
            _BEFORE_VALUE,
            _VALUE.pack(0, marker.coordinator_epoch),
            _NO_HEADERS,
        )
    )
    return Batch(struct.pack(">qiibI", 0, len(rest) + 9, -1, 2, crc32c(rest)) + rest)


def marker_of(batch: Batch) -> EndMarker:
    """What a control batch says; they are all made here."""
    at = HEADER.size + len(_BEFORE_KEY)
    _, kind = _KEY.unpack_from(batch.data, at)
    _, coordinator_epoch = _VALUE.unpack_from(batch.data, at + _KEY.size + len(_BEFORE_VALUE))
    return EndMarker(kind == _COMMIT, coordinator_epoch)
