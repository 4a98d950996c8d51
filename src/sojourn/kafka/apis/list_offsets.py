"""ListOffsets and OffsetForLeaderEpoch: the first or last offset, that of a time or an epoch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sojourn.kafka.log.isolation import READ_COMMITTED
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Reply
    from sojourn.kafka.partition import Partition

# Special timestamps.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

# The version from which on each is allowed.
_NEVER = 1_000
_SINCE = {EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

_DEBUG_CONSUMER = -2
_NONE = (-1, -1, -1)


def list_offsets(request: Any, reply: Reply, context: Context) -> None:
    """Answer the offset of each partition."""
    counts = Counter(
        (topic.name, entry.partition_index)
        for topic in request.topics
        for entry in topic.partitions
    )

    def fields_of(topic: str, entry: Any) -> dict[str, Any]:
        fields = {"partition_index": entry.partition_index}
        try:
            if counts[topic, entry.partition_index] > 1:
                raise Refused(ErrorCode.invalid_request)
            if entry.timestamp < LATEST and context.api_version < _SINCE.get(
                entry.timestamp, _NEVER
            ):
                raise Refused(ErrorCode.unsupported_version)
            partition = context.broker.led_partition(
                topic, entry.partition_index, getattr(entry, "current_leader_epoch", -1)
            )
            offset, timestamp, epoch = _offset(partition, entry.timestamp, request)
        except Refused as refused:
            code = refused.code
            if code is ErrorCode.offset_not_available and context.api_version < 5:
                code = ErrorCode.leader_not_available
            return {**fields, "error_code": code}
        return {**fields, "offset": offset, "timestamp": timestamp, "leader_epoch": epoch}

    reply(
        {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [fields_of(topic.name, entry) for entry in topic.partitions],
                }
                for topic in request.topics
            ]
        }
    )


def _offset(partition: Partition, timestamp: int, request: Any) -> tuple[int, int, int]:
    """Offset, time and epoch; -1 for those that do not exist."""
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1, log.epochs[0][0] if log.epochs else -1
    if timestamp == LATEST_TIERED:
        return _NONE
    if request.replica_id == _DEBUG_CONSUMER:
        upto = log.end_offset
    else:
        committed = getattr(request, "isolation_level", 0) == READ_COMMITTED
        upto = partition.latest_offset(committed)
    if timestamp == LATEST:
        return upto, -1, partition.leader_epoch
    if timestamp == MAX_TIMESTAMP:
        latest = log.offset_of_max_timestamp()
        return _NONE if latest is None or latest[0] >= upto else latest
    return log.offset_for_time(timestamp, upto) or _NONE


def offset_for_leader_epoch(request: Any, reply: Reply, context: Context) -> None:
    """Answer for each partition where an epoch ended."""

    def fields_of(topic: str, entry: Any) -> dict[str, Any]:
        fields = {"partition": entry.partition}
        try:
            partition = context.broker.led_partition(
                topic, entry.partition, entry.current_leader_epoch
            )
        except Refused as refused:
            return {**fields, "error_code": refused.code}
        epoch, end = partition.log.end_of_epoch(entry.leader_epoch)
        return {**fields, "leader_epoch": epoch, "end_offset": end}

    reply(
        {
            "topics": [
                {
                    "topic": topic.topic,
                    "partitions": [fields_of(topic.topic, entry) for entry in topic.partitions],
                }
                for topic in request.topics
            ]
        }
    )
