"""Compaction: of each key only the last record stays. Offsets stay as they are.

              cleaned before     dirty                  not cleanable
    offset    0    1             2    3    4            5    6    7
              a=1  b=1           a=2  b=   c=1          a=3  d=1  d=2     b= is a tombstone
                   |                  |                 |
    then                         a=2  b=   c=1          a=3  d=1  d=2

Not cleanable is what may not be committed yet, what is younger than `min.compaction.lag.ms`, and
the segment that is being written. There are no segments here as files; where Kafka would roll, by
`segment.bytes` and `segment.ms`, follows from the batches.

A log is cleaned when more of it is dirty than `min.cleanable.dirty.ratio`, or when something dirty
is older than `max.compaction.lag.ms`. As in Kafka:

    tombstones      stay for `delete.retention.ms` after the cleaning that first met them: their
                    batch keeps the time, its delete horizon, instead of its base timestamp
    transactions    records of aborted ones go; a marker goes as a tombstone does, once all
                    records of its transaction have gone
    empty batches   stay where a producer's last sequence number stands, and at the end, so that
                    followers get to that offset
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from sojourn.kafka.log.batch import (
    APPEND_TIME,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    TRANSACTIONAL,
    Batch,
    each_record,
    with_records,
)
from sojourn.kafka.log.compression import CannotDecompress, compress
from sojourn.kafka.log.end_marker import marker_of
from sojourn.kafka.log.varint import decode_field, decode_varint, encode_field, encode_varint

if TYPE_CHECKING:
    from sojourn.kafka.log.isolation import AbortedTransaction
    from sojourn.kafka.log.log import Log
    from sojourn.kafka.settings.layers import Settings

_ALL_BYTES = 1 << 62


def compact(log: Log, settings: Settings, now_ms: int, at_once: bool = False) -> None:
    """Clean the log if enough of it is dirty. `now_ms` is wall time.

    With `at_once` however little is dirty, and also the segment that is being written.
    """
    segments = _dirty_segments(log, settings)
    upto = _first_uncleanable(log, segments, settings, now_ms, at_once)
    if at_once or _is_dirty(log, segments, upto, settings, now_ms):
        _clean(log, upto, now_ms, settings.number("delete.retention.ms"))


# What is to be cleaned.


def _dirty_segments(log: Log, settings: Settings) -> list[list[Batch]]:
    """The batches from the first dirty one on, as Kafka would have them in segments."""
    most_bytes = settings.number("segment.bytes")
    most_ms = min(settings.number("segment.ms"), settings.number("max.compaction.lag.ms"))
    segments: list[list[Batch]] = []
    size = 0
    for batch in log.read(log.cleaned_offset, log.end_offset, _ALL_BYTES, at_least_one=False):
        is_full = size + len(batch.data) > most_bytes
        if not segments or is_full or batch.max_timestamp - segments[-1][0].max_timestamp > most_ms:
            segments.append([])
            size = 0
        segments[-1].append(batch)
        size += len(batch.data)
    return segments


def _first_uncleanable(
    log: Log, segments: list[list[Batch]], settings: Settings, now_ms: int, at_once: bool
) -> int:
    if log.cleaned_offset >= log.last_stable_offset:
        return log.cleaned_offset
    upto = log.end_offset
    if not at_once and segments:  # the last one is being written
        *segments, active = segments
        upto = active[0].base_offset
    lag_ms = settings.number("min.compaction.lag.ms")
    if lag_ms > 0:
        for segment in segments:
            if max(batch.max_timestamp for batch in segment) > now_ms - lag_ms:
                upto = segment[0].base_offset
                break
    return min(upto, log.last_stable_offset)


def _is_dirty(
    log: Log, segments: list[list[Batch]], upto: int, settings: Settings, now_ms: int
) -> bool:
    dirty_bytes = log.bytes_between(log.cleaned_offset, upto)
    if not dirty_bytes:
        return False
    oldest_ms = min(
        segment[0].max_timestamp for segment in segments if segment[0].base_offset < upto
    )
    if 0 < oldest_ms < now_ms - settings.number("max.compaction.lag.ms"):
        return True
    total_bytes = log.bytes_between(log.start_offset, upto)
    return dirty_bytes / total_bytes > float(settings.text("min.cleanable.dirty.ratio"))


# Cleaning.


class _RawRecord(NamedTuple):
    """A record as it stands in its batch; `tail` is what comes after its offset."""

    offset: int
    time_ms: int
    key: bytes | None
    is_tombstone: bool
    tail: bytes


class _Transactions:
    """The transactions of a log, as its batches are read in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, key=lambda one: -one.first_offset)
        self._aborted: dict[int, bool] = {}  # by producer: whether any batch of it was read
        self._committed: set[int] = set()

    def can_discard(self, batch: Batch) -> bool:
        """Whether it is of an aborted transaction, or the marker of one without records."""
        if not batch.attributes & TRANSACTIONAL:
            return False
        while self._to_come and self._to_come[-1].first_offset <= batch.last_offset:
            self._aborted[self._to_come.pop().producer_id] = False
        producer_id = batch.producer_id
        if batch.attributes & CONTROL:
            if not marker_of(batch).is_commit:
                return not self._aborted.pop(producer_id, False)
            if producer_id in self._committed:
                self._committed.remove(producer_id)
                return False
            return True
        if producer_id in self._aborted:
            self._aborted[producer_id] = True
            return True
        self._committed.add(producer_id)
        return False


def _clean(log: Log, upto: int, now_ms: int, delete_retention_ms: int) -> None:
    latest = _latest_offsets(log, upto)
    transactions = _Transactions(log.isolation.aborted(log.start_offset, upto))
    last_offsets = _last_offsets(log)
    batches = log.read(log.start_offset, upto, _ALL_BYTES, at_least_one=False)
    cleaned: list[Batch] = []
    for batch in batches:
        can_discard = transactions.can_discard(batch)
        is_marker = bool(batch.attributes & CONTROL)
        horizon_ms = batch.delete_horizon_ms
        has_expired = horizon_ms is not None and horizon_ms <= now_ms
        try:
            records = list(_raw_records(batch))
        except (CannotDecompress, IndexError):
            cleaned.append(batch)  # what nobody can read is not touched
            continue
        if can_discard and (not is_marker or has_expired):
            kept = []
        elif is_marker:
            kept = records
        else:
            kept = [
                record
                for record in records
                if record.key is not None
                and record.offset >= latest.get(record.key, -1)
                and not (record.is_tombstone and has_expired)
            ]
        begins_horizon = horizon_ms is None and (
            (is_marker and can_discard) or any(record.is_tombstone for record in kept)
        )
        if not kept:
            if batch.last_offset in last_offsets or batch is batches[-1]:
                cleaned.append(batch if not batch.count else _rewritten(batch, [], None))
        elif begins_horizon:
            cleaned.append(_rewritten(batch, kept, now_ms + delete_retention_ms))
        elif len(kept) < len(records):
            cleaned.append(_rewritten(batch, kept, horizon_ms))
        else:
            cleaned.append(batch)
    log.replace_before(upto, cleaned)


def _latest_offsets(log: Log, upto: int) -> dict[bytes, int]:
    """The last offset of each key in the dirty part, but for records of aborted transactions."""
    first = log.cleaned_offset
    transactions = _Transactions(log.isolation.aborted(first, upto))
    latest: dict[bytes, int] = {}
    for batch in log.read(first, upto, _ALL_BYTES, at_least_one=False):
        if transactions.can_discard(batch) or batch.attributes & CONTROL:
            continue
        try:
            for record in _raw_records(batch):
                if record.key is not None:
                    latest[record.key] = record.offset
        except (CannotDecompress, IndexError):
            continue
    return latest


def _last_offsets(log: Log) -> set[int]:
    """Where each producer's last batch ends: its sequence number must not be forgotten."""
    return {state.batches[-1].next_offset - 1 for _, state in log.producers if state.batches}


def _raw_records(batch: Batch) -> Iterator[_RawRecord]:
    data = batch.decompressed()
    for offset, time_ms, key_at, end in each_record(batch, data):
        key, at = decode_field(data, key_at)
        value_size, _ = decode_varint(data, at)
        is_tombstone = value_size < 0 and not batch.attributes & CONTROL
        yield _RawRecord(offset, time_ms, key, is_tombstone, data[key_at:end])


def _rewritten(batch: Batch, records: list[_RawRecord], horizon_ms: int | None) -> Batch:
    """The batch at its place with these records only, and this delete horizon."""
    attributes = batch.attributes & ~DELETE_HORIZON
    base_ms = records[0].time_ms if records else -1
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_ms = horizon_ms
    encoded = b"".join(
        encode_field(
            b"\0"
            + encode_varint(record.time_ms - base_ms)
            + encode_varint(record.offset - batch.base_offset)
            + record.tail
        )
        for record in records
    )
    max_ms = batch.max_timestamp
    if records and not attributes & APPEND_TIME:
        max_ms = max(record.time_ms for record in records)
    codec = attributes & CODEC_MASK
    if not records:
        attributes &= ~CODEC_MASK
    return with_records(
        batch,
        compress(codec, encoded) if records else b"",
        count=len(records),
        attributes=attributes,
        base_ms=base_ms,
        max_ms=max_ms,
    )
