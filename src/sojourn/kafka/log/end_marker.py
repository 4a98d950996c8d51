"""Control batches: the end of a transaction in a log.

One record from the producer whose transaction it ends; no client writes it, and consumers leave it
out. Version 0 of both parts:

    key     version (2) | 0 aborted, 1 committed (2)
    value   version (2) | the coordinator's epoch (4)
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from sojourn.kafka.log.batch import CONTROL, HEADER, TRANSACTIONAL, Batch, build_batch

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1
# Size, attributes, time delta and offset delta; then the key's size.
_BEFORE_KEY = bytes([2 * 16, 0, 0, 0, 2 * _KEY.size])
_BEFORE_VALUE = bytes([2 * _VALUE.size])
_NO_HEADERS = b"\0"


class EndMarker(NamedTuple):
    """How a transaction ended, and the epoch of the coordinator that ended it."""

    is_commit: bool
    coordinator_epoch: int


def marker_batch(
    producer_id: int, producer_epoch: int, marker: EndMarker, timestamp_ms: int
) -> Batch:
    """The batch that ends the producer's transaction in a partition."""
    record = b"".join(
        (
            _BEFORE_KEY,
            _KEY.pack(0, _COMMIT if marker.is_commit else _ABORT),
            _BEFORE_VALUE,
            _VALUE.pack(0, marker.coordinator_epoch),
            _NO_HEADERS,
        )
    )
    return Batch(
        build_batch(
            record,
            count=1,
            first_ms=timestamp_ms,
            latest_ms=timestamp_ms,
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
    )


def marker_of(batch: Batch) -> EndMarker:
    """The marker in a control batch; all of them are made by `marker_batch`."""
    at = HEADER.size + len(_BEFORE_KEY)
    _, kind = _KEY.unpack_from(batch.data, at)
    _, coordinator_epoch = _VALUE.unpack_from(batch.data, at + _KEY.size + len(_BEFORE_VALUE))
    return EndMarker(kind == _COMMIT, coordinator_epoch)
